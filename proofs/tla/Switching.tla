------------------------------ MODULE Switching ------------------------------
(* Switching a table between merge mode and CAS mode, beside writers in merge mode.

   A writer lists, and commits what rests on that listing by storing a file under a name of its own. A switch is a
   claim of the next number; one to CAS mode says which files it had seen. A file that neither saw a switch to
   CAS mode nor was seen by it is void. So the switch is announced, with its number, before it waits and lists;
   a writer that listed lately and saw no announcement is done, any other one looks after its PUT. If its file is
   void it is made again as a claim; if the table is in merge mode again, where nothing would judge it, it is told so.

   Clocks: "lately" ends at any time (Age), and whoever switches waits until it has ended for everybody who had listed
   before the announcement. Claims themselves are module Claims: here a claim is added to the end at once. *)

EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Writers, Switchers, ClaimsMax, Bug

VARIABLES
    claims,     \* [kind: "cas", "merge" or "commit", seen: files that a switch to CAS mode had seen]
    announced,  \* numbers that are announced
    stored,     \* writers whose file is there
    made,       \* writers whose change is there as a claim
    at,         \* per writer: "begins", "listed", "stored", "again", "relisted", "ok", "contended"
    knew,       \* per writer the number of claims in its listing
    lately,     \* per writer whether that was not long ago
    warned,     \* per writer whether it showed an announcement
    step,       \* per switcher: "idle", "decided", "announced", "waited", "listed"
    number,     \* per switcher the number it announced
    saw         \* per switcher the files it listed

writer == <<at, knew, lately, warned>>
switcher == <<step, number, saw>>
vars == <<claims, announced, stored, made, at, knew, lately, warned, step, number, saw>>

ASSUME Bug \in {"none", "not announced", "does not wait", "does not look", "does not take the number",
                "claims any number", "claims above the end", "lists before it waits",
                "there and back is not noticed", "claims in any mode", "waits for ever"}

Switches(n) == {i \in 1..n : claims[i].kind # "commit"}
ModeAt(n) == IF Switches(n) = {} THEN "merge"
             ELSE claims[CHOOSE i \in Switches(n) : \A j \in Switches(n) : j <= i].kind
Mode == ModeAt(Len(claims))
Open == {n \in announced : n > Len(claims)}
Void(w) == w \in stored /\ \E i \in 1..Len(claims) :
    claims[i].kind = "cas" /\ w \notin claims[i].seen /\ knew[w] < i
Claim(kind, seen) == Len(claims) < ClaimsMax /\ claims' = Append(claims, [kind |-> kind, seen |-> seen])

Init ==
    /\ claims = <<>> /\ announced = {} /\ stored = {} /\ made = {}
    /\ at = [w \in Writers |-> "begins"] /\ knew = [w \in Writers |-> 0]
    /\ lately = [w \in Writers |-> FALSE] /\ warned = [w \in Writers |-> FALSE]
    /\ step = [s \in Switchers |-> "idle"] /\ number = [s \in Switchers |-> 0] /\ saw = [s \in Switchers |-> {}]

(* ---- Writers ---- *)
List(w) ==
    /\ at[w] = "begins"
    /\ at' = [at EXCEPT ![w] = IF Mode = "cas" THEN "again" ELSE "listed"]
    /\ knew' = [knew EXCEPT ![w] = Len(claims)]
    /\ lately' = [lately EXCEPT ![w] = TRUE]
    /\ warned' = [warned EXCEPT ![w] = Open # {}]
    /\ UNCHANGED <<claims, announced, stored, made>> /\ UNCHANGED switcher

Age(w) ==
    /\ at[w] = "listed" /\ lately[w]
    /\ lately' = [lately EXCEPT ![w] = FALSE]
    /\ UNCHANGED <<claims, announced, stored, made, at, knew, warned>> /\ UNCHANGED switcher

Store(w) ==
    /\ at[w] = "listed"
    /\ stored' = stored \cup {w}
    /\ LET done == (lately[w] /\ ~warned[w]) \/ Bug = "does not look"
       IN at' = [at EXCEPT ![w] = IF done THEN "ok" ELSE "stored"]
    /\ UNCHANGED <<claims, announced, made, knew, lately, warned>> /\ UNCHANGED switcher

(* It waits while a switch is announced that is not there. *)
Look(w) ==
    /\ at[w] = "stored" /\ (Open = {} \/ Bug = "does not take the number")
    /\ LET back == Mode = "merge" /\ Bug = "there and back is not noticed"
       IN at' = [at EXCEPT ![w] = IF ~Void(w) \/ back THEN "ok" ELSE IF Mode = "cas" THEN "again" ELSE "contended"]
    /\ UNCHANGED <<claims, announced, stored, made, knew, lately, warned>> /\ UNCHANGED switcher

TakeNumber(w) ==
    /\ at[w] = "stored" /\ Open # {} /\ Bug # "waits for ever"
    /\ Claim("merge", {})
    /\ UNCHANGED <<announced, stored, made>> /\ UNCHANGED writer /\ UNCHANGED switcher

(* A claim; or, if it finds that CAS mode is over by then, another file that rests on what was known before. *)
Again(w) ==
    /\ at[w] = "again"
    /\ IF Mode = "cas" \/ Bug = "claims above the end"
       THEN Claim("commit", {}) /\ made' = made \cup {w} /\ at' = [at EXCEPT ![w] = "ok"]
       ELSE at' = [at EXCEPT ![w] = "relisted"] /\ UNCHANGED <<claims, made>>
    /\ UNCHANGED <<announced, stored, knew, lately, warned>> /\ UNCHANGED switcher

StoreAgain(w) ==
    /\ at[w] = "relisted"
    /\ stored' = stored \cup {w} /\ at' = [at EXCEPT ![w] = "stored"]
    /\ UNCHANGED <<claims, announced, made, knew, lately, warned>> /\ UNCHANGED switcher

(* ---- Switchers ---- *)
Decide(s) ==
    /\ step[s] = "idle" /\ Mode = "merge"
    /\ number' = [number EXCEPT ![s] = Len(claims) + 1]
    /\ step' = [step EXCEPT ![s] = "decided"]
    /\ UNCHANGED <<claims, announced, stored, made, saw>> /\ UNCHANGED writer

Announce(s) ==
    /\ step[s] = "decided"
    /\ announced' = IF Bug = "not announced" THEN announced ELSE announced \cup {number[s]}
    /\ step' = [step EXCEPT ![s] = "announced"]
    /\ saw' = IF Bug = "lists before it waits" THEN [saw EXCEPT ![s] = stored] ELSE saw
    /\ UNCHANGED <<claims, stored, made, number>> /\ UNCHANGED writer

(* Whoever had listed before the announcement has stored its file by then, or is no longer of lately. *)
Wait(s) ==
    /\ step[s] = "announced"
    /\ Bug = "does not wait" \/ ~\E w \in Writers : at[w] = "listed" /\ lately[w] /\ ~warned[w]
    /\ step' = [step EXCEPT ![s] = "waited"]
    /\ UNCHANGED <<claims, announced, stored, made, number, saw>> /\ UNCHANGED writer

ListAll(s) ==
    /\ step[s] = "waited"
    /\ step' = [step EXCEPT ![s] = IF Len(claims) < number[s] THEN "listed" ELSE "idle"]
    /\ saw' = IF Bug = "lists before it waits" THEN saw ELSE [saw EXCEPT ![s] = stored]
    /\ UNCHANGED <<claims, announced, stored, made, number>> /\ UNCHANGED writer

Switch(s) ==
    /\ step[s] = "listed" /\ step' = [step EXCEPT ![s] = "idle"]
    /\ IF Len(claims) + 1 = number[s] \/ (Bug = "claims any number" /\ Mode = "merge") \/ Bug = "claims in any mode"
       THEN Claim("cas", saw[s]) ELSE UNCHANGED claims
    /\ UNCHANGED <<announced, stored, made, number, saw>> /\ UNCHANGED writer

Back(s) ==
    /\ step[s] = "idle" /\ Mode = "cas" /\ Claim("merge", {})
    /\ UNCHANGED <<announced, stored, made>> /\ UNCHANGED writer /\ UNCHANGED switcher

Next ==
    \/ \E w \in Writers : List(w) \/ Age(w) \/ Store(w) \/ Look(w) \/ TakeNumber(w) \/ Again(w) \/ StoreAgain(w)
    \/ \E s \in Switchers : Decide(s) \/ Announce(s) \/ Wait(s) \/ ListAll(s) \/ Switch(s) \/ Back(s)

Spec == Init /\ [][Next]_vars

(* ---- What must hold ---- *)
AcknowledgedCounts == \A w \in Writers : at[w] = "ok" => w \in made \/ ~Void(w)
StrictInCasModeOnly == \A i \in 1..Len(claims) : claims[i].kind = "commit" => ModeAt(i - 1) = "cas"
SwitchedOnce == \A i \in 1..Len(claims) : claims[i].kind = "cas" => ModeAt(i - 1) = "merge"
(* Whoever died after an announcement stops nobody: a writer that waits for it can go on. *)
NobodyStopped == \A w \in Writers : at[w] = "stored" /\ Len(claims) < ClaimsMax =>
    ENABLED Look(w) \/ ENABLED TakeNumber(w)

(* ---- Probes ---- *)
ProbeMadeAgain == made = {}
ProbeNumberTaken == ~\E i \in 1..Len(claims) : claims[i].kind = "merge" /\ ModeAt(i - 1) = "merge"
ProbeSeen == ~\E i \in 1..Len(claims) : claims[i].kind = "cas" /\ claims[i].seen # {}
ProbeContended == ~\E w \in Writers : at[w] = "contended"
ProbeMergedAgain == ~\E w \in Writers : at[w] = "ok" /\ w \notin made /\ ~Void(w) /\
    \E i \in 1..Len(claims) : claims[i].kind = "cas" /\ knew[w] > i
=============================================================================

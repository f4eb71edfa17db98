------------------------------ MODULE Closing ------------------------------
(* Closing the transactions of merge mode below a time, for all tables at once (crdtcat.protocol.closer).

   A transaction is one file in transactions/, named by its time, and each table takes it into a bundle of its own. An
   expiry may pass by one that comes too late, but not in one table only. So what is below a time is settled by one file
   that is created once: a closer announces the time (a closing), reads what was settled before, lists the transactions,
   and creates the next number with those it found. What it did not find counts for nothing, unless a bundle has it. Listing
   before reading would miss what another closer found meanwhile, and has admitted.

   Names sort: transactions, then closings, then what is settled; a listing sees them in this order, and others act in
   between. Whoever bundles leaves alone what a closing is above and nothing has settled. Of what is settled the highest
   number counts. It may be deleted once a higher one is there, and then its name is free again.

   Authors: one that is young when its file is stored is done; nobody closes a time that somebody young is below. Any other
   one looks. Files land again after they were collected. Everybody may stop for ever between any two steps.

   With Lost, one creation may have no answer: then it arrives later, several times, or never, and the closer reads again. And
   names are deleted one at a time, perhaps never, perhaps again later on. *)

EXTENDS Naturals, Sequences

CONSTANTS Times, Closers, TableCount, BundlerCount, NumberMax, Lost, Bug

VARIABLES
    files, landed,        \* transactions that are in transactions/, and that ever were
    closings, announced,  \* closers whose closings are there, and ever were
    settled,              \* per number [until, admitted], or Nothing
    sent,                 \* creations [number, until, admitted] whose answers were lost
    bundled,              \* per table the transactions in its bundles
    at,                   \* per transaction its author: "idle", "young", "old", "stored", "ok", "told"
    step, found, before,  \* per closer: where it is, the transactions and the settled number that it read
    part, seen, above, held,  \* per bundler: where it is, what it listed, closings, what it is about to store
    counted, dead         \* transactions that a file settled, for ever

vars == <<files, landed, closings, announced, settled, sent, bundled, at, step, found, before, part, seen, above, held, counted, dead>>
store == <<files, landed, closings, announced, settled, sent, bundled, counted, dead>>
closer == <<step, found, before>>
bundler == <<part, seen, above, held>>

Tables == 1..TableCount
Bundlers == 1..BundlerCount
TableOf(b) == 1 + ((b - 1) % TableCount)
Until(c) == c \div 10
Numbers == 1..NumberMax
Nothing == [until |-> 0, admitted |-> {}]
ASSUME Bug \in {"none", "lists before it announces", "bundles what is being closed", "closings sort first",
                "admits what was passed by", "created again", "too young", "does not look",
                "lists before it reads", "answer believed"}
ASSUME Lost \in BOOLEAN

There == {n \in Numbers : settled[n] # Nothing}
Latest == IF There = {} THEN 0 ELSE CHOOSE n \in There : \A m \in There : m <= n
Said(n) == IF n = 0 THEN Nothing ELSE settled[n]
PassedBy(said, x) == x < said.until /\ x \notin said.admitted
Passed(x) == PassedBy(Said(Latest), x)
Visible(x, t) == x \in bundled[t] \/ (x \in files /\ ~Passed(x))

Init ==
    /\ files = {} /\ landed = {} /\ closings = {} /\ announced = {} /\ counted = {} /\ dead = {}
    /\ settled = [n \in Numbers |-> Nothing] /\ sent = {} /\ bundled = [t \in Tables |-> {}]
    /\ at = [x \in Times |-> "idle"]
    /\ step = [c \in Closers |-> "idle"] /\ found = [c \in Closers |-> {}] /\ before = [c \in Closers |-> [number |-> 0, said |-> Nothing]]
    /\ part = [b \in Bundlers |-> "idle"] /\ seen = [b \in Bundlers |-> {}] /\ above = [b \in Bundlers |-> {}]
    /\ held = [b \in Bundlers |-> {}]

(* ---- Authors ---- *)
Begin(x) ==
    /\ at[x] = "idle" /\ \A c \in announced : Until(c) <= x
    /\ at' = [at EXCEPT ![x] = "young"]
    /\ UNCHANGED store /\ UNCHANGED closer /\ UNCHANGED bundler

Age(x) ==
    /\ at[x] = "young"
    /\ at' = [at EXCEPT ![x] = "old"]
    /\ UNCHANGED store /\ UNCHANGED closer /\ UNCHANGED bundler

Put(x) ==
    /\ at[x] \in {"young", "old"}
    /\ files' = files \union {x} /\ landed' = landed \union {x}
    /\ at' = [at EXCEPT ![x] = IF @ = "young" \/ Bug = "does not look" THEN "ok" ELSE "stored"]
    /\ UNCHANGED <<closings, announced, settled, sent, bundled, counted, dead>> /\ UNCHANGED closer /\ UNCHANGED bundler

(* It settles what is being closed before it looks: here it waits until somebody has. *)
Unsettled(x, some, said) == said.until <= x /\ \E c \in some : x < Until(c)
Look(x) ==
    /\ at[x] = "stored" /\ ~Unsettled(x, closings, Said(Latest))
    /\ at' = [at EXCEPT ![x] = IF Passed(x) /\ \E t \in Tables : x \notin bundled[t] THEN "told" ELSE "ok"]
    /\ UNCHANGED store /\ UNCHANGED closer /\ UNCHANGED bundler

PutAgain(x) ==
    /\ x \in landed \ files
    /\ files' = files \union {x}
    /\ UNCHANGED <<landed, closings, announced, settled, sent, bundled, at, counted, dead>>
    /\ UNCHANGED closer /\ UNCHANGED bundler

(* ---- Closers: several may close one time ---- *)
MayAnnounce(c) == \A x \in Times : x < Until(c) => at[x] # "young" \/ Bug = "too young"

(* Announce, read, list, create; two mistakes list too early. *)
Order == IF Bug = "lists before it announces" THEN <<"idle", "announces", "reads", "creates">>
         ELSE IF Bug = "lists before it reads" THEN <<"idle", "lists", "reads", "creates">>
         ELSE <<"idle", "reads", "lists", "creates">>
After(c) == Order[1 + CHOOSE i \in 1..3 : Order[i] = step[c]]

Announce(c) ==
    /\ step[c] = (IF Bug = "lists before it announces" THEN "announces" ELSE "idle") /\ MayAnnounce(c)
    /\ closings' = closings \union {c} /\ announced' = announced \union {c}
    /\ step' = [step EXCEPT ![c] = After(c)]
    /\ UNCHANGED <<files, landed, settled, sent, bundled, at, found, before, counted, dead>> /\ UNCHANGED bundler

ListTransactions(c) ==
    /\ step[c] = "lists" \/ (step[c] = "idle" /\ Bug = "lists before it announces")
    /\ found' = [found EXCEPT ![c] = {x \in files : x < Until(c)}]
    /\ step' = [step EXCEPT ![c] = After(c)]
    /\ UNCHANGED <<at, before>> /\ UNCHANGED store /\ UNCHANGED bundler

Read(c) ==
    /\ step[c] = "reads"
    /\ before' = [before EXCEPT ![c] = [number |-> Latest, said |-> Said(Latest)]]
    /\ step' = [step EXCEPT ![c] = IF Said(Latest).until >= Until(c) THEN "deletes" ELSE After(c)]
    /\ UNCHANGED <<at, found>> /\ UNCHANGED store /\ UNCHANGED bundler

(* Only a number above all others says anything: others' numbers, and those that were deleted, are history. *)
Arrives(n, until, admitted) ==
    IF settled[n] = Nothing \/ Bug = "created again"
    THEN /\ settled' = [settled EXCEPT ![n] = [until |-> until, admitted |-> admitted]]
         /\ IF n >= Latest
            THEN /\ counted' = counted \union admitted
                 /\ dead' = dead \union {x \in Times : x < until /\ x \notin admitted /\ \E t \in Tables : x \notin bundled[t]}
            ELSE UNCHANGED <<counted, dead>>
    ELSE UNCHANGED <<settled, counted, dead>>

Admits(c) == {x \in found[c] : ~PassedBy(before[c].said, x) \/ Bug = "admits what was passed by"}
Asked(c) == [number |-> before[c].number + 1, until |-> Until(c), admitted |-> Admits(c)]

(* Whatever the answer, it reads again, and the highest counts. The mistake takes what it asked for as settled. *)
Created(c) ==
    IF Bug = "answer believed"
    THEN /\ step' = [step EXCEPT ![c] = "deletes"]
         /\ before' = [before EXCEPT ![c] = [number |-> @.number + 1, said |-> [until |-> Until(c), admitted |-> Admits(c)]]]
    ELSE step' = [step EXCEPT ![c] = IF Bug = "lists before it reads" THEN "lists" ELSE "reads"] /\ UNCHANGED before

Create(c) ==
    /\ step[c] = "creates" /\ before[c].number < NumberMax
    /\ Arrives(Asked(c).number, Until(c), Admits(c))
    /\ Created(c)
    /\ UNCHANGED <<files, landed, closings, announced, sent, bundled, at, found>> /\ UNCHANGED bundler

LoseAnswer(c) ==
    /\ sent = {} /\ Lost /\ step[c] = "creates" /\ before[c].number < NumberMax
    /\ sent' = sent \union {Asked(c)}
    /\ Created(c)
    /\ UNCHANGED <<files, landed, closings, announced, settled, bundled, at, found, counted, dead>> /\ UNCHANGED bundler

Arrive(asked) ==
    /\ Arrives(asked.number, asked.until, asked.admitted)
    /\ UNCHANGED <<files, landed, closings, announced, sent, bundled, at>> /\ UNCHANGED closer /\ UNCHANGED bundler

(* Closings up to the time of what it read, and numbers below it. *)
Delete(c) ==
    /\ ~Lost /\ step[c] = "deletes"
    /\ closings' = {d \in closings : Until(d) > before[c].said.until /\ d # c}
    /\ settled' = [n \in Numbers |-> IF n < before[c].number THEN Nothing ELSE settled[n]]
    /\ step' = [step EXCEPT ![c] = "done"]
    /\ UNCHANGED <<files, landed, announced, sent, bundled, at, found, before, counted, dead>> /\ UNCHANGED bundler

DeleteClosing(c, d) ==
    /\ Lost /\ step[c] = "deletes" /\ d \in closings /\ (Until(d) <= before[c].said.until \/ d = c)
    /\ closings' = closings \ {d}
    /\ UNCHANGED <<files, landed, announced, settled, sent, bundled, at, counted, dead>>
    /\ UNCHANGED closer /\ UNCHANGED bundler

DeleteNumber(c, n) ==
    /\ Lost /\ step[c] = "deletes" /\ n < before[c].number /\ settled[n] # Nothing
    /\ settled' = [settled EXCEPT ![n] = Nothing]
    /\ UNCHANGED <<files, landed, closings, announced, sent, bundled, at, counted, dead>>
    /\ UNCHANGED closer /\ UNCHANGED bundler

(* ---- Bundlers, each of one table ---- *)
ListForBundle(b) ==
    /\ part[b] = "idle"
    /\ IF Bug = "closings sort first" THEN above' = [above EXCEPT ![b] = closings] /\ UNCHANGED seen
       ELSE seen' = [seen EXCEPT ![b] = files] /\ UNCHANGED above
    /\ part' = [part EXCEPT ![b] = "more"]
    /\ UNCHANGED <<at, held>> /\ UNCHANGED store /\ UNCHANGED closer

ListMore(b) ==
    /\ part[b] = "more"
    /\ IF Bug = "closings sort first" THEN seen' = [seen EXCEPT ![b] = files] /\ UNCHANGED above
       ELSE above' = [above EXCEPT ![b] = closings] /\ UNCHANGED seen
    /\ part' = [part EXCEPT ![b] = "last"]
    /\ UNCHANGED <<at, held>> /\ UNCHANGED store /\ UNCHANGED closer

(* The library bundles nothing as long as something is unsettled; here others may be bundled. *)
ListLast(b) ==
    /\ part[b] = "last"
    /\ LET said == Said(Latest)
           kept == {x \in seen[b] : ~PassedBy(said, x)}
           left == {x \in kept : Bug # "bundles what is being closed" /\ Unsettled(x, above[b], said)}
       IN held' = [held EXCEPT ![b] = kept \ left]
    /\ part' = [part EXCEPT ![b] = "stores"]
    /\ seen' = [seen EXCEPT ![b] = {}] /\ above' = [above EXCEPT ![b] = {}]
    /\ UNCHANGED at /\ UNCHANGED store /\ UNCHANGED closer

(* All that it holds, or a part: an expiry takes what is below its horizon. *)
StoreBundle(b, some) ==
    /\ part[b] = "stores"
    /\ bundled' = [bundled EXCEPT ![TableOf(b)] = @ \union some]
    /\ part' = [part EXCEPT ![b] = "idle"] /\ held' = [held EXCEPT ![b] = {}]
    /\ UNCHANGED <<files, landed, closings, announced, settled, sent, at, seen, above, counted, dead>> /\ UNCHANGED closer

(* Its tables have it, or it counts for nobody. *)
Collect(x) ==
    /\ x \in files /\ (Passed(x) \/ \A t \in Tables : x \in bundled[t])
    /\ files' = files \ {x}
    /\ UNCHANGED <<landed, closings, announced, settled, sent, bundled, at, counted, dead>>
    /\ UNCHANGED closer /\ UNCHANGED bundler

Next ==
    \/ \E x \in Times : Begin(x) \/ Age(x) \/ Put(x) \/ Look(x) \/ PutAgain(x) \/ Collect(x)
    \/ \E c \in Closers : Announce(c) \/ ListTransactions(c) \/ Read(c) \/ Create(c) \/ LoseAnswer(c) \/ Delete(c)
    \/ \E c \in Closers : (\E d \in Closers : DeleteClosing(c, d)) \/ (\E n \in Numbers : DeleteNumber(c, n))
    \/ \E asked \in sent : Arrive(asked)
    \/ \E b \in Bundlers : ListForBundle(b) \/ ListMore(b) \/ ListLast(b) \/ \E some \in SUBSET held[b] : StoreBundle(b, some)

Spec == Init /\ [][Next]_vars

(* ---- What must hold ---- *)
(* What one table has in a bundle, every table shows, for ever. *)
NothingHalf == \A x \in Times : (\E t \in Tables : x \in bundled[t]) => \A t \in Tables : Visible(x, t)
AcknowledgedReadable == \A x \in Times : at[x] = "ok" => \A t \in Tables : Visible(x, t)
SettledStays == \A x \in counted : \A t \in Tables : Visible(x, t)
DeadStaysDead == \A x \in dead : ~\E t \in Tables : Visible(x, t)
ToldTheTruth == \A x \in Times : at[x] = "told" => ~\E t \in Tables : Visible(x, t)

(* ---- Probes ---- *)
ProbePassedBy == ~\E x \in landed : x \in dead
ProbeAdmitted == ~\E x \in counted : x \in files /\ x < Said(Latest).until
ProbeTwoClosers == ~\E n \in Numbers : n > 1 /\ settled[n] # Nothing /\ settled[n - 1] = Nothing
ProbeWaits == ~\E b \in Bundlers : part[b] = "last" /\ \E x \in seen[b] : Unsettled(x, above[b], Said(Latest))
ProbeLostAnswer == ~\E asked \in sent : asked.number = Latest /\ asked.until = Said(Latest).until /\ asked.admitted = Said(Latest).admitted
ProbeFromBundles == ~\E x \in Times : at[x] = "ok" /\ x \notin files /\ x < Said(Latest).until /\ x \notin Said(Latest).admitted
=============================================================================

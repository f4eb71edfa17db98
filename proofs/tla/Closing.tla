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
   one looks. Files land again after they were collected. Everybody may stop for ever between any two steps. *)

EXTENDS Naturals, Sequences

CONSTANTS Times, Closers, TableCount, NumberMax, Bug

VARIABLES
    files, landed,        \* transactions that are in transactions/, and that ever were
    closings, announced,  \* times that are being closed, and that ever were
    settled,              \* per number [until, admitted], or Nothing
    bundled,              \* per table the transactions in its bundles
    at,                   \* per transaction its author: "idle", "young", "old", "stored", "ok", "told"
    step, found, before,  \* per closer: where it is, the transactions and the settled number that it read
    part, seen, above, held,  \* per table its bundler: where it is, what it listed, closings, what it is about to store
    counted, dead         \* transactions that a file settled, for ever

vars == <<files, landed, closings, announced, settled, bundled, at, step, found, before, part, seen, above, held, counted, dead>>
store == <<files, landed, closings, announced, settled, bundled, counted, dead>>
closer == <<step, found, before>>
bundler == <<part, seen, above, held>>

Tables == 1..TableCount
Numbers == 1..NumberMax
Nothing == [until |-> 0, admitted |-> {}]
ASSUME Bug \in {"none", "lists before it announces", "bundles what is being closed", "closings sort first",
                "admits what was passed by", "created again", "too young", "does not look",
                "lists before it reads"}

There == {n \in Numbers : settled[n] # Nothing}
Latest == IF There = {} THEN 0 ELSE CHOOSE n \in There : \A m \in There : m <= n
Said(n) == IF n = 0 THEN Nothing ELSE settled[n]
PassedBy(said, x) == x < said.until /\ x \notin said.admitted
Passed(x) == PassedBy(Said(Latest), x)
Visible(x, t) == x \in bundled[t] \/ (x \in files /\ ~Passed(x))

Init ==
    /\ files = {} /\ landed = {} /\ closings = {} /\ announced = {} /\ counted = {} /\ dead = {}
    /\ settled = [n \in Numbers |-> Nothing] /\ bundled = [t \in Tables |-> {}]
    /\ at = [x \in Times |-> "idle"]
    /\ step = [c \in Closers |-> "idle"] /\ found = [c \in Closers |-> {}] /\ before = [c \in Closers |-> [number |-> 0, said |-> Nothing]]
    /\ part = [t \in Tables |-> "idle"] /\ seen = [t \in Tables |-> {}] /\ above = [t \in Tables |-> {}]
    /\ held = [t \in Tables |-> {}]

(* ---- Authors ---- *)
Begin(x) ==
    /\ at[x] = "idle" /\ \A c \in announced : c <= x
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
    /\ UNCHANGED <<closings, announced, settled, bundled, counted, dead>> /\ UNCHANGED closer /\ UNCHANGED bundler

(* It settles what is being closed before it looks: here it waits until somebody has. *)
Unsettled(x, some, said) == said.until <= x /\ \E c \in some : x < c
Look(x) ==
    /\ at[x] = "stored" /\ ~Unsettled(x, closings, Said(Latest))
    /\ at' = [at EXCEPT ![x] = IF Passed(x) /\ \E t \in Tables : x \notin bundled[t] THEN "told" ELSE "ok"]
    /\ UNCHANGED store /\ UNCHANGED closer /\ UNCHANGED bundler

PutAgain(x) ==
    /\ x \in landed \ files
    /\ files' = files \union {x}
    /\ UNCHANGED <<landed, closings, announced, settled, bundled, at, counted, dead>>
    /\ UNCHANGED closer /\ UNCHANGED bundler

(* ---- Closers: closer c closes time c ---- *)
MayAnnounce(c) == \A x \in Times : x < c => at[x] # "young" \/ Bug = "too young"

(* Announce, read, list, create; two mistakes list too early. *)
Order == IF Bug = "lists before it announces" THEN <<"idle", "announces", "reads", "creates">>
         ELSE IF Bug = "lists before it reads" THEN <<"idle", "lists", "reads", "creates">>
         ELSE <<"idle", "reads", "lists", "creates">>
After(c) == Order[1 + CHOOSE i \in 1..3 : Order[i] = step[c]]

Announce(c) ==
    /\ step[c] = (IF Bug = "lists before it announces" THEN "announces" ELSE "idle") /\ MayAnnounce(c)
    /\ closings' = closings \union {c} /\ announced' = announced \union {c}
    /\ step' = [step EXCEPT ![c] = After(c)]
    /\ UNCHANGED <<files, landed, settled, bundled, at, found, before, counted, dead>> /\ UNCHANGED bundler

ListTransactions(c) ==
    /\ step[c] = "lists" \/ (step[c] = "idle" /\ Bug = "lists before it announces")
    /\ found' = [found EXCEPT ![c] = {x \in files : x < c}]
    /\ step' = [step EXCEPT ![c] = After(c)]
    /\ UNCHANGED <<at, before>> /\ UNCHANGED store /\ UNCHANGED bundler

Read(c) ==
    /\ step[c] = "reads"
    /\ before' = [before EXCEPT ![c] = [number |-> Latest, said |-> Said(Latest)]]
    /\ step' = [step EXCEPT ![c] = IF Said(Latest).until >= c THEN "deletes" ELSE After(c)]
    /\ UNCHANGED <<at, found>> /\ UNCHANGED store /\ UNCHANGED bundler

(* Only a number above all others says anything: others' numbers, and those that were deleted, are history. *)
Create(c) ==
    /\ step[c] = "creates" /\ before[c].number < NumberMax
    /\ LET n == before[c].number + 1
           old == before[c].said
           admitted == {x \in found[c] : ~PassedBy(old, x) \/ Bug = "admits what was passed by"}
       IN IF settled[n] = Nothing \/ Bug = "created again"
          THEN /\ settled' = [settled EXCEPT ![n] = [until |-> c, admitted |-> admitted]]
               /\ IF n >= Latest
                  THEN /\ counted' = counted \union admitted
                       /\ dead' = dead \union {x \in Times : x < c /\ x \notin admitted /\ \E t \in Tables : x \notin bundled[t]}
                  ELSE UNCHANGED <<counted, dead>>
          ELSE UNCHANGED <<settled, counted, dead>>
    /\ step' = [step EXCEPT ![c] = IF Bug = "lists before it reads" THEN "lists" ELSE "reads"]
    /\ UNCHANGED <<files, landed, closings, announced, bundled, at, found, before>> /\ UNCHANGED bundler

Delete(c) ==
    /\ step[c] = "deletes"
    /\ closings' = {d \in closings : d > before[c].said.until /\ d # c}
    /\ settled' = [n \in Numbers |-> IF n < before[c].number THEN Nothing ELSE settled[n]]
    /\ step' = [step EXCEPT ![c] = "done"]
    /\ UNCHANGED <<files, landed, announced, bundled, at, found, before, counted, dead>> /\ UNCHANGED bundler

(* ---- Bundlers, one for each table ---- *)
ListForBundle(t) ==
    /\ part[t] = "idle"
    /\ IF Bug = "closings sort first" THEN above' = [above EXCEPT ![t] = closings] /\ UNCHANGED seen
       ELSE seen' = [seen EXCEPT ![t] = files] /\ UNCHANGED above
    /\ part' = [part EXCEPT ![t] = "more"]
    /\ UNCHANGED <<at, held>> /\ UNCHANGED store /\ UNCHANGED closer

ListMore(t) ==
    /\ part[t] = "more"
    /\ IF Bug = "closings sort first" THEN seen' = [seen EXCEPT ![t] = files] /\ UNCHANGED above
       ELSE above' = [above EXCEPT ![t] = closings] /\ UNCHANGED seen
    /\ part' = [part EXCEPT ![t] = "last"]
    /\ UNCHANGED <<at, held>> /\ UNCHANGED store /\ UNCHANGED closer

ListLast(t) ==
    /\ part[t] = "last"
    /\ LET said == Said(Latest)
           kept == {x \in seen[t] : ~PassedBy(said, x)}
           waits == Bug # "bundles what is being closed" /\ \E x \in kept : Unsettled(x, above[t], said)
       IN held' = [held EXCEPT ![t] = IF waits THEN {} ELSE kept]
    /\ part' = [part EXCEPT ![t] = "stores"]
    /\ seen' = [seen EXCEPT ![t] = {}] /\ above' = [above EXCEPT ![t] = {}]
    /\ UNCHANGED at /\ UNCHANGED store /\ UNCHANGED closer

StoreBundle(t) ==
    /\ part[t] = "stores"
    /\ bundled' = [bundled EXCEPT ![t] = @ \union held[t]]
    /\ part' = [part EXCEPT ![t] = "idle"] /\ held' = [held EXCEPT ![t] = {}]
    /\ UNCHANGED <<files, landed, closings, announced, settled, at, seen, above, counted, dead>> /\ UNCHANGED closer

Collect(x) ==
    /\ x \in files /\ \A t \in Tables : x \in bundled[t]
    /\ files' = files \ {x}
    /\ UNCHANGED <<landed, closings, announced, settled, bundled, at, counted, dead>>
    /\ UNCHANGED closer /\ UNCHANGED bundler

Next ==
    \/ \E x \in Times : Begin(x) \/ Age(x) \/ Put(x) \/ Look(x) \/ PutAgain(x) \/ Collect(x)
    \/ \E c \in Closers : Announce(c) \/ ListTransactions(c) \/ Read(c) \/ Create(c) \/ Delete(c)
    \/ \E t \in Tables : ListForBundle(t) \/ ListMore(t) \/ ListLast(t) \/ StoreBundle(t)

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
ProbeWaits == ~\E t \in Tables : part[t] = "last" /\ \E x \in seen[t] : Unsettled(x, above[t], Said(Latest))
ProbeFromBundles == ~\E x \in Times : at[x] = "ok" /\ x \notin files /\ x < Said(Latest).until /\ x \notin Said(Latest).admitted
=============================================================================

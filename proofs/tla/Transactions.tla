---------------------------- MODULE Transactions ----------------------------
(* Transactions that touch several tables, and a reader of all of them: nothing may be half visible.

   A transaction is one file in transactions/. Each table takes it into a bundle of its own; the file goes
   only when every table covers it. Listings inside one folder are one step here (module Log pages them); what
   matters is the time between the folders.

   The reader lists transactions/, then each table, and lists again until each transaction is in all tables
   or in none. *)

EXTENDS Naturals

CONSTANTS Names, TableCount, Bug

VARIABLES files, landed, covered, step, seen, must

vars == <<files, landed, covered, step, seen, must>>
Tables == 1..TableCount
ASSUME Bug \in {"none", "lists once", "collected early", "tables before transactions"}

Init ==
    /\ files = {} /\ landed = {} /\ covered = [t \in Tables |-> {}]
    /\ step = 0 /\ seen = [t \in Tables |-> {}] /\ must = {}

Land(n) ==
    /\ n \notin files
    /\ files' = files \union {n} /\ landed' = landed \union {n}
    /\ UNCHANGED <<covered, step, seen, must>>

Bundle(t, n) ==
    /\ n \in files /\ n \notin covered[t]
    /\ covered' = [covered EXCEPT ![t] = @ \union {n}]
    /\ UNCHANGED <<files, landed, step, seen, must>>

Collect(n) ==
    /\ n \in files
    /\ IF Bug = "collected early" THEN \E t \in Tables : n \in covered[t]
                                  ELSE \A t \in Tables : n \in covered[t]
    /\ files' = files \ {n}
    /\ UNCHANGED <<landed, covered, step, seen, must>>

(* Steps of a pass: 0 is idle, 1 lists transactions/, then one per table; one bug turns that round. *)
Passes == TableCount + 1
Done == Passes + 2
Table(i) == IF Bug = "tables before transactions" THEN i ELSE i - 1
IsTransactions(i) == IF Bug = "tables before transactions" THEN i = Passes ELSE i = 1

Begin ==
    /\ step = 0 /\ step' = 1 /\ must' = landed
    /\ UNCHANGED <<files, landed, covered, seen>>

List ==
    /\ step \in 1..Passes
    /\ seen' = IF IsTransactions(step) THEN [t \in Tables |-> seen[t] \union files]
               ELSE [seen EXCEPT ![Table(step)] = @ \union covered[Table(step)]]
    /\ step' = step + 1
    /\ UNCHANGED <<files, landed, covered, must>>

Whole == \A t, u \in Tables : seen[t] = seen[u]

Decide ==
    /\ step = Passes + 1
    /\ IF Whole \/ Bug = "lists once" THEN step' = Done /\ UNCHANGED seen
       ELSE step' = 1 /\ seen' = [t \in Tables |-> {}]
    /\ UNCHANGED <<files, landed, covered, must>>

Next == step # Done /\
    \/ \E n \in Names : Land(n) \/ Collect(n) \/ \E t \in Tables : Bundle(t, n)
    \/ Begin \/ List \/ Decide

Spec == Init /\ [][Next]_vars

NothingHalfVisible == step = Done => Whole
AcknowledgedReadable == step = Done => \A t \in Tables : must \subseteq seen[t]
AcknowledgedStored == \A n \in landed : \A t \in Tables : n \in files \union covered[t]

ProbeListedAgain == ~(step = Passes + 1 /\ ~Whole)
ProbeReadFromBundles == ~(step = Done /\ must = Names /\ files = {})
=============================================================================

---------------------------- MODULE Transactions ----------------------------
(* Transactions that touch several tables, and a reader of all of them: nothing may be half visible.

   A transaction is one file in transactions/. Each table takes it into a bundle of its own; the file goes
   only when every table covers it. Listings inside one folder are one step here (module Log pages them); what
   matters is the time between the folders.

   The reader takes table after table: it lists transactions/, then the table's folder. A transaction that a table
   before was read without is left out of those after it. One that a table before has is there: its file, or a
   bundle (module Marks has tables of which it is not known yet that they take part in any). *)

EXTENDS Naturals

CONSTANTS Names, TableCount, Bug

VARIABLES
    files, landed,      \* transactions that are in transactions/, and that ever were
    covered,            \* per table those in its bundles
    table, part,        \* the reader: which table, and "transactions", "folder" or "decide"
    here,               \* what it has seen of this table
    result, must        \* what it has taken of each; what was acknowledged when it began

vars == <<files, landed, covered, table, part, here, result, must>>
reader == <<table, part, here, result, must>>
Tables == 1..TableCount
Idle == 0
Done == TableCount + 1
ASSUME Bug \in {"none", "keeps what others lack", "collected early", "tables before transactions"}

First == IF Bug = "tables before transactions" THEN "folder" ELSE "transactions"
Second == IF Bug = "tables before transactions" THEN "transactions" ELSE "folder"

Init ==
    /\ files = {} /\ landed = {} /\ covered = [t \in Tables |-> {}]
    /\ table = Idle /\ part = First /\ here = {} /\ result = [t \in Tables |-> {}] /\ must = {}

Land(n) ==
    /\ n \notin landed
    /\ files' = files \union {n} /\ landed' = landed \union {n}
    /\ UNCHANGED covered /\ UNCHANGED reader

(* A PUT may be repeated late, when its file was collected: harmless, it is covered. *)
LandAgain(n) ==
    /\ n \in landed \ files
    /\ files' = files \union {n}
    /\ UNCHANGED <<landed, covered>> /\ UNCHANGED reader

Bundle(t, n) ==
    /\ n \in files /\ n \notin covered[t]
    /\ covered' = [covered EXCEPT ![t] = @ \union {n}]
    /\ UNCHANGED <<files, landed>> /\ UNCHANGED reader

Collect(n) ==
    /\ n \in files
    /\ IF Bug = "collected early" THEN \E t \in Tables : n \in covered[t]
                                  ELSE \A t \in Tables : n \in covered[t]
    /\ files' = files \ {n}
    /\ UNCHANGED <<landed, covered>> /\ UNCHANGED reader

(* ---- The reader ---- *)
Begin ==
    /\ table = Idle /\ table' = 1 /\ must' = landed
    /\ UNCHANGED <<files, landed, covered, part, here, result>>

List ==
    /\ table \in Tables /\ part # "decide"
    /\ here' = here \union (IF part = "transactions" THEN files ELSE covered[table])
    /\ part' = IF part = First THEN Second ELSE "decide"
    /\ UNCHANGED <<files, landed, covered, table, result, must>>

(* A file was gone when it was fetched: the table is listed again. *)
Vanished ==
    /\ table \in Tables /\ part = "decide"
    /\ part' = First /\ here' = {}
    /\ UNCHANGED <<files, landed, covered, table, result, must>>

Before == 1..(table - 1)
Lacking == {n \in here : \E u \in Before : n \notin result[u]}

Decide ==
    /\ table \in Tables /\ part = "decide"
    /\ result' = [result EXCEPT ![table] = IF Bug = "keeps what others lack" THEN here ELSE here \ Lacking]
    /\ table' = table + 1 /\ part' = First /\ here' = {}
    /\ UNCHANGED <<files, landed, covered, must>>

Next == table # Done /\
    \/ \E n \in Names : Land(n) \/ LandAgain(n) \/ Collect(n) \/ \E t \in Tables : Bundle(t, n)
    \/ Begin \/ List \/ Vanished \/ Decide

Spec == Init /\ [][Next]_vars

NothingHalfVisible == table = Done => \A t, u \in Tables : result[t] = result[u]
AcknowledgedReadable == table = Done => \A t \in Tables : must \subseteq result[t]
AcknowledgedStored == \A n \in landed : \A t \in Tables : n \in files \union covered[t]
(* What a table before has need not be waited for. *)
NothingToWaitFor == table \in Tables /\ part = "decide" => \A u \in Before : result[u] \subseteq here

ProbeLeftOut == ~(table \in Tables /\ part = "decide" /\ Lacking # {})
ProbeReadFromBundles == ~(table = Done /\ must = Names /\ files = {})
=============================================================================

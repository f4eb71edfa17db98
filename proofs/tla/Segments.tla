------------------------------ MODULE Segments ------------------------------
(* Segments and their collector: what a committed version refers to must exist.

   A writer PUTs a segment, then commits a version that names it, or crashes between. A collector marks a
   segment that nothing refers to and that is older than the longest transaction, and deletes it at some later
   time. With unique names nobody can begin to need a marked segment. With content-addressed names the same
   name is PUT again between mark and delete, and the new one is deleted. *)

EXTENDS FiniteSets

CONSTANTS Writers, Bug

VARIABLES stored, references, writer, old, marked

vars == <<stored, references, writer, old, marked>>
ASSUME Bug \in {"none", "content-addressed names", "collects young segments"}

Name(w) == IF Bug = "content-addressed names" THEN "hash" ELSE w

Init ==
    /\ stored = {} /\ references = {} /\ old = {} /\ marked = {}
    /\ writer = [w \in Writers |-> "idle"]

Put(w) ==
    /\ writer[w] = "idle" /\ writer' = [writer EXCEPT ![w] = "staged"]
    /\ stored' = stored \union {Name(w)} /\ old' = old \ {Name(w)}
    /\ UNCHANGED <<references, marked>>

Commit(w) ==
    /\ writer[w] = "staged" /\ writer' = [writer EXCEPT ![w] = "committed"]
    /\ references' = references \union {Name(w)}
    /\ UNCHANGED <<stored, old, marked>>

Crash(w) ==
    /\ writer[w] = "staged" /\ writer' = [writer EXCEPT ![w] = "crashed"]
    /\ UNCHANGED <<stored, references, old, marked>>

(* A segment grows older than the longest transaction only when its own has ended. *)
Age(n) ==
    /\ n \in stored \ old /\ \A w \in Writers : Name(w) = n => writer[w] # "staged"
    /\ old' = old \union {n}
    /\ UNCHANGED <<stored, references, writer, marked>>

Mark(n) ==
    /\ n \in stored \ references /\ n \notin marked
    /\ n \in old \/ Bug = "collects young segments"
    /\ marked' = marked \union {n}
    /\ UNCHANGED <<stored, references, writer, old>>

Delete(n) ==
    /\ n \in marked /\ marked' = marked \ {n}
    /\ stored' = stored \ {n} /\ old' = old \ {n}
    /\ UNCHANGED <<references, writer>>

Next ==
    \/ \E w \in Writers : Put(w) \/ Commit(w) \/ Crash(w)
    \/ \E n \in stored : Age(n) \/ Mark(n)
    \/ \E n \in marked : Delete(n)

Spec == Init /\ [][Next]_vars

ReferencedExists == references \subseteq stored

ProbeCollected == ~(stored = {} /\ \E w \in Writers : writer[w] = "crashed")
=============================================================================

------------------------------- MODULE Reuse -------------------------------
(* Segments that are used again: by a writer whose head was read when something still referred to them.

   A segment is let go (its branch deleted, its history expired), and somebody who read a head before may
   refer to it once more: a merge, a restore, a write. A collector cannot see such a writer. So it condemns
   what it finds unreferenced, and deletes it in a later run, when the list of the condemned is older than the
   longest transaction, so that every writer who had such a head when the list was stored has ended, if then
   still nothing refers to the segment. A list of which anything is referred to again is void.

   A segment may be let go `Times` times, more than once between two runs of the collector. Then an older list
   says something that was not so all the while, and no collector could know. So whoever lets a segment go
   says so, in a list of its own, and only what is older than the latest of those counts. *)

EXTENDS Naturals, FiniteSets

CONSTANTS Writers, Segments, Times, Bug

VARIABLES stored, references, held, condemned, ripe, goes

vars == <<stored, references, held, condemned, ripe, goes>>
ASSUME Bug \in {"none", "deletes what it finds", "does not look again", "lets go in silence"}

Init ==
    /\ stored = Segments /\ references = Segments
    /\ held = [w \in Writers |-> {}] /\ condemned = {} /\ ripe = {}
    /\ goes = [s \in Segments |-> 0]

(* A writer reads a head, and may use again whatever is in it. *)
Read(w) ==
    /\ held[w] = {} /\ references # {} /\ held' = [held EXCEPT ![w] = references]
    /\ UNCHANGED <<stored, references, condemned, ripe, goes>>

Use(w) ==
    /\ \E s \in held[w] : references' = references \union {s}
    /\ held' = [held EXCEPT ![w] = {}]
    /\ UNCHANGED <<stored, condemned, ripe, goes>>

GiveUp(w) ==
    /\ held[w] # {} /\ held' = [held EXCEPT ![w] = {}]
    /\ UNCHANGED <<stored, references, condemned, ripe, goes>>

(* A list says so, which begins to age now, and which older lists do not count against. *)
LetGo(s) ==
    /\ s \in references /\ goes[s] < Times
    /\ references' = references \ {s} /\ goes' = [goes EXCEPT ![s] = @ + 1]
    /\ IF Bug = "lets go in silence"
       THEN UNCHANGED <<condemned, ripe>>
       ELSE condemned' = condemned \union {s} /\ ripe' = ripe \ {s}
    /\ UNCHANGED <<stored, held>>

(* One list for each segment. *)
Condemn(s) ==
    /\ s \in stored \ references /\ s \notin condemned
    /\ condemned' = condemned \union {s}
    /\ UNCHANGED <<stored, references, held, ripe, goes>>

(* The list is older than the longest transaction: whoever had the segment in a head then has ended. *)
Ripen(s) ==
    /\ s \in condemned \ ripe /\ \A w \in Writers : s \notin held[w]
    /\ ripe' = ripe \union {s}
    /\ UNCHANGED <<stored, references, held, condemned, goes>>

Void(s) ==
    /\ s \in condemned \intersect references
    /\ condemned' = condemned \ {s} /\ ripe' = ripe \ {s}
    /\ UNCHANGED <<stored, references, held, goes>>

Delete(s) ==
    /\ s \in stored
    /\ s \in ripe \/ (Bug = "deletes what it finds" /\ s \in condemned)
    /\ s \notin references \/ Bug = "does not look again"
    /\ stored' = stored \ {s} /\ condemned' = condemned \ {s} /\ ripe' = ripe \ {s}
    /\ UNCHANGED <<references, held, goes>>

Next ==
    \/ \E w \in Writers : Read(w) \/ Use(w) \/ GiveUp(w)
    \/ \E s \in Segments : LetGo(s) \/ Condemn(s) \/ Ripen(s) \/ Void(s) \/ Delete(s)

Spec == Init /\ [][Next]_vars

ReferencedExists == references \subseteq stored

ProbeCollected == stored # {}
ProbeUsedAgain == ~(\E s \in Segments : goes[s] = 1 /\ s \in references)
=============================================================================

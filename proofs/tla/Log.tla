-------------------------------- MODULE Log --------------------------------
(* The log of one table: writers, bundlers, collectors and a reader that lists page by page.

   A version is named by a number, 1 to 4; those in Transactions live in the folder transactions/, which is
   listed first. A file is its rank, what it holds, what it claims to cover, and a spot (only random names
   use it). Rank 0: transaction files, 1: version files, 2 and up: bundles. Names are never used twice for
   different contents, so a file *is* this record.

   What may go wrong on the way is in the actions: a PUT may land late, again, or after its writer crashed
   (Land asks no writer); an acknowledgement may be lost, so every version that ever landed counts as
   acknowledged, which is the strictest reading; bundlers and collectors may stop for ever between any two
   steps, or act on what they learned long ago (taken, permits); a file may vanish between list and get (the
   reader lists again).

   Collectors are one growing set: a permission is noted as soon as anybody could have earned it, and may be
   used at any later time, or never. That is every behaviour of any number of collectors.

   Bug names a known mistake, or is "none". Each must break the invariant its configuration names. *)

EXTENDS Naturals, FiniteSets

CONSTANTS Plain, Transactions, Bundlers, BundlesMax, RankMax, PageSize, ReadsMax, Repeats, Bug

VARIABLES
    files,     \* what the store holds
    landed,    \* versions that were ever stored
    taken,     \* per bundler: what it has merged, and the greatest rank among it
    made,      \* how many bundles were begun
    permits,   \* files that some collector may delete at any later time
    phase, cursor, listed, got,   \* the reader: what it does, how far it is, what it saw, what it merged
    must,      \* acknowledged before the reader's listing began
    snapshot,  \* what its previous read returned
    reads      \* how many reads it has begun

vars == <<files, landed, taken, made, permits, phase, cursor, listed, got, must, snapshot, reads>>
reader == <<phase, cursor, listed, got, must, snapshot, reads>>

Versions == Plain \union Transactions
Bugs == {"none", "bundles first", "table folder first", "descending ranks", "any rank deletes",
         "random names", "one mutable latest", "watermark by time", "skips what vanished",
         "coverage believed"}
ASSUME Bug \in Bugs /\ Versions \subseteq 1..4 /\ Plain \intersect Transactions = {}

Code(s) == (IF 1 \in s THEN 1 ELSE 0) + (IF 2 \in s THEN 2 ELSE 0)
         + (IF 3 \in s THEN 4 ELSE 0) + (IF 4 \in s THEN 8 ELSE 0)

(* Where a file's name sorts. *)
Position(f) ==
    CASE f.rank = 0 -> Code(f.holds) + (IF Bug = "table folder first" THEN 9000 ELSE 0)
      [] f.rank = 1 -> Code(f.holds) + 100
      [] OTHER -> Code(f.holds) +
            CASE Bug = "bundles first" -> 20 + 16 * (f.rank - 2)
              [] Bug = "descending ranks" -> 2000 - 100 * f.rank
              [] Bug = "random names" -> 1000 * f.spot + 100 * f.rank
              [] OTHER -> 100 * f.rank

VersionFile(v) == [rank |-> IF v \in Transactions THEN 0 ELSE 1, holds |-> {v}, claims |-> {v}, spot |-> 0]
Nothing == [rank |-> 0, holds |-> {}]
Larger(a, b) == IF a > b THEN a ELSE b

(* ---- Collectors: who has read back g may delete f, which it covers and outranks ---- *)
Earned(present) ==
    {f \in present : \E g \in present :
        /\ g.rank >= 2 /\ f # g /\ f.holds \subseteq g.claims
        /\ f.rank < g.rank \/ Bug = "any rank deletes"}

Store(present) ==
    /\ files' = present
    /\ permits' = permits \union Earned(present)

Init ==
    /\ files = {} /\ landed = {} /\ permits = {} /\ made = 0
    /\ taken = [b \in Bundlers |-> Nothing]
    /\ phase = "idle" /\ cursor = 0 /\ listed = {} /\ got = {} /\ must = {} /\ snapshot = {} /\ reads = 0

Delete(f) ==
    /\ f \in permits
    /\ Store(files \ {f})
    /\ UNCHANGED <<landed, taken, made>> /\ UNCHANGED reader

(* ---- Writers ---- *)
Land(v) ==
    /\ VersionFile(v) \notin files
    /\ Repeats \/ v \notin landed
    /\ Store(files \union {VersionFile(v)})
    /\ landed' = landed \union {v}
    /\ UNCHANGED <<taken, made>> /\ UNCHANGED reader

(* ---- Bundlers ---- *)
Take(b, some) ==
    /\ taken[b] = Nothing /\ some # {} /\ made < BundlesMax
    /\ \A f \in some : f.rank < RankMax
    /\ taken' = [taken EXCEPT ![b] =
         [rank |-> CHOOSE r \in {f.rank : f \in some} : \A f \in some : f.rank <= r,
          holds |-> UNION {f.holds : f \in some}]]
    /\ made' = made + 1
    /\ UNCHANGED <<files, landed, permits>> /\ UNCHANGED reader

Claims(s) == IF Bug \in {"watermark by time", "coverage believed"} THEN {v \in Versions : \E w \in s : v <= w} ELSE s

(* With random names the first bundles fall late, to keep the search small; later ones fall anywhere. *)
Spots(rank) ==
    IF Bug # "random names" THEN {0} ELSE IF rank < 2 THEN {2} ELSE {1, 2}

PutBundle(b) ==
    /\ taken[b].holds # {}
    /\ \E spot \in Spots(taken[b].rank) :
         LET new == [rank |-> Larger(2, taken[b].rank + 1), holds |-> taken[b].holds,
                     claims |-> Claims(taken[b].holds), spot |-> spot]
         IN Store({new} \union
                (IF Bug = "one mutable latest" THEN {f \in files : f.rank < 2} ELSE files))
    /\ taken' = [taken EXCEPT ![b] = Nothing]
    /\ UNCHANGED <<landed, made>> /\ UNCHANGED reader

(* ---- The reader ---- *)
Begin ==
    /\ phase \in {"idle", "done"} /\ reads < ReadsMax
    /\ phase' = "list" /\ cursor' = 0 /\ listed' = {} /\ got' = {}
    /\ must' = landed /\ snapshot' = got /\ reads' = reads + 1
    /\ UNCHANGED <<files, landed, taken, made, permits>>

Page ==
    /\ phase = "list"
    /\ LET rest == {f \in files : Position(f) > cursor}
           page == {f \in rest : Cardinality({g \in rest : Position(g) < Position(f)}) < PageSize}
       IN /\ listed' = listed \union page
          /\ cursor' = IF page = {} THEN cursor
                       ELSE CHOOSE p \in {Position(f) : f \in page} : \A f \in page : Position(f) <= p
          /\ phase' = IF page = rest THEN "get" ELSE "list"
    /\ UNCHANGED <<files, landed, taken, made, permits, got, must, snapshot, reads>>

(* Only what no other listed bundle covers has to be loaded. *)
Covered(f) == \E g \in listed : g.rank > f.rank /\ g.rank >= 2 /\ f.holds \subseteq g.claims
Needed == {f \in listed : ~Covered(f)}

Get ==
    /\ phase = "get"
    /\ IF Needed \subseteq files \/ Bug = "skips what vanished"
       THEN /\ got' = UNION {IF Bug = "coverage believed" THEN f.claims ELSE f.holds : f \in Needed \intersect files}
            /\ phase' = "done" /\ cursor' = 0 /\ listed' = {}
       ELSE /\ phase' = "list" /\ cursor' = 0 /\ listed' = {} /\ got' = {}
    /\ UNCHANGED <<files, landed, taken, made, permits, must, snapshot, reads>>

(* Nothing that happens after the last read can be observed. *)
Next == ~(phase = "done" /\ reads = ReadsMax) /\
    \/ \E v \in Versions : Land(v)
    \/ \E b \in Bundlers : PutBundle(b) \/ \E some \in SUBSET files : Take(b, some)
    \/ \E f \in files : Delete(f)
    \/ Begin \/ Page \/ Get

Spec == Init /\ [][Next]_vars

(* ---- What must hold ---- *)
AcknowledgedReadable == phase = "done" => must \subseteq got
AcknowledgedStored == \A v \in landed : \E f \in files : v \in f.holds
SnapshotStable == phase = "done" => snapshot \subseteq got
NothingInvented == got \subseteq landed

(* ---- Probes: each must be reachable, that is, its negation must fail ---- *)
ProbeReadFromBundlesOnly ==
    ~(phase = "done" /\ must = Versions /\ got = Versions /\ \A f \in files : f.rank >= 2)
ProbeVanishedBetweenListAndGet == ~(phase = "get" /\ must # {} /\ ~(Needed \subseteq files))
ProbeHighestRankStandsAlone ==
    ~(landed = Versions /\ \E f \in files : f.rank = RankMax /\ files = {f} /\ f.holds = Versions)
=============================================================================

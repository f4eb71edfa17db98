------------------------------- MODULE Marks -------------------------------
(* The transaction mark: readers of tables that take part in no transaction need not list transactions/.

   Before a writer PUTs a transaction it PUTs a mark, a file that stays for ever, into the folder of each table
   the transaction touches, and waits for the answers. A reader lists the table's folder; if no mark is
   there, that one listing is all. If one is there, it lists transactions/ and then the folder again: a
   transaction may have moved from its file into a bundle since the first listing. A reader that knows of the
   mark from before begins with transactions/: from a listing, or because it asked for the mark by its name,
   at any time before it lists the folder. That there was none tells it nothing.

   The first listing of a folder takes two pages, the mark's and the bundles'; MarkFirst says which name sorts
   first. Later listings are one step (module Log pages them). A PUT may land late, again, and after
   its writer died; whatever landed counts as acknowledged. A writer that knows a mark is there does not PUT
   it again, so `known` never shrinks.

   Several tables are read one after the other, and again until each transaction is in all of them or none. *)

EXTENDS Naturals

CONSTANTS Names, TableCount, ReadsMax, MarkFirst, Bug

VARIABLES
    marks, known,      \* tables with a mark; tables whose mark some writer knows to be stored
    files, covered,    \* transactions/; per table, what its bundles cover
    landed, finished,  \* transactions ever stored; those whose writer had its last answer
    asked, left,       \* tables of this read; those still to be listed in this pass
    step, marked,      \* where in its first table the reader is; whether it saw that table's mark
    seen, remembered,  \* per table what this pass found; tables the reader knows to be marked
    must, before, reads

vars == <<marks, known, files, covered, landed, finished, asked, left, step, marked, seen, remembered,
          must, before, reads>>
store == <<marks, known, files, covered, landed, finished>>
reader == <<asked, left, step, marked, seen, remembered, must, before, reads>>

Tables == 1..TableCount
Empty == [t \in Tables |-> {}]
ASSUME Bug \in {"none", "mark after", "mark after, then acknowledged", "mark not awaited", "folder listed once",
                "mark collected", "decided once", "mark believed"}

Init ==
    /\ marks = {} /\ known = {} /\ files = {} /\ covered = Empty /\ landed = {} /\ finished = {}
    /\ asked = {} /\ left = {} /\ step = "idle" /\ marked = FALSE /\ seen = Empty /\ remembered = {}
    /\ must = {} /\ before = {} /\ reads = 0

(* ---- Writers ---- *)
MarksAfter == Bug \in {"mark after", "mark after, then acknowledged"}

PutMark(t) ==
    /\ t \notin marks /\ t \notin known
    /\ MarksAfter => landed # {}
    /\ marks' = marks \union {t}
    /\ UNCHANGED <<known, files, covered, landed, finished>> /\ UNCHANGED reader

MarkAnswered(t) ==
    /\ t \in marks \ known
    /\ known' = known \union {t}
    /\ UNCHANGED <<marks, files, covered, landed, finished>> /\ UNCHANGED reader

Land(n) ==
    /\ n \notin files
    /\ MarksAfter \/ Bug = "mark not awaited" \/ known = Tables
    /\ files' = files \union {n} /\ landed' = landed \union {n}
    /\ UNCHANGED <<marks, known, covered, finished>> /\ UNCHANGED reader

(* Only one mistake needs to tell a writer's last answer from its transaction's PUT. *)
Finish(n) ==
    /\ Bug = "mark after, then acknowledged" /\ n \in landed \ finished /\ known = Tables
    /\ finished' = finished \union {n}
    /\ UNCHANGED <<marks, known, files, covered, landed>> /\ UNCHANGED reader

Acknowledged == IF Bug = "mark after, then acknowledged" THEN finished ELSE landed

(* ---- Upkeep: bundles of each table, then the file ---- *)
Bundle(t, n) ==
    /\ n \in files /\ n \notin covered[t]
    /\ covered' = [covered EXCEPT ![t] = @ \union {n}]
    /\ UNCHANGED <<marks, known, files, landed, finished>> /\ UNCHANGED reader

Collect(n) ==
    /\ n \in files /\ \A t \in Tables : n \in covered[t]
    /\ files' = files \ {n}
    /\ UNCHANGED <<marks, known, covered, landed, finished>> /\ UNCHANGED reader

CollectMark(t) ==
    /\ Bug = "mark collected" /\ files = {} /\ t \in marks
    /\ marks' = marks \ {t}
    /\ UNCHANGED <<known, files, covered, landed, finished>> /\ UNCHANGED reader

(* ---- The reader: "one" and "two" are the pages of its first listing ---- *)
Now == CHOOSE t \in left : \A u \in left : t <= u
First(rest) ==
    IF rest = {} THEN "decide"
    ELSE IF (CHOOSE t \in rest : \A u \in rest : t <= u) \in remembered THEN "transactions" ELSE "one"

Begin(some) ==
    /\ step \in {"idle", "done"} /\ reads < ReadsMax /\ some # {}
    /\ asked' = some /\ left' = some /\ step' = First(some) /\ marked' = FALSE /\ seen' = Empty
    /\ must' = Acknowledged /\ before' = UNION {seen[t] : t \in asked} /\ reads' = reads + 1
    /\ UNCHANGED remembered /\ UNCHANGED store

Ask(t) ==
    /\ step \in {"idle", "done", "one"} /\ t \in marks \ remembered
    /\ remembered' = remembered \union {t}
    /\ step' = IF step = "one" /\ t = Now THEN "transactions" ELSE step
    /\ UNCHANGED <<asked, left, marked, seen, must, before, reads>> /\ UNCHANGED store

Page ==
    /\ step \in {"one", "two"}
    /\ LET mark_page == (step = "one") = MarkFirst
           found == marked \/ (mark_page /\ Now \in marks)
       IN /\ marked' = found
          /\ seen' = IF mark_page THEN (IF found /\ Bug = "mark believed" THEN [seen EXCEPT ![Now] = Names] ELSE seen)
                     ELSE [seen EXCEPT ![Now] = @ \union covered[Now]]
          /\ remembered' = IF found THEN remembered \union {Now} ELSE remembered
          /\ IF step = "one" THEN step' = "two" /\ left' = left
             ELSE IF found THEN step' = "transactions" /\ left' = left
             ELSE step' = First(left \ {Now}) /\ left' = left \ {Now}
    /\ UNCHANGED <<asked, must, before, reads>> /\ UNCHANGED store

Transactions ==
    /\ step = "transactions"
    /\ seen' = [seen EXCEPT ![Now] = @ \union files]
    /\ IF Bug = "folder listed once" /\ marked
       THEN step' = First(left \ {Now}) /\ left' = left \ {Now} /\ marked' = FALSE
       ELSE step' = "folder" /\ UNCHANGED <<left, marked>>
    /\ UNCHANGED <<asked, remembered, must, before, reads>> /\ UNCHANGED store

Folder ==
    /\ step = "folder"
    /\ seen' = [seen EXCEPT ![Now] = @ \union covered[Now]]
    /\ step' = First(left \ {Now}) /\ left' = left \ {Now} /\ marked' = FALSE
    /\ UNCHANGED <<asked, remembered, must, before, reads>> /\ UNCHANGED store

Whole == \A t, u \in asked : seen[t] = seen[u]

Decide ==
    /\ step = "decide"
    /\ IF Whole \/ Bug = "decided once" THEN step' = "done" /\ UNCHANGED <<left, seen>>
       ELSE step' = First(asked) /\ left' = asked /\ seen' = Empty
    /\ UNCHANGED <<asked, marked, remembered, must, before, reads>> /\ UNCHANGED store

Next == ~(step = "done" /\ reads = ReadsMax) /\
    \/ \E t \in Tables : PutMark(t) \/ MarkAnswered(t) \/ CollectMark(t) \/ Ask(t)
    \/ \E n \in Names : Land(n) \/ Finish(n) \/ Collect(n) \/ \E t \in Tables : Bundle(t, n)
    \/ \E some \in SUBSET Tables : Begin(some)
    \/ Page \/ Transactions \/ Folder \/ Decide

Spec == Init /\ [][Next]_vars

(* ---- What must hold ---- *)
AcknowledgedReadable == step = "done" => \A t \in asked : must \subseteq seen[t]
(* What one read returned, a later one returns, of whatever table. *)
ReadStaysRead == step = "done" => \A t \in asked : before \subseteq seen[t]
NothingHalfVisible == step = "done" => Whole
NothingInvented == \A t \in Tables : seen[t] \subseteq landed

(* ---- Probes ---- *)
ProbeUnmarkedTablesSkip == ~(step = "done" /\ remembered = {})
ProbeReadFromBundles == ~(step = "done" /\ must = Names /\ files = {} /\ asked = Tables)
ProbeMovedBetweenListings ==
    ~(step = "folder" /\ marked /\ \E n \in must : n \notin files /\ n \notin seen[Now])
ProbeListedAgain == ~(step = "decide" /\ ~Whole)
ProbeBeganWithTransactions == ~(step = "done" /\ reads = 2 /\ before = Names /\ must = Names /\ files = {})
=============================================================================

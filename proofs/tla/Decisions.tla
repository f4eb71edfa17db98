------------------------------ MODULE Decisions ------------------------------
(* Transactions over several CAS tables: prepared versions, one decision, and its copies in the bundles.

   A transaction claims each of its tables in turn with a prepared version, then creates its decision, once.
   Its lease may run out at any time: then anybody may create "aborted" (nothing here depends on a clock, but for
   the grace period below). Nobody claims above an undecided version; readers stop below the lowest one, and take
   table after table.

   Each table's bundles take copies of decisions. One to commit goes when every table has a copy; one to abort stays,
   because its transaction may still be claiming, and would commit what was aborted. Unless the transaction made it
   itself: it gave up, knows all claims that it made, and will never commit. Once one is gone somebody
   who slept may create it again, with the other word. So whoever looks asks the bundles first, and an object goes
   only when every pass that began before the last copy is over: passes that take longer than half the grace period
   are thrown away (AgeBundler, AgeReader), and a writer that took that long to ask what became of its decision
   reports nothing (AgeCheck). Claims themselves are module Claims; here a table is a sequence, and a claim adds to its end.

   Plain commits touch one table and need no decision. *)

EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Transactions, Plain, TableCount, ReadsMax, Bug,
    Expiring,  \* transactions whose lease may run out
    Slow       \* whether there is a bundler that takes its time

VARIABLES
    log,       \* per table: transactions and plain commits in the order of their claims
    saw,       \* per table and claim: what was committed below it when it was made
    object,    \* per transaction its decision object: None, "committed", "aborted"
    copies,    \* per table and transaction what its bundles say
    first,     \* per transaction the first decision ever made
    at,        \* per transaction: "claims", then "decides", "checks", then "ok", "failed" or "unknown"; or "gave up"
    creator,   \* per transaction: somebody else who is about to create "aborted": idle, sleeps, done
    bundler,   \* <<table, transaction, what it read>>, or <<>>: a decision on its way into a bundle
    table, listed, result, before, must, reads,   \* the reader
    knew       \* decisions that had all their copies when the pass of the reader, or bundler, began

vars == <<log, saw, object, copies, first, at, creator, bundler, table, listed, result, before,
          must, reads, knew>>
reader == <<table, listed, result, before, must, reads>>
store == <<log, saw, object, copies, first>>

None == "none"
Tables == 1..TableCount
Idle == 0
Done == TableCount + 1
ASSUME Bug \in {"none", "decision collected early", "aborted collected", "asked late", "claims above undecided",
                "reads undecided", "reads above undecided", "keeps what others lack", "decision replaced",
                "decides before all claims", "no grace", "given up in doubt"}

Init ==
    /\ log = [t \in Tables |-> <<>>] /\ saw = [t \in Tables |-> <<>>]
    /\ object = [x \in Transactions |-> None]
    /\ copies = [t \in Tables |-> [x \in Transactions |-> None]]
    /\ first = [x \in Transactions |-> None]
    /\ at = [x \in Transactions |-> "claims"] /\ creator = [x \in Transactions |-> "idle"] /\ bundler = <<>>
    /\ table = Idle /\ listed = <<>> /\ result = [t \in Tables |-> <<>>]
    /\ before = [t \in Tables |-> <<>>] /\ must = {} /\ reads = 0 /\ knew = [reader |-> {}, bundler |-> {}]

(* ---- What is known of a decision: the table's bundles first, then the object ---- *)
Known(t, x) == IF copies[t][x] # None THEN copies[t][x] ELSE object[x]
Entries(t) == {log[t][i] : i \in 1..Len(log[t])}
(* Who gave up waits for the tables that it claimed, and with the bug for those that it knows to have claimed. *)
Unclaimed(t, x) == at[x] = "gave up" /\ (x \notin Entries(t) \/ (Bug = "given up in doubt" /\ t > 1))
Settled == {x \in Transactions : \A t \in Tables : copies[t][x] # None \/ Unclaimed(t, x)}
Undecided(t) == {e \in Entries(t) \ Plain : Known(t, e) = None}
Stands(t, e) == e \in Plain \/ Known(t, e) = "committed"

(* ---- Claims ---- *)
MayClaim(t) == Undecided(t) = {} \/ Bug \in {"claims above undecided", "reads above undecided"}
Append1(t, e) ==
    /\ log' = [log EXCEPT ![t] = Append(@, e)]
    /\ saw' = [saw EXCEPT ![t] = Append(@, {f \in Entries(t) : Stands(t, f)})]

Prepare(x) ==
    /\ at[x] = "claims"
    /\ LET t == 1 + Cardinality({u \in Tables : x \in Entries(u)})
       IN /\ MayClaim(t) /\ Append1(t, x)
          /\ at' = IF t = TableCount \/ Bug = "decides before all claims" THEN [at EXCEPT ![x] = "decides"] ELSE at
    /\ UNCHANGED <<object, copies, first, creator, bundler, knew>> /\ UNCHANGED reader

Commit(p) ==
    /\ \E t \in Tables : p \notin UNION {Entries(u) : u \in Tables} /\ MayClaim(t) /\ Append1(t, p)
    /\ UNCHANGED <<object, copies, first, at, creator, bundler, knew>> /\ UNCHANGED reader

(* ---- Decisions ---- *)
Create(x, word) ==
    /\ object' = IF object[x] = None \/ Bug = "decision replaced" THEN [object EXCEPT ![x] = word] ELSE object
    /\ first' = IF first[x] = None THEN [first EXCEPT ![x] = word] ELSE first

Decide(x) ==
    /\ at[x] = "decides"
    /\ Create(x, "committed")
    /\ at' = [at EXCEPT ![x] = "checks"]
    /\ UNCHANGED <<log, saw, copies, creator, bundler, knew>> /\ UNCHANGED reader

(* It met a conflict before it had claimed all: it aborts itself, unless somebody was faster. *)
GiveUp(x) ==
    /\ at[x] = "claims" /\ \E t \in Tables : x \in Entries(t)
    /\ Create(x, "aborted")
    /\ at' = [at EXCEPT ![x] = IF object[x] = None THEN "gave up" ELSE "failed"]
    /\ UNCHANGED <<log, saw, copies, creator, bundler, knew>> /\ UNCHANGED reader

(* A claim whose creation had no clear answer when it gave up. *)
Straggle(x) ==
    /\ Bug = "given up in doubt" /\ at[x] = "gave up"
    /\ LET t == 1 + Cardinality({u \in Tables : x \in Entries(u)})
       IN t \in Tables /\ MayClaim(t) /\ Append1(t, x)
    /\ UNCHANGED <<object, copies, first, at, creator, bundler, knew>> /\ UNCHANGED reader

(* The answer of its creation was lost, or somebody was faster: it looks. What is gone was to commit: the other stays. *)
Check(x) ==
    /\ at[x] = "checks"
    /\ at' = [at EXCEPT ![x] = IF object[x] = "aborted" THEN "failed" ELSE "ok"]
    /\ UNCHANGED <<creator, bundler, knew>> /\ UNCHANGED store /\ UNCHANGED reader

AgeCheck(x) ==
    /\ at[x] = "checks" /\ at' = [at EXCEPT ![x] = "unknown"]
    /\ UNCHANGED <<creator, bundler, knew>> /\ UNCHANGED store /\ UNCHANGED reader

(* Somebody met an undecided version whose lease ran out; between looking and creating it may sleep. *)
Meet(x) ==
    /\ x \in Expiring /\ creator[x] = "idle" /\ \E t \in Tables : x \in Undecided(t)
    /\ creator' = [creator EXCEPT ![x] = "sleeps"]
    /\ UNCHANGED <<at, bundler, knew>> /\ UNCHANGED store /\ UNCHANGED reader

Abort(x) ==
    /\ creator[x] = "sleeps"
    /\ Create(x, "aborted")
    /\ creator' = [creator EXCEPT ![x] = "done"]
    /\ UNCHANGED <<log, saw, copies, at, bundler, knew>> /\ UNCHANGED reader

(* ---- Upkeep. One bundler looks at the bundles, then at the object, then writes; others do it at once ---- *)
LookAtBundle(t, x) ==
    /\ Slow /\ bundler = <<>> /\ x \in Entries(t) /\ copies[t][x] = None
    /\ bundler' = <<t, x, None>>
    /\ knew' = [knew EXCEPT !.bundler = Settled]
    /\ UNCHANGED <<at, creator>> /\ UNCHANGED store /\ UNCHANGED reader

LookAtObject ==
    /\ bundler # <<>> /\ bundler[3] = None /\ object[bundler[2]] # None
    /\ bundler' = <<bundler[1], bundler[2], object[bundler[2]]>>
    /\ UNCHANGED <<at, creator, knew>> /\ UNCHANGED store /\ UNCHANGED reader

(* A bundle with another word than one before it is a fault that DecisionsUnique sees. *)
Copied(t, x, word) == [copies EXCEPT ![t][x] = IF @ \in {None, word} THEN word ELSE "both"]

Copy ==
    /\ bundler # <<>> /\ bundler[3] # None
    /\ copies' = Copied(bundler[1], bundler[2], bundler[3])
    /\ bundler' = <<>>
    /\ UNCHANGED <<log, saw, object, first, at, creator, knew>> /\ UNCHANGED reader

CopyAtOnce(t, x) ==
    /\ x \in Entries(t) /\ copies[t][x] = None /\ object[x] # None
    /\ copies' = Copied(t, x, object[x])
    /\ UNCHANGED <<log, saw, object, first, at, creator, bundler, knew>> /\ UNCHANGED reader

(* A bundler or reader that took longer than half a grace period begins again. *)
AgeBundler ==
    /\ bundler # <<>> /\ bundler' = <<>>
    /\ UNCHANGED <<at, creator, knew>> /\ UNCHANGED store /\ UNCHANGED reader

AgeReader ==
    /\ table \in Tables /\ table' = 1 /\ listed' = <<>> /\ result' = before
    /\ knew' = [knew EXCEPT !.reader = Settled]
    /\ UNCHANGED <<at, creator, bundler, before, must, reads>> /\ UNCHANGED store

NoOlderPass(x) ==
    /\ (table \in Tables => x \in knew.reader) /\ (bundler # <<>> => x \in knew.bundler)
    /\ at[x] # "checks" \/ Bug = "asked late"

CollectObject(x) ==
    /\ object[x] = "committed" \/ (object[x] = "aborted" /\ (at[x] = "gave up" \/ Bug = "aborted collected"))
    /\ IF Bug \in {"decision collected early", "aborted collected"} THEN \E t \in Tables : copies[t][x] # None
       ELSE x \in Settled
    /\ Bug = "no grace" \/ NoOlderPass(x)
    /\ object' = [object EXCEPT ![x] = None]
    /\ UNCHANGED <<log, saw, copies, first, at, creator, bundler, knew>> /\ UNCHANGED reader

(* ---- The reader: per table it lists, then asks for the decisions that its bundles lack ---- *)
Begin ==
    /\ table \in {Idle, Done} /\ reads < ReadsMax
    /\ table' = 1 /\ reads' = reads + 1 /\ before' = result
    /\ must' = {x \in Transactions : at[x] = "ok"}
    /\ knew' = [knew EXCEPT !.reader = Settled]
    /\ UNCHANGED <<at, creator, bundler, listed, result>> /\ UNCHANGED store

List ==
    /\ table \in Tables /\ listed = <<>>
    /\ listed' = <<log[table], copies[table]>>
    /\ UNCHANGED <<at, creator, bundler, table, result, before, must, reads, knew>> /\ UNCHANGED store

Told(x) == IF listed[2][x] # None THEN listed[2][x] ELSE object[x]
Shown ==
    LET entries == listed[1]
        open == {i \in 1..Len(entries) : entries[i] \notin Plain /\ Told(entries[i]) = None}
        below == IF open = {} \/ Bug \in {"reads undecided", "reads above undecided"} THEN entries
                 ELSE SubSeq(entries, 1, (CHOOSE i \in open : \A j \in open : i <= j) - 1)
        stands(e) == Told(e) = "committed" \/ (Bug = "reads undecided" /\ Told(e) = None)
    IN SelectSeq(below, LAMBDA e : e \in Plain \/ stands(e))

In(sequence) == {sequence[i] : i \in 1..Len(sequence)}
Whole(view) == \A t, u \in Tables : In(view[t]) \ Plain = In(view[u]) \ Plain

(* A file was gone when it was fetched: the table is listed again. *)
Vanished ==
    /\ table \in Tables /\ listed # <<>> /\ listed' = <<>>
    /\ UNCHANGED <<at, creator, bundler, table, result, before, must, reads, knew>> /\ UNCHANGED store

(* A transaction that a table before was read without is left out, with all that is above it. One that a table before
   has is here; else the table is listed again. *)
Before == 1..(table - 1)
Due == UNION {In(result[u]) \ Plain : u \in Before}
Lacking(view) == {i \in 1..Len(view) : view[i] \notin Plain /\ \E u \in Before : view[i] \notin In(result[u])}
Kept(view) ==
    IF Lacking(view) = {} \/ Bug = "keeps what others lack" THEN view
    ELSE SubSeq(view, 1, (CHOOSE i \in Lacking(view) : \A j \in Lacking(view) : i <= j) - 1)

Resolve ==
    /\ table \in Tables /\ listed # <<>>
    /\ IF Due \subseteq In(Shown) THEN result' = [result EXCEPT ![table] = Kept(Shown)] /\ table' = table + 1
       ELSE UNCHANGED <<result, table>>
    /\ listed' = <<>>
    /\ UNCHANGED <<at, creator, bundler, before, must, reads, knew>> /\ UNCHANGED store

Next == ~(table = Done /\ reads = ReadsMax) /\
    \/ \E x \in Transactions :
        \/ Prepare(x) \/ GiveUp(x) \/ Straggle(x) \/ Decide(x) \/ Check(x) \/ AgeCheck(x) \/ Meet(x) \/ Abort(x) \/ CollectObject(x)
        \/ \E t \in Tables : LookAtBundle(t, x) \/ CopyAtOnce(t, x)
    \/ \E p \in Plain : Commit(p)
    \/ LookAtObject \/ Copy \/ AgeBundler \/ AgeReader
    \/ Begin \/ List \/ Vanished \/ Resolve

Spec == Init /\ [][Next]_vars

(* ---- What must hold ---- *)
DecisionsUnique == \A t \in Tables, x \in Transactions : copies[t][x] \in {None, first[x]}
ReportedTrue == \A x \in Transactions :
    (at[x] = "ok" => first[x] = "committed") /\ (at[x] \in {"failed", "gave up"} => first[x] = "aborted")
AcknowledgedStored == \A x \in Transactions : at[x] = "ok" => \A t \in Tables : x \in Entries(t)
AcknowledgedReadable == table = Done => \A t \in Tables : must \subseteq In(result[t])
NothingHalfVisible == table = Done => Whole(result)
SnapshotStable == table = Done => \A t \in Tables :
    Len(before[t]) <= Len(result[t]) /\ SubSeq(result[t], 1, Len(before[t])) = before[t]
(* Every claim that stands had seen every one below it that stands. *)
Final(e) == e \in Plain \/ first[e] = "committed"
Serial == \A t \in Tables : \A j \in 1..Len(log[t]) : \A i \in 1..(j - 1) :
    Final(log[t][i]) /\ Final(log[t][j]) => log[t][i] \in saw[t][j]

(* What a table before has need not be waited for. *)
NothingToWaitFor == table \in Tables /\ listed # <<>> => Due \subseteq In(Shown)

(* ---- Probes ---- *)
ProbeCommitted == ~(table = Done /\ must = Transactions /\ \A x \in Transactions : object[x] = None)
ProbeCreatedAgain == ~(\E x \in Settled : object[x] \notin {None, first[x]})
ProbeUnknown == ~(\E x \in Transactions : at[x] = "unknown" /\ first[x] = "committed" /\ object[x] = "aborted")
ProbeBothRead == ~(table = Done /\ \A x \in Transactions : at[x] = "ok" /\ \A t \in Tables : x \in In(result[t]))
ProbeAborted == ~(\E x \in Transactions : at[x] = "failed")
ProbeLeftOut == ~(table = TableCount /\ listed # <<>> /\ Lacking(Shown) # {})
ProbeGivenUp == ~(\E x \in Settled : at[x] = "gave up" /\ object[x] = None)
=============================================================================

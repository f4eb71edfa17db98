------------------------------- MODULE Claims -------------------------------
(* Commits of one CAS table: claims of the next number by exclusive creation, and what collection does to them.

   A claim is a file named by its number and created only if absent. Bundles carry what they cover, up to a
   boundary; below it the bundle says who has a number, above it the file does. A collector may delete covered
   claims, in any order, and then the *name* is free again: a PUT that comes late creates a ghost, a file below
   the boundary that means nothing. Everything here is about not taking ghosts for commits.

   Time is one flag. A claimer is fresh for half a grace period after it saw its base as the head. What was
   claimed after that cannot have been bundled and collected while it is fresh (the guard of Collect), and it
   may turn stale between any two of its steps (Age). A stale one asks the listing, not the files:
     created, stale: it stands if its number is above the boundary or the bundle has it there; else void,
                     and it starts again from the head it listed;
     exists, stale:  it lists before it compares or walks on. Walking by files would read ghosts.
   A claim may carry the files of those right below it. Its author compared with them while it was fresh, when
   they were where they belong; so to a fresh claimer they tell what their own files do, and a stale one asks
   the listing all the same. Here they are not told apart from these.
   From the hint a claimer is stale from the beginning.

   PUTs land late, again, and after their writer gave up (Late); answers are lost (the same PUT is
   repeated); a claimer may stop for ever anywhere, which is also how CommitUnknown ends. Listings are one step, except
   the reader's, which lists claims and then bundles; modules Log and Transactions look into those.

   Overlaps: pairs of commits that touch the same rows. Blind commits start from the hint. Lost: whether PUTs
   go unanswered. *)

EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Commits, Blind, Overlaps, Alike, NumberMax, ReadsMax, Lost, Bug

VARIABLES
    claims,    \* per number the commit whose file is there, or None
    bundled,   \* per number the commit that the bundles have there, or None: a prefix
    stored,    \* commits whose content is in the store; a claim carries it, but for one mistake
    phase,     \* per commit: idle, put, created, exists, ok, conflict
    origin,    \* per commit: the head that its rows were made from
    parent,    \* per commit: the last number it has read or compared itself with
    base,      \* per commit: the number it saw as the head, on which its freshness rests
    try,       \* per commit: the number it asks for
    fresh,     \* per commit: whether the collectors are held to its base
    trusting,  \* per commit: whether it believes so
    sent,      \* <<commit, number>> of PUTs without an answer that may still land
    winners,   \* per number the commits that were told it is theirs
    step, listed, result, before, must, reads   \* the reader

vars == <<claims, bundled, stored, phase, origin, parent, base, try, fresh, trusting, sent,
          winners, step, listed, result, before, must, reads>>
reader == <<step, listed, result, before, must, reads>>
claimer == <<phase, origin, parent, base, try, fresh, trusting, sent, winners>>

None == "none"
Symmetry == Permutations(Alike)   \* commits that no constant tells apart
Numbers == 1..NumberMax
Nowhere == [n \in Numbers |-> None]
ASSUME Bug \in {"none", "numbers reused", "no grace", "existence is fresh", "walks by files",
                "own ghost trusted", "conflict with itself", "only newest compared", "next on no answer",
                "plain put", "files before bundles", "pointer before manifest"}

Init ==
    /\ claims = Nowhere /\ bundled = Nowhere /\ stored = {}
    /\ phase = [c \in Commits |-> "idle"]
    /\ origin = [c \in Commits |-> 0] /\ parent = [c \in Commits |-> 0]
    /\ base = [c \in Commits |-> 0] /\ try = [c \in Commits |-> 0]
    /\ fresh = [c \in Commits |-> FALSE] /\ trusting = [c \in Commits |-> FALSE]
    /\ sent = {} /\ winners = [n \in Numbers |-> {}]
    /\ step = "idle" /\ listed = Nowhere /\ result = Nowhere /\ before = Nowhere /\ must = {} /\ reads = 0

(* ---- What the table is ---- *)
Boundary(b) == Cardinality({n \in Numbers : b[n] # None})
Merged(files, b) ==
    [n \in Numbers |-> IF Bug = "files before bundles" /\ files[n] # None THEN files[n]
                       ELSE IF b[n] # None THEN b[n] ELSE files[n]]
History == Merged(claims, bundled)
Head == Boundary(History)
In(history) == {history[n] : n \in Numbers} \ {None}
Overlap(c, d) == {c, d} \in Overlaps
Overlapping(c, low, high) == \E n \in (low + 1)..high : History[n] # c /\ Overlap(c, History[n])

(* ---- Upkeep ---- *)
Bundle(k) ==
    /\ k > Boundary(bundled) /\ k <= Head
    /\ bundled' = [n \in Numbers |-> IF n <= k THEN History[n] ELSE None]
    /\ UNCHANGED <<claims, stored>> /\ UNCHANGED claimer /\ UNCHANGED reader

Collect(n) ==
    /\ claims[n] # None /\ bundled[n] # None
    /\ Bug = "no grace" \/ \A c \in Commits : fresh[c] => n <= base[c]
    /\ claims' = [claims EXCEPT ![n] = None]
    /\ UNCHANGED <<bundled, stored>> /\ UNCHANGED claimer /\ UNCHANGED reader

(* ---- Claimers ---- *)
Go(c, p, b, n, is_fresh) ==
    /\ n <= NumberMax
    /\ phase' = [phase EXCEPT ![c] = "put"] /\ parent' = [parent EXCEPT ![c] = p]
    /\ base' = [base EXCEPT ![c] = b] /\ try' = [try EXCEPT ![c] = n]
    /\ fresh' = [fresh EXCEPT ![c] = is_fresh] /\ trusting' = [trusting EXCEPT ![c] = is_fresh]

(* Only those that can overlap need it. *)
From(c, n) == origin' = [origin EXCEPT ![c] = IF \E d \in Commits : Overlap(c, d) THEN n ELSE 0]

Start(c) ==
    /\ phase[c] = "idle" /\ c \notin Blind
    /\ Go(c, Head, Head, Head + 1, TRUE) /\ From(c, Head)
    /\ UNCHANGED <<claims, bundled, stored, sent, winners>> /\ UNCHANGED reader

(* The hint and probing forward end at some number that is not there; what was read before is nothing. *)
StartFromHint(c, n) ==
    /\ phase[c] = "idle" /\ c \in Blind /\ claims[n] = None /\ n <= Head + 1
    /\ Go(c, n - 1, n - 1, n, FALSE) /\ From(c, n - 1)
    /\ UNCHANGED <<claims, bundled, stored, sent, winners>> /\ UNCHANGED reader

Age(c) ==
    /\ fresh[c]
    /\ fresh' = [fresh EXCEPT ![c] = FALSE]
    /\ trusting' = [trusting EXCEPT ![c] = FALSE]
    /\ UNCHANGED <<claims, bundled, stored, phase, origin, parent, base, try, sent, winners>> /\ UNCHANGED reader

Landed(c, n) ==
    /\ claims' = [claims EXCEPT ![n] = c]
    /\ stored' = IF Bug = "pointer before manifest" THEN stored ELSE stored \union {c}

PutAnswered(c) ==
    /\ phase[c] = "put"
    /\ IF claims[try[c]] = None \/ Bug = "plain put"
       THEN Landed(c, try[c]) /\ phase' = [phase EXCEPT ![c] = "created"]
       ELSE UNCHANGED <<claims, stored>> /\ phase' = [phase EXCEPT ![c] = "exists"]
    /\ UNCHANGED <<bundled, origin, parent, base, try, fresh, trusting, sent, winners>> /\ UNCHANGED reader

(* One such PUT at a time keeps the search small; one that sleeps before its PUT is as late as any. *)
PutUnanswered(c) ==
    /\ Lost /\ phase[c] = "put" /\ sent = {}
    /\ sent' = sent \union {<<c, try[c]>>}
    /\ UNCHANGED <<claims, bundled, stored, phase, origin, parent, base, try, fresh, trusting, winners>>
    /\ UNCHANGED reader

Late(c, n) ==
    /\ <<c, n>> \in sent /\ claims[n] = None
    /\ Landed(c, n)
    /\ sent' = sent \ {<<c, n>>}
    /\ UNCHANGED <<bundled, phase, origin, parent, base, try, fresh, trusting, winners>> /\ UNCHANGED reader

PutManifest(c) ==
    /\ Bug = "pointer before manifest" /\ c \notin stored /\ c \in In(claims)
    /\ stored' = stored \union {c}
    /\ UNCHANGED <<claims, bundled>> /\ UNCHANGED claimer /\ UNCHANGED reader

End(c, what, n) ==
    /\ phase' = [phase EXCEPT ![c] = what]
    /\ winners' = IF what = "ok" THEN [winners EXCEPT ![n] = @ \union {c}] ELSE winners
    /\ fresh' = [fresh EXCEPT ![c] = FALSE] /\ trusting' = [trusting EXCEPT ![c] = FALSE]
    /\ base' = [base EXCEPT ![c] = 0] /\ try' = [try EXCEPT ![c] = 0] /\ parent' = [parent EXCEPT ![c] = 0]

(* One mistake: no answer, so on to the next number. Otherwise a claimer repeats its PUT or stops here. *)
MoveOn(c) ==
    /\ Bug = "next on no answer" /\ phase[c] = "put" /\ <<c, try[c]>> \in sent
    /\ Go(c, parent[c], base[c], try[c] + 1, fresh[c])
    /\ UNCHANGED <<claims, bundled, stored, origin, sent, winners>> /\ UNCHANGED reader

(* From a listing: found, in conflict with what came since its parent, or on to the number after the head. *)
FromListing(c) ==
    IF c \in In(History) THEN End(c, "ok", CHOOSE n \in Numbers : History[n] = c)
    ELSE IF Overlapping(c, parent[c], Head) THEN End(c, "conflict", 0)
    ELSE Go(c, Head, Head, Head + 1, TRUE) /\ UNCHANGED winners

Created(c) ==
    /\ phase[c] = "created"
    /\ IF trusting[c] \/ Bug = "numbers reused" \/ try[c] > Boundary(bundled)
       THEN End(c, "ok", try[c]) ELSE FromListing(c)
    /\ UNCHANGED <<claims, bundled, stored, origin, sent>> /\ UNCHANGED reader

(* By files: the one that was there is read; it may be gone by now, which is a matter for the listing. *)
Walks(c) == trusting[c] \/ Bug \in {"walks by files", "existence is fresh"}
OnFile(c, there) ==
    IF there = c /\ Bug # "conflict with itself" THEN End(c, "ok", try[c])
    ELSE IF (Overlap(c, there) \/ there = c) /\ (Bug # "only newest compared" \/ Head = try[c])
         THEN End(c, "conflict", 0)
    ELSE /\ try[c] + 1 <= NumberMax
         /\ phase' = [phase EXCEPT ![c] = "put"] /\ parent' = [parent EXCEPT ![c] = try[c]]
         /\ try' = [try EXCEPT ![c] = @ + 1]
         /\ trusting' = [trusting EXCEPT ![c] = @ \/ Bug = "existence is fresh"]
         /\ UNCHANGED <<base, fresh, winners>>

Exists(c) ==
    /\ phase[c] = "exists"
    /\ IF claims[try[c]] # None /\ (Walks(c) \/ (Bug = "own ghost trusted" /\ claims[try[c]] = c))
       THEN OnFile(c, claims[try[c]])
       ELSE FromListing(c)
    /\ UNCHANGED <<claims, bundled, stored, origin, sent>> /\ UNCHANGED reader

(* ---- The reader ---- *)
Begin ==
    /\ step \in {"idle", "done"} /\ reads < ReadsMax
    /\ step' = "bundles" /\ listed' = claims /\ before' = result /\ reads' = reads + 1
    /\ must' = {c \in Commits : phase[c] = "ok"}
    /\ UNCHANGED <<claims, bundled, stored, result>> /\ UNCHANGED claimer

ListBundles ==
    /\ step = "bundles" /\ step' = "done"
    /\ result' = Merged(listed, bundled) /\ listed' = Nowhere
    /\ UNCHANGED <<claims, bundled, stored, before, must, reads>> /\ UNCHANGED claimer

Next == ~(step = "done" /\ reads = ReadsMax) /\
    \/ \E k \in Numbers : Bundle(k) \/ Collect(k)
    \/ \E c \in Commits :
        \/ Start(c) \/ Age(c) \/ PutAnswered(c) \/ PutUnanswered(c) \/ PutManifest(c) \/ MoveOn(c)
        \/ Created(c) \/ Exists(c)
        \/ \E n \in Numbers : StartFromHint(c, n) \/ Late(c, n)
    \/ Begin \/ ListBundles

Spec == Init /\ [][Next]_vars

(* ---- What must hold ---- *)
AcknowledgedReadable == step = "done" => must \subseteq In(result)
AcknowledgedStored == \A c \in Commits : phase[c] = "ok" => c \in In(History)
OneWinnerPerNumber == \A n \in Numbers : Cardinality(winners[n]) <= 1
OneNumberPerCommit == \A n, m \in Numbers : n # m /\ History[n] # None => History[n] # History[m]
ConflictMeansNothing == \A c \in Commits : phase[c] = "conflict" => c \notin In(History)
SnapshotStable == step = "done" => \A n \in Numbers : before[n] # None => result[n] = before[n]
NoGaps == \A n \in Numbers : n > 1 /\ History[n] # None => History[n - 1] # None
NothingHalfVisible == step = "done" => In(result) \subseteq stored
(* Nothing that overlaps a commit came between the head it was made from and its number. *)
Serial == \A c \in Commits, n \in Numbers :
    History[n] = c => \A m \in (origin[c] + 1)..(n - 1) : ~Overlap(c, History[m])

(* ---- Probes ---- *)
Ghost(n) == claims[n] # None /\ bundled[n] # None /\ claims[n] # bundled[n]
ProbeAllCommitted == ~(step = "done" /\ must = Commits /\ claims = Nowhere)
ProbeVoidThenCommitted ==
    ~(\E c \in Commits : phase[c] = "ok" /\ \E n \in Numbers : Ghost(n) /\ claims[n] = c)
ProbeLostAnswerFound == ~(\E c \in Commits : phase[c] = "exists" /\ claims[try[c]] = c)
ProbeRebased == ~(\E c \in Commits : phase[c] = "exists" /\ parent[c] = try[c] - 1 /\ base[c] < parent[c])
ProbeConflict == ~(\E c \in Commits : phase[c] = "conflict")
ProbeFoundInBundle ==
    ~(\E c \in Commits : phase[c] = "created" /\ ~fresh[c] /\ bundled[try[c]] = c)
=============================================================================

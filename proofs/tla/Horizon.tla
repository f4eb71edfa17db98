------------------------------ MODULE Horizon ------------------------------
(* Expiry against writers that sleep: no acknowledged version may be declared dead.

   A version's id is the time its writer began. An expirer PUTs a proposed horizon, then lists, then writes a
   base that admits what it found below the horizon. A version below the greatest horizon is dead unless some
   base admits it.

   A proposed horizon is at least Delay in the past, so a writer that took no longer than Delay (by a clock
   that counts suspension) may be told so at once. A slower one reads the proposals after its PUT. Below one,
   the outcome is unknown until a base admits its version; it is never reported as failed.

   Several expirers race. A base that another does not cover stays, so admissions add up. (In the library each is
   made from the one before, and of two at once one is stored; the other lists again.) Whoever finds nothing to fold
   takes its proposal back; whoever has stored a base deletes proposals of lower horizons, and leaves its own. *)

EXTENDS Naturals, FiniteSets

CONSTANTS Writers, Expirers, Delay, NowMax, Bug

VARIABLES now, id, stored, outcome, proposals, expirer, bases

vars == <<now, id, stored, outcome, proposals, expirer, bases>>
ASSUME Bug \in {"none", "reads the horizon only", "lists before proposing", "horizon too young",
                "greatest base rules", "slow writer does not look", "withdraws what it folded"}

None == 0
Idle == [phase |-> "idle", horizon |-> 0, found |-> {}]
HorizonOf(some) == IF some = {} THEN 0
                   ELSE CHOOSE h \in {b.horizon : b \in some} : \A b \in some : b.horizon <= h
Admitted ==
    IF Bug = "greatest base rules" THEN UNION {b.admits : b \in {c \in bases : c.horizon = HorizonOf(bases)}}
    ELSE UNION {b.admits : b \in bases}
Below(w, h) == id[w] < h

Init ==
    /\ now = 1 /\ id = [w \in Writers |-> None] /\ stored = {} /\ outcome = [w \in Writers |-> "pending"]
    /\ proposals = {} /\ bases = {} /\ expirer = [e \in Expirers |-> Idle]

Tick == now < NowMax /\ now' = now + 1 /\ UNCHANGED <<id, stored, outcome, proposals, expirer, bases>>

(* ---- Writers ---- *)
Start(w) ==
    /\ id[w] = None /\ id' = [id EXCEPT ![w] = now]
    /\ UNCHANGED <<now, stored, outcome, proposals, expirer, bases>>

Land(w) ==
    /\ id[w] # None /\ w \notin stored /\ stored' = stored \union {w}
    /\ UNCHANGED <<now, id, outcome, proposals, expirer, bases>>

Say(w, what) ==
    /\ outcome' = [outcome EXCEPT ![w] = what]
    /\ UNCHANGED <<now, id, stored, proposals, expirer, bases>>

Looked == {b.horizon : b \in IF Bug = "reads the horizon only" THEN bases ELSE proposals}

Answer(w) ==
    /\ outcome[w] = "pending" /\ w \in stored
    /\ IF now <= id[w] + Delay \/ Bug = "slow writer does not look" THEN Say(w, "acknowledged")
       ELSE Say(w, "looking")

Look(w) ==
    /\ outcome[w] = "looking"
    /\ Say(w, IF \E h \in Looked : Below(w, h) THEN "unknown" ELSE "acknowledged")

Resolve(w) == outcome[w] = "unknown" /\ w \in Admitted /\ Say(w, "acknowledged")

(* ---- Expirers ---- *)
Alive(w) == w \in stored /\ (~Below(w, HorizonOf(bases)) \/ w \in Admitted)
Found(h) == {w \in stored : Below(w, h) /\ Alive(w)}

Become(e, what) == expirer' = [expirer EXCEPT ![e] = what]

ProposeAt(e, h) ==
    /\ h + Delay < now \/ (Bug = "horizon too young" /\ h <= now)
    /\ \/ /\ expirer[e].phase = "idle" /\ Bug # "lists before proposing"
          /\ proposals' = proposals \union {[by |-> e, horizon |-> h]}
          /\ Become(e, [phase |-> "proposed", horizon |-> h, found |-> {}])
       \/ /\ expirer[e].phase = "idle" /\ Bug = "lists before proposing"
          /\ Become(e, [phase |-> "listed first", horizon |-> h, found |-> Found(h)])
          /\ UNCHANGED proposals
    /\ UNCHANGED <<now, id, stored, outcome, bases>>

Propose(e) == \E h \in 1..NowMax : ProposeAt(e, h)

ProposeLate(e) ==
    /\ expirer[e].phase = "listed first"
    /\ proposals' = proposals \union {[by |-> e, horizon |-> expirer[e].horizon]}
    /\ Become(e, [expirer[e] EXCEPT !.phase = "listed"])
    /\ UNCHANGED <<now, id, stored, outcome, bases>>

List(e) ==
    /\ expirer[e].phase \in {"proposed", "listed"} /\ Bug # "lists before proposing"
    /\ Become(e, [expirer[e] EXCEPT !.phase = "listed", !.found = Found(expirer[e].horizon)])
    /\ UNCHANGED <<now, id, stored, outcome, proposals, bases>>

WriteBase(e) ==
    /\ expirer[e].phase = "listed"
    /\ bases' = bases \union {[horizon |-> expirer[e].horizon, admits |-> expirer[e].found]}
    /\ Become(e, [expirer[e] EXCEPT !.phase = "finished", !.found = {}])
    /\ UNCHANGED <<now, id, stored, outcome, proposals>>

GiveUp(e) ==
    /\ expirer[e].phase \in {"proposed", "listed"} /\ proposals' = {p \in proposals : p.by # e}
    /\ Become(e, [Idle EXCEPT !.phase = "gave up"])
    /\ UNCHANGED <<now, id, stored, outcome, bases>>

Clear(e, p) ==
    /\ expirer[e].phase = "finished"
    /\ p.horizon < expirer[e].horizon \/ (Bug = "withdraws what it folded" /\ p.by = e)
    /\ proposals' = proposals \ {p}
    /\ UNCHANGED <<now, id, stored, outcome, expirer, bases>>

Next ==
    \/ Tick
    \/ \E w \in Writers : Start(w) \/ Land(w) \/ Answer(w) \/ Look(w) \/ Resolve(w)
    \/ \E e \in Expirers : Propose(e) \/ ProposeLate(e) \/ List(e) \/ WriteBase(e) \/ GiveUp(e)
                         \/ \E p \in proposals : Clear(e, p)

Spec == Init /\ [][Next]_vars

AcknowledgedAlive == \A w \in Writers : outcome[w] = "acknowledged" => Alive(w)

ProbeDead == \A w \in stored : Alive(w)
ProbeResolved == ~\E w \in Writers : outcome[w] = "acknowledged" /\ w \in Admitted /\ \E p \in proposals :
                    Below(w, p.horizon) /\ now > id[w] + Delay
ProbeUnknown == ~\E w \in Writers : outcome[w] = "unknown" /\ ~Alive(w)
=============================================================================

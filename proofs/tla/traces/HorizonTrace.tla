----------------------------- MODULE HorizonTrace -----------------------------
(* Traces of the library itself as behaviours of module Horizon. HorizonTraceData, written by the runner, has them.

   Each event names an action of Horizon. An event that Horizon does not allow, or an outcome that it does not
   have, stops its trace short, which TLC reports as a deadlock. Time passes in jumps, each of them many ticks. The
   library's expirers keep twice the distance that the model asks for. *)

EXTENDS Horizon, Sequences, HorizonTraceData

VARIABLES which, place

Event == Traces[which][place]

JumpTo(time) ==
    /\ time >= now /\ now' = time
    /\ UNCHANGED <<id, stored, outcome, proposals, expirer, bases>>

ToldOf(w, what) ==
    \/ outcome[w] \in what /\ UNCHANGED vars
    \/ outcome[w] = "unknown" /\ "acknowledged" \in what /\ Resolve(w)

ClearOf(e, whose) == \E p \in proposals : p.by \in whose /\ Clear(e, p)

Do(e) ==
    CASE e.op = "tick" -> JumpTo(e.number)
      [] e.op = "start" -> Start(e.who)
      [] e.op = "land" -> Land(e.who)
      [] e.op = "answer" -> Answer(e.who)
      [] e.op = "look" -> Look(e.who)
      [] e.op = "told" -> ToldOf(e.who, e.result)
      [] e.op = "dead" -> outcome[e.who] = "unknown" /\ ~Alive(e.who) /\ UNCHANGED vars
      [] e.op = "propose" -> e.number + 2 * Delay <= now /\ ProposeAt(e.who, e.number)
      [] e.op = "list" -> List(e.who)
      [] e.op = "base" -> expirer[e.who].found = e.result /\ WriteBase(e.who)
      [] e.op = "give up" -> e.result = {e.who} /\ GiveUp(e.who)
      [] e.op = "clear" -> ClearOf(e.who, e.result)
      [] e.op = "counts" -> {w \in Writers : Alive(w)} = e.result /\ UNCHANGED vars

TraceInit == Init /\ which \in 1..Len(Traces) /\ place = 1
TraceNext ==
    \/ place <= Len(Traces[which]) /\ Do(Event) /\ place' = place + 1 /\ UNCHANGED which
    \/ place > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, place>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, place>>
=============================================================================

---------------------------- MODULE SwitchingTrace ----------------------------
(* Traces of the library itself as behaviours of module Switching. SwitchingTraceData, written by the runner, has
   them.

   Each event names an action of Switching. An event that Switching does not allow, or an outcome that it does not
   have, stops its trace short, which TLC reports as a deadlock. *)

EXTENDS Switching, SwitchingTraceData

VARIABLES which, place

Event == Traces[which][place]
Counted == {w \in Writers : w \in made \/ (w \in stored /\ ~Void(w))}

Do(e) ==
    CASE e.op = "list" -> List(e.who)
      [] e.op = "age" -> Age(e.who)
      [] e.op = "store" -> Store(e.who)
      [] e.op = "look" -> Look(e.who)
      [] e.op = "take" -> TakeNumber(e.who)
      [] e.op = "again" -> Again(e.who)
      [] e.op = "store again" -> StoreAgain(e.who)
      [] e.op = "decide" -> Decide(e.who)
      [] e.op = "announce" -> Announce(e.who)
      [] e.op = "wait" -> Wait(e.who)
      [] e.op = "list all" -> ListAll(e.who)
      [] e.op = "switch" -> Switch(e.who)
      [] e.op = "back" -> Back(e.who)
      [] e.op \in {"ok", "contended"} -> at[e.who] = e.op /\ UNCHANGED vars
      [] e.op = "counts" -> Counted = e.result /\ UNCHANGED vars

TraceInit == Init /\ which \in 1..Len(Traces) /\ place = 1
TraceNext ==
    \/ place <= Len(Traces[which]) /\ Do(Event) /\ place' = place + 1 /\ UNCHANGED which
    \/ place > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, place>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, place>>
=============================================================================

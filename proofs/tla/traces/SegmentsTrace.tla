---------------------------- MODULE SegmentsTrace ----------------------------
(* Traces of the library itself as behaviours of module Segments. SegmentsTraceData, written by the runner, has
   them.

   Each event names an action of Segments. An event that Segments does not allow, or an outcome that it does not
   have, stops its trace short, which TLC reports as a deadlock. *)

EXTENDS Segments, Naturals, Sequences, SegmentsTraceData

VARIABLES which, place

Event == Traces[which][place]

Do(e) ==
    CASE e.op = "put" -> Put(e.who)
      [] e.op = "commit" -> Commit(e.who)
      [] e.op = "crash" -> Crash(e.who)
      [] e.op = "age" -> Age(e.who)
      [] e.op = "mark" -> Mark(e.who)
      [] e.op = "delete" -> Delete(e.who)
      [] e.op = "read" -> references = e.result /\ UNCHANGED vars

TraceInit == Init /\ which \in 1..Len(Traces) /\ place = 1
TraceNext ==
    \/ place <= Len(Traces[which]) /\ Do(Event) /\ place' = place + 1 /\ UNCHANGED which
    \/ place > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, place>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, place>>
=============================================================================

----------------------------- MODULE MarksTrace -----------------------------
(* Traces of the real writers, upkeep and reader of a table with transactions as behaviours of module Marks.
   MarksTraceData, written by the runner, has them.

   Each event names an action of Marks. An event that Marks does not allow, or a result that it does not have,
   stops its trace short, which TLC reports as a deadlock. *)

EXTENDS Marks, Sequences, MarksTraceData

VARIABLES which, at

Event == Traces[which][at]

Do(e) ==
    CASE e.op = "mark" -> PutMark(1)
      [] e.op = "answered" -> MarkAnswered(1)
      [] e.op = "land" -> Land(e.who)
      [] e.op = "bundle" -> Bundle(1, e.who)
      [] e.op = "collect" -> Collect(e.who)
      [] e.op = "begin" -> Begin({1})
      [] e.op = "page" -> Page
      [] e.op = "transactions" -> Transactions
      [] e.op = "folder" -> Folder
      [] e.op = "decide" -> Decide
      [] e.op = "result" -> step = "done" /\ seen[1] = e.result /\ UNCHANGED vars

TraceInit == Init /\ which \in 1..Len(Traces) /\ at = 1
TraceNext ==
    \/ at <= Len(Traces[which]) /\ Do(Event) /\ at' = at + 1 /\ UNCHANGED which
    \/ at > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, at>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, at>>
=============================================================================

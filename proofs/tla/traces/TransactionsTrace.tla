-------------------------- MODULE TransactionsTrace --------------------------
(* Traces of the library itself as behaviours of module Transactions. TransactionsTraceData, written by the runner,
   has them.

   Each event names an action of Transactions. An event that Transactions does not allow, or a result that it does
   not have, stops its trace short, which TLC reports as a deadlock. The library may leave out more than the model:
   what somebody had committed after reading what a table was read without. But it leaves it out of all tables. *)

EXTENDS Transactions, Sequences, TransactionsTraceData

VARIABLES which, place

Event == Traces[which][place]

(* Something came between: everything is read once more. *)
BeginAgain ==
    /\ table = Done /\ table' = 1 /\ result' = [t \in Tables |-> {}]
    /\ UNCHANGED <<files, landed, covered, part, here, must>>

ResultOf(found) ==
    /\ table = Done /\ \A t \in Tables : must \subseteq found[t]
    /\ \E out \in SUBSET Names : \A t \in Tables : result[t] \ out = found[t]
    /\ UNCHANGED vars

Do(e) ==
    CASE e.op = "land" -> Land(e.name)
      [] e.op = "bundle" -> Bundle(e.table, e.name)
      [] e.op = "collect" -> Collect(e.name)
      [] e.op = "begin" -> Begin
      [] e.op = "begin again" -> BeginAgain
      [] e.op = "transactions" -> part = "transactions" /\ List
      [] e.op = "folder" -> part = "folder" /\ table = e.table /\ List
      [] e.op = "vanished" -> Vanished
      [] e.op = "decide" -> Decide
      [] e.op = "result" -> ResultOf(e.found)

TraceInit == Init /\ which \in 1..Len(Traces) /\ place = 1
TraceNext ==
    \/ place <= Len(Traces[which]) /\ Do(Event) /\ place' = place + 1 /\ UNCHANGED which
    \/ place > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, place>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, place>>
=============================================================================

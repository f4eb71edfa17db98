---------------------------- MODULE DecisionsTrace ----------------------------
(* Traces of the library itself as behaviours of module Decisions. DecisionsTraceData, written by the runner, has them.

   Each event names an action of Decisions. An event that Decisions does not allow, or an outcome that it does not
   have, stops its trace short, which TLC reports as a deadlock. The library may leave out more than the model: what
   somebody had committed after reading what a table was read without. It leaves out all above that, in all tables. *)

EXTENDS Decisions, DecisionsTraceData

VARIABLES which, place

Event == Traces[which][place]

CommitTo(t, p) ==
    /\ p \notin UNION {Entries(u) : u \in Tables} /\ MayClaim(t) /\ Append1(t, p)
    /\ UNCHANGED <<object, copies, first, at, creator, bundler, knew>> /\ UNCHANGED reader

(* Something came between: everything is read once more. *)
BeginAgain ==
    /\ table = Done /\ table' = 1 /\ result' = before /\ knew' = [knew EXCEPT !.reader = Settled]
    /\ UNCHANGED <<at, creator, bundler, listed, before, must, reads>> /\ UNCHANGED store

ResultOf(found) ==
    /\ table = Done /\ Whole(found)
    /\ \A t \in Tables : Len(found[t]) <= Len(result[t]) /\ SubSeq(result[t], 1, Len(found[t])) = found[t]
    /\ \A t \in Tables : must \subseteq In(found[t])
    /\ UNCHANGED vars

Do(e) ==
    CASE e.op = "prepare" -> Prepare(e.name) /\ e.name \in {log'[e.table][i] : i \in 1..Len(log'[e.table])}
      [] e.op = "commit" -> CommitTo(e.table, e.name)
      [] e.op = "decide" -> Decide(e.name)
      [] e.op = "check" -> Check(e.name)
      [] e.op = "meet" -> Meet(e.name)
      [] e.op = "abort" -> Abort(e.name)
      [] e.op = "copy" -> CopyAtOnce(e.table, e.name)
      [] e.op = "collect" -> CollectObject(e.name)
      [] e.op = "begin" -> Begin
      [] e.op = "begin again" -> BeginAgain
      [] e.op = "list" -> table = e.table /\ List
      [] e.op = "vanished" -> Vanished
      [] e.op = "resolve" -> Resolve
      [] e.op \in {"ok", "failed"} -> at[e.name] = e.op /\ UNCHANGED vars
      [] e.op = "result" -> ResultOf(e.found)

TraceInit == Init /\ which \in 1..Len(Traces) /\ place = 1
TraceNext ==
    \/ place <= Len(Traces[which]) /\ Do(Event) /\ place' = place + 1 /\ UNCHANGED which
    \/ place > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, place>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, place>>
=============================================================================

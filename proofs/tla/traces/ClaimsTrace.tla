----------------------------- MODULE ClaimsTrace -----------------------------
(* Traces of the real claimer, bundler, collector and reader as behaviours of module Claims. ClaimsTraceData,
   written by the runner, has them.

   Each event names an action of Claims. An event that Claims does not allow, or a result that it does not have,
   stops its trace short, which TLC reports as a deadlock. *)

EXTENDS Claims, Sequences, ClaimsTraceData

VARIABLES which, at

Event == Traces[which][at]

ResultOf(pairs) ==
    /\ step = "done"
    /\ {<<n, result[n]>> : n \in {m \in Numbers : result[m] # None}} = pairs
    /\ UNCHANGED vars

Ended(c, n) ==
    /\ IF n = 0 THEN phase[c] = "conflict" ELSE phase[c] = "ok" /\ c \in winners[n]
    /\ UNCHANGED vars

Do(e) ==
    CASE e.op = "start" -> Start(e.who)
      [] e.op = "put" -> PutAnswered(e.who)
      [] e.op = "created" -> Created(e.who)
      [] e.op = "exists" -> Exists(e.who)
      [] e.op = "unanswered" -> PutUnanswered(e.who)
      [] e.op = "late" -> Late(e.who, e.number)
      [] e.op = "bundle" -> Bundle(e.number)
      [] e.op = "collect" -> Collect(e.number)
      [] e.op = "begin" -> Begin
      [] e.op = "listed" -> ListBundles
      [] e.op = "result" -> ResultOf(e.result)
      [] e.op = "ended" -> Ended(e.who, e.number)

TraceInit == Init /\ which \in 1..Len(Traces) /\ at = 1
TraceNext ==
    \/ at <= Len(Traces[which]) /\ Do(Event) /\ at' = at + 1 /\ UNCHANGED which
    \/ at > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, at>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, at>>
=============================================================================

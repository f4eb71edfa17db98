----------------------------- MODULE ClosingTrace -----------------------------
(* Traces of the library itself as behaviours of module Closing. ClosingTraceData, written by the runner, has them.

   Each event names an action of Closing. An event that Closing does not allow, or an outcome that it does not
   have, stops its trace short, which TLC reports as a deadlock. Names are deleted one at a time, hence Lost; no answer is. *)

EXTENDS Closing, ClosingTraceData

VARIABLES which, place

Event == Traces[which][place]

CreatedBy(c, admitted) == settled[before[c].number + 1] = Nothing /\ Admits(c) = admitted /\ Create(c)
ReadBy(c, number) == Latest = number /\ Read(c) /\ step'[c] = "lists"
StoredWhole(b, some) ==
    /\ some \ bundled[TableOf(b)] = held[b] \ bundled[TableOf(b)]
    /\ StoreBundle(b, held[b])
StoredPart(b, some) ==
    /\ some \ bundled[TableOf(b)] \subseteq held[b]
    /\ StoreBundle(b, some \intersect held[b])

Do(e) ==
    CASE e.op = "begin" -> Begin(e.who)
      [] e.op = "age" -> Age(e.who)
      [] e.op = "put" -> Put(e.who)
      [] e.op = "look" -> Look(e.who)
      [] e.op \in {"ok", "told"} -> at[e.who] = e.op /\ UNCHANGED vars
      [] e.op = "announce" -> Announce(e.who)
      [] e.op = "read" -> ReadBy(e.who, e.number)
      [] e.op = "list" -> ListTransactions(e.who)
      [] e.op = "create" -> CreatedBy(e.who, e.some)
      [] e.op = "taken" -> settled[before[e.who].number + 1] # Nothing /\ Create(e.who)
      [] e.op = "done" -> Read(e.who) /\ step'[e.who] = "deletes"
      [] e.op = "delete" -> DeleteClosing(e.who, e.number)
      [] e.op = "forget" -> DeleteNumber(e.who, e.number)
      [] e.op = "page" -> ListForBundle(e.who)
      [] e.op = "more" -> ListMore(e.who)
      [] e.op = "last" -> ListLast(e.who)
      [] e.op = "drop" -> StoreBundle(e.who, {})
      [] e.op = "bundle" -> StoredWhole(e.who, e.some)
      [] e.op = "base" -> StoredPart(e.who, e.some)
      [] e.op = "collect" -> Collect(e.who)
      [] e.op = "counts" -> {x \in Times : Visible(x, e.who)} = e.some /\ UNCHANGED vars

TraceInit == Init /\ which \in 1..Len(Traces) /\ place = 1
TraceNext ==
    \/ place <= Len(Traces[which]) /\ Do(Event) /\ place' = place + 1 /\ UNCHANGED which
    \/ place > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, place>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, place>>
=============================================================================

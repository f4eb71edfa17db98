------------------------------ MODULE ReuseTrace ------------------------------
(* Traces of the library itself as behaviours of module Reuse. ReuseTraceData, written by the runner, has them.

   Each event names an action of Reuse. An event that Reuse does not allow, or an outcome that it does not have,
   stops its trace short, which TLC reports as a deadlock. There is one segment; who reads a head without it can use
   nothing again. *)

EXTENDS Reuse, Sequences, ReuseTraceData

VARIABLES which, place

Event == Traces[which][place]

ReadOf(w) == IF references = {} THEN held[w] = {} /\ UNCHANGED vars ELSE Read(w)
GiveUpOf(w) == IF held[w] = {} THEN UNCHANGED vars ELSE GiveUp(w)

Do(e) ==
    CASE e.op = "read" -> ReadOf(e.who)
      [] e.op = "use" -> e.result # {} /\ e.result \subseteq held[e.who] /\ Use(e.who)
      [] e.op = "give up" -> GiveUpOf(e.who)
      [] e.op = "let go" -> LetGo(e.who)
      [] e.op = "let go in silence" -> FALSE
      [] e.op = "condemn" -> Condemn(e.who)
      [] e.op = "ripen" -> Ripen(e.who)
      [] e.op = "delete" -> Delete(e.who)
      [] e.op = "stored" -> stored = e.result /\ UNCHANGED vars

TraceInit == Init /\ which \in 1..Len(Traces) /\ place = 1
TraceNext ==
    \/ place <= Len(Traces[which]) /\ Do(Event) /\ place' = place + 1 /\ UNCHANGED which
    \/ place > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, place>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, place>>
=============================================================================

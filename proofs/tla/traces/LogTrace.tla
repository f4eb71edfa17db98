------------------------------ MODULE LogTrace ------------------------------
(* Traces of the real protocol steps as behaviours of module Log. LogTraceData, written by the runner, has them.

   Each event names an action of Log and what it must do. An event that Log does not allow stops its trace
   short, which TLC reports as a deadlock. Two things are looser than in Log: a bundle may have any rank above
   those of the files it took in, which may have been read one by one and be gone by now; and a reader may list
   again although nothing it needs has vanished. *)

EXTENDS Log, Sequences, LogTraceData

VARIABLES which, at, ever   \* ever: files that were stored at some time

Event == Traces[which][at]
File(e) == [rank |-> e.rank, holds |-> e.holds, claims |-> e.holds, spot |-> 0]

Bundle(new) ==
    /\ \E some \in SUBSET {f \in ever : f.rank < new.rank} :
         some # {} /\ UNION {f.holds : f \in some} = new.holds
    /\ Store(files \union {new})
    /\ UNCHANGED <<landed, taken, made>> /\ UNCHANGED reader

PageOf(names, last) ==
    /\ Page
    /\ listed' = listed \union names
    /\ (phase' = "get") = last

GetOf(result) == Get /\ phase' = "done" /\ got' = result

Again ==
    /\ phase = "get" /\ phase' = "list" /\ cursor' = 0 /\ listed' = {} /\ got' = {}
    /\ UNCHANGED <<files, landed, taken, made, permits, must, snapshot, reads>>

Do(e) ==
    CASE e.op = "land" -> \E v \in e.holds : Land(v)
      [] e.op = "bundle" -> Bundle(File(e))
      [] e.op = "delete" -> Delete(File(e))
      [] e.op = "begin" -> Begin
      [] e.op = "page" -> PageOf({File(f) : f \in e.files}, e.last)
      [] e.op = "get" -> GetOf(e.holds)
      [] e.op = "again" -> Again

TraceInit == Init /\ which \in 1..Len(Traces) /\ at = 1 /\ ever = {}
TraceNext ==
    \/ at <= Len(Traces[which]) /\ Do(Event) /\ at' = at + 1 /\ ever' = ever \union files' /\ UNCHANGED which
    \/ at > Len(Traces[which]) /\ UNCHANGED vars /\ UNCHANGED <<which, at, ever>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, at, ever>>
=============================================================================

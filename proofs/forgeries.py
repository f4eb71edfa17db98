"""Forged traces: each says something that did not happen, and that no behaviour of the models has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proofs.acts import Act
from proofs.claim_rules import ClaimEvent
from proofs.closing_traces import ClosingEvent
from proofs.decision_traces import DecisionEvent
from proofs.traces import Event
from proofs.transaction_traces import TransactionEvent


def without_a_result(trace: Sequence[Event]) -> list[Event]:
    """A forgery: the reader returns less than it listed."""
    return [
        event._replace(holds=frozenset(sorted(event.holds)[1:])) if event.op == "get" else event
        for event in trace
    ]


def deleted_at_once(trace: Sequence[Event]) -> list[Event]:
    """A forgery: the first version goes as soon as it is there."""
    first = trace[0]
    return [first, Event("delete", first.holds, first.rank), *trace[1:]]


def page_skipped(trace: Sequence[Event]) -> list[Event]:
    """A forgery: the first page that lists a file is said to be empty."""
    at = next(number for number, event in enumerate(trace) if event.op == "page" and event.files)
    return [*trace[:at], trace[at]._replace(files=frozenset()), *trace[at + 1 :]]


def created_though_taken(trace: Sequence[ClaimEvent]) -> list[ClaimEvent]:
    """A forgery: a creation that found its number taken is said to have made it."""
    return [event._replace(op="created") if event.op == "exists" else event for event in trace]


def collected_unbundled(trace: Sequence[ClaimEvent]) -> list[ClaimEvent]:
    """A forgery: the first claim goes before there is a bundle."""
    return [*trace[:6], ClaimEvent("collect", number=1), *trace[6:]]


def result_without_the_last(trace: Sequence[ClaimEvent]) -> list[ClaimEvent]:
    """A forgery: the reader misses the highest number."""
    return [
        event._replace(result=frozenset(sorted(event.result)[:-1])) if event.op == "result" else event
        for event in trace
    ]


def landed_before_the_mark(trace: Sequence[Act]) -> list[Act]:
    """A forgery: the mark comes last."""
    marks = [event for event in trace if event.op in ("mark", "answered")]
    return [*(event for event in trace if event not in marks), *marks]


def folder_listed_once(trace: Sequence[Act]) -> list[Act]:
    """A forgery: who saw the mark does not list the folder again."""
    return [event for event in trace if event.op != "folder"]


def result_of_the_others(trace: Sequence[Act]) -> list[Act]:
    """A forgery: the reader finds the transactions that it did not find, and no others."""
    every = frozenset({"x", "y"})
    return [event._replace(result=every - event.result) if event.op == "result" else event for event in trace]


def told_that_it_counts(trace: Sequence[Act]) -> list[Act]:
    """A forgery: nobody was told to read and commit again."""
    return [event._replace(op="ok") if event.op == "contended" else event for event in trace]


def switched_without_waiting(trace: Sequence[Act]) -> list[Act]:
    """A forgery: whoever switches lists as soon as it has announced."""
    return [event for event in trace if event.op != "wait"]


def counts_for_nobody(trace: Sequence[Act]) -> list[Act]:
    """A forgery: no update is there in the end."""
    return [event._replace(result=frozenset()) if event.op == "counts" else event for event in trace]


def found_in_one_table(trace: Sequence[TransactionEvent]) -> list[TransactionEvent]:
    """A forgery: the second table is read without anything."""
    return [
        event._replace(found=(event.found[0], frozenset())) if event.op == "result" else event
        for event in trace
    ]


def collected_for_one_table(trace: Sequence[TransactionEvent]) -> list[TransactionEvent]:
    """A forgery: the second table never takes anything into a bundle."""
    return [event for event in trace if event.op != "bundle" or event.table == 1]


def transactions_listed_last(trace: Sequence[TransactionEvent]) -> list[TransactionEvent]:
    """A forgery: the tables are listed before the transactions."""
    swapped = {"transactions": "folder", "folder": "transactions"}
    return [event._replace(op=swapped.get(event.op, event.op)) for event in trace]


def told_that_it_stands(trace: Sequence[DecisionEvent]) -> list[DecisionEvent]:
    """A forgery: a transaction that was aborted is reported as committed."""
    return [event._replace(op="ok") if event.op == "failed" else event for event in trace]


def decided_with_one_claim(trace: Sequence[DecisionEvent]) -> list[DecisionEvent]:
    """A forgery: transactions claim the first table only."""
    return [event for event in trace if event.op != "prepare" or event.table == 1]


def read_in_one_table(trace: Sequence[DecisionEvent]) -> list[DecisionEvent]:
    """A forgery: the reader finds nothing in the second table of what the first has, too."""
    return [
        event._replace(found=(event.found[0], ()))
        if event.op == "result" and set(event.found[0]) & set(event.found[1])
        else event
        for event in trace
    ]


def acknowledged_without_looking(trace: Sequence[Act]) -> list[Act]:
    """A forgery: nobody looks at the proposals."""
    return [event for event in trace if event.op != "look"]


def listed_before_proposing(trace: Sequence[Act]) -> list[Act]:
    """A forgery: the first listing of an expiry comes before its proposal."""
    proposed = next(at for at, event in enumerate(trace) if event.op == "propose")
    who = trace[proposed].who
    listed = next(at for at, event in enumerate(trace) if event.op == "list" and event.who == who)
    rest = [event for at, event in enumerate(trace) if at not in (proposed, listed)]
    return [*rest[:proposed], trace[listed], trace[proposed], *rest[proposed:]]


def base_without_the_last(trace: Sequence[Act]) -> list[Act]:
    """A forgery: each base misses something that was there."""
    return [
        event._replace(result=frozenset(sorted(event.result)[:-1])) if event.op == "base" else event
        for event in trace
    ]


def committed_too_late(trace: Sequence[Act]) -> list[Act]:
    """A forgery: who took too long, or died, commits after its segment was deleted."""
    gone = {event.who for event in trace if event.op == "delete"}
    late = [Act("commit", who) for who in sorted(gone)]
    return [*trace[:-1], *late, trace[-1]._replace(result=trace[-1].result | gone)]


def marked_while_young(trace: Sequence[Act]) -> list[Act]:
    """A forgery: segments never grow old."""
    return [event for event in trace if event.op != "age"]


def deleted_unmarked(trace: Sequence[Act]) -> list[Act]:
    """A forgery: what is deleted was in no list."""
    return [event for event in trace if event.op != "mark"]


def deleted_before_it_is_ripe(trace: Sequence[Act]) -> list[Act]:
    """A forgery: no list is ever old enough."""
    return [event for event in trace if event.op != "ripen"]


def used_without_a_head(trace: Sequence[Act]) -> list[Act]:
    """A forgery: who uses a segment again had read nothing."""
    if not any(event.op == "use" for event in trace):
        return list(trace)
    return [event for event in trace if event.op != "read"]


def let_go_and_still_there(trace: Sequence[Act]) -> list[Act]:
    """A forgery: the segment is there in the end where it is not, and is not where it is."""
    return [
        event._replace(result=frozenset({"a"}) - event.result) if event.op == "stored" else event
        for event in trace
    ]


def told_that_a_transaction_counts(trace: Sequence[ClosingEvent]) -> list[ClosingEvent]:
    """A forgery: nobody was passed by."""
    return [event._replace(op="ok") if event.op == "told" else event for event in trace]


def closed_without_the_last(trace: Sequence[ClosingEvent]) -> list[ClosingEvent]:
    """A forgery: each file that settles a time misses a transaction that was there."""
    return [
        event._replace(some=frozenset(sorted(event.some)[:-1])) if event.op == "create" else event
        for event in trace
    ]


def listed_before_announcing(trace: Sequence[ClosingEvent]) -> list[ClosingEvent]:
    """A forgery: the first closer says so after it has listed."""
    at = next(number for number, event in enumerate(trace) if event.op == "announce")
    listed = next(number for number, event in enumerate(trace) if event.op == "list")
    return [*trace[:at], *trace[at + 1 : listed + 1], trace[at], *trace[listed + 1 :]]


def bundled_though_passed_by(trace: Sequence[ClosingEvent]) -> list[ClosingEvent]:
    """A forgery: what counts for nobody is in every bundle."""
    dead = {event.who for event in trace if event.op == "told"}
    return [
        event._replace(some=event.some | dead) if event.op in ("bundle", "base") else event for event in trace
    ]


FORGERIES: dict[str, tuple[Callable[[Sequence[Any]], list[Any]], ...]] = {
    "Log": (without_a_result, deleted_at_once, page_skipped),
    "Claims": (created_though_taken, collected_unbundled, result_without_the_last),
    "Marks": (landed_before_the_mark, folder_listed_once, result_of_the_others),
    "Decisions": (told_that_it_stands, decided_with_one_claim, read_in_one_table),
    "Transactions": (found_in_one_table, collected_for_one_table, transactions_listed_last),
    "Horizon": (acknowledged_without_looking, listed_before_proposing, base_without_the_last),
    "Closing": (
        told_that_a_transaction_counts,
        closed_without_the_last,
        listed_before_announcing,
        bundled_though_passed_by,
    ),
    "Segments": (committed_too_late, marked_while_young, deleted_unmarked),
    "Reuse": (deleted_before_it_is_ripe, used_without_a_head, let_go_and_still_there),
    "Switching": (told_that_it_counts, switched_without_waiting, counts_for_nobody),
}
"""Per model."""

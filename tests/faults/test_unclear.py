"""A PUT without a clear answer: the writer's identity is given up, so no number is used twice or skipped."""

from __future__ import annotations

from typing import Any, Final

import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitUnknown, StoreUnavailable
from crdtcat.store import open_store
from crdtcat.testing.faulty import Call, Fault, FaultyStore, Plan
from tests.faults.operations import NEW, OLD, OPTIONS, arrange, fresh_url, read, rows

TURNS: Final[tuple[Fault | None, ...]] = (None, "error", None, "lost_answer")


def _down(fault: Fault, suffix: str) -> Plan:
    return lambda call: fault if call.kind == "put" and call.name.endswith(suffix) else None


def _opened(**options: Any) -> tuple[FaultyStore, Catalog]:
    store = FaultyStore(open_store(fresh_url()))
    arrange(store.inner)
    return store, Catalog(store, **{**OPTIONS, **options})


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_unclear_version_put_is_commit_unknown_and_ends_the_writer(fault: Fault) -> None:
    store, catalog = _opened()
    table = catalog.table("t")
    first = table.append(rows(frozenset({50})))
    writer = table._session.writer.id
    assert (first.id.writer, first.id.seq) == (writer, 1)
    store.plan = _down(fault, ".v")
    with pytest.raises(CommitUnknown, match="no clear answer"):
        table.append(rows(NEW), key="once")
    tries = [call for call in store.calls if call.kind == "put"]
    assert len({call.name for call in tries[1:]}) == 1  # the same PUT again, never another name
    store.plan = None
    again = table.append(rows(NEW), key="once")
    assert again.id.writer != writer
    assert again.id.seq == 1
    assert read(store.inner) == OLD | {50} | NEW
    versions = table.head().history
    assert sum(version.key == "once" for version in versions) == 1


def test_unclear_segment_put_is_store_unavailable_and_nothing_is_visible() -> None:
    store, catalog = _opened(inline_bytes=0)
    table = catalog.table("t")
    store.plan = _down("lost_answer", ".parquet")
    with pytest.raises(StoreUnavailable, match="nothing is visible"):
        table.append(rows(NEW))
    store.plan = None
    assert read(store.inner) == OLD
    assert table.append(rows(NEW)).id.seq == 1
    assert read(store.inner) == OLD | NEW


def test_answer_lost_once_is_not_even_noticed() -> None:
    store, catalog = _opened()
    table = catalog.table("t")
    seen: list[Call] = []

    def once(call: Call) -> Fault | None:
        if call.kind == "put" and not seen:
            seen.append(call)
            return "lost_answer"
        return None

    store.plan = once
    version = table.append(rows(NEW))
    assert version.id.seq == 1
    assert table.append(rows(frozenset({70}))).id.seq == 2
    assert read(store.inner) == OLD | NEW | {70}


def test_abandoned_writers_leave_no_gap_however_many() -> None:
    store, catalog = _opened()
    table = catalog.table("t")
    kept = set(OLD)
    for n in range(300, 340):
        fault = TURNS[n % 4]
        store.plan = _down(fault, ".v") if fault else None
        try:
            table.append(rows(frozenset({n})))
        except CommitUnknown:
            if fault == "lost_answer":
                kept.add(n)
        else:
            kept.add(n)
    store.plan = None
    assert read(store.inner) == kept


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_unclear_bundle_put_loses_nothing(fault: Fault) -> None:
    store, catalog = _opened()
    table = catalog.table("t")
    store.plan = _down(fault, ".b")
    with pytest.raises(StoreUnavailable, match="nothing is lost"):
        table.checkpoint()
    assert read(store.inner) == OLD
    store.plan = None
    table.checkpoint()
    table.collect()
    assert read(store.inner) == OLD

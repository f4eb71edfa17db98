"""A PUT without a clear answer: the writer's identity is given up, so no number is used twice or skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitUnknown, CrdtcatError, StoreUnavailable
from crdtcat.store import open_store
from crdtcat.testing.faulty import Call, Fault, FaultyStore, Plan
from tests.cas.scenes import meanwhile
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


def _in_transaction(catalog: Catalog) -> object:
    with catalog.transaction() as changes:
        return changes.append("t", rows(NEW))


WRITES: Final[Mapping[str, Callable[[Catalog], object]]] = {
    "append": lambda catalog: catalog.table("t").append(rows(NEW)),
    "overwrite": lambda catalog: catalog.table("t").overwrite(rows(NEW)),
    "update": lambda catalog: catalog.table("t").update("n = 1", {"word": "other"}),
    "write": lambda catalog: catalog.table("t").write(rows(NEW | OLD)),
    "transaction": _in_transaction,
    "checkpoint": lambda catalog: catalog.table("t").checkpoint(),
    "compact": lambda catalog: catalog.table("t").compact(),
}


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_what_the_store_said_is_told(verb: str, mode: str) -> None:
    """In the text and as the cause: "could not be stored" alone helps nobody to find out why."""
    for suffix in (".parquet", ".v", ".c", ".b", "decision"):
        store = FaultyStore(open_store(fresh_url()))
        arrange(store.inner, {"mode": mode})
        catalog = Catalog(store, **{**OPTIONS, "inline_bytes": 0})
        store.plan = _down("error", suffix)
        try:
            WRITES[verb](catalog)
        except CrdtcatError as error:
            assert isinstance(error, CommitUnknown | StoreUnavailable)  # noqa: PT017
            assert "injected error" in str(error)  # noqa: PT017
            assert "[E501]" not in str(error).removeprefix("[E501]")  # noqa: PT017
            told = isinstance(error.__cause__, StoreUnavailable)
            assert told or str(error).startswith("[E501] injected")  # noqa: PT017


def test_values_that_a_resolver_answers_with_and_that_cannot_be_stored() -> None:
    store = FaultyStore(open_store(fresh_url()))
    arrange(store.inner, {"mode": "cas"})

    def answer(_: Any) -> pa.Table:
        store.plan = _down("error", ".parquet")
        return pa.table({"word": ["both"]})

    options = {**OPTIONS, "inline_bytes": 0, "on_conflict": {"update-update": answer}}
    table = Catalog(store, **options).table("t")
    theirs = Catalog(store.inner, **OPTIONS).table("t")
    meanwhile(table, lambda: theirs.update("n = 1", {"word": "theirs"}))
    with pytest.raises(StoreUnavailable, match="injected error") as caught:
        table.update("n = 1", {"word": "mine"})
    assert isinstance(caught.value.__cause__, StoreUnavailable)

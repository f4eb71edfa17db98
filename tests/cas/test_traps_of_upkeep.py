"""Traps that others fell into beside upkeep: checkpointers, compactors, watermarks and collectors at every
request of each other, on tables of both modes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.clock import HybridClock
from crdtcat.protocol import is_bundle
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.faulty import Call, Fault, FaultyStore
from tests.bounds import FULL
from tests.catalog.lakes import objects
from tests.faults.operations import fresh_url

MODES = pytest.mark.parametrize("mode", ["cas", "merge"])
SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 0}
REQUESTS_MAX = 60


def filled(mode: str, **options: Any) -> tuple[FaultyStore, Table]:
    """A table with rows 0 to 8 in three commits, one of them updated and one deleted; and its store."""
    store = FaultyStore(MemoryStore(fresh_url()))
    table = Catalog(store, **OPTIONS, **options).create_table("t", SCHEMA, mode=mode)
    for first in (0, 3, 6):
        table.append([{"n": n, "x": 0} for n in range(first, first + 3)])
    table.update("n = 4", {"x": 1})
    table.delete("n = 7")
    return store, table


FILLED = {n: int(n == 4) for n in range(9) if n != 7}


def shown(store: FaultyStore) -> dict[int, int]:
    """The rows, as a cold reader finds them."""
    found = Catalog(store.inner, **OPTIONS).table("t").read().to_pylist()
    assert len({row["n"] for row in found}) == len(found)
    return {row["n"]: row["x"] for row in found}


def at_each_request(
    made: Callable[[], tuple[FaultyStore, Table]],
    work: Callable[[Table], Any],
    others: Callable[[Table], Any],
    check: Callable[[FaultyStore], None],
    every: int = 1,
) -> int:
    """Let others come right before the first request of some work, the second, ..., and look at the table
    after each of these and at its end; before `every` so manieth, where not all tests run. How many requests
    there were, about."""
    for number in range(1, REQUESTS_MAX, 1 if FULL else every):
        store, table = made()
        other = Catalog(store.inner, **OPTIONS).table("t")
        left = number

        def before(_: Call, other: Table = other, store: FaultyStore = store) -> Fault | None:
            nonlocal left
            left -= 1
            if left == 0:
                others(other)
                check(store)
            return None

        store.plan = before
        work(table)
        store.plan = None
        check(store)
        for handle in (table, other):
            handle.checkpoint()
            handle.collect()
        check(store)
        if left > 0:
            return number - 1
    raise AssertionError("it never ended")


@MODES
def test_two_checkpointers_of_different_shapes_never_corrupt_readers(mode: str) -> None:
    """delta-rs#2643: one writes its checkpoint in one file, the other in parts; readers mix them up. Here one
    has everything in one bundle, the other what came until then, and one commit more."""

    def made() -> tuple[FaultyStore, Table]:
        store, table = filled(mode)
        table.checkpoint()
        table.append([{"n": 9, "x": 0}])
        return store, table

    def others(other: Table) -> None:
        other.append([{"n": 10, "x": 0}])
        other.checkpoint()

    def check(store: FaultyStore) -> None:
        found = shown(store)
        assert {n: x for n, x in found.items() if n != 10} == {**FILLED, 9: 0}
        bundled.add(sum(is_bundle(item.name) for item in store.inner.list("tables/t/main/")))

    bundled: set[int] = set()
    assert at_each_request(made, lambda table: table.checkpoint(), others, check) >= 3
    assert max(bundled) > 1, "they met"


@MODES
def test_two_compactors_leave_no_dangling_and_no_lost_delete(mode: str) -> None:
    """Vanlightly's model of Paimon: two compactors with deletion vectors. One rewrites what the other has
    rewritten, and a delete in between points to rows that are stored elsewhere by now, or is forgotten."""

    def others(other: Table) -> None:
        other.delete("n = 1")
        other.compact()
        other.update("n = 2", {"x": 7})
        other.delete("n = 8")

    def check(store: FaultyStore) -> None:
        found = shown(store)
        changed = {n: x for n, x in ({**FILLED, 2: 7}).items() if n not in (1, 8)}
        assert found in (FILLED, changed)
        met.add(found == changed)

    met: set[bool] = set()
    asked = at_each_request(
        lambda: filled(mode, inline_bytes=0), lambda table: (table.compact(), table.compact()), others, check
    )
    assert asked >= 5
    assert met == {True, False}


@MODES
def test_a_stale_writer_is_not_below_anybodys_watermark(mode: str) -> None:
    """slatedb#1622 and #352: "everything up to T is in here" and a writer whose clock or knowledge is behind
    T. What a bundle covers are names of versions, not times; the collector deletes what it has merged."""
    grace = 0.4
    store, _ = filled(mode)
    catalogs = [Catalog(store.inner, upkeep=False, grace_seconds=grace) for _ in range(3)]
    table = catalogs.pop().table("t")
    for catalog in catalogs:
        catalog._clock = HybridClock(lambda: 1_000)  # its own clock says 1970
    stale, blind = (catalog.table("t") for catalog in catalogs)
    stale.head()
    time.sleep(0.002)
    bundled = [table.append([{"n": n, "x": 0}]).id for n in range(20, 24)][-1]
    table.checkpoint()
    time.sleep(grace)
    assert table.collect().versions > 0
    late = [handle.append([{"n": n, "x": 0}]).id for n, handle in ((30, stale), (31, blind))]
    assert [id < bundled for id in late] == [mode == "merge"] * 2, "it is below what was bundled"
    for handle in (table, stale, table):
        handle.checkpoint()
        time.sleep(grace)
        handle.collect()
    assert shown(store) == {**FILLED, **dict.fromkeys([*range(20, 24), 30, 31], 0)}


@MODES
def test_content_that_is_stored_again_while_it_is_collected_stays(mode: str) -> None:
    """delta-rs#3645, icechunk#610: a chunk nobody refers to is deleted just when somebody stores the same
    content and finds it there. Here a segment's name is unique, and re-use goes by what a head refers to."""
    rows = [{"n": n, "x": 5} for n in range(100, 110)]

    def made() -> tuple[FaultyStore, Table]:
        store, table = filled(mode, inline_bytes=0)
        dropped = Catalog(store.inner, **OPTIONS, inline_bytes=0).create_table("gone", SCHEMA, mode=mode)
        dropped.append(rows)
        Catalog(store.inner, **OPTIONS).drop_table("gone")
        return store, table

    def others(other: Table) -> None:
        Catalog(other._session.store, **OPTIONS, inline_bytes=0).table("t").append(rows)

    def check(store: FaultyStore) -> None:
        found = shown(store)
        assert found in (FILLED, {**FILLED, **{row["n"]: row["x"] for row in rows}})
        stored = objects(Catalog(store.inner, **OPTIONS))
        segments.add(sum(name.endswith(".parquet") for name in stored))

    segments: set[int] = set()
    asked = at_each_request(
        made, lambda table: Catalog(table._session.store, **OPTIONS).collect(grace=0), others, check, every=4
    )
    assert asked >= 5
    assert len(segments) > 1, "something was collected"

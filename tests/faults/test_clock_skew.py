"""Clocks that disagree by hours: order and convergence hold; only a clock known to be wrong is refused."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from crdtcat import Catalog, Table
from crdtcat.clock import HybridClock, hlc
from crdtcat.errors import ClockSkew
from crdtcat.store import open_store
from crdtcat.store.memory import MemoryStore
from tests.faults.operations import OPTIONS, SCHEMA, fresh_url, read, rows

HOUR_MS = 3_600_000


def _handle(url: str, hours: float) -> Table:
    """A handle in a process whose hybrid clock runs on a wall clock that is off by so many hours."""
    catalog = Catalog(open_store(url), **OPTIONS)
    catalog._clock = HybridClock(lambda: time.time_ns() // 1_000_000 + int(hours * HOUR_MS))
    return catalog.table("t")


@pytest.mark.parametrize("order", list(itertools.permutations([-7.0, 0.0, 5.0])))
def test_writers_hours_apart_converge_in_one_order(order: tuple[float, ...]) -> None:
    url = fresh_url()
    Catalog(url).create_table("t", SCHEMA)
    handles = {hours: _handle(url, hours) for hours in order}
    for n, hours in enumerate(order * 3):
        handles[hours].append(rows(frozenset({n})))
    snapshots = {handle.head().snapshot for handle in handles.values()}
    assert len(snapshots) == 1
    assert read(open_store(url)) == frozenset(range(9))
    found = {tuple(handle.read().column("n").to_pylist()) for handle in handles.values()}
    assert len(found) == 1
    ids = [version.id for version in handles[0.0].history()]
    assert ids == sorted(ids)


def test_what_was_seen_is_always_earlier_whatever_the_clocks_say() -> None:
    url = fresh_url()
    Catalog(url).create_table("t", SCHEMA)
    slow, fast = _handle(url, -9), _handle(url, +9)
    last = fast.append(rows(frozenset({0})))
    for n, handle in enumerate([slow, fast] * 5, start=1):
        version = handle.overwrite(rows(frozenset({n})))  # reads a head first
        assert version.id > last.id
        last = version
        assert slow.read().column("n").to_pylist() == [n]
        assert slow.conflicts() == ()


def test_one_writer_from_the_future_does_not_stop_the_others() -> None:
    url = fresh_url()
    Catalog(url).create_table("t", SCHEMA)
    far = _handle(url, 24 * 365 * 10)
    future = far.append(rows(frozenset({0})))
    ordinary = Catalog(url, **OPTIONS).table("t")
    ordinary.head()
    after = ordinary.append(rows(frozenset({1})))
    assert after.id > future.id  # it saw the future one, and moves past it
    blind = Catalog(url, **OPTIONS).table("t").append(rows(frozenset({2})))
    assert blind.id < future.id
    assert abs(hlc.milliseconds(blind.id.hlc) - time.time() * 1000) < HOUR_MS
    assert ordinary.overwrite(rows(frozenset({3}))).id > after.id
    assert read(open_store(url)) == frozenset({3})


def test_an_overwrite_by_a_slow_clock_still_replaces_what_it_saw() -> None:
    url = fresh_url()
    Catalog(url).create_table("t", SCHEMA)
    _handle(url, +5).overwrite(rows(frozenset({1})))
    _handle(url, -5).overwrite(rows(frozenset({2})))
    assert read(open_store(url)) == frozenset({2})


@pytest.mark.parametrize("hours", [-3, +3])
def test_a_machine_far_from_the_stores_clock_is_refused_before_anything_is_written(hours: int) -> None:
    store = MemoryStore(fresh_url(), clock_ms=lambda: time.time_ns() // 1_000_000 + hours * HOUR_MS)
    catalog = Catalog(store, **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    before = store.requests.snapshot()
    with pytest.raises(ClockSkew, match=("behind" if hours > 0 else "ahead of")):
        table.append(rows(frozenset({1})))
    assert store.requests.since(before).total == 0
    table.schema  # noqa: B018 (reading is never refused)
    patient = Catalog(store, max_clock_skew_seconds=24 * 3600, **OPTIONS)
    patient.commit("t", rows(frozenset({1})))
    assert read(store) == frozenset({1})


def test_reads_are_never_refused_whatever_the_clocks_say() -> None:
    url = fresh_url()
    Catalog(url).create_table("t", SCHEMA)
    _handle(url, 24 * 365 * 100).append(rows(frozenset({1})))
    skewed = MemoryStore(url, clock_ms=lambda: 1_000)
    assert read(skewed) == frozenset({1})
    assert Catalog(skewed, **OPTIONS).table("t").history()[0].rows == 1


def test_collection_goes_by_the_stores_clock(tmp_path: Path) -> None:
    now = [time.time_ns() // 1_000_000]
    store = MemoryStore(fresh_url(), clock_ms=lambda: now[0])
    catalog = Catalog(store, upkeep=False, grace_seconds=600, max_clock_skew_seconds=10**6)
    table = catalog.create_table("t", SCHEMA)
    table.append(rows(frozenset({1})))
    table.checkpoint()
    now[0] += 599_000
    assert table.collect().versions == 0
    now[0] += 2_000
    assert table.collect().versions == 1
    assert read(store) == frozenset({1})

"""Bundling needs memory for what waits to be bundled, whatever was committed before."""

from __future__ import annotations

import importlib
import random
import tracemalloc
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.testing.simulated_store import VirtualClock, virtual_time
from tests.memory import arrow_bytes

ROWS, TEXT_BYTES = 40, 1000
INLINED_BYTES = ROWS * TEXT_BYTES  # carried by each version: the texts are random, and cannot be made smaller
EVERY = 4
CHANCE = random.Random(0)


def rows() -> pa.Table:
    return pa.table({"text": [CHANCE.randbytes(TEXT_BYTES // 2).hex() for _ in range(ROWS)]})


def peak_of_upkeep(table: Table, commits: int) -> int:
    """The most that any of some commits took, each with the upkeep that is due, beyond what was there."""
    store, most, arrow = table._session.store, 0, 0
    put = store.put

    def look_and_put(*given: Any) -> None:  # what is stored is in memory then, encoded, and what it came from
        nonlocal arrow
        arrow = max(arrow, arrow_bytes())
        put(*given)

    with mock.patch.object(store, "put", look_and_put):
        for _ in range(commits):
            data = rows()
            before = arrow = arrow_bytes()
            tracemalloc.start()
            try:
                table.append(data)
                most = max(most, tracemalloc.get_traced_memory()[1] + arrow - before)
            finally:
                tracemalloc.stop()
    return most


def test_peak_memory_does_not_depend_on_how_much_was_committed() -> None:
    clock = VirtualClock()
    with virtual_time(clock, random.Random(0)):  # who bundles follows from ids, and these from the seed
        catalog = Catalog("memory://bundle-memory", upkeep="synchronous", bundle_every=EVERY, grace_seconds=0)
        table = catalog.create_table("t", pa.schema([("text", pa.string())]))
        early = peak_of_upkeep(table, 40)
        for _ in range(200):
            table.append(rows())
        late = peak_of_upkeep(table, 40)
        stored = table.scan().count() * TEXT_BYTES
    assert any(".b" in item.name for item in catalog.store.list("tables/t/main/"))
    assert late < 2 * early
    assert late < stored // 4


def test_one_checkpoint_bundles_all_of_it_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("crdtcat.maintenance.checkpoint")  # the package's name is the verb
    monkeypatch.setattr(module, "INLINE_BYTES_AT_ONCE", 4 * INLINED_BYTES)
    catalog = Catalog("memory://checkpoint-in-pieces", upkeep=False)
    table = catalog.create_table("t", pa.schema([("text", pa.string())]))
    for _ in range(10):
        table.append(rows())
    before = table.read()
    puts = catalog.store.requests.put
    assert table.checkpoint().newly_covered == 10
    assert catalog.store.requests.put - puts > 2
    cold = Catalog("memory://checkpoint-in-pieces", upkeep=False).table("t")
    assert cold.read().equals(before)
    assert not cold.head().log.inline
    assert table.checkpoint().versions == 0

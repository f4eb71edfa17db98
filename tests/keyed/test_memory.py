"""Scans and compactions of keyed tables hold the chunks whose keys meet, not the table.

Upserts of which each overlaps the next: by way of others all of them overlap, and are one group.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.maintenance import compact_keyed
from crdtcat.scan import execute, merge_execute, merge_read
from crdtcat.writing.made import stage_made
from tests.catalog.lakes import lake

MIB = 2**20
ROWS = MIB // 4 // 16  # of one upsert: a quarter of a MiB


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (execute, merge_execute):
        monkeypatch.setattr(module, "AHEAD_BYTES", MIB)
    monkeypatch.setattr(merge_read, "STEP_ROWS", 16 * 1024)
    monkeypatch.setattr(compact_keyed, "HELD_BYTES", MIB)


def stored(mebibytes: int) -> Table:
    schema = pa.schema([("k", pa.int64()), ("x", pa.float64())])
    table = lake(inline_bytes=0, chunk_rows=ROWS).create_table("t", schema, key=["k"])
    for number in range(4 * mebibytes):
        keys = np.arange(ROWS) * 2 + number * ROWS  # the upper half meets the next one's lower half
        table.upsert(pa.table({"k": keys, "x": np.random.default_rng(number).random(ROWS)}, schema=schema))
    return table


def scan(table: Table, look: Callable[[], None]) -> None:
    for _ in table.scan().to_reader():
        look()


def compact(table: Table, look: Callable[[], None]) -> None:
    def watched(*arguments: Any) -> Any:
        look()
        return stage_made(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact_keyed, "stage_made", watched)
        assert table.compact().versions == 1


def peak(act: Callable[[Table, Callable[[], None]], None], mebibytes: int) -> int:
    table = stored(mebibytes)
    rows = table.head().log.rows.sum()
    gc.collect()
    start, most = pa.total_allocated_bytes(), 0

    def look() -> None:
        nonlocal most
        most = max(most, pa.total_allocated_bytes() - start)

    act(table, look)
    assert rows > table.scan().count() > rows // 2
    return most


@pytest.mark.parametrize("act", [scan, compact])
def test_peak_memory_does_not_depend_on_the_table(act: Callable[[Table, Callable[[], None]], None]) -> None:
    small, large = peak(act, 6), peak(act, 24)
    assert large < 10 * MIB
    assert large < small + 2 * MIB


def test_a_group_stored_in_several_segments_is_the_same_table() -> None:
    table = stored(3)
    before = table.read()
    result = table.compact()
    assert result.versions == 1
    assert table.read().equals(before)
    assert table.verify("content").ok
    assert len(table.head().chunks) == result.chunks_after > 3

"""Scans and compactions of keyed tables hold the chunks whose keys meet, not the table, and only some of
those.

Upserts of which each overlaps the next: by way of others all of them overlap, and are one group. And upserts
of keys by chance: each overlaps all others.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.errors import StoreUnavailable
from crdtcat.maintenance import compact_keyed
from crdtcat.scan import execute, merge_execute, merge_read
from crdtcat.writing.made import stage_made
from tests.catalog.lakes import lake
from tests.memory import arrow_bytes

MIB = 2**20
ROWS = MIB // 4 // 16  # of one upsert: a quarter of a MiB


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (execute, merge_execute):
        monkeypatch.setattr(module, "AHEAD_BYTES", MIB)
    monkeypatch.setattr(merge_read, "STEP_ROWS", 16 * 1024)
    monkeypatch.setattr(merge_read, "LEAST_STEP", 16)
    monkeypatch.setattr(merge_read, "HELD_BYTES", 4 * MIB)
    monkeypatch.setattr(compact_keyed, "HELD_BYTES", MIB)


def neighbours(number: int) -> Any:
    """Keys of which the upper half meets the next one's lower half."""
    return np.arange(ROWS) * 2 + number * ROWS


def by_chance(number: int) -> Any:
    return np.random.default_rng(number).integers(0, 2**24, ROWS)


def stored(mebibytes: int, keys_of: Callable[[int], Any] = neighbours) -> Table:
    schema = pa.schema([("k", pa.int64()), ("x", pa.float64())])
    table = lake(inline_bytes=0, chunk_rows=ROWS).create_table("t", schema, key=["k"])
    for number in range(4 * mebibytes):
        table.upsert(
            pa.table({"k": keys_of(number), "x": np.random.default_rng(number).random(ROWS)}, schema=schema)
        )
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


def peak(
    act: Callable[[Table, Callable[[], None]], None], mebibytes: int, keys_of: Callable[[int], Any]
) -> int:
    table = stored(mebibytes, keys_of)
    rows = table.head().log.rows.sum()
    gc.collect()
    start, most = arrow_bytes(), 0

    def look() -> None:
        nonlocal most
        most = max(most, arrow_bytes() - start)

    act(table, look)
    assert rows > table.scan().count() > rows // 2
    return most


@pytest.mark.parametrize("keys_of", [neighbours, by_chance])
@pytest.mark.parametrize("act", [scan, compact])
def test_peak_memory_does_not_depend_on_the_table(
    act: Callable[[Table, Callable[[], None]], None], keys_of: Callable[[int], Any]
) -> None:
    small, large = peak(act, 6, keys_of), peak(act, 24, keys_of)
    assert large < 10 * MIB
    assert large < small + 2 * MIB


@pytest.mark.parametrize("held", [0, MIB])
def test_rows_kept_in_files_are_the_same_rows(
    held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stored(2, by_chance)
    expected = table.read()
    monkeypatch.setattr(merge_read, "HELD_BYTES", held)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where no other test keeps anything
    assert table.read().equals(expected)
    assert table.compact().versions == 1
    assert table.read().equals(expected)
    assert not list(tmp_path.iterdir())


def test_no_room_for_them_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    table = stored(1, by_chance)
    monkeypatch.setattr(merge_read, "HELD_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(StoreUnavailable, match="TMPDIR"):
        table.read()


def test_a_group_stored_in_several_segments_is_the_same_table() -> None:
    table = stored(3)
    before = table.read()
    result = table.compact()
    assert result.versions == 1
    assert table.read().equals(before)
    assert table.verify("content").ok
    assert len(table.head().chunks) == result.chunks_after > 3

"""Verification holds a few pieces of segments, not the table."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from crdtcat import Table
from tests.catalog.lakes import append_noise, lake
from tests.memory import arrow_bytes

MIB = 2**20


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtcat.chunks.check.UNIT_BYTES", MIB // 2)


def stored(mebibytes: int, tmp_path_url: str) -> Table:
    """On disk: a store in memory would be counted."""
    catalog = type(lake())(tmp_path_url, upkeep=False, inline_bytes=0, chunk_rows=16 * 1024)
    table = catalog.create_table("t")
    append_noise(table, mebibytes)
    return table


def peak(table: Table, depth: str) -> int:
    """Python's and Arrow's own memory at its highest, in a run without anything else."""
    arrow = 0

    def look(_: object) -> None:
        nonlocal arrow
        arrow = max(arrow, arrow_bytes())

    gc.collect()
    start = arrow_bytes()
    tracemalloc.start()
    try:
        assert table.verify(depth, progress=look).ok  # type: ignore[arg-type]
        python = int(tracemalloc.get_traced_memory()[1])
        return python + max(0, int(arrow - start))
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("depth", ["bytes", "content"])
def test_peak_memory_does_not_depend_on_the_table(depth: str, tmp_path: object) -> None:
    small = peak(stored(32, f"{tmp_path}/small"), depth)
    large = peak(stored(96, f"{tmp_path}/large"), depth)
    assert large < (12 if depth == "bytes" else 40) * MIB  # memory that is reserved and never touched counts
    assert large < small + 6 * MIB

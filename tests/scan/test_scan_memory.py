"""Streams of a scan hold a window, not the table."""

from __future__ import annotations

import gc

import pytest

from crdtcat import Table
from crdtcat.scan import execute, units
from tests.catalog.lakes import append_noise, lake
from tests.memory import arrow_bytes

MIB = 2**20


@pytest.fixture(autouse=True)
def small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of 2 MiB, so that tables of tens of them are much larger."""
    monkeypatch.setattr(units, "UNIT_BYTES", MIB // 2)
    monkeypatch.setattr(execute, "AHEAD_BYTES", 2 * MIB)


def stored(mebibytes: int) -> Table:
    catalog = lake(inline_bytes=0, chunk_rows=16 * 1024)
    table = catalog.create_table("t")
    append_noise(table, mebibytes)
    return table


def peak(table: Table, filter: str | None = None) -> int:
    gc.collect()
    start, most, seen = arrow_bytes(), 0, 0
    for batch in table.scan(filter=filter).to_reader():
        most = max(most, arrow_bytes() - start)
        seen += batch.num_rows
        del batch
    assert seen == table.scan(filter=filter).count()
    return most


@pytest.mark.parametrize("filter", [None, "b < 0.5"])
def test_peak_memory_does_not_depend_on_the_table(filter: str | None) -> None:
    small, large = peak(stored(8), filter), peak(stored(48), filter)
    assert large < 12 * MIB  # a window, what is being decoded, and what the consumer holds
    assert large < small + 4 * MIB


def test_nor_where_newer_cells_lie_over_all_of_it() -> None:
    """A tenth of the rows, by chance, and then others: what lies over a unit is part of it."""
    sizes = []
    for mebibytes in (8, 48):
        table = stored(mebibytes)
        table.update("b < 0.1", {"a": 7})
        table.update("b > 0.9", {"b": 1.0})
        sizes.append(peak(table))
    assert sizes[1] < 14 * MIB
    assert sizes[1] < sizes[0] + 4 * MIB


def test_a_slow_consumer_does_not_make_it_run_ahead() -> None:
    reader = stored(48).scan().to_reader()
    gc.collect()
    start = arrow_bytes()
    reader.read_next_batch()
    for _ in range(50):
        assert arrow_bytes() - start < 12 * MIB
    del reader

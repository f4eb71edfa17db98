"""How a plan is cut into what one thread reads at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.scan import units as module
from crdtcat.scan.plan import make_plan
from crdtcat.scan.units import Unit, units

ROWS = 2_000
CHUNK = ROWS * 8


def _table(chunks: int) -> Table:
    table = Catalog("memory://units", upkeep=False, inline_bytes=0, chunk_rows=ROWS).create_table("t")
    table.append(pa.table({"n": np.arange(chunks * ROWS)}))
    return table


def _cut(table: Table, unit_chunks: float, monkeypatch: pytest.MonkeyPatch) -> list[Unit]:
    monkeypatch.setattr(module, "UNIT_BYTES", int(unit_chunks * CHUNK))
    return list(units(make_plan(table.head(), None, None)))


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize(
    ("chunks", "unit_chunks", "expected"),
    [
        (1, 4.5, [1]),
        (4, 4.5, [4]),
        (5, 4.5, [3, 2]),
        (10, 4.5, [3, 4, 3]),
        (13, 4.5, [4, 4, 4, 1]),
        (14, 5.5, [5, 4, 5]),
        (6, 0.5, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_few_units_are_alike(
    chunks: int, unit_chunks: float, expected: list[int], changed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(chunks)
    if changed:
        table.update(f"n % {ROWS} = 7", {"n": -1})
    found = _cut(table, unit_chunks, monkeypatch)
    assert [chunk for unit in found for chunk in unit.chunks] == table.head().live.tolist()
    assert all((unit.strips is not None) == changed for unit in found)
    assert [len(unit.chunks) for unit in found] == expected


def test_many_units_are_as_large_as_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _cut(_table(60), 3.5, monkeypatch)
    assert [len(unit.chunks) for unit in found] == [3] * 20


def test_a_large_chunk_with_rows_inserted_in_many_places_is_not_read_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is more than a unit should have: cut wherever one has that much, it was read for every row in it."""
    table = _table(4)
    numbers = [at for n in range(4 * ROWS) for at in ((n, -n) if n % 100 == 7 else (n,))]
    table.write(pa.table({"n": numbers}))
    stored = int(table.head().log.nbytes.sum())
    found = _cut(table, 0.5, monkeypatch)
    assert sum(unit.nbytes for unit in found) < 1.2 * stored
    assert max(unit.nbytes for unit in found) < 1.2 * CHUNK
    assert table.read()["n"].to_pylist() == numbers


def test_nor_are_those_that_stay_open_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of inserted rows that reach over all others: units grow until these are at most half of them."""
    table = _table(12)
    for turn in range(3):
        numbers = table.read()["n"].to_pylist()
        numbers = [at for n in numbers for at in ((n, ~n - turn * 10**6) if n % 40 == turn else (n,))]
        table.write(pa.table({"n": numbers}))
    stored = int(table.head().log.nbytes.sum())
    found = _cut(table, 0.2, monkeypatch)
    assert sum(unit.nbytes for unit in found) < 2 * stored
    assert max(unit.nbytes for unit in found) < 2 * CHUNK
    assert table.read()["n"].to_pylist() == numbers

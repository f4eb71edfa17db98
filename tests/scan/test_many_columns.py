"""What is done with a table takes time that follows its columns, and not their square."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from crdtcat import Catalog, Table
from tests.catalog.lakes import lake

FEW, TIMES = 600, 4


def wide(columns: int) -> Table:
    """A table of many columns, one of them renamed, compacted into a segment with cells that were updated."""
    rows = pa.table({f"c{n}": np.arange(10) + n for n in range(columns)})
    table = lake(inline_bytes=0, max_commit_delay_seconds=0).create_table("t", rows.schema)
    table.append(rows)
    table.append(rows)
    table.update("c7 = 9", {"c8": 1})
    table.rename_column("c1", "other")
    table.compact()
    return table


def cold_read(table: Table) -> None:
    assert Catalog(table._session.store, upkeep=False).read("t").num_columns == len(table.schema)


def verify(table: Table) -> None:
    assert table.verify("content").ok


def compact(table: Table) -> None:
    rows = table.read().slice(0, 1)
    table.append(rows)
    table.append(rows)
    assert table.compact().rows


def test_time_follows_the_columns() -> None:
    """Linear is `TIMES` as much and the square `TIMES` squared: half way between the two, and the best of
    some tries."""
    few, many = wide(FEW), wide(FEW * TIMES)
    for verb in (cold_read, verify, compact):
        ratios: list[float] = []
        while not ratios or (min(ratios) > TIMES**1.5 and len(ratios) < 3):
            ratios.append(_seconds(verb, many) / _seconds(verb, few))
        assert min(ratios) <= TIMES**1.5, (verb.__name__, ratios)


def _seconds(verb: Callable[[Table], None], table: Table) -> float:
    began = time.process_time()
    verb(table)
    return time.process_time() - began

"""What is done with a table takes calls that follow its columns, and not their square."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat import Catalog, Table
from tests.catalog.lakes import lake

FEW, TIMES = 200, 4


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


def test_calls_follow_the_columns() -> None:
    """How long it takes depends on whatever else the machine does; calls, of Python's functions and of those
    that they call in C, are counted, and are the same in every run."""
    few, many = wide(FEW), wide(FEW * TIMES)
    for verb in (cold_read, verify, compact):
        verb(few), verb(many)  # what a process keeps, it has
        ratio = _calls(verb, many) / _calls(verb, few)
        assert ratio <= TIMES * 1.1, (verb.__name__, ratio)


def _calls(verb: Callable[[Table], None], table: Table) -> int:
    count = 0

    def counted(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        verb(table)
    finally:
        sys.setprofile(before)
    return count

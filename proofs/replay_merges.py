"""The Python side of questions about statistics, orders of entries, forks, and commits made again.

Forks and branches are those of whole tables, in memory.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from crdtcat.chunks.entry_order import order_of_all
from crdtcat.chunks.statistics import Bound, ColumnStatistics, merge_statistics
from crdtcat.errors import CommitConflict
from proofs.replay_logs import lake_of, virtual

ORDERED = pa.dictionary(pa.int8(), pa.int64(), ordered=True)


def statistics(parts: list[list[int]]) -> Any:
    """What is known of all runs of rows together."""
    known = [
        (ColumnStatistics(least - 1 if least else None, greatest - 1 if greatest else None, nulls), rows)
        for least, greatest, nulls, rows in parts
    ]
    found = merge_statistics(known)
    return [_said(found.min), _said(found.max), found.nulls]


def _said(bound: Bound) -> int:
    assert bound is None or isinstance(bound, int)
    return 0 if bound is None else bound + 1


def orders(entries: list[list[int]]) -> Any:
    """The order of all who wrote to a column, alone in a list; nothing if they contradict each other."""
    order, contradicting = order_of_all(ORDERED, [["dictionary", "int64", "int8", each] for each in entries])
    return [order] if contradicting is None else []


def joined(rows: int, theirs: list[list[int]], mine: list[list[int]], wins: int) -> Any:
    """The rows of a table whose transaction has joined a fork; nothing if both touched a row, and the fork
    shall not win."""
    with virtual() as clock:
        catalog = lake_of(clock)
        catalog.commit("t", [{"v": 0}] * rows)
        with catalog.transaction() as transaction:
            transaction.table("t").head()  # so that both have it
            fork = transaction.fork()
            for staging, changes in ((fork, mine), (transaction, theirs)):  # which comes later all the same
                for start, count, value in changes:
                    staging.update_rows("t", start, start + count, [{"v": value}] * count)
            try:
                transaction.join(fork, on_conflict="ours" if wins else "fail")
            except CommitConflict:
                return []
            inside = transaction.table("t").read()["v"].to_pylist()
        assert inside == catalog.read("t")["v"].to_pylist()
        return inside


def repeated(branches: int, happened: list[list[int]]) -> Any:
    """The commits of each branch of a table in CAS mode, in the order of their numbers."""
    with virtual() as clock:
        main = lake_of(clock).create_table("t", pa.schema([("n", pa.int64())]), mode="cas")
        main.append([{"n": 0}])
        tables = [main, *(main.branch(f"b{number}") for number in range(1, branches))]
        following = 1
        for branch, other in happened:
            clock.now_ms += 1
            if other:
                tables[branch].merge("main" if other == 1 else f"b{other - 1}")
            else:
                tables[branch].append([{"n": following}])
                following += 1
        return [table.read()["n"].to_pylist() for table in tables]

"""Reading a pinned snapshot in tasks: the local reader's plan, its units dealt out to Spark's partitions.

The plan, its units and their execution are those of `crdtcat.scan`: whatever they apply (hashes, filters,
masks, columns renamed or widened since) is applied here by the same code. This file deals units out, gathers
their tables into batches of a good size, and gives them the types Spark expects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from crdtcat.scan.plan import Plan
from crdtcat.scan.units import Unit
from crdtcat.spark.pinned import Pinned
from crdtcat.spark.types import arrow_schema, spark_schema, to_spark

BATCH_ROWS: Final = 64 * 1024  # at 10,000 a scan takes a sixth longer
PARTITION_BYTES: Final = 128 * 2**20  # Arrow content; half a core minute of most queries
PARTITION_BYTES_LEAST: Final = 8 * 2**20  # a smaller task costs more to start than to run
PARTITIONS_WANTED: Final = 16  # of a table that is not large: a few for each core of a small machine


@dataclass(frozen=True, eq=False)
class Selection:
    """What is read of a pinned snapshot. Pickles.

    Attributes:
        pinned: the snapshot.
        columns: names, in order; all if `None`.
        filter: a row filter in any form the local reader takes.
        within: the chunks to look at, by their place in the head's log; all live ones if `None`.
        units: what to read, instead of the plan's own units.
    """

    pinned: Pinned
    columns: tuple[str, ...] | None = None
    filter: Any = None
    within: tuple[int, ...] | None = None
    units: tuple[Unit, ...] | None = None

    def planned(self) -> tuple[Plan, tuple[Unit, ...]]:
        """The plan and its units. No request; made once per process."""
        plan, units = self.pinned.plan(self.columns, self.filter, self.within)
        return plan, units if self.units is None else self.units

    def schema(self) -> StructType:
        """Spark's schema of the rows. Raises `UnsupportedType`, `InvalidArgument`, `InvalidFilter`."""
        return spark_schema(self.planned()[0].schema)

    def shares(self, partition_bytes: int | None) -> list[tuple[int, ...]]:
        """Units by number, dealt out to partitions of about equal size. No request."""
        return deal([unit.nbytes for unit in self.planned()[1]], partition_bytes)

    def tables(self, numbers: Sequence[int]) -> Iterator[tuple[Unit, list[pa.Table]]]:
        """Some units and their rows, as an execution reads them. Raises `Corrupt`, naming what is damaged."""
        plan, units = self.planned()
        execution = self.pinned.execution(plan)
        return ((units[number], execution.read(units[number])) for number in numbers)

    def batches(self, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows of some units, as Spark expects them."""
        tables = (table for _, found in self.tables(numbers) for table in found)
        return gathered(tables, arrow_schema(self.schema()))


def deal(sizes: Sequence[int], partition_bytes: int | None) -> list[tuple[int, ...]]:
    """Neighbours together, cut where the bytes so far pass equal shares of the whole."""
    total = sum(sizes)
    wanted = partition_bytes or min(
        PARTITION_BYTES, max(PARTITION_BYTES_LEAST, math.ceil(total / PARTITIONS_WANTED))
    )
    count = max(1, math.ceil(total / wanted))
    shares: list[list[int]] = [[] for _ in range(count)]
    before = 0
    for number, size in enumerate(sizes):
        middle = before + size / 2
        shares[min(count - 1, int(middle * count / max(1, total)))].append(number)
        before += size
    return [tuple(share) for share in shares if share]


def gathered(tables: Iterator[pa.Table], target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Tables as batches of about `BATCH_ROWS`: small ones joined, large ones cut, none without rows."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        if not table.num_rows:
            continue
        waiting.append(to_spark(table, target))
        rows += table.num_rows
        if rows >= BATCH_ROWS:
            yield from _batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield from _batches(waiting)


def _batches(waiting: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    whole = pa.concat_tables(waiting).combine_chunks()
    yield from whole.to_batches(max_chunksize=2 * BATCH_ROWS)

"""Reading a pinned snapshot in tasks: the local reader's plan, its units dealt out to Spark's partitions.

The plan, its units and their execution are those of `crdtcat.scan`: whatever they apply (hashes, filters,
masks, columns renamed or widened since) is applied here by the same code. This file deals units out, gathers
their tables into batches of a good size, and gives them the types Spark expects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from crdtcat.errors import Corrupt
from crdtcat.scan.merge_execute import MergedExecution
from crdtcat.scan.merge_plan import Group
from crdtcat.scan.plan import Plan
from crdtcat.scan.units import Unit
from crdtcat.spark.nulls import declared, require_none, without_nulls
from crdtcat.spark.options import SourceOptions
from crdtcat.spark.pinned import Pinned, Readable
from crdtcat.spark.types import arrow_schema, spark_schema, to_spark
from crdtcat.spark.worker import pages_kept, task_begins

BATCH_BYTES: Final = 2**20  # Arrow content; stays in caches, and Spark's allocator keeps no more than 4 MiB
ALONE_BYTES: Final = 2**18  # of a table that is passed on as it is: joining it with others would copy it
PARTITION_BYTES: Final = 128 * 2**20  # Arrow content, at most; half a core minute of most queries
PARTITIONS_WANTED: Final = ((8, 64 * 2**20), (4, 16 * 2**20))
"""Of a table that is not large: how many, a few for each core of a small machine, while each has that much. A
task takes a fiftieth of a second of a core to start, which is a tenth of what 64 MiB take."""


@dataclass(frozen=True, eq=False)
class Selection:
    """What is read of a pinned snapshot. Pickles.

    Attributes:
        pinned: the snapshot.
        columns: names, in order; all if `None`.
        filter: a row filter in any form the local reader takes.
        within: the chunks to look at, by their place in the head's log; all live ones if `None`.
        units: what to read, instead of the plan's own units.
        not_null: the columns that are declared not null, whatever the table allows.
    """

    pinned: Pinned
    columns: tuple[str, ...] | None = None
    filter: Any = None
    within: tuple[int, ...] | None = None
    units: tuple[Unit, ...] | None = None
    not_null: frozenset[str] = frozenset()

    def tightened(self) -> Selection:
        """The same, with the columns that hold no null declared so. No request."""
        return replace(self, not_null=without_nulls(self.planned()[0]))

    def planned(self) -> tuple[Plan, tuple[Readable, ...]]:
        """The plan and its units. No request; made once per process."""
        plan, units = self.pinned.plan(self.columns, self.filter, self.within)
        return plan, units if self.units is None else self.units

    def schema(self) -> StructType:
        """Spark's schema of the rows. Raises `UnsupportedType`, `InvalidArgument`, `InvalidFilter`."""
        return spark_schema(declared(self.planned()[0].schema, self.not_null))

    def shares(self, partition_bytes: int | None) -> list[tuple[int, ...]]:
        """Units by number, dealt out to partitions of about equal size. No request."""
        plan, units = self.planned()
        return deal([_nbytes(plan, unit) for unit in units], partition_bytes)

    def nbytes(self) -> int:
        """Arrow content of the chunks that are read. No request."""
        plan, units = self.planned()
        return sum(_nbytes(plan, unit) for unit in units)

    def tables(self, numbers: Sequence[int]) -> Iterator[Iterable[pa.Table]]:
        """The rows of some units, as an execution reads them. Raises `Corrupt`, naming what is damaged."""
        plan, units = self.planned()
        execution = self.pinned.execution(plan)
        for number in numbers:
            unit = units[number]
            if isinstance(unit, Unit):
                yield execution.read(unit)
            else:
                assert plan.merge is not None
                alone = replace(plan, merge=replace(plan.merge, items=(unit,)))
                yield MergedExecution(alone, execution).tables()

    def batches(self, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows of some units, as Spark expects them.

        Raises `Corrupt`, naming what is damaged; `Expired`, if files were collected since it was planned."""
        task_begins()
        name = self.pinned.table
        tables = (
            require_none(table, self.not_null, name) for found in self.tables(numbers) for table in found
        )
        try:
            yield from gathered(tables, arrow_schema(self.schema()))
        except Corrupt as error:
            raise self.pinned.outlived(error) from error


def selected(pinned: Pinned, options: SourceOptions) -> Selection:
    """What options ask for of a pinned snapshot. No request."""
    selection = Selection(pinned, options.columns, options.filter)
    return selection.tightened() if options.not_null else selection


def _nbytes(plan: Plan, unit: Readable) -> int:
    """Arrow content of what is read at a time."""
    if isinstance(unit, Unit):
        return unit.nbytes
    chunks = list(unit.chunks) if isinstance(unit, Group) else plan.chunks[unit]
    return int(plan.head.log.nbytes[chunks].sum())


def deal(sizes: Sequence[int], partition_bytes: int | None) -> list[tuple[int, ...]]:
    """Neighbours together, cut where the bytes so far pass equal shares of the whole."""
    total = sum(sizes)
    wanted = math.ceil(total / (partition_bytes or PARTITION_BYTES))
    if partition_bytes is None:
        wanted = max(wanted, *(min(most, total // least) for most, least in PARTITIONS_WANTED))
    count = min(len(sizes), max(1, wanted))  # what is read at a time is not cut
    shares: list[list[int]] = [[] for _ in range(count)]
    before = 0
    for number, size in enumerate(sizes):
        middle = before + size / 2
        shares[min(count - 1, int(middle * count / max(1, total)))].append(number)
        before += size
    return [tuple(share) for share in shares if share]


def gathered(tables: Iterator[pa.Table], target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Tables as batches of about `BATCH_BYTES`: small ones joined, large ones cut, none without rows."""
    with pages_kept():  # while tables are read, too: they are, one by one
        yield from _gathered(tables, target)


def _gathered(tables: Iterator[pa.Table], target: pa.Schema) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.Table] = []
    size = 0
    for table in tables:
        if not table.num_rows:
            continue
        shown = to_spark(table, target)
        nbytes = shown.nbytes
        alone = nbytes >= ALONE_BYTES
        if waiting and (alone or size + nbytes > BATCH_BYTES):
            yield from _batches(waiting, size)
            waiting, size = [], 0
        waiting.append(shown)
        size += nbytes
        if alone:
            yield from _batches(waiting, size)
            waiting, size = [], 0
    if waiting:
        yield from _batches(waiting, size)


def _batches(waiting: list[pa.Table], size: int) -> Iterator[pa.RecordBatch]:
    """The tables as one, cut into batches of about equal length."""
    whole = pa.concat_tables(waiting).combine_chunks()
    count = math.ceil(size / BATCH_BYTES)
    yield from whole.to_batches(max_chunksize=max(1, math.ceil(whole.num_rows / max(1, count))))

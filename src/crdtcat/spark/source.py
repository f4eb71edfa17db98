"""The data source Spark talks to: `format("crdtcat")`, batch and streaming, reader and writer.

Spark makes it anew in several processes: where `load()` resolves the schema, where a query is planned, in
every task, where a write is committed. What must be the same in all of them is decided once and pickled: the
snapshot when the schema is asked for, the write plan when the writer is made. Filter pushdown is not offered,
because Spark 4.3 lets a pushed filter leak into other DataFrames over the same `load()`; filters come as an
option.

Nothing here knows how rows are planned, read or staged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from crdtcat.errors import CrdtcatError, InvalidArgument
from crdtcat.spark.change_columns import change_schema
from crdtcat.spark.keys import saved
from crdtcat.spark.options import SourceOptions, parse_options
from crdtcat.spark.pinned import Pinned, pin
from crdtcat.spark.reading import Selection, selected
from crdtcat.spark.sink import StreamSink
from crdtcat.spark.stream import ChangeReader, ChangeStream
from crdtcat.spark.writing import Report, WritePlan, plan_write


class CrdtcatSource(DataSource):  # type: ignore[misc]
    """Tables of a catalog as DataFrames. See docs/spark.md for its options."""

    _pinned: Pinned | None = None
    _start: Pinned | CrdtcatError | None = None

    @classmethod
    def name(cls) -> str:
        """What `format()` is given."""
        return "crdtcat"

    def schema(self) -> StructType:
        """The columns of the snapshot, which is pinned here. Costs a head; Spark asks once per `load()`.

        Of changes, the start too: a stream finds its own, and does not mind if there is none any more."""
        options = parse_options(self.options, "read")
        catalog = options.open(upkeep=False)
        table = catalog.table(options.table, options.branch)
        if options.changes and options.start != "earliest":
            try:
                self._start = pin(catalog, table, None if options.start == "latest" else options.start)
            except CrdtcatError as error:
                self._start = error
        self._pinned = pin(catalog, table, options.at)  # last: it holds what the start does
        schema = selected(self._pinned, options).schema()
        return change_schema(schema) if options.changes else schema

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (it is ours)
        """Reads what `schema` pinned. No request."""
        options = parse_options(self.options, "batch")
        pinned = self._own()
        if isinstance(self._start, CrdtcatError):
            raise self._start
        if options.changes:
            return ChangeReader(options, self._start, pinned)
        return SnapshotReader(selected(pinned, options), options.partition_bytes)

    def _own(self) -> Pinned:
        if self._pinned is None:
            raise InvalidArgument("the table has its own schema: leave out .schema(), name columns by option")
        return self._pinned

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Appends rows, or replaces all. Costs a head."""
        options = parse_options(self.options, "write")
        mode = "overwrite" if overwrite else "append"
        return PlannedWriter(_planned(options, schema, mode))

    def streamReader(self, schema: StructType) -> ChangeStream:  # noqa: ARG002, N802 (it is ours; Spark's name)
        """The table's changes as a stream."""
        options = parse_options(self.options, "stream")
        return ChangeStream(options, self._own())

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802 (Spark's name)
        """Appends each batch exactly once."""
        options = parse_options(self.options, "write")
        if overwrite:
            raise InvalidArgument(
                "a stream into crdtcat appends: outputMode('complete') is not supported; "
                "foreachBatch(crdtcat.spark.foreach_batch(..., mode='overwrite')) is"
            )
        return StreamSink(_planned(options, schema, "append"))


def _planned(options: SourceOptions, schema: StructType, mode: str) -> WritePlan:
    return plan_write(
        options.open(upkeep=False),
        options.table,
        schema,
        branch=options.branch,
        mode=mode,
        commit=options.commit,
        partition_by=options.partition_by,
        key=options.key,
        evolve=options.evolve,
        name=None if options.query is None else saved(options.query),
        metadata=options.metadata,
    )


@dataclass
class Share(InputPartition):  # type: ignore[misc]
    """The units one task reads, by number."""

    numbers: tuple[int, ...]


class SnapshotReader(DataSourceReader):  # type: ignore[misc]
    """Reads a pinned snapshot. No metadata requests: the head travels with it."""

    def __init__(self, selection: Selection, partition_bytes: int | None) -> None:
        self._selection, self._partition_bytes = selection, partition_bytes

    def partitions(self) -> list[InputPartition]:
        """Balanced by bytes."""
        shares = self._selection.shares(self._partition_bytes)
        return [Share(share) for share in shares] or [Share(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one share, in Arrow batches."""
        return self._selection.batches(partition.numbers)


@dataclass
class Message(WriterCommitMessage):  # type: ignore[misc]
    """A task's report, as Spark passes it on."""

    report: Report


class PlannedWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Carries out a write plan."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task's share."""
        return Message(self._plan.run(iterator, TaskContext.get().partitionId()))

    def commit(self, messages: list[Message | None]) -> None:
        """Every task is done."""
        self._plan.finish([None if message is None else message.report for message in messages])

    def abort(self, messages: list[Message | None]) -> None:
        """A task failed for good. What was staged is garbage for the collector; nobody sees it.

        What tasks committed by themselves stands: a repeated write under the same query name adds the rest.
        """

"""Rows of Parquet files on their way into a table: what is staged together, and how.

A *unit* is what one thread or one task stages: runs of row groups, in order. A run whose row groups are fit
to be chunks is taken as it is, into a segment of its own; the others are read and cut into chunks like any
rows. Units are staged each by itself, so whoever stages them, in whatever order, makes the same chunks.

Memory: a unit's encoded bytes, up to three times, and one row group decoded; of rows that are cut anew, what
a segment takes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from crdtcat.chunks.claims import claims_hold
from crdtcat.chunks.foreign import ForeignFile, read_foreign
from crdtcat.chunks.narrow import restored
from crdtcat.chunks.partitions import encode_values, parse_partitioning
from crdtcat.chunks.segment import joined
from crdtcat.chunks.statistics import time_range
from crdtcat.chunks.storage_types import storage_schema
from crdtcat.chunks.stretch import stretch_of
from crdtcat.errors import Corrupt, InvalidArgument, UserError
from crdtcat.store import Store
from crdtcat.writing.fit import conform
from crdtcat.writing.part import Part, Staging
from crdtcat.writing.prepared import Piece, Prepared, prepare
from crdtcat.writing.reuse import Place, StoredSegment
from crdtcat.writing.staged import Staged


class SourceFile(NamedTuple):
    """A file to import: its name and size, what its footer was, and the columns its folders name."""

    name: str
    size: int
    digest: bytes
    values: tuple[tuple[str, str | None], ...] = ()


class Run(NamedTuple):
    """Neighbouring row groups of one file, and whether they are taken as they are."""

    file: SourceFile
    groups: tuple[int, ...]
    as_they_are: bool


@dataclass(frozen=True)
class ImportUnit:
    """What is staged by one thread or task.

    Attributes:
        runs: what it holds, in order.
        nbytes: Arrow content, about.
    """

    runs: tuple[Run, ...]
    nbytes: int

    @property
    def groups(self) -> int:
        """How many row groups."""
        return sum(len(run.groups) for run in self.runs)


class StagedUnit(NamedTuple):
    """A unit's parts in order, and how many of its rows lie in row groups that were taken as they are."""

    parts: tuple[Part, ...]
    rows_taken: int


def stage_unit(staging: Staging, source: Store, unit: ImportUnit) -> StagedUnit:
    """Store the rows of a unit. One GET per file and row group, or run of them; PUTs as `Staging.stage`.

    Raises:
        Corrupt: a file is damaged, vanished, or another one by now.
        SchemaMismatch, LimitExceeded: by file. Nothing is visible then.
    """
    parts: list[Part] = []
    rows_taken = 0
    for is_taken, runs in groupby(unit.runs, key=lambda run: run.as_they_are):
        if not is_taken:
            parts.append(staging.stage(_rows(staging, source, list(runs))))
            continue
        for run in runs:
            part = _taken(staging, source, run)
            if part is None:  # rows of several partitions in one row group, or a footer that is wrong
                parts.append(staging.stage(_rows(staging, source, [run])))
            else:
                parts.append(part)
                rows_taken += part.rows
    return StagedUnit(tuple(parts), rows_taken)


def _opened(source: Store, file: SourceFile) -> ForeignFile:
    """What was looked at when the import was planned. Raises `Corrupt` if it is another file by now."""
    try:
        found = read_foreign(source, file.name, file.size)
    except InvalidArgument as error:
        raise Corrupt(file.name, f"became another file while it was imported: {error.args[0]}") from error
    if found.digest != file.digest:
        raise Corrupt(found.url, "became another file while it was imported: import again")
    return found


def _rows(staging: Staging, source: Store, runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
    """All rows of some runs, in the types of the table. What does not fit is told by file."""
    for run in runs:
        file = _opened(source, run.file)
        for table in file.tables(source, run.groups):
            for name, text in run.file.values:
                wanted = staging.fit.schema.field(name).type
                value = pa.scalar(text, pa.string()).cast(wanted)
                table = table.append_column(name, pa.repeat(value, table.num_rows))  # noqa: PLW2901
            yield from _fitting(table, staging, file.url).to_batches()


def _fitting(table: pa.Table, staging: Staging, url: str) -> pa.Table:
    try:
        return conform(table, staging.fit.schema)
    except UserError as error:
        raise type(error)(f"{url}: {error.args[0]}") from error


def _taken(staging: Staging, source: Store, run: Run) -> Part | None:
    """A segment of the row groups as they are; `None` where one holds rows of several partitions, or its
    footer says of its values what is not so."""
    file = _opened(source, run.file)
    taken = file.taken(source, run.groups)
    partitioning, schema = parse_partitioning(staging.partition_by), staging.fit.schema
    staged = Staged()
    chunks: list[Prepared] = []
    for group, stored in enumerate(taken.tables()):
        if not claims_hold(taken.metadata.row_group(group), stored):
            return None
        arrays = [
            restored(column.chunks, field.type, field.name)
            for column, field in zip(stored.columns, schema, strict=True)
        ]
        rows = _fitting(pa.Table.from_arrays(arrays, names=schema.names), staging, file.url)
        partition = None
        if partitioning.fields:
            values = [encode_values(values) for values, _ in partitioning.split(rows)]
            if len(values) != 1:
                return None
            (partition,) = values
        chunks.append(prepare(Piece(partition, rows)).settled({}))
        if staging.time_column in schema.names:
            found = time_range(rows, staging.time_column or "")
            known = staged.time_range or found
            if found is not None and known is not None:
                staged.time_range = min(known[0], found[0]), max(known[1], found[1])
    hashes = [(chunk.hash, chunk.column_hashes) for chunk in chunks]
    sizes = [chunk.nbytes for chunk in chunks]
    segment = joined([stretch_of(taken.data, taken.metadata, storage_schema(schema), hashes, sizes)])
    unique = secrets.token_bytes(8)
    staged.begin()
    staging.store.put(segment.name(unique), segment.data)
    title = segment.chunk_hashes[0][:16] + unique
    lies_in = StoredSegment(title, segment.size, segment.digest, segment.footer_length)
    for chunk in chunks:
        staged.add(chunk)
    staged.place({chunk.hash: Place(lies_in, group) for group, chunk in enumerate(chunks)})
    return Part(staging.id, staged)

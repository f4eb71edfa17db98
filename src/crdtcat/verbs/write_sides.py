"""The two sides that `write` compares: the rows that are there, and the rows that shall be.

The old side is read as little as possible: an entry that is read whole and as it was stored is known by its
chunk's hash, and by the hashes of its columns in the segment's footer; only what differs is loaded. The new
side is brought to storage types, cut as it would be if it were appended, and hashed, on all cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.cutting import cut
from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.partitions import Partitioning, encode_values
from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.types import is_lossless, storage_type, to_storage
from crdtcat.clock import ROOT
from crdtcat.difference import NewChunk, OldChunk
from crdtcat.format.row_ids import ID, RowIds, Tags
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.head.naming import row_ids
from crdtcat.head.rows import Rows
from crdtcat.intervals.runs import Integers
from crdtcat.log.log import NONE
from crdtcat.options import Options
from crdtcat.scan.changed import ChangedEntries
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.execute import Execution
from crdtcat.scan.plan import Plan, make_plan
from crdtcat.scan.shown import retyped
from crdtcat.scan.units import Unit, units
from crdtcat.session import Session
from crdtcat.support.pools import ThreadPool
from crdtcat.verbs.moved import NONE_MOVED, Moved, moved_rows
from crdtcat.writing.fit import Fit, conform
from crdtcat.writing.slabs import chunk_sizes

MOVED_MAX: Final = 8
"""Of so many partitions a chunk may hold rows, after updates that moved them, for each to be compared with
those of its own: a chunk is read once for each. Rows of others are deleted and inserted."""


class NewSide:
    """The rows that shall be.

    Args:
        rows: as they came.
        fit: how they go into the table.
        options: sizes of chunks.
        partitioning: of the table.
    """

    def __init__(self, rows: pa.Table, fit: Fit, options: Options, partitioning: Partitioning) -> None:
        shown = conform(rows, fit.schema)
        sizes = chunk_sizes(options)
        parts: list[tuple[bytes | None, pa.Table]] = [(None, shown)]
        if partitioning.fields:
            parts = [(encode_values(values), part) for values, part in partitioning.split(shown)]
            shown = pa.concat_tables([part for _, part in parts]) if parts else shown
        self.shown, self._sizes = shown, sizes
        pieces = [
            part.slice(start, stop - start)
            for _, part in parts
            for start, stop in pairwise([0, *cut(part, sizes)])
            if stop > start
        ]
        with ThreadPool(os.cpu_count() or 1, "crdtcat-write") as pool:
            stored = list(pool.map(_stored, pieces))
            hashed = list(pool.map(hash_table, stored))
        self.rows: pa.Table = pa.concat_tables(stored) if stored else _stored(shown)
        self.chunks = [
            NewChunk(table.num_rows, hash, dict(zip(table.column_names, columns, strict=True)))
            for table, (hash, columns) in zip(stored, hashed, strict=True)
        ]
        self.partitions = [values for values, _ in parts]
        self.ends = np.cumsum([0, *(part.num_rows for _, part in parts)])

    def target(self, names: Sequence[str] | None = None) -> int:
        """How many rows a chunk of these columns should have: of wide ones fewer."""
        rows = self.rows if names is None else self.rows.select(list(names))
        return self._sizes.within(rows.nbytes, rows.num_rows).target

    def take(self, rows: Integers, names: Sequence[str] | None = None) -> pa.Table:
        """Some rows, rising, as storage arrays, each column in one piece."""
        chosen = self.rows if names is None else self.rows.select(list(names))
        if not len(rows):
            return chosen.slice(0, 0).combine_chunks()
        # Arrow joins all pieces of a column before it takes from them: so only those in which rows lie.
        first, last = int(rows[0]), int(rows[-1])
        near = chosen.slice(first, last - first + 1)
        return (near if len(rows) == near.num_rows else near.take(pa.array(rows - first))).combine_chunks()

    def by_partition(self, runs: Integers) -> Iterator[tuple[bytes | None, Integers]]:
        """Runs of (old row, new start, length), cut where partitions end, by partition."""
        ends = pairwise(self.ends.tolist())
        for values, (start, stop) in zip(self.partitions, ends, strict=True):
            first, last = np.maximum(runs[:, 1], start), np.minimum(runs[:, 1] + runs[:, 2], stop)
            inside = first < last
            if inside.any():
                yield values, np.column_stack((runs[inside, 0], first[inside], (last - first)[inside]))


def _stored(table: pa.Table) -> pa.Table:
    arrays = [
        to_storage(column, name) for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=table.column_names)


class OldSide:
    """The rows that are there.

    Args:
        head: the table.
        session: reads it.
        wanted: the columns and types that the new rows have.
        partitioning: of the table.
        partitions: those of the new rows, in their order: the old rows are numbered so, too, those of others
            at the end. What counts is where rows are now, as far as `MOVED_MAX` allows.
    """

    def __init__(
        self,
        head: Head,
        session: Session,
        wanted: pa.Schema,
        partitioning: Partitioning,
        partitions: Sequence[bytes | None],
    ) -> None:
        self._head, self._store, self._wanted = head, session.store, wanted
        self._footers = FooterCache()
        self._comparable: dict[tuple[int, int], bool] = {}
        self.columns = [column for column in head.columns.all if _can_be_compared(column, wanted)]
        self.schema = pa.schema(
            [pa.field(column.name, storage_type(wanted.field(column.name).type)) for column in self.columns]
        )
        plan = make_plan(head, None, None)
        verify = session.options.verify
        self._chunks = ChunkReader(plan, session.store, self._footers, verify=verify)
        self._changed = ChangedEntries(plan, self._chunks)
        self._execution = Execution(plan, session.store, self._footers, verify=verify)
        moved = moved_rows(session, head, partitioning) if head.columns.all else NONE_MOVED
        found = [*self._found(plan, partitions, moved)]
        found.sort(key=itemgetter(0))
        self._places = [place for _, place in found]
        self.chunks = [self._chunk(place) for place in self._places]
        self._ends = np.cumsum([0, *(chunk.rows for chunk in self.chunks)])
        parts = np.searchsorted([part for part, _ in found], np.arange(len(partitions) + 1))
        self.ends = self._ends[parts]

    def _found(
        self, plan: Plan, partitions: Sequence[bytes | None], moved: Moved
    ) -> Iterator[tuple[int, int | Unit]]:
        """What is compared by itself, each with the number of its partition."""
        log, rows = self._head.log, self._head.rows
        number = {values: at for at, values in enumerate(partitions)}
        others = len(partitions)
        numbers = [number.get(values, others) for values in (*log.partitions, None)]
        partition = np.where(log.partition == NONE, len(log.partitions), log.partition)
        now = moved.by_entry([number.get(values, others) for values in moved.partitions], MOVED_MAX)
        for unit in units(plan, together=False):  # each is compared, and read, by itself
            stored = {chunk: numbers[partition[chunk]] for chunk in unit.chunks}
            if unit.strips is None:
                yield from ((stored[chunk], chunk) for chunk in unit.chunks)
                continue
            parts: dict[int, list[tuple[int, int, int]]] = {}
            for strip in unit.strips:
                for at, piece in _pieces(strip, rows, now.get(strip[0]), stored[strip[0]]):
                    parts.setdefault(at, []).append(piece)
            yield from ((at, _of_strips(unit, strips)) for at, strips in parts.items())

    def _chunk(self, place: int | Unit) -> OldChunk:
        return self._entry(place) if isinstance(place, int) else self._mixed(place)

    def _entry(self, entry: int) -> OldChunk:
        log = self._head.log
        written = int(log.chunk_schema[entry]), int(log.chunk_version[entry])
        if written not in self._comparable:
            self._comparable[written] = self._is_what_it_was_stored_as(*written)
        known = self._comparable[written]
        in_segment = known and self._chunks.is_stored(entry)
        return OldChunk(
            rows=int(log.rows[entry]),
            load=partial(self._load, entry),
            hash=log.hash[entry].tobytes() if known else None,
            column_hashes=partial(self._chunks.column_hashes, entry) if in_segment else None,
        )

    def _mixed(self, unit: Unit) -> OldChunk:
        assert unit.strips is not None
        rows = sum(len(self._head.rows.live_offsets(*strip)) for strip in unit.strips)
        return OldChunk(
            rows=rows, load=lambda names: self._typed(self._execution.changed_rows(unit)[0], names)
        )

    def _is_what_it_was_stored_as(self, schema: int, version: int) -> bool:
        """Whether a chunk's hash means the same rows, in the same columns, as that of new rows would."""
        columns = self._head.columns
        fields = columns.fields(schema)
        return len(fields) == len(self._wanted) and all(
            (column := columns.by_name.get(field.name)) is not None
            and columns.source(column, schema, version) == field
            and self._wanted.get_field_index(field.name) >= 0
            and column.type == self._wanted.field(field.name).type
            and columns.fits(field, column)
            for field in fields
        )

    def _load(self, entry: int, names: Sequence[str]) -> pa.Table:
        wanted = [column for column in self.columns if column.name in names]
        return self._typed(self._changed.read(entry, wanted), names)

    def _typed(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        columns = self._head.columns.by_name
        arrays = [retyped(rows.column(name), columns[name], self._wanted.field(name).type) for name in names]
        return pa.Table.from_arrays(arrays, names=list(names))

    def locate(self, rows: Integers) -> tuple[Integers, Integers]:
        """Rows by number as entries and offsets in them."""
        which = np.searchsorted(self._ends, rows, side="right") - 1
        entry, offset = np.empty(len(rows), np.int64), rows - self._ends[which]
        for at in np.unique(which).tolist():
            mine, place = which == at, self._places[at]
            if isinstance(place, int):
                entry[mine] = place
                continue
            assert place.strips is not None
            offsets = [self._head.rows.live_offsets(*strip) for strip in place.strips]
            owners = np.repeat([strip[0] for strip in place.strips], [len(part) for part in offsets])
            inside = offset[mine]
            entry[mine], offset[mine] = owners[inside], np.concatenate(offsets)[inside]
        return entry, offset

    def anchors(self, rows: Integers) -> RowIds:
        """The rows that inserted runs follow, one for each; -1 is the beginning of the table."""
        there = rows >= 0
        if there.all():
            return _one_by_one(row_ids(self._head, *self.locate(rows)))
        found = _one_by_one(row_ids(self._head, *self.locate(rows[there])))
        beginning = Tags(np.array([ROOT.to_bytes()], ID), np.zeros(1, np.uint32))
        tags = Tags(
            np.concatenate((beginning.versions, found.tags.versions)),
            np.concatenate((beginning.ordinals, found.tags.ordinals)),
            found.tags.keyed,
        )
        tag = np.zeros(len(rows), np.uint32)
        start = np.zeros(len(rows), np.uint32)
        tag[there], start[there] = found.tag + 1, found.start
        return RowIds(tags, tag, start, start + 1)


def _pieces(
    strip: tuple[int, int, int], rows: Rows, now: Integers | None, stored: int
) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """A strip cut into runs of rows of one partition, each with the number of that."""
    entry, start, stop = strip
    offsets = rows.live_offsets(*strip) if now is not None else ()
    if now is None or not len(offsets):
        yield stored, strip
        return
    numbers = now[offsets]
    first = np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1))
    starts = [start, *offsets[first[1:]].tolist(), stop]
    for at, (begin, end) in zip(numbers[first].tolist(), pairwise(starts), strict=True):
        yield at, (entry, begin, end)


def _of_strips(unit: Unit, strips: Sequence[tuple[int, int, int]]) -> Unit:
    """What a unit has of some of its rows."""
    if tuple(strips) == unit.strips:
        return unit
    held = {strip[0] for strip in strips}
    whole = tuple(known for chunk, known in zip(unit.chunks, unit.whole, strict=True) if chunk in held)
    chunks = tuple(chunk for chunk in unit.chunks if chunk in held)
    return replace(unit, chunks=chunks, whole=whole, strips=tuple(strips), all_rows=False)


def _one_by_one(rows: RowIds) -> RowIds:
    """The same rows, an interval for each."""
    counts = rows.stop.astype(np.int64) - rows.start.astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    start = rows.start[owner] + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    start = start.astype(np.uint32)
    return RowIds(rows.tags, rows.tag[owner], start, start + np.uint32(1))


def _can_be_compared(column: Column, wanted: pa.Schema) -> bool:
    at = wanted.get_field_index(column.name)
    return at >= 0 and is_lossless(column.type, wanted.field(at).type)

"""The change feed: what turns one snapshot of a table into another, row by row.

Rows have identities, so nothing has to be searched for: rows that only the later snapshot has were inserted,
rows that only the earlier one has were deleted, and of the rows in both, those that an update touched which
only one of them has seen are read from both sides and compared. All of that is intervals; only rows that
changed are read. Compactions change no identity and no value, so they do not show.

The two snapshots need not follow one another: where the first has seen what the second has not, the feed says
how to undo it. Memory: one chunk of each side.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from crdtcat.cached import cached_property
from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.row_hash import column_hashes
from crdtcat.chunks.types import storage_type
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.head.pieces import Pieces, split
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, Runs, expand
from crdtcat.log.log import Log
from crdtcat.scan.changed import ChangedEntries
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.feed import Feed
from crdtcat.scan.plan import make_plan
from crdtcat.scan.shown import retyped
from crdtcat.store import Store


class Changes(Feed):
    """What changed between two snapshots. Nothing is read until rows are asked for.

    Made by `Table.changes`. Rows have the later snapshot's columns and, before them, `_change`: "insert",
    "delete", or "update_before" and "update_after", which follow one another row by row. Deleted rows come
    first, then updated ones, then inserted ones, each in row order.
    """

    def __init__(self, old: Head, new: Head, log: Log, store: Store, *, verify: bool) -> None:
        super().__init__(old, new)
        self._sides = (_Side(old, log, store, new, verify=verify), _Side(new, log, store, new, verify=verify))

    @cached_property
    def _sets(self) -> tuple[RowSet, RowSet, RowSet]:
        """Deleted, touched, inserted rows, by the chunk they were born in."""
        old, new = self._sides
        before, after = old.live, new.live
        both = before & after
        return before - after, (old.rewritten(new) | new.rewritten(old)) & both, after - before

    @property
    def deleted(self) -> int:
        """How many rows were deleted. No request."""
        return self._sets[0].total

    @property
    def touched(self) -> int:
        """How many rows were updated, at most: some may have been given the values they had. No request."""
        return self._sets[1].total

    @property
    def inserted(self) -> int:
        """How many rows were inserted. No request."""
        return self._sets[2].total

    def tables(self) -> Iterator[pa.Table]:
        """The changes, chunk by chunk. Raises `Corrupt` on damage."""
        old, new = self._sides
        deleted, touched, inserted = self._sets
        for rows, _ in old.read(deleted):
            yield self.marked(rows, "delete")
        for after, births in new.read(touched):
            before = old.read_at(*births)
            yield from self._updates(before, after)
        for rows, _ in new.read(inserted):
            yield self.marked(rows, "insert")

    def _updates(self, before: pa.Table, after: pa.Table) -> Iterator[pa.Table]:
        """Before and after, one after the other, of rows that differ."""
        differ = np.zeros(after.num_rows, bool)
        for name in after.column_names:
            differ |= _differs(before.column(name).combine_chunks(), after.column(name).combine_chunks())
        rows = np.flatnonzero(differ)
        if len(rows):
            pairs = np.column_stack((rows, rows + after.num_rows)).ravel()
            both = pa.concat_tables([before, after]).combine_chunks().take(pa.array(pairs))
            marks = pa.array(["update_before", "update_after"] * len(rows), pa.string())
            yield self.shown(both, marks)


class _Side:
    """One of the two heads, with rows numbered by chunks of a log that holds both."""

    def __init__(self, head: Head, log: Log, store: Store, shown: Head, *, verify: bool) -> None:
        self.head = head
        self._number = _numbers(head.log, log)
        self._columns = _matching(head, shown)
        plan = make_plan(head, None, None)
        self._changed = ChangedEntries(plan, ChunkReader(plan, store, FooterCache(), verify=verify))
        self._wanted = shown.columns.all

    @cached_property
    def _pieces(self) -> Pieces:
        pieces = self.head.rows.pieces
        return pieces._replace(birth=self._number[pieces.birth])

    @cached_property
    def live(self) -> RowSet:
        """Every row of the table."""
        pieces, deleted = self._pieces, self.head.rows.deleted
        return RowSet(pieces.birth, pieces.start, pieces.stop) - deleted.renumbered(self._number)

    def rewritten(self, other: _Side) -> RowSet:
        """Rows that versions rewrote which the other side has not."""
        overlaid, log = self.head.rows.overlaid, self.head.log
        there = other.head.log.find(log.ids)
        unknown = there < 0
        unknown[~unknown] = ~other.head.folded.standing[there[~unknown]]
        mine = unknown[overlaid.version] if len(overlaid.version) else np.empty(0, bool)
        rows = RowSet(overlaid.birth[mine], overlaid.start[mine], overlaid.stop[mine])
        return rows.renumbered(self._number)

    def read(self, rows: RowSet) -> Iterator[tuple[pa.Table, tuple[Integers, Integers]]]:
        """Some rows in row order, entry by entry: storage arrays, and each row's birth and offset there."""
        parts, _ = split(self._pieces, Runs(rows.groups, rows.starts, rows.stops))
        edges = np.flatnonzero(np.diff(parts.entry, prepend=-1))
        ends = np.append(edges[1:], parts.size)[: len(edges)]
        for first, last in zip(edges.tolist(), ends.tolist(), strict=True):
            some = parts.take(np.arange(first, last))
            owner, along = expand(some.stop - some.start)
            births = some.birth[owner], some.start[owner] + along
            yield self._taken(int(some.entry[0]), some.at[owner] + along), births

    def read_at(self, birth: Integers, offset: Integers) -> pa.Table:
        """Rows by birth, in the order given."""
        pieces = self._pieces.take(np.lexsort((self._pieces.start, self._pieces.birth)))
        starts = (pieces.birth << 32) | pieces.start
        which = np.searchsorted(starts, (birth << 32) | offset, side="right") - 1
        entry, at = pieces.entry[which], pieces.at[which] + offset - pieces.start[which]
        parts, places = [], []
        for one in np.unique(entry).tolist():
            mine = np.flatnonzero(entry == one)
            parts.append(self._taken(one, at[mine]))
            places.append(mine)
        order = np.argsort(np.concatenate(places))
        return pa.concat_tables(parts).combine_chunks().take(pa.array(order))

    def _taken(self, entry: int, offsets: Integers) -> pa.Table:
        """Rows of one entry, as storage arrays of the columns of the feed."""
        there = [column for column in self._columns if column is not None]
        rows = self._changed.read(entry, there).take(pa.array(offsets))
        arrays = [
            pa.nulls(len(offsets), storage_type(wanted.type))
            if column is None
            else retyped(rows.column(column.name), column, wanted.type)
            for column, wanted in zip(self._columns, self._wanted, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=[column.name for column in self._wanted])


def _matching(head: Head, shown: Head) -> list[Column | None]:
    """For each column of one head, the column of another that it was, by whatever name."""
    return [
        next((held for held in head.columns.all if held.instances & column.instances), None)
        for column in shown.columns.all
    ]


def _numbers(part: Log, whole: Log) -> Array:
    """Per chunk of a log, its number in one that holds more; of a retried commit, the number of the first."""
    version = part.chunk_version.astype(np.int64)
    ordinal = np.arange(part.chunk_count) - part.chunk_start[version]
    at = whole.find(part.ids)
    number: Array = whole.chunk_start[at[version]] + ordinal
    if part.key.null_count == len(part):
        return number
    first: dict[tuple[bytes, bytes, int], int] = {}
    for copy in np.flatnonzero(np.asarray(whole.key.is_valid())).tolist():
        for chunk in range(int(whole.chunk_start[copy]), int(whole.chunk_start[copy + 1])):
            place = chunk - int(whole.chunk_start[copy])
            first.setdefault((whole.key[copy].as_py(), whole.hash[chunk].tobytes(), place), chunk)
    keyed = np.asarray(part.key.is_valid())[version]
    for chunk in np.flatnonzero(keyed).tolist():
        key = part.key[int(version[chunk])].as_py()
        number[chunk] = first[key, part.hash[chunk].tobytes(), int(ordinal[chunk])]
    return number


def _differs(before: pa.Array, after: pa.Array) -> Array:
    """Per row, whether two storage arrays differ; nulls equal nulls."""
    left, right = column_hashes(before, "column"), column_hashes(after, "column")
    differs: Array = left != right
    return differs

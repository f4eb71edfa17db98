"""The change feed of a keyed table: both snapshots are read, merged, and compared by key.

A keyed table's rows have no identity but their keys, and what a key holds is known only once all that was
said of it is merged. So both sides are read, of the parts that something new lies in
(`crdtcat.scan.keyed_parts`), one part after the other. Memory is the greatest of these, and what changed.
All is read where columns are others, or the earlier snapshot has what the later one lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.types import storage_type, to_storage
from crdtcat.difference import NewChunk, OldChunk, difference
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.intervals.runs import expand
from crdtcat.scan.feed import Feed
from crdtcat.scan.keyed_parts import Part, changed_parts
from crdtcat.scan.read_otherwise import matched
from crdtcat.scan.shown import matching, retyped
from crdtcat.support.cached import cached_property

COMPARED_BYTES: Final = 64 * 2**20  # of both sides, compared at a time: many small parts cost few round trips
Entries = tuple[int, ...]
Rows = Callable[[Head, Entries | None], pa.Table]
"""The rows of some entries of a head, or all of them, as users see them."""


class KeyedChanges(Feed):
    """What changed between two snapshots of a keyed table.

    Args:
        old: the earlier.
        new: the later.
        read: rows of a head.
        shown: the columns rows are compared and shown in, key and all; the later head's by default.
        parts: what to compare; by default all that may have changed.
    """

    def __init__(
        self,
        old: Head,
        new: Head,
        read: Rows,
        shown: Sequence[Column] | None = None,
        parts: Sequence[Part] | None = None,
    ) -> None:
        super().__init__(old, new, shown)
        self._heads, self._read, self._given = (old, new), read, shown is not None
        self._parts = parts

    @cached_property
    def _changed(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The rows that were deleted, updated, each before and after, and inserted."""
        found: list[tuple[pa.Table, pa.Table, pa.Table]] = []
        for entries in _shares(*self._heads) if self._parts is None else map(_entries, self._parts):
            before, after = (self._typed(head, some) for head, some in zip(self._heads, entries, strict=True))
            found.append(_compared(before, after, list(self._head.settings.key)))
        if not found:
            none = self._typed(None, None)
            return none, none, none
        deleted, updated, inserted = (pa.concat_tables(kind) for kind in zip(*found, strict=True))
        return deleted, updated, inserted

    def _typed(self, head: Head | None, entries: Entries | None) -> pa.Table:
        """Rows, as storage arrays of the feed's columns; columns they lack are null. Of no head none."""
        rows = self._read(head, entries) if head is not None and head.columns.all else None
        count = 0 if rows is None else rows.num_rows
        arrays = []
        for held, column in zip(self._sources(head), self.columns, strict=True):
            if held is None or rows is None:
                arrays.append(pa.chunked_array([pa.nulls(count, storage_type(column.type))]))
            else:
                stored = pa.chunked_array([to_storage(rows.column(held.name), held.name)])
                arrays.append(retyped(stored, held, column.type))
        return pa.Table.from_arrays(arrays, names=[column.name for column in self.columns])

    def _sources(self, head: Head | None) -> Sequence[Column | None]:
        if head is None:
            return [None] * len(self.columns)
        return matching(head.columns.all, self.columns) if self._given else matched(head, self.columns)

    @property
    def deleted(self) -> int:
        """How many rows were deleted. Reads what may have changed, as all of these do."""
        return int(self._changed[0].num_rows)

    @property
    def touched(self) -> int:
        """How many rows were updated."""
        return int(self._changed[1].num_rows) // 2

    @property
    def inserted(self) -> int:
        """How many rows were inserted."""
        return int(self._changed[2].num_rows)

    def tables(self) -> Iterator[pa.Table]:
        """The changes, kind by kind. Raises `Corrupt` on damage."""
        deleted, updated, inserted = self._changed
        if deleted.num_rows:
            yield self.marked(deleted, "delete")
        if updated.num_rows:
            marks = pa.array(["update_before", "update_after"] * self.touched, pa.string())
            yield self.shown(updated, marks)
        if inserted.num_rows:
            yield self.marked(inserted, "insert")


def _shares(old: Head, new: Head) -> Iterator[tuple[Entries | None, Entries | None]]:
    """What is compared at a time, of both sides; all of both where parts cannot say what may have changed.

    What rows show of a column changes without new rows where the column does, and parts are found by what the
    later snapshot has and the earlier one lacks.
    """
    if old.columns.all != new.columns.all or (new.log.find(old.log.ids) < 0).any():
        yield None, None
        return
    share: list[Part] = []
    for part in changed_parts(old, new):
        if share and sum(item.nbytes for item in share) + part.nbytes > COMPARED_BYTES:
            yield _entries(*share)
            share = []
        share.append(part)
    if share:
        yield _entries(*share)


def _entries(*parts: Part) -> tuple[Entries, Entries]:
    return tuple(at for part in parts for at in part.before), tuple(at for part in parts for at in part.after)


def _compared(before: pa.Table, after: pa.Table, key: list[str]) -> tuple[pa.Table, pa.Table, pa.Table]:
    hash, columns = hash_table(after)
    chunk = NewChunk(after.num_rows, hash, dict(zip(after.column_names, columns, strict=True)))
    there = [OldChunk(before.num_rows, lambda names: before.select(list(names)))] if before.num_rows else []
    fresh = [chunk] if after.num_rows else []
    script = difference(there, before.schema, after, fresh, key=key)
    both = pa.concat_tables([before, after])
    pairs = np.column_stack((script.updated_old, script.updated_new + before.num_rows)).ravel()
    owner, along = expand(script.inserted[:, 2])
    added = script.inserted[owner, 1] + along
    return before.take(pa.array(script.deleted)), both.take(pa.array(pairs)), after.take(pa.array(added))

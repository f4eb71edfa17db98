"""The change feed of a keyed table: both snapshots are read, merged, and compared by key.

A keyed table's rows have no identity but their keys, and what a key holds is known only once all that was
said of it is merged. So both sides are read, and memory is both of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.types import storage_type, to_storage
from crdtcat.difference import EditScript, NewChunk, OldChunk, difference
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.intervals.runs import expand
from crdtcat.scan.feed import Feed
from crdtcat.scan.read_otherwise import matched
from crdtcat.scan.shown import matching, retyped
from crdtcat.support.cached import cached_property


class KeyedChanges(Feed):
    """What changed between two snapshots of a keyed table.

    Args:
        old: the earlier.
        new: the later.
        read: all rows of a head, as users see them.
        shown: the columns rows are compared and shown in, key and all; the later head's by default.
    """

    def __init__(
        self,
        old: Head,
        new: Head,
        read: Callable[[Head], pa.Table],
        shown: Sequence[Column] | None = None,
    ) -> None:
        super().__init__(old, new, shown)
        self._heads, self._read, self._given = (old, new), read, shown is not None

    @cached_property
    def _compared(self) -> tuple[pa.Table, pa.Table, EditScript]:
        before, after = (self._typed(head) for head in self._heads)
        hash, columns = hash_table(after)
        chunk = NewChunk(after.num_rows, hash, dict(zip(after.column_names, columns, strict=True)))
        there = (
            [OldChunk(before.num_rows, lambda names: before.select(list(names)))] if before.num_rows else []
        )
        fresh = [chunk] if after.num_rows else []
        key = list(self._head.settings.key)
        return before, after, difference(there, before.schema, after, fresh, key=key)

    def _typed(self, head: Head) -> pa.Table:
        """All rows, as storage arrays of the feed's columns; columns it lacks are null."""
        rows = self._read(head) if head.columns.all else None
        count = 0 if rows is None else rows.num_rows
        arrays = []
        sources = matching(head.columns.all, self.columns) if self._given else matched(head, self.columns)
        for held, column in zip(sources, self.columns, strict=True):
            if held is None or rows is None:
                arrays.append(pa.chunked_array([pa.nulls(count, storage_type(column.type))]))
            else:
                stored = pa.chunked_array([to_storage(rows.column(held.name), held.name)])
                arrays.append(retyped(stored, held, column.type))
        return pa.Table.from_arrays(arrays, names=[column.name for column in self.columns])

    @property
    def deleted(self) -> int:
        """How many rows were deleted. Reads both snapshots."""
        return len(self._compared[2].deleted)

    @property
    def touched(self) -> int:
        """How many rows were updated. Reads both snapshots."""
        return len(self._compared[2].updated_old)

    @property
    def inserted(self) -> int:
        """How many rows were inserted. Reads both snapshots."""
        return self._compared[2].inserted_rows

    def tables(self) -> Iterator[pa.Table]:
        """The changes, kind by kind. Raises `Corrupt` on damage."""
        before, after, script = self._compared
        if len(script.deleted):
            yield self.marked(before.take(pa.array(script.deleted)), "delete")
        if len(script.updated_old):
            both = pa.concat_tables([before, after])
            pairs = np.column_stack((script.updated_old, script.updated_new + before.num_rows)).ravel()
            marks = pa.array(["update_before", "update_after"] * len(script.updated_old), pa.string())
            yield self.shown(both.take(pa.array(pairs)), marks)
        if script.inserted_rows:
            owner, along = expand(script.inserted[:, 2])
            yield self.marked(after.take(pa.array(script.inserted[owner, 1] + along)), "insert")

"""The change feed: what turns one snapshot of a table into another, row by row.

Rows have identities, so nothing has to be searched for: rows that only the later snapshot has were inserted,
rows that only the earlier one has were deleted, and of the rows in both, those that an update touched which
only one of them has seen are read from both sides and compared; so are rows that are read otherwise because
columns are others (`crdtcat.scan.read_otherwise`). All of that is intervals; only rows that may have changed
are read. Compactions change no identity and no value, so they do not show.

The two snapshots need not follow one another: where the first has seen what the second has not, the feed says
how to undo it. Memory: one chunk of each side.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from crdtcat.chunks.row_hash import column_hashes
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.intervals import RowSet
from crdtcat.log.log import Log
from crdtcat.scan.feed import Feed
from crdtcat.scan.side import Side, changed_rows
from crdtcat.store import Store
from crdtcat.support.cached import cached_property


class Changes(Feed):
    """What changed between two snapshots. Nothing is read until rows are asked for.

    Made by `Table.changes`. Rows have the later snapshot's columns and, before them, `_change`: "insert",
    "delete", or "update_before" and "update_after", which follow one another row by row. Deleted rows come
    first, then updated ones, then inserted ones, each in row order.
    """

    def __init__(self, old: Head, new: Head, log: Log, store: Store, *, verify: bool) -> None:
        super().__init__(old, new)
        shown = new.columns.all
        self._sides = (
            Side(old, log, store, shown, verify=verify),
            Side(new, log, store, shown, verify=verify),
        )

    @cached_property
    def _sets(self) -> tuple[RowSet, RowSet, RowSet]:
        """Deleted, touched, inserted rows, by the chunk they were born in."""
        return changed_rows(*self._sides)

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
            differ |= differs(before.column(name).combine_chunks(), after.column(name).combine_chunks())
        rows = np.flatnonzero(differ)
        if len(rows):
            pairs = np.column_stack((rows, rows + after.num_rows)).ravel()
            both = pa.concat_tables([before, after]).combine_chunks().take(pa.array(pairs))
            marks = pa.array(["update_before", "update_after"] * len(rows), pa.string())
            yield self.shown(both, marks)


def differs(before: pa.Array, after: pa.Array) -> Array:
    """Per row, whether two storage arrays differ; nulls equal nulls."""
    left, right = column_hashes(before, "column"), column_hashes(after, "column")
    found: Array = left != right
    return found

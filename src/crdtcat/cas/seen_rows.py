"""Which rows were there when a change was made, and which of them an overwrite takes away.

A version's file names the rows that its author saw. Of what it did that says too much, where rows were gone
by then, and too little of an overwrite that was moved past others: it takes away what these had put there, by
the rule that the greatest wins, and does not name it. Both are told by a head. No request.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crdtcat.conflicts import WriteSet
from crdtcat.conflicts.tagged_rows import TaggedRows
from crdtcat.format.ops import EVERYTHING
from crdtcat.format.row_ids import END
from crdtcat.head import Head
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, expand


class SeenRows:
    """What a head says of rows. Implements `crdtcat.conflicts.detect.Seen`. Not for keyed tables: keys are
    compared there.

    Args:
        seen: the head that the change was made from, or what makes it; `None`: the change reads nothing, and
            so names no rows.
        births: one that knows all chunks that the change names, where `seen` does not.
    """

    def __init__(self, seen: Head | Callable[[], Head] | None, births: Head | None = None) -> None:
        self._seen, self._births = seen, births

    def alive(self, named: TaggedRows) -> TaggedRows:
        """Of some rows, those that were there, or came since. O(pieces) when first asked, and O(log n) for
        each chunk."""
        if self._seen is None:
            return named
        rows = self._head.rows
        chunks = rows.tags.chunks(named.names)
        first, last = (np.searchsorted(rows.alive.groups, chunks + after) for after in (0, 1))
        owner, along = expand(last - first)
        at, unknown = first[owner] + along, np.flatnonzero(chunks < 0)
        return named.among(RowSet(owner, rows.alive.starts[at], rows.alive.stops[at]) | _whole(unknown))

    def covered(self, named: TaggedRows, by: WriteSet) -> TaggedRows:
        """Of some rows, those that an overwrite of a lesser id had put where this one overwrites: it takes
        them away, named or not. O(versions + chunks named)."""
        if self._seen is None:
            return named.among(RowSet())
        head = self._births or self._head
        log, overwrites = head.log, [at for at, op in head.folded.ops.items() if op.is_overwrite]
        chunks = head.rows.tags.chunks(named.names)
        at = np.flatnonzero(chunks >= 0)
        at = at[np.isin(log.chunk_version[chunks[at]], overwrites)]
        at = at[log.ids[log.chunk_version[chunks[at]]] < np.array(by.id.to_bytes(), log.ids.dtype)]
        if (scope := by.ops.scope) is not EVERYTHING:
            inside = [place for place, values in enumerate(log.partitions) if values in scope]
            at = at[np.isin(log.partition[chunks[at]], inside)]
        return named.among(_whole(at))

    @property
    def _head(self) -> Head:
        assert self._seen is not None
        return self._seen if isinstance(self._seen, Head) else self._seen()


def _whole(groups: Integers) -> RowSet:
    """Every row of some chunks."""
    return RowSet(groups, np.zeros_like(groups), np.full_like(groups, END))

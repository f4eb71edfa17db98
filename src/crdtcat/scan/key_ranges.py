"""Ranges of keys: which chunks can share a key, from their statistics alone.

Bounds are bytes that sort as keys do. Once they are ranked all of this is whole-array work on numbers. A
chunk whose bounds nobody recorded may share a key with any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks.keys import KEY_BOUNDS
from crdtcat.format.sections import Array
from crdtcat.log.log import Log


class KeyRanges:
    """The ranges of some chunks of a log.

    Attributes:
        first, last: per chunk, the ranks of its least and greatest key among all bounds; equal bounds, equal
            ranks.
    """

    def __init__(self, log: Log, chunks: Array) -> None:
        count = len(chunks)
        place = np.full(log.chunk_count, -1, np.int64)
        place[chunks] = np.arange(count)
        self.first, self.last = np.full(count, -1, np.int64), np.full(count, 2 * count + 1, np.int64)
        self._row = np.full(count, -1, np.int64)
        self._bounds = bounds = log.statistics.bounds(KEY_BOUNDS, "b")
        if bounds is None:
            return
        rows = np.flatnonzero((place[bounds.chunk] >= 0) & bounds.known)
        self._row[place[bounds.chunk[rows]]] = rows
        index = pa.array(rows)
        sides: Any = [side.take(index) for side in (bounds.low, bounds.high)]
        ranks = np.asarray(pc.rank(pa.concat_arrays(sides), tiebreaker="dense")).astype(np.int64)
        self.first[place[bounds.chunk[rows]]] = ranks[: len(rows)]
        self.last[place[bounds.chunk[rows]]] = ranks[len(rows) :]

    def low(self, at: int) -> bytes | None:
        """No key of the chunk at a place is below this; `None`: unknown."""
        return self._bound(at, "low")

    def high(self, at: int) -> bytes | None:
        """No key of the chunk at a place is above this; `None`: unknown."""
        return self._bound(at, "high")

    def _bound(self, at: int, side: str) -> bytes | None:
        if self._bounds is None or self._row[at] < 0:
            return None
        bound: bytes = getattr(self._bounds, side)[int(self._row[at])].as_py()
        return bound


def groups_of(first: Array, last: Array) -> Array:
    """Per range the number of its group: ranges that overlap, directly or by way of others, are in one.

    Ranges come in rising order of `first`; groups rise.
    """
    if not len(first):
        return np.empty(0, np.int64)
    reach = np.maximum.accumulate(last)
    groups: Array = np.cumsum(np.concatenate(([False], first[1:] > reach[:-1])))
    return groups

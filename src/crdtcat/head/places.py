"""Where clusterings put rows.

A clustering is a version of history that gives rows new places: those it wrote stand where its chunks do, in
the order they have there. Of several that placed a row the greatest version counts, so whoever has merged the
same versions sees the same order. A place is (chunk, offset in it), as at birth, and holds whether or not the
chunk is read: what is compacted later, or turns out void, moves nothing.

Rows that no clustering placed stand where they were born.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crdtcat.format.kinds import COPY
from crdtcat.format.row_ops import RowOps
from crdtcat.format.sections import Array
from crdtcat.head.pieces import Pieces, split
from crdtcat.head.tags import TagIndex
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, Runs, expand, touched
from crdtcat.log.log import Log


class Placed(NamedTuple):
    """Pieces, and for each the chunk in which its rows stand and where in it the first does."""

    pieces: Pieces
    chunk: Integers
    at: Integers

    def take(self, index: Array) -> Placed:
        """Some of them, in that order."""
        return Placed(self.pieces.take(index), self.chunk[index], self.at[index])


class Places:
    """What clusterings say.

    Args:
        log: the log.
        changes: row ops of standing versions, by version.
        tags: resolves tags.
    """

    def __init__(self, log: Log, changes: Mapping[int, RowOps], tags: TagIndex) -> None:
        self._given = _given(log, changes, tags)

    def __bool__(self) -> bool:
        return self._given.size > 0

    def of_pieces(self, pieces: Pieces) -> Placed:
        """Pieces cut so that the rows of each stand together. O((k + n) log n)."""
        if not self:
            return Placed(pieces, pieces.birth, pieces.start)
        given = self._given
        moved, run = split(pieces, given.runs)
        others = RowSet(*pieces.runs) - RowSet(*given.runs)
        stayed, _ = split(pieces, Runs(others.groups, others.starts, others.stops))
        both = Pieces(*(np.concatenate(column) for column in zip(moved, stayed, strict=True)))
        chunk = np.concatenate((given.entry[run], stayed.birth))
        at = np.concatenate((given.at[run] + moved.start - given.start[run], stayed.start))
        return Placed(both, chunk, at)

    def of_rows(self, birth: Integers, offset: Integers) -> tuple[Integers, Integers]:
        """Per row, by birth, the chunk it stands in and where. O(rows log n)."""
        if not self or not len(birth):
            return birth, offset
        given = self._given
        first, last = touched(Runs(birth, offset, offset + 1), given.runs)
        chunk, at, found = birth.copy(), offset.copy(), first < last
        run = first[found]
        chunk[found], at[found] = given.entry[run], given.at[run] + offset[found] - given.start[run]
        return chunk, at


def _given(log: Log, changes: Mapping[int, RowOps], tags: TagIndex) -> Pieces:
    """Runs of rows, sorted by birth, with the chunk they were put in (as `entry`) and where in it.

    O(n log n) for the n intervals of each clustering.
    """
    parts, seen = [_pieces([])], RowSet()
    for version in sorted(changes, reverse=True):
        mine = _given_by(log, version, changes[version], tags)
        if not mine.size:
            continue
        rows = RowSet(*mine.runs)
        fresh = rows - seen
        parts.append(split(mine, Runs(fresh.groups, fresh.starts, fresh.stops))[0])
        seen |= rows
    given = _pieces(parts)
    return given.take(np.lexsort((given.start, given.birth)))


def _given_by(log: Log, version: int, done: RowOps, tags: TagIndex) -> Pieces:
    """What one version says, sorted by birth, each row once."""
    first, end = (int(at) for at in log.chunk_start[version : version + 2])
    parts = []
    for copy in done.copies if not log.is_upkeep[version] else ():
        chunk = first + copy.ordinal
        if copy.stands and chunk < end and log.kind[chunk] == COPY:
            birth, start, stop, at = tags.rows_with_places(copy.rows)
            parts.append(Pieces(birth, start, stop, np.full(len(birth), chunk), at))
    mine = _pieces(parts)
    mine = mine.take(np.lexsort((mine.start, mine.birth)))
    twice = (mine.birth[1:] == mine.birth[:-1]) & (mine.start[1:] < mine.stop[:-1])
    return _first_of_each(mine) if twice.any() else mine


def _first_of_each(pieces: Pieces) -> Pieces:
    """Row by row, the first place. Only insertions that turned out to be one are ever listed twice."""
    owner, along = expand(pieces.stop - pieces.start)
    birth, start = pieces.birth[owner], pieces.start[owner] + along
    chunk, at = pieces.entry[owner], pieces.at[owner] + along
    order = np.lexsort((at, chunk, start, birth))
    birth, start, chunk, at = (column[order] for column in (birth, start, chunk, at))
    fresh = np.ones(len(birth), bool)
    fresh[1:] = (birth[1:] != birth[:-1]) | (start[1:] != start[:-1])
    return Pieces(birth, start, start + 1, chunk, at).take(fresh)


def _pieces(parts: Sequence[Pieces]) -> Pieces:
    none = np.empty(0, np.int64)
    return Pieces(*(np.concatenate(column) for column in zip(Pieces(*[none] * 5), *parts, strict=True)))

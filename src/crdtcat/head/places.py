"""Where clusterings put rows.

A clustering is a version of history that gives rows new places: those it wrote stand where its chunks do, in
the order they have there. Of several that placed a row the greatest version counts, so whoever has merged the
same versions sees the same order. A place is (chunk, offset in it), as at birth, and holds whether or not the
chunk is read: what is compacted later, or turns out void, moves nothing.

Rows that no clustering placed stand where they were born.

Nearly always every row is read from the chunk that its greatest clustering put it in. Then places are known
without looking at rows: no row is in two entries, and a clustered chunk that is no entry any more was
replaced by a greater clustering, which wrote, and so placed, every row of it that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crdtcat.format.kinds import COPY
from crdtcat.format.row_ops import Copy, RowOps
from crdtcat.format.sections import Array
from crdtcat.head.compactions import Compactions
from crdtcat.head.pieces import Pieces, split
from crdtcat.head.tags import TagIndex
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, Runs, expand, touched
from crdtcat.log.log import Log
from crdtcat.support.cached import cached_property


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
        judged: what compactions did, where no row is in two entries.
    """

    def __init__(
        self, log: Log, changes: Mapping[int, RowOps], tags: TagIndex, judged: Compactions | None = None
    ) -> None:
        self._log, self._changes, self._tags, self._judged = log, changes, tags, judged
        made = ((version, done) for version, done in changes.items() if done.copies)
        placing = [chunk for version, done in made for chunk, _ in _placing(log, version, done)]
        self._placing = np.array(sorted(placing), np.int64)

    def __bool__(self) -> bool:
        return len(self._placing) > 0

    @cached_property
    def _given(self) -> Pieces:
        return _given(self._log, self._changes, self._tags)

    @cached_property
    def is_settled(self) -> bool:
        """Whether rows that were placed are all read from the chunk they were placed in. No row is looked at;
        "no" may be wrong."""
        if self._judged is None:
            return False
        versions = np.unique(self._log.chunk_version[self._placing]).tolist()
        replaced = [self._tags.chunks(self._changes[version].replaces) for version in versions]
        settled = self._judged.is_entry.copy()
        settled[np.concatenate([chunks[chunks >= 0] for chunks in replaced])] = True
        return bool(settled[self._placing].all()) and all(
            version in self._judged.folded and all(copy.stands for copy in self._changes[version].copies)
            for version in versions
        )

    def of_pieces(self, pieces: Pieces) -> Placed:
        """Pieces cut so that the rows of each stand together. O((k + n) log n)."""
        if not self:
            return Placed(pieces, pieces.birth, pieces.start)
        if self.is_settled:
            is_placing = np.zeros(self._log.chunk_count, bool)
            is_placing[self._placing] = True
            here = is_placing[pieces.entry]
            chunk, at = np.where(here, pieces.entry, pieces.birth), np.where(here, pieces.at, pieces.start)
            return Placed(pieces, chunk, at)
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
    parts = []
    for chunk, copy in _placing(log, version, done):
        birth, start, stop, at = tags.rows_with_places(copy.rows)
        parts.append(Pieces(birth, start, stop, np.full(len(birth), chunk), at))
    mine = _pieces(parts)
    mine = mine.take(np.lexsort((mine.start, mine.birth)))
    twice = (mine.birth[1:] == mine.birth[:-1]) & (mine.start[1:] < mine.stop[:-1])
    return _first_of_each(mine) if twice.any() else mine


def _placing(log: Log, version: int, done: RowOps) -> Iterator[tuple[int, Copy]]:
    """The chunks of a version in which rows stand, if it is part of history."""
    first, end = (int(at) for at in log.chunk_start[version : version + 2])
    for copy in done.copies if not log.is_upkeep[version] else ():
        if copy.stands and first + copy.ordinal < end and log.kind[first + copy.ordinal] == COPY:
            yield first + copy.ordinal, copy


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

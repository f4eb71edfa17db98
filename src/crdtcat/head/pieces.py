"""Pieces: where each row of a table is read from, in row order.

A piece is a run of rows that lie next to each other in one entry and in the chunk they were born in. A chunk
of rows is one piece; a copy is one per interval of its row ids. Where racing compactions left a row in
several entries, the first of them is where it is read, and the others are *spare*: they may know of updates
that the first does not. Deleted rows are still inside pieces; `crdtcat.head.rows` knows which they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from crdtcat.format.row_ops import Copy
from crdtcat.format.sections import Array
from crdtcat.head.tags import TagIndex
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, Runs, expand, touched
from crdtcat.log.log import Log


class Pieces(NamedTuple):
    """Runs of rows, as parallel arrays.

    Attributes:
        birth: the chunk the rows were born in.
        start, stop: which rows of it.
        entry: the chunk they are read from.
        at: where in it the first of them is.
    """

    birth: Integers
    start: Integers
    stop: Integers
    entry: Integers
    at: Integers

    @property
    def size(self) -> int:
        """How many pieces; `len` would tell how many columns."""
        return len(self.birth)

    def take(self, index: Array) -> Pieces:
        """Some of the pieces, in that order."""
        return Pieces(*(column[index] for column in self))

    @property
    def runs(self) -> Runs:
        """As runs of rows by birth, if they are sorted so."""
        return Runs(self.birth, self.start, self.stop)


def split(pieces: Pieces, runs: Runs) -> tuple[Pieces, Integers]:
    """The parts of pieces that lie within runs, and for each the run it lies in.

    `runs` are sorted and disjoint within a group; pieces may be in any order, which is kept.
    Theorem: `split_pieces_in_order`.
    """
    first, last = touched(pieces.runs, runs)
    owner, offset = expand(last - first)
    run = first[owner] + offset
    whole = pieces.take(owner)
    start = np.maximum(whole.start, runs.start[run])
    stop = np.minimum(whole.stop, runs.stop[run])
    return Pieces(whole.birth, start, stop, whole.entry, whole.at + start - whole.start), run


def find_pieces(
    log: Log, entries: Array, copies: Mapping[int, Copy], gone: Array, tags: TagIndex
) -> tuple[Pieces, Pieces]:
    """All pieces of some entries, sorted by birth, and the spare ones.

    Args:
        log: the log.
        entries: chunks that rows are read from.
        copies: what is said of those that a compaction wrote.
        gone: per chunk, whether rows born there are gone as a whole.
        tags: resolves tags.
    """
    born = entries[[int(entry) not in copies for entry in entries]] if copies else entries
    rows = log.rows[born].astype(np.int64)
    zeros = np.zeros(len(born), np.int64)
    parts = [Pieces(born, zeros, rows, born, zeros)]
    for entry in entries[[int(entry) in copies for entry in entries]].tolist() if copies else ():
        birth, start, stop, at = tags.rows_with_places(copies[entry].rows)
        parts.append(Pieces(birth, start, stop, np.full(len(birth), entry), at))
    pieces = Pieces(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    pieces = pieces.take(~gone[pieces.birth])
    pieces = pieces.take(np.lexsort((pieces.start, pieces.birth)))
    return _without_spares(pieces)


def _without_spares(pieces: Pieces) -> tuple[Pieces, Pieces]:
    none = pieces.take(np.empty(0, np.int64))
    same = pieces.birth[1:] == pieces.birth[:-1]
    if not (same & (pieces.start[1:] < pieces.stop[:-1])).any():
        return pieces, none
    crowded = np.isin(pieces.birth, np.unique(pieces.birth[1:][same & (pieces.start[1:] < pieces.stop[:-1])]))
    taken, spare = [pieces.take(~crowded)], [none]
    rest = pieces.take(crowded)
    seen = RowSet()
    for entry in np.unique(rest.entry).tolist():
        mine = rest.take(rest.entry == entry)
        rows = RowSet(mine.birth, mine.start, mine.stop)
        for wanted, found in ((rows - seen, taken), (rows & seen, spare)):
            found.append(split(mine, Runs(wanted.groups, wanted.starts, wanted.stops))[0])
        seen |= rows
    kept, left = (
        Pieces(*(np.concatenate(column) for column in zip(*parts, strict=True))) for parts in (taken, spare)
    )
    return kept.take(np.lexsort((kept.start, kept.birth))), left


def joined(pieces: Pieces) -> Pieces:
    """Neighbours that are neighbours in birth and entry too, as one."""
    if pieces.size < 2:
        return pieces
    follows = (
        (pieces.birth[1:] == pieces.birth[:-1])
        & (pieces.start[1:] == pieces.stop[:-1])
        & (pieces.entry[1:] == pieces.entry[:-1])
        & (pieces.at[1:] - pieces.at[:-1] == pieces.stop[:-1] - pieces.start[:-1])
    )
    if not follows.any():
        return pieces
    first = np.flatnonzero(np.concatenate(([True], ~follows)))
    last = np.append(first[1:], pieces.size) - 1
    whole = pieces.take(first)
    return whole._replace(stop=pieces.stop[last])

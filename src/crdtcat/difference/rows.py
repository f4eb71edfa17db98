"""Which old row became which new one, between two runs of rows that are known to differ.

Rows that did not change are found by their hashes (`crdtcat.difference.align`). Between them lie gaps: rows
that changed, came or went. There a new row is taken for an old one that was updated, by what they share:

1. Where a gap has as many rows on both sides and each shares at least half of its cells with its
   counterpart, they are counterparts.
2. Rows that are equal but for one cell, whichever it is.
3. Rows with the same value in a column that tells rows apart: in most of the rows of all gaps it is unique.
4. Of what is left, gaps with as many rows on both sides are paired in order, if rows share a cell or the gap
   is short: a long run that has nothing in common with the old one replaces it.

What remains was deleted and inserted. Steps 2 and 3 pair rows in order: a row that moved is not found again.
All steps are O(rows in gaps), with sorts.

Pure: tables in, pairs out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crdtcat.chunks.row_hash import Hashes, column_hashes, row_hashes
from crdtcat.difference.align import Alignment, Confirm, Flags, Numbers, spread

_SAMPLED_ROWS = 1 << 16
"""Longer runs are first anchored at every sixteenth row, chosen by its hash."""
_ROUNDS = 3
_SHORT_GAP = 64
_TELLS_APART = 0.5

Cells = npt.NDArray[np.uint64]


def align_rows(
    old: pa.Table, new: pa.Table, columns: Sequence[str], hashes: tuple[Hashes, Hashes]
) -> Alignment:
    """Rows equal in `columns`, whose hashes are given, as an alignment with gaps where rows differ.

    Equal hashes count as equal rows where rows are compared in place: 2**-64 for each. Rows found by sorting
    are compared by a second hash too: 2**-128 for each pair.
    """
    found = Alignment(old.num_rows, new.num_rows)
    confirm = _confirming(old, new, columns)
    found.trim(*hashes)
    if min(found.sizes) > _SAMPLED_ROWS:
        found.anchor(*hashes, confirm=confirm, sample=16)
        found.trim(*hashes)
    _repeat(found, hashes, confirm)
    for window in (32, 8):  # rows that repeat: their neighbourhoods do not
        found.anchor(*hashes, confirm=confirm, window=window)
        found.trim(*hashes)
    _repeat(found, hashes, confirm, count=True)
    return found


def _repeat(
    found: Alignment, hashes: tuple[Hashes, Hashes], confirm: Confirm, *, count: bool = False
) -> None:
    """Anchor and trim while that finds more: keys that come twice in a gap may come once in a part of it."""
    for _ in range(_ROUNDS):
        before = len(found.runs)
        found.anchor(*hashes, confirm=confirm, count=count)
        found.trim(*hashes)
        if len(found.runs) == before:
            return


def _confirming(old: pa.Table, new: pa.Table, columns: Sequence[str]) -> Confirm:
    def confirm(first: Numbers, second: Numbers) -> Flags:
        if not len(first):
            return np.zeros(0, np.bool_)
        left, right = (
            row_hashes(_take(table, rows, columns), lane=1) for table, rows in ((old, first), (new, second))
        )
        same: Flags = left == right
        return same

    return confirm


def pair_rows(
    found: Alignment, old: pa.Table, new: pa.Table, columns: Sequence[str]
) -> tuple[Numbers, Numbers]:
    """Old and new rows in the gaps of an alignment that are one row before and after; both rise."""
    at_old, at_new = found.sides()
    if not len(at_old):
        return at_old, at_new
    old_cells, new_cells = (
        _cells(_take(table, rows, columns), columns) for table, rows in ((old, at_old), (new, at_new))
    )
    lengths_old, lengths_new = found.gaps[:, 1] - found.gaps[:, 0], found.gaps[:, 3] - found.gaps[:, 2]
    stops_old, stops_new = np.cumsum(lengths_old), np.cumsum(lengths_new)
    local = np.column_stack((stops_old - lengths_old, stops_old, stops_new - lengths_new, stops_new))
    pairing = Alignment(len(at_old), len(at_new), local)
    _pair_in_place(pairing, old_cells, new_cells, least=-(-len(columns) // 2))
    if len(columns) > 1:
        _pair_but_one(pairing, old_cells, new_cells)
        _pair_by_identity(pairing, old_cells, new_cells)
    _pair_in_place(pairing, old_cells, new_cells, least=1, short=_SHORT_GAP)
    first, second = pairing.pairs
    return at_old[first], at_new[second]


def changed_cells(
    old: pa.Table, new: pa.Table, pairs: tuple[Numbers, Numbers], columns: Sequence[str]
) -> dict[str, Flags]:
    """For each column, in which pairs of rows it differs."""
    before, after = (_take(table, rows, columns) for table, rows in ((old, pairs[0]), (new, pairs[1])))
    return {
        name: column_hashes(before.column(name), name) != column_hashes(after.column(name), name)
        for name in columns
    }


def _pair_in_place(pairing: Alignment, old: Cells, new: Cells, *, least: int, short: int = 0) -> None:
    """Pair n-th rows in gaps of equal length, if all of a gap share `least` cells or it is short."""
    lengths = pairing.gaps[:, 1] - pairing.gaps[:, 0]
    equal = np.flatnonzero(lengths == pairing.gaps[:, 3] - pairing.gaps[:, 2])
    if not len(equal):
        return
    sizes = lengths[equal]
    first, second = spread(pairing.gaps[equal, 0], sizes), spread(pairing.gaps[equal, 2], sizes)
    shared = np.zeros(len(first), np.int64)
    for before, after in zip(old, new, strict=True):
        shared += before[first] == after[second]
    alike = np.logical_and.reduceat(shared >= least, np.cumsum(sizes) - sizes) | (sizes <= short)
    taken = np.repeat(alike, sizes)
    pairing.pair(first[taken], second[taken])


def _pair_but_one(pairing: Alignment, old: Cells, new: Cells) -> None:
    """Pair rows that differ in one cell: their sums without it are equal."""
    totals = old.sum(axis=0, dtype=np.uint64), new.sum(axis=0, dtype=np.uint64)
    keys = [(totals[0] - before, totals[1] - after) for before, after in zip(old, new, strict=True)]
    for without in keys:
        pairing.trim(*without)
    for without in keys:
        pairing.anchor(*without)
        pairing.trim(*without)


def _pair_by_identity(pairing: Alignment, old: Cells, new: Cells) -> None:
    """Pair rows by columns that tell rows apart, the one that does it best first."""
    at_old, at_new = pairing.sides()
    if not len(at_old):
        return
    distinct = [
        min(len(np.unique(before[at_old])) / len(at_old), len(np.unique(after[at_new])) / len(at_new))
        for before, after in zip(old, new, strict=True)
    ]
    for column in np.argsort(distinct, kind="stable")[::-1].tolist():
        if distinct[column] >= _TELLS_APART:
            pairing.anchor(old[column], new[column])


def _cells(table: pa.Table, columns: Sequence[str]) -> Cells:
    """The hash of every cell, a row for each column."""
    return np.stack([column_hashes(table.column(name), name) for name in columns])


def _take(table: pa.Table, rows: Numbers, columns: Sequence[str]) -> pa.Table:
    chosen = table.select(list(columns))
    return chosen if len(rows) == table.num_rows else chosen.take(pa.array(rows))

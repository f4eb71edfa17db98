"""Rows matched by a column that rises on both sides, as ids and moments of arrival do.

Such a column tells rows apart and says where each belongs: equal values are one row before and after, found
by a search in sorted values, and nothing has to be hashed. So rows that came and went all over a table cost a
comparison of what is left. Where a column rises and yet says nothing about rows (numbers given anew), most
rows matched by it differ: then it is not used, and rows are aligned by their hashes.

Pure: tables in, rows out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from crdtcat.difference.align import Alignment, Numbers
from crdtcat.difference.cells import differing
from crdtcat.difference.regions import Found, found_pairs
from crdtcat.difference.rows import changed_cells, pair_rows

Values = npt.NDArray[np.integer]
Map = Callable[[Callable[[tuple[int, int]], "_Matched"], Iterable[tuple[int, int]]], Iterable["_Matched"]]


@dataclass(frozen=True, slots=True, eq=False)
class _Matched:
    """What became of some new rows: how many were matched, in which runs, and how they differ."""

    rows: int
    runs: Numbers
    found: Found

    @property
    def is_telling(self) -> bool:
        """Whether most of the rows that were matched did not change at all."""
        return 2 * int(self.found.kept[:, 2].sum()) > self.rows


def match_rising(
    old: pa.Table, new: pa.Table, columns: Sequence[str], ends: Sequence[int], run: Map
) -> list[Found] | None:
    """What became of rows that share a rising column; None where there is none, or it says nothing.

    Cost: a search and a comparison for each new row; rows that were not matched are paired as elsewhere.

    Args:
        old: the old rows.
        new: the new rows.
        columns: those of both.
        ends: where the new rows may be divided: rising, from 0 to their number.
        run: does the work on some rows for all of them, on several cores.
    """
    rising = ((name, _rising(old[name]), _rising(new[name])) for name in columns)
    found = next((one for one in rising if one[1] is not None and one[2] is not None), None)
    if found is None:
        return None
    name, first, second = found
    assert first is not None
    assert second is not None
    compare = partial(_compared, old, new, [other for other in columns if other != name], (first, second))
    parts = [*pairwise(ends)]
    if not compare(parts[len(parts) // 2]).is_telling:
        return None
    matched = [*run(compare, parts)]
    if sum(part.found.kept[:, 2].sum() for part in matched) * 2 <= min(old.num_rows, new.num_rows):
        return None
    gaps = _gaps(np.concatenate([part.runs for part in matched]), old.num_rows, new.num_rows)
    results = [part.found for part in matched]
    if len(gaps):
        pairs = pair_rows(Alignment(old.num_rows, new.num_rows, gaps), old, new, columns)
        nothing = np.zeros((0, 3), np.int64)
        results.append(found_pairs(nothing, pairs, changed_cells(old, new, pairs, columns)))
    return results


def _compared(
    old: pa.Table, new: pa.Table, columns: Sequence[str], key: tuple[Values, Values], part: tuple[int, int]
) -> _Matched:
    """Match and compare the new rows from one number to another."""
    start, stop = part
    wanted = key[1][start:stop]
    low, high = np.searchsorted(key[0], (wanted[0], wanted[-1]), side="left") if len(wanted) else (0, 0)
    near = key[0][low : high + 1]
    at = np.minimum(np.searchsorted(near, wanted), max(len(near) - 1, 0))
    same = near[at] == wanted if len(near) else np.zeros(len(wanted), np.bool_)
    first, second = at[same], np.flatnonzero(same)
    before = old.slice(int(low), len(near)).select(columns).take(pa.array(first))
    after = new.slice(start, stop - start).select(columns)
    if len(second) < len(wanted):
        after = after.take(pa.array(second))
    first, second = first + int(low), second + start
    changed = {name: differing(before[name], after[name], name) for name in columns}
    anywhere = np.logical_or.reduce([np.zeros(len(first), np.bool_), *changed.values()])
    found = Found(
        _runs(first[~anywhere], second[~anywhere]),
        (first[anywhere], second[anywhere]),
        {name: flags[anywhere] for name, flags in changed.items()},
    )
    return _Matched(len(first), _runs(first, second), found)


def _runs(first: Numbers, second: Numbers) -> Numbers:
    """Pairs that rise on both sides as runs (old start, new start, length)."""
    begins = np.flatnonzero(np.r_[True, (np.diff(first) != 1) | (np.diff(second) != 1)][: len(first)])
    return np.column_stack((first[begins], second[begins], np.diff(np.r_[begins, len(first)])))


def _gaps(runs: Numbers, old: int, new: int) -> Numbers:
    """What lies between runs, where there is something on both sides."""
    firsts = np.concatenate((runs[:, :2], [[old, new]]))
    lasts = np.concatenate(([[0, 0]], runs[:, :2] + runs[:, 2:]))
    gaps = np.column_stack((lasts[:, 0], firsts[:, 0], lasts[:, 1], firsts[:, 1]))
    return gaps[(gaps[:, 1] > gaps[:, 0]) & (gaps[:, 3] > gaps[:, 2])]


def _rising(column: pa.ChunkedArray) -> Values | None:
    """A column as numbers, if it rises."""
    kinds = (pt.is_integer, pt.is_date, pt.is_time, pt.is_timestamp, pt.is_duration)
    if column.null_count or not any(is_kind(column.type) for is_kind in kinds):
        return None
    pieces = [_values(chunk) for chunk in column.chunks]
    if not all(bool((piece[1:] > piece[:-1]).all()) for piece in pieces):
        return None
    values: Values = np.concatenate(pieces)
    return values if bool((values[1:] > values[:-1]).all()) else None


def _values(array: pa.Array) -> Values:
    if not pt.is_integer(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    values: Values = array.to_numpy()
    return values

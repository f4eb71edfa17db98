"""Newer values of one column, gathered until all are known and brought into row order.

Rows are numbered through all entries that are read together, so what several chunks hold for them is brought
into order once, not entry by entry; and columns over which the same chunks lie have the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from crdtcat.format.sections import Array
from crdtcat.intervals.runs import Integers

OLDEST = -1
"""Age of a cell that is as old as its row."""


class Part(NamedTuple):
    """Values for some rows: `values[place[i]]` goes to row `rows[i]`. No row is there twice."""

    rows: Integers
    values: pa.Array
    place: Integers


class Cells(NamedTuple):
    """Values for some rows: one for each, rows strictly rising."""

    rows: Integers
    values: pa.Array

    def between(self, start: int, stop: int) -> Cells:
        """Those for rows from `start` to `stop`, counted from `start`. O(log n) and their number."""
        first, last = np.searchsorted(self.rows, (start, stop)).tolist()
        return Cells(self.rows[first:last] - start, self.values.slice(first, last - first))


class _Order(NamedTuple):
    """Rows of several parts in order: which value of all of them, one part behind the other, each gets."""

    rows: Integers
    places: Integers | None  # `None`: as they stand


class Orders:
    """The order of cells, worked out once for columns that get theirs from the same rows of chunks."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[Sequence[Part], _Order]] = {}

    def cells(self, parts: Sequence[Part]) -> Cells | None:
        """The values of all parts; of two for one row that of the later part. `None` if there are none.

        O(n), O(n log n) where rows of several parts alternate.
        """
        parts = [part for part in parts if len(part.rows)]
        if not parts:
            return None
        used = [_used(part) for part in parts]
        key = tuple(id(array) for part in parts for array in (part.rows, part.place))
        if key not in self._known:
            # With the parts, so that nothing else can get the ids of their arrays.
            self._known[key] = (
                parts,
                _order([(part.rows, at) for part, (_, at) in zip(parts, used, strict=True)]),
            )
        order = self._known[key][1]
        values = used[0][0] if len(used) == 1 else pa.concat_arrays([held for held, _ in used])
        return Cells(order.rows, values if order.places is None else values.take(pa.array(order.places)))


def _used(part: Part) -> tuple[pa.Array, Integers]:
    """The values of a part that it uses, and where they are then. Those in a row are not copied."""
    first, last = int(part.place.min()), int(part.place.max()) + 1
    if last - first <= 2 * len(part.place):
        return part.values.slice(first, last - first), part.place - first
    return part.values.take(pa.array(part.place)), np.arange(len(part.place))


def _order(parts: Sequence[tuple[Integers, Integers]]) -> _Order:
    """Of rows, and where their values are among those that their part uses."""
    sizes = [int(place.max()) + 1 for _, place in parts]
    first = np.cumsum([0, *sizes[:-1]])
    rows = np.concatenate([rows for rows, _ in parts])
    index = np.concatenate([place + base for (_, place), base in zip(parts, first, strict=True)])
    if not (rows[1:] > rows[:-1]).all():
        order = np.argsort(rows, kind="stable")
        rows, index = rows[order], index[order]
        last = np.append(rows[1:] != rows[:-1], True)
        if not last.all():
            rows, index = rows[last], index[last]
    as_they_stand = len(index) == sum(sizes) and (index[1:] > index[:-1]).all()
    return _Order(rows, None if as_they_stand else index)


class Layer:
    """Newer values for one column of entries that are read together.

    Args:
        rows: how many those have.
        ages: per row, the age of what is there; `None`: all of them are as old as their rows.
    """

    def __init__(self, rows: int, ages: Integers | None) -> None:
        self._rows = rows
        self._parts: list[Part] = []
        self.ages = ages

    def put(self, target: Integers, values: pa.Array, place: Integers, ages: Array | int) -> None:
        """Values over rows, where they are newer than what is there. Ages rise from call to call, but for
        those given row by row."""
        if self.ages is None and not isinstance(ages, int):
            self.ages = np.full(self._rows, OLDEST)
        if self.ages is not None:
            newer = ages > self.ages[target]
            if not newer.all():
                target, place = target[newer], place[newer]
                ages = ages if isinstance(ages, int) else ages[newer]
            self.ages[target] = ages
        self._parts.append(Part(target, values, place))

    def cells(self, orders: Orders) -> Cells | None:
        """What was put, `None` if nothing was."""
        return orders.cells(self._parts)

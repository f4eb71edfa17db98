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
    """Values for some rows of one entry: one for each, rows strictly rising."""

    rows: Integers
    values: pa.Array


class _Used(NamedTuple):
    """Which values of a part it uses: a run of them, or, if they are far apart, those at some places."""

    first: int
    length: int
    apart: pa.Array | None
    place: Integers  # of each row's value among those

    def of(self, values: pa.Array) -> pa.Array:
        """A run is not copied."""
        return values.slice(self.first, self.length) if self.apart is None else values.take(self.apart)


class _Order(NamedTuple):
    """Rows of several parts in order.

    Attributes:
        parts: nothing else can get the ids of their arrays while they are here.
        used: what each part uses of its values.
        places: which of all these values, one part behind the other, each row gets; `None`: as they stand.
        cuts: where the rows of each entry begin, and where the last end.
        rows: per entry, its rows, counted from its first.
    """

    parts: Sequence[Part]
    used: Sequence[_Used]
    places: pa.Array | None
    cuts: Sequence[int]
    rows: Sequence[Integers]


class Orders:
    """The order of cells, worked out once for columns that get theirs from the same rows of chunks.

    Args:
        start: the number of each entry's first row, and behind the last row of the last.
    """

    def __init__(self, start: Integers) -> None:
        self._start = start
        self._known: dict[tuple[int, ...], _Order] = {}

    def cells(self, parts: Sequence[Part]) -> list[Cells] | None:
        """Per entry, the values of all parts; of two for one row that of the later part. `None` if there are
        none.

        O(n), O(n log n) where rows of several parts alternate.
        """
        parts = [part for part in parts if len(part.rows)]
        if not parts:
            return None
        key = tuple(id(array) for part in parts for array in (part.rows, part.place))
        order = self._known.get(key)
        if order is None:
            order = self._known[key] = _order(parts, self._start)
        held = [used.of(part.values) for used, part in zip(order.used, parts, strict=True)]
        values = held[0] if len(held) == 1 else pa.concat_arrays(held)
        if order.places is not None:
            values = values.take(order.places)
        return [
            Cells(rows, values.slice(first, len(rows)))
            for rows, first in zip(order.rows, order.cuts, strict=True)
        ]


def _used(part: Part) -> _Used:
    first, last = int(part.place.min()), int(part.place.max()) + 1
    if last - first <= 2 * len(part.place):
        return _Used(first, last - first, None, part.place - first)
    return _Used(0, len(part.place), pa.array(part.place), np.arange(len(part.place)))


def _order(parts: Sequence[Part], start: Integers) -> _Order:
    used = [_used(part) for part in parts]
    before = np.cumsum([0, *(one.length for one in used)])
    rows = np.concatenate([part.rows for part in parts])
    index = np.concatenate([one.place + base for one, base in zip(used, before[:-1], strict=True)])
    if not (rows[1:] > rows[:-1]).all():
        order = np.argsort(rows, kind="stable")
        rows, index = rows[order], index[order]
        last = np.append(rows[1:] != rows[:-1], True)
        if not last.all():
            rows, index = rows[last], index[last]
    as_they_stand = len(index) == before[-1] and (index[1:] > index[:-1]).all()
    cuts = np.searchsorted(rows, start).tolist()
    inside = [rows[first:last] - at for first, last, at in zip(cuts, cuts[1:], start, strict=False)]
    return _Order(parts, used, None if as_they_stand else pa.array(index), cuts[:-1], inside)


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

    def cells(self, orders: Orders) -> list[Cells] | None:
        """What was put, entry by entry; `None` if nothing was."""
        return orders.cells(self._parts)

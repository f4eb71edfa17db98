"""A set of any ordered values as intervals: numbers, text, bytes, times; ends open, closed or without bound.

Theory. Between the sorted ends of the intervals lie gaps that none of them cuts, so `ends.py` numbers ends
and gaps in order and each interval is a run of these numbers. A border of a run is a cut of the order:

    0 below everything   2i + 1 just below the i-th end   2i + 2 just above it   2n + 1 above all n ends

`[v` and `v)` are the cut below v, `(v` and `v]` the one above. So `[a, b)` and `[b, c]` share a cut and join;
between `(a, b)` and `(b, c)` lies b. Two sets are brought to one numbering by sorting the ends of both, and
from there on the arithmetic of `runs.py` does all. Ends that no interval has any more are dropped, so a set
has one form, and equal sets have equal ends and equal runs.

The order counts as dense, as in `Interval`: `(1, 2)` of integers is not empty, and `[1, 2]` and `[3, 4]` do
not join. Where integers are meant one by one, use `IntervalSet`. Immutable. No I/O, no Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crdtcat.errors import InvalidArgument
from crdtcat.intervals import runs
from crdtcat.intervals.ends import Ends
from crdtcat.intervals.interval import Interval, ordered, require_alike
from crdtcat.intervals.runs import Integers, Runs
from crdtcat.support.showing import shown


class ValueSet:
    """Values as intervals that are sorted and neither overlap nor touch. O(n log n).

    `ValueSet([Interval()])` holds all values; what a set does not hold is that set without it.

    Args:
        intervals: any number, in any order; they may overlap, touch, repeat.

    Raises:
        InvalidArgument: ends that do not compare with each other; so do all operations with another set.
    """

    __slots__ = ("_ends", "_runs")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        held = tuple(intervals)
        ends = Ends.of(held)
        first, last = ends.numbered(held)
        self._ends, self._runs = _used(ends, runs.canonical(np.zeros(len(held), np.int64), first, last + 1))

    @classmethod
    def _of(cls, ends: Ends, held: Runs) -> ValueSet:
        made = cls.__new__(cls)
        made._ends, made._runs = _used(ends, held)
        return made

    def __len__(self) -> int:
        """How many intervals."""
        return len(self._runs.start)

    def __iter__(self) -> Iterator[Interval]:
        """The intervals, rising. An end without bound is closed."""
        values = [*self._ends.values, None]  # both of place n, above all ends, and of -1, below them
        for start, stop in zip(self._runs.start.tolist(), self._runs.stop.tolist(), strict=True):
            low, high = values[_place(start)], values[_place(stop)]
            yield Interval(low, high, low is not None and start % 2 == 0, high is not None and stop % 2 == 1)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ValueSet)
            and self._ends.values == other._ends.values
            and all(map(np.array_equal, self._runs, other._runs))
        )

    def __hash__(self) -> int:
        return hash((tuple(self._ends.values), self._runs.start.tobytes(), self._runs.stop.tobytes()))

    def __repr__(self) -> str:
        shown = " | ".join(map(str, islice(self, 8)))
        return f"ValueSet({shown}{' | ...' if len(self) > 8 else ''})"

    def contains(self, value: Any) -> bool:
        """Whether a value is in the set; also `value in set`. O(log n).

        Raises:
            InvalidArgument: a value that does not compare with the ends, or with itself.
        """
        return bool(self.contains_each([value])[0])

    __contains__ = contains

    def contains_each(self, values: Iterable[Any]) -> NDArray[np.bool_]:
        """For each value, whether it is in the set. O(p log n); vectorized where all are one kind of number.

        Raises:
            InvalidArgument: a value that does not compare with the ends, or with itself.
        """
        asked = list(values)
        for value in asked:
            if value is None or not ordered(value):
                raise InvalidArgument(f"{shown(value)} has no place in an order")
        below, upto = self._ends.places(asked)
        return runs.contains(self._runs, np.zeros(len(asked), np.int64), below + upto)

    def overlaps(self, other: ValueSet) -> bool:
        """Whether they have a value in common. O(s log l) in the shorter's and longer's intervals."""
        require_alike(self, other)
        few, many = sorted((self, other), key=len)
        first, last = many._touched(few)
        return bool(np.any(first < last))

    def union(self, other: ValueSet) -> ValueSet:
        """What is in either. O(n log n). Theorem: `interval_union_exact`."""
        require_alike(self, other)
        ends, mine, theirs = self._aligned(other)
        return self._of(
            ends, runs.canonical(*(np.concatenate(pair) for pair in zip(mine, theirs, strict=True)))
        )

    def intersection(self, other: ValueSet) -> ValueSet:
        """What is in both. O(s log l + k log k), k of the longer's intervals met by the shorter's.

        Theorem: `interval_intersection_exact`.
        """
        require_alike(self, other)
        few, many = sorted((self, other), key=len)
        ends, mine, theirs = few._aligned(many._met_by(few))
        return self._of(ends, runs.intersection(mine, theirs))

    def difference(self, other: ValueSet) -> ValueSet:
        """What is in this set only. O(m log t), and O((m + k) log (m + k)) where k of theirs are met.

        Theorem: `interval_difference_exact`.
        """
        require_alike(self, other)
        met = other._met_by(self)
        if not met:
            return self
        ends, mine, theirs = self._aligned(met)
        return self._of(ends, runs.difference(mine, theirs))

    __or__ = union
    __and__ = intersection
    __sub__ = difference

    def _aligned(self, other: ValueSet) -> tuple[Ends, Runs, Runs]:
        """The ends of both, and the runs of each by their numbers. O(n log n)."""
        ends, mine, theirs = self._ends.together(other._ends)
        return ends, _renumbered(self._runs, mine, len(ends)), _renumbered(other._runs, theirs, len(ends))

    def _touched(self, other: ValueSet) -> tuple[Integers, Integers]:
        """For each interval of `other`, those it meets here: first to last, last excluded. O(o log n).

        Its ends are looked up, not merged: one that is no end here widens to its gap, which none here cuts.
        """
        below, upto = self._ends.places(other._ends.values)
        # For place n of the other, above its ends, and for place -1, below them.
        below, upto = np.append(below, (len(self._ends), 0)), np.append(upto, (len(self._ends), 0))
        start, stop = other._runs.start, other._runs.stop
        low, high = _place(start), _place(stop)
        return runs.touched(
            Runs(
                other._runs.group,
                np.where(start % 2 == 0, 2 * upto[low], below[low] + upto[low]),
                np.where(stop % 2 == 1, 2 * below[high], below[high] + upto[high]) + 1,
            ),
            self._runs,
        )

    def _met_by(self, other: ValueSet) -> ValueSet:
        """The intervals of this set that meet `other`, whole. O(o log n + k log k)."""
        first, last = self._touched(other)
        owner, offset = runs.expand(last - first)
        met = np.unique(first[owner] + offset)
        return self if len(met) == len(self) else self._of(self._ends, Runs(*(c[met] for c in self._runs)))


def _place(cut: Any) -> Any:
    """Of which end a cut is, or of which ends the cuts are: -1 below all, their number above all."""
    return (cut - 1) >> 1


def _moved(held: Runs, low: Integers, high: Integers) -> Runs:
    """The same runs where the end of each start is at place `low` now, that of each stop at place `high`."""
    return Runs(held.group, 2 * low + 2 - held.start % 2, 2 * high + 2 - held.stop % 2)


def _renumbered(held: Runs, place: Integers, count: int) -> Runs:
    """Runs by other numbers: the i-th end is at `place[i]` of `count` now."""
    place = np.append(place, (count, -1))  # above all ends, and below them: indexed as -1
    return _moved(held, place[_place(held.start)], place[_place(held.stop)])


def _used(ends: Ends, held: Runs) -> tuple[Ends, Runs]:
    """The ends at which runs begin or stop, and the runs by their numbers. O(k log k) for k runs."""
    low, high = _place(held.start), _place(held.stop)
    used = np.unique(np.concatenate((low, high, (-1, len(ends)))))
    if len(used) == len(ends) + 2:
        return ends, held
    return ends.some(used[1:-1]), _moved(
        held, np.searchsorted(used, low) - 1, np.searchsorted(used, high) - 1
    )

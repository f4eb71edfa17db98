"""A set of integers as sorted disjoint half-open intervals: rows of one chunk, offsets, numbers of commits.

Immutable. One form per set, so equal sets are equal arrays. Operations are vectorized and follow the number
of intervals, never the number of members. No I/O, no Arrow. The arithmetic, and the theorems it rests on,
are in `runs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crdtcat.errors import InvalidArgument
from crdtcat.intervals import runs
from crdtcat.intervals.interval import require_alike
from crdtcat.intervals.runs import Integers, Runs


def integers(values: ArrayLike, name: str) -> Integers:
    """One flat array of 64-bit integers.

    Raises:
        InvalidArgument: other than one dimension, or values that are not integers.
    """
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidArgument(f"{name}: expected a flat array of integers, got {array.dtype} {array.shape}")
    return array.astype(np.int64, copy=False)


class IntervalSet:
    """Integers as intervals `[start, stop)`. Theorem: `interval_form_unique`.

    Args:
        starts: where each interval begins; any order, intervals may overlap, touch, repeat, be empty.
        stops: where each ends, itself excluded.

    Raises:
        InvalidArgument: arrays of different lengths, or not of integers.
    """

    __slots__ = ("_runs",)

    def __init__(self, starts: ArrayLike = (), stops: ArrayLike = ()) -> None:
        start, stop = integers(starts, "starts"), integers(stops, "stops")
        if len(start) != len(stop):
            raise InvalidArgument(f"{len(start)} starts and {len(stop)} stops")
        self._runs = runs.canonical(np.zeros(len(start), np.int64), start, stop)

    @classmethod
    def _of(cls, held: Runs) -> IntervalSet:
        made = cls.__new__(cls)
        made._runs = held
        return made

    @classmethod
    def of_positions(cls, positions: ArrayLike) -> IntervalSet:
        """The set of these integers, in any order, repeated or not. O(n log n), O(n) where sorted."""
        position = integers(positions, "positions")
        return cls._of(runs.of_points(np.zeros(len(position), np.int64), position))

    @property
    def starts(self) -> Integers:
        """Where the intervals begin, rising. Not to be written to."""
        return self._runs.start

    @property
    def stops(self) -> Integers:
        """Where the intervals end, rising. Not to be written to."""
        return self._runs.stop

    def __len__(self) -> int:
        """How many intervals."""
        return len(self._runs.start)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.starts.tolist(), self.stops.tolist(), strict=True)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, IntervalSet)
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.stops, other.stops)
        )

    def __hash__(self) -> int:
        return hash((self.starts.tobytes(), self.stops.tobytes()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{start}:{stop}" for start, stop in list(self)[:8])
        return f"IntervalSet({shown}{', ...' if len(self) > 8 else ''})"

    @property
    def total(self) -> int:
        """How many integers are in the set. O(intervals)."""
        return int(np.sum(self.stops - self.starts))

    def positions(self) -> Integers:
        """Every member, rising. O(members)."""
        owner, offset = runs.expand(self.stops - self.starts)
        return self.starts[owner] + offset

    def contains(self, positions: ArrayLike) -> NDArray[np.bool_]:
        """For each position, whether it is in the set. O(p log n)."""
        position = integers(positions, "positions")
        return runs.contains(self._runs, np.zeros(len(position), np.int64), position)

    def overlaps(self, other: IntervalSet) -> bool:
        """Whether they have a member in common. O(s log l) in the shorter's and longer's intervals."""
        require_alike(self, other)
        return runs.overlap(self._runs, other._runs)

    def union(self, other: IntervalSet) -> IntervalSet:
        """What is in either. O(n log n). Theorem: `interval_union_exact`."""
        require_alike(self, other)
        mine, theirs = self._runs, other._runs
        return self._of(runs.canonical(*(np.concatenate(pair) for pair in zip(mine, theirs, strict=True))))

    def intersection(self, other: IntervalSet) -> IntervalSet:
        """What is in both. O(s log l + k). Theorem: `interval_intersection_exact`."""
        require_alike(self, other)
        return self._of(runs.intersection(self._runs, other._runs))

    def difference(self, other: IntervalSet) -> IntervalSet:
        """What is in this set only. O(m log t + k). Theorem: `interval_difference_exact`."""
        require_alike(self, other)
        return self._of(runs.difference(self._runs, other._runs))

    __or__ = union
    __and__ = intersection
    __sub__ = difference

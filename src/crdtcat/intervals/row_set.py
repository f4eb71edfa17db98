"""Rows of many chunks: a map from an integer group (a chunk's index, a tag's rank) to intervals of offsets.

Held as three flat arrays (group, start, stop), sorted, disjoint and not touching within a group, so that a
set operation over a million intervals in a million chunks is a few array operations and no loop. What a
group number means is its owner's affair; two sets can be combined where they number groups alike
(`renumbered` makes them).

Immutable, one form per set. Write sets without a common row commute (theorem: `no_overlap_commutes`), which
is what lets two commits of one table both stand. No I/O, no Arrow. The arithmetic is in `runs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crdtcat.errors import InvalidArgument
from crdtcat.intervals import runs
from crdtcat.intervals.interval import require_alike
from crdtcat.intervals.interval_set import IntervalSet, integers
from crdtcat.intervals.runs import Integers, Runs


class RowSet:
    """A set of (group, offset) as intervals `(group, start, stop)`, stop excluded.

    Args:
        groups: the group of each interval.
        starts: its first offset; any order, intervals may overlap, touch, repeat, be empty.
        stops: where it ends.

    Raises:
        InvalidArgument: arrays of different lengths, or not of integers.
    """

    __slots__ = ("_runs",)

    def __init__(self, groups: ArrayLike = (), starts: ArrayLike = (), stops: ArrayLike = ()) -> None:
        group, start, stop = integers(groups, "groups"), integers(starts, "starts"), integers(stops, "stops")
        if not len(group) == len(start) == len(stop):
            raise InvalidArgument(f"{len(group)} groups, {len(start)} starts and {len(stop)} stops")
        self._runs = runs.canonical(group, start, stop)

    @classmethod
    def _of(cls, held: Runs) -> RowSet:
        made = cls.__new__(cls)
        made._runs = held
        return made

    @classmethod
    def of_rows(cls, groups: ArrayLike, offsets: ArrayLike) -> RowSet:
        """The set of these rows, in any order, repeated or not. O(n log n), O(n) where sorted."""
        group, offset = integers(groups, "groups"), integers(offsets, "offsets")
        if len(group) != len(offset):
            raise InvalidArgument(f"{len(group)} groups and {len(offset)} offsets")
        return cls._of(runs.of_points(group, offset))

    @property
    def groups(self) -> Integers:
        """The group of each interval, not falling. Not to be written to."""
        return self._runs.group

    @property
    def starts(self) -> Integers:
        """Where each interval begins. Not to be written to."""
        return self._runs.start

    @property
    def stops(self) -> Integers:
        """Where each interval ends. Not to be written to."""
        return self._runs.stop

    def __len__(self) -> int:
        """How many intervals."""
        return len(self._runs.group)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.groups.tolist(), self.starts.tolist(), self.stops.tolist(), strict=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSet) and all(map(np.array_equal, self._runs, other._runs))

    def __hash__(self) -> int:
        return hash(tuple(column.tobytes() for column in self._runs))

    def __repr__(self) -> str:
        shown = ", ".join(f"{group}/{start}:{stop}" for group, start, stop in list(self)[:8])
        return f"RowSet({shown}{', ...' if len(self) > 8 else ''})"

    @property
    def total(self) -> int:
        """How many rows are in the set. O(intervals)."""
        return int(np.sum(self.stops - self.starts))

    def totals(self) -> tuple[Integers, Integers]:
        """The groups that have rows, rising, and how many each has. O(intervals)."""
        first = np.flatnonzero(np.diff(self.groups, prepend=self.groups[:1] - 1))
        if len(first) == 0:
            return self.groups, self.groups
        return self.groups[first], np.add.reduceat(self.stops - self.starts, first)

    def rows(self) -> tuple[Integers, Integers]:
        """Every row as (groups, offsets), in order. O(rows)."""
        owner, offset = runs.expand(self.stops - self.starts)
        return self.groups[owner], self.starts[owner] + offset

    def of_group(self, group: int) -> IntervalSet:
        """One group's offsets. O(log n + k), nothing is copied."""
        first, last = np.searchsorted(self.groups, (group, group + 1))
        start, stop = self.starts[first:last], self.stops[first:last]
        return IntervalSet._of(Runs(np.zeros(len(start), np.int64), start, stop))

    def in_groups(self, groups: ArrayLike) -> RowSet:
        """The rows of these groups only. O(n log g)."""
        wanted = np.unique(integers(groups, "groups"))
        at = np.searchsorted(wanted, self.groups)
        kept = at < len(wanted)
        kept[kept] = wanted[at[kept]] == self.groups[kept]
        return self._of(Runs(*(column[kept] for column in self._runs)))

    def renumbered(self, numbers: ArrayLike) -> RowSet:
        """This set with group g called `numbers[g]`; a negative number leaves the group out. O(n log n).

        Groups that get one number are joined.

        Raises:
            InvalidArgument: a group for which there is no number.
        """
        number = integers(numbers, "numbers")
        if len(self) and (self.groups[0] < 0 or self.groups[-1] >= len(number)):
            raise InvalidArgument(
                f"groups {self.groups[0]}..{self.groups[-1]}, numbers for 0..{len(number) - 1}"
            )
        group = number[self.groups]
        kept = group >= 0
        return self._of(runs.canonical(group[kept], self.starts[kept], self.stops[kept]))

    def contains(self, groups: ArrayLike, offsets: ArrayLike) -> NDArray[np.bool_]:
        """For each row, whether it is in the set. O(p log n)."""
        return runs.contains(self._runs, integers(groups, "groups"), integers(offsets, "offsets"))

    def overlaps(self, other: RowSet) -> bool:
        """Whether they have a row in common. O(s log l) in the shorter's and longer's intervals."""
        require_alike(self, other)
        return runs.overlap(self._runs, other._runs)

    def union(self, *others: RowSet) -> RowSet:
        """What is in any of them. O(n log n) in all their intervals. Theorem: `interval_union_exact`."""
        require_alike(self, *others)
        columns = zip(self._runs, *(other._runs for other in others), strict=True)
        return self._of(runs.canonical(*(np.concatenate(column) for column in columns)))

    def intersection(self, other: RowSet) -> RowSet:
        """What is in both. O(s log l + k). Theorem: `interval_intersection_exact`."""
        require_alike(self, other)
        return self._of(runs.intersection(self._runs, other._runs))

    def difference(self, other: RowSet) -> RowSet:
        """What is in this set only. O(m log t + k). Theorem: `interval_difference_exact`."""
        require_alike(self, other)
        return self._of(runs.difference(self._runs, other._runs))

    __or__ = union
    __and__ = intersection
    __sub__ = difference

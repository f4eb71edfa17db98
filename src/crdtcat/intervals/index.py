"""An interval tree over any ordered values: which of many intervals, that may overlap, meet a given one.

Theory. The n intervals have at most 2n different ends. Numbered in order, each end is a point, and between
two neighbours lies a gap that no stored interval cuts; so every stored interval is a run of numbers 0 .. 4n,
and any other interval is looked up by bisection among the ends. From here on only integers are compared
(theorem: `overlap_exact`).

The tree is the binary trie over these numbers. An interval from s to l (both included) lives at the lowest
node that holds both: level = bit length of s xor l, node = s >> level. That is arithmetic, so the tree is
built by sorting, without a loop. All intervals of a node contain the node's middle. A point q left of it
meets those that begin at or before q: a prefix of the node's list by start; right of it, a prefix of its
list by end, falling. So

    met by q          one node per level, and in each only hits and one miss more: O(log n + k)
    met by [q, r]     met by q, and those that begin in (q, r]: one bisection more, O(log n + k)
    any met, many     greatest end among those that begin before r: O(w1 log w2) for a whole set, vectorized
    all pairs         a begins inside b or b inside a: O((w1 + w2) log + k), vectorized

Immutable. Build O(n log n). No I/O, no Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from crdtcat.intervals.ends import Ends
from crdtcat.intervals.interval import Interval, require_intervals
from crdtcat.intervals.runs import Integers, expand


class IntervalIndex:
    """Intervals of one kind of value, numbered as given, to be asked which of them meet others.

    Args:
        intervals: any number, in any order; they may overlap.

    Raises:
        InvalidArgument: ends that do not compare with each other, or what is no interval.
    """

    __slots__ = ("_ends", "_first", "_furthest", "_held", "_last", "_order", "_tree")

    def __init__(self, intervals: Iterable[Interval]) -> None:
        self._held = tuple(intervals)
        self._ends = Ends.of(self._held)
        self._first, self._last = self._ends.numbered(self._held)
        self._order = np.argsort(self._first, kind="stable")
        self._furthest = np.maximum.accumulate(self._last[self._order])
        self._tree = _Tree(self._first, self._last)

    def __len__(self) -> int:
        """How many intervals."""
        return len(self._held)

    def overlapping(self, wanted: Interval) -> Integers:
        """Which intervals meet `wanted`, as rising numbers. O(log n + k), and sorting the k.

        Raises:
            InvalidArgument: `wanted` is no interval, or of another kind of value.
        """
        require_intervals([wanted])
        first, last = (int(column[0]) for column in self._ends.numbered([wanted]))
        low, high = np.searchsorted(self._first, (first, last), side="right", sorter=self._order)
        return np.sort(np.concatenate((*self._tree.holding(first), self._order[low:high])))

    def overlapped(self, others: IntervalIndex) -> NDArray[np.bool_]:
        """For each interval of `others`, whether it meets any here. O(o log n), vectorized."""
        first, last = self._ends.numbered(others._held)
        before = np.searchsorted(self._first, last, side="right", sorter=self._order)
        met = before > 0
        met[met] = self._furthest[before[met] - 1] >= first[met]
        return met

    def pairs(self, others: IntervalIndex) -> tuple[Integers, Integers]:
        """All that meet, as (number here, number in `others`), rising. O((n + o) log + k), vectorized.

        Theorem: `meeting_begins_in_one`.
        """
        first, last = self._ends.numbered(others._held)
        order = np.argsort(first, kind="stable")
        # Theirs begins in mine, at or after its start; or mine begins in theirs, after its start. Never both.
        low = np.searchsorted(first, self._first, side="left", sorter=order)
        high = np.searchsorted(first, self._last, side="right", sorter=order)
        mine, offset = expand(high - low)
        theirs = order[low[mine] + offset]
        low = np.searchsorted(self._first, first, side="right", sorter=self._order)
        high = np.searchsorted(self._first, last, side="right", sorter=self._order)
        also, offset = expand(high - low)
        here = np.concatenate((mine, self._order[low[also] + offset]))
        there = np.concatenate((theirs, also))
        sorting = np.lexsort((there, here))
        return here[sorting], there[sorting]


class _Tree:
    """The trie: for each node its intervals by start, rising, and by end, falling."""

    __slots__ = ("_begin", "_by_end", "_by_start", "_ends", "_levels", "_starts")

    def __init__(self, first: Integers, last: Integers) -> None:
        self._levels = int(last.max(initial=0)).bit_length()
        level = _bit_length(first ^ last)
        # Nodes in heap order: the root is 1, the node of level l above the number x is 2^(levels - l) + (x
        # >> l).
        node = (1 << (self._levels - level)) + (first >> level)
        self._by_start = np.lexsort((first, node))
        self._by_end = np.lexsort((-last, node))
        self._starts, self._ends = first[self._by_start], -last[self._by_end]
        counts = np.bincount(node, minlength=2 << self._levels)
        self._begin = np.concatenate(([0], np.cumsum(counts)))

    def holding(self, number: int) -> list[Integers]:
        """The intervals that hold a number, node by node."""
        hits = [np.empty(0, np.int64)]
        if number >> self._levels:
            return hits
        for level in range(self._levels + 1):
            node = (1 << (self._levels - level)) + (number >> level)
            low, high = int(self._begin[node]), int(self._begin[node + 1])
            if low == high:
                continue
            middle = ((number >> level) << level) + ((1 << level) >> 1)
            if number < middle:
                hits.append(self._by_start[low : _gallop(self._starts, low, high, number)])
            else:
                hits.append(self._by_end[low : _gallop(self._ends, low, high, -number)])
        return hits


def _gallop(keys: Integers, low: int, high: int, bound: int) -> int:
    """Where keys from `low` to `high`, rising, stop being at most `bound`. O(log of how many are)."""
    step = 1
    while low + step < high and keys[low + step] <= bound:
        step *= 2
    stop = min(low + step, high)
    return low + int(np.searchsorted(keys[low:stop], bound, side="right"))


def _bit_length(values: Integers) -> Integers:
    """How many bits each value has; exact below 2^53, far above any count of ends."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)

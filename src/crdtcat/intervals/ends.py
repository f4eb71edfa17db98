"""The ends of many intervals, numbered in order: any ordered values become integers, open and closed ends
too.

The i-th smallest end is the number 2i + 1; the gap below it is 2i, the gap above it 2i + 2. So a closed end
at a value is the value's number, an open one the gap beside it, and a value that is no end lies in a gap. No
interval whose ends are among these cuts a gap, so two intervals, one of which has its ends here, meet where
their numbers do. No I/O.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from crdtcat.errors import InvalidArgument
from crdtcat.intervals.interval import Interval, require_intervals
from crdtcat.intervals.runs import Integers


class Ends:
    """The different ends of some intervals, rising.

    Raises:
        InvalidArgument: ends that do not compare with each other.
    """

    __slots__ = ("_array", "_values")

    def __init__(self, values: list[Any], array: Any = None) -> None:
        self._values = values
        self._array = _fast(values) if array is None else array

    @classmethod
    def of(cls, intervals: Sequence[Interval]) -> Ends:
        """The ends of these intervals. O(n log n)."""
        require_intervals(intervals)
        try:
            return cls(sorted({end for one in intervals for end in (one.low, one.high) if end is not None}))
        except TypeError as error:
            raise InvalidArgument(f"these ends do not compare with each other: {error}") from error

    def __len__(self) -> int:
        """How many ends."""
        return len(self._values)

    @property
    def values(self) -> list[Any]:
        """The ends, rising. Not to be written to."""
        return self._values

    def some(self, which: Integers) -> Ends:
        """The ends at these places, which rise. O(w)."""
        if self._array is not None:
            array = self._array[which]
            return Ends(array.tolist(), array)
        return Ends([self._values[place] for place in which.tolist()])

    def together(self, other: Ends) -> tuple[Ends, Integers, Integers]:
        """The ends of both, and at which places of them mine stand, and theirs. O(n log n); vectorized where
        all are of one kind of number.

        Raises:
            InvalidArgument: ends that do not compare with each other.
        """
        if not (self._values and other._values):
            return self if self._values else other, np.arange(len(self)), np.arange(len(other))
        if self._array is not None and other._array is not None and self._array.dtype == other._array.dtype:
            array, place = np.unique(np.concatenate((self._array, other._array)), return_inverse=True)
            return Ends(array.tolist(), array), place[: len(self)], place[len(self) :]
        try:
            # Two rising lists in a row: sorting finds and merges them.
            values = list(dict.fromkeys(sorted(self._values + other._values)))
        except TypeError as error:
            raise InvalidArgument(f"these ends do not compare with each other: {error}") from error
        number = {value: place for place, value in enumerate(values)}
        mine, theirs = (np.array([number[end] for end in one._values], np.int64) for one in (self, other))
        return Ends(values), mine, theirs

    def numbered(self, intervals: Sequence[Interval]) -> tuple[Integers, Integers]:
        """First and last number of each interval. O(w log n); vectorized where all are of one kind of number.

        Raises:
            InvalidArgument: an end that does not compare with these.
        """
        first = np.zeros(len(intervals), np.int64)
        last = np.full(len(intervals), 2 * len(self._values), np.int64)
        low = [number for number, one in enumerate(intervals) if one.low is not None]
        high = [number for number, one in enumerate(intervals) if one.high is not None]
        left, right = self.places([intervals[number].low for number in low])
        first[low] = (
            left + right + np.array([intervals[number].low_open for number in low], bool) * (right - left)
        )
        left, right = self.places([intervals[number].high for number in high])
        last[high] = (
            left + right - np.array([intervals[number].high_open for number in high], bool) * (right - left)
        )
        return first, last

    def places(self, values: list[Any]) -> tuple[Integers, Integers]:
        """For each value, how many ends are below it and how many not above: the sum is its number.

        O(w log n); vectorized where all are of one kind of number.

        Raises:
            InvalidArgument: a value that does not compare with these.
        """
        wanted = _fast(values) if self._array is not None else None
        if self._array is not None and wanted is not None and wanted.dtype == self._array.dtype:
            return np.searchsorted(self._array, wanted, "left"), np.searchsorted(self._array, wanted, "right")
        try:
            left = [bisect_left(self._values, value) for value in values]
            right = [bisect_right(self._values, value) for value in values]
        except TypeError as error:
            raise InvalidArgument(f"values that do not compare with these ends: {error}") from error
        return np.array(left, np.int64), np.array(right, np.int64)


def _fast(values: list[Any]) -> Any:
    """The values as one array where that changes none of them: 64-bit integers, or floats. Else None."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values, np.float64)
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return np.array(values, np.int64)
    return None

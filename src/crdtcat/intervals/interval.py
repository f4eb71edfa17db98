"""An interval of any ordered values: numbers, text, bytes, times; each end open, closed or without bound.

It stands for values of a dense order: `(1, 2)` of integers counts as not empty, though no integer is in it.
That errs towards overlap, never away from it. No I/O, no Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from crdtcat.errors import InvalidArgument
from crdtcat.support.showing import shown


@dataclass(frozen=True, slots=True)
class Interval:
    """All values between two ends.

    Args:
        low: the lower end; None: without bound.
        high: the upper end; None: without bound.
        low_open: the lower end itself is outside.
        high_open: the upper end itself is outside.

    Raises:
        InvalidArgument: nothing can lie between the ends, or they do not compare (as NaN does not).
    """

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False

    def __post_init__(self) -> None:
        for end in (self.low, self.high):
            if not ordered(end):
                raise InvalidArgument(f"{shown(end)} has no place in an order")
        if self.low is None or self.high is None:
            return
        try:
            empty = not self.low <= self.high
        except TypeError as error:
            raise InvalidArgument(f"{shown(self.low)} and {shown(self.high)} do not compare") from error
        if empty or (self.low == self.high and (self.low_open or self.high_open)):
            raise InvalidArgument(f"nothing lies in {self}")

    @classmethod
    def point(cls, value: Any) -> Interval:
        """The interval of one value."""
        return cls(value, value)

    def __str__(self) -> str:
        low = "(-inf" if self.low is None else f"{'(' if self.low_open else '['}{self.low!r}"
        high = "inf)" if self.high is None else f"{self.high!r}{')' if self.high_open else ']'}"
        return f"{low}, {high}"

    def contains(self, value: Any) -> bool:
        """Whether a value lies between the ends.

        Raises:
            InvalidArgument: a value that does not compare with the ends, or with itself.
        """
        if value is None or not ordered(value):
            raise InvalidArgument(f"{shown(value)} has no place in an order")
        return self.overlaps(Interval.point(value))

    def overlaps(self, other: Interval) -> bool:
        """Whether they have a value in common, in a dense order.

        Raises:
            InvalidArgument: ends that do not compare with each other.
        """
        try:
            return _reaches(self, other) and _reaches(other, self)
        except TypeError as error:
            raise InvalidArgument(f"{self} and {other} do not compare: {error}") from error


def ordered(value: Any) -> bool:
    """Whether a value equals itself, as it must to have a place in an order; NaN and NaT do not."""
    return bool(value == value)  # noqa: PLR0124


def _reaches(low: Interval, high: Interval) -> bool:
    """Whether `low` begins before `high` ends."""
    if low.low is None or high.high is None:
        return True
    return bool(low.low < high.high if low.low_open or high.high_open else low.low <= high.high)


def require_alike(mine: object, *others: object) -> None:
    """Raises `InvalidArgument` where a set is to be compared with what is no set of its kind."""
    for other in others:
        if not isinstance(other, type(mine)):
            raise InvalidArgument(f"{shown(other)} is no {type(mine).__name__}")


def require_intervals(given: Iterable[object]) -> None:
    """Raises `InvalidArgument` where one of these is no interval. O(n)."""
    for one in given:
        if not isinstance(one, Interval):
            raise InvalidArgument(f"{shown(one)} is no interval: pass Interval(low, high)")

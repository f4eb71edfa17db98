"""Points in time, times of day and spans as exact integers of nanoseconds, read from text or Arrow.

Theory. Comparing a literal in one unit with a column in another must not round to nearest: `ts >= 0.5 ms` on
a column of milliseconds means `ts > 0`. So literals are kept as exact integers here, and the one place that
fits them to a column's unit (`literals.py`) rounds down and says whether it did.

A moment without a zone is wall time; compared with a column that has a zone, it is read as UTC, whatever the
machine's own zone is, so that a filter means the same on every machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow.types as pt

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE = r"(?P<zone>\s?[Zz]|\s?[+-]\d{2}(?::?\d{2})?)?"
_MOMENT = re.compile(rf"(?P<year>\d{{4}})-(?P<month>\d{{1,2}})-(?P<day>\d{{1,2}})(?:[T ]{_CLOCK}{_ZONE})?")
_TIME = re.compile(_CLOCK)


@dataclass(frozen=True, slots=True)
class Moment:
    """Nanoseconds since 1970, and whether they count from UTC or are wall time."""

    nanoseconds: int
    zoned: bool = False


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """Nanoseconds since midnight."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time in nanoseconds."""

    nanoseconds: int


def parse_moment(text: str) -> Moment:
    """A date or timestamp in ISO 8601, with `T` or a space, up to 9 decimals, with or without an offset.

    Raises:
        ValueError: it is not one.
    """
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a date or timestamp such as '2026-01-31 12:30:00'")
    day = datetime(int(match["year"]), int(match["month"]), int(match["day"]), tzinfo=UTC)
    nanoseconds = day.toordinal() * DAY - datetime(1970, 1, 1, tzinfo=UTC).toordinal() * DAY
    if match["hour"] is not None:
        nanoseconds += _clock(match)
    zone = (match["zone"] or "").strip().upper()
    if zone not in ("", "Z"):
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = (int(digits[:2]) * 60 + int(digits[2:])) * 60 * 10**9
        nanoseconds -= offset if zone[0] == "+" else -offset
    return Moment(nanoseconds, zoned=bool(zone))


def parse_time(text: str) -> TimeOfDay:
    """A time of day such as `12:30:00.5`.

    Raises:
        ValueError: it is not one.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time such as '12:30:00'")
    return TimeOfDay(_clock(match))


def _clock(match: re.Match[str]) -> int:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{match[0]!r} is not a time of day")
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int((match["fraction"] or "").ljust(9, "0"))


def from_arrow(scalar: Any) -> Moment | TimeOfDay | Span:
    """An Arrow scalar of a temporal type, exactly."""
    kind = scalar.type
    if pt.is_date32(kind):
        return Moment(scalar.value * DAY)
    if pt.is_date64(kind):
        return Moment(scalar.value * NANOSECONDS["ms"])
    nanoseconds = scalar.value * NANOSECONDS[kind.unit]
    if pt.is_timestamp(kind):
        return Moment(nanoseconds, zoned=kind.tz is not None)
    return TimeOfDay(nanoseconds) if pt.is_time(kind) else Span(nanoseconds)

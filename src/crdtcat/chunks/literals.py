"""Literals of filters, placed in the domains of statistics.

A literal need not be a value of the column's type: `1.5` against an integer column, a date against a
timestamp column, a Decimal between two floats. So a literal becomes a pair `(lo, hi)`: `lo` is not above it,
`hi` not below it, and they are equal where the domain holds it exactly. To prune with a chunk's bounds:

| filter | no row can match if |
|---|---|
| column < v | min >= hi |
| column <= v | min > lo |
| column == v | max < lo or min > hi |
| column >= v | max < hi |
| column > v | max <= lo |

(The second and fourth hold because no bound lies strictly between `lo` and `hi`.)

None means that the literal has no place there; then do not prune. Conversion guesses nothing: no text is
parsed, and moments with and without a zone are kept apart.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.chunks.statistics import domain, nanoseconds_per_unit, round_down, round_up, value_type

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def value_in_domain(value: Any, t: pa.DataType) -> tuple[Any, Any] | None:
    """The literal's place `(lo, hi)` among bounds of columns of type `t`, or None.

    Args:
        value: a Python, numpy or Arrow scalar.
        t: the column's logical type.
    """
    kind = domain(t)
    t = value_type(t)
    if isinstance(value, np.generic):
        value = pa.scalar(value)
    if value is None or kind is None or (isinstance(value, pa.Scalar) and not value.is_valid):
        return None
    if kind == "bytes":
        return _bytes(value, t)
    unit = nanoseconds_per_unit(t)
    if unit is not None:
        length = _nanoseconds(value, t)
        return None if length is None else (length // unit, -(-length // unit))
    number = value.as_py() if isinstance(value, pa.Scalar) else value
    if not isinstance(number, int) and not (isinstance(number, float | Decimal) and math.isfinite(number)):
        return None
    return (
        (math.floor(number), math.ceil(number)) if kind == "int" else (round_down(number), round_up(number))
    )


def _bytes(value: Any, t: pa.DataType) -> tuple[bytes, bytes] | None:
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    text = pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)
    if isinstance(plain, uuid.UUID):
        plain = plain.bytes
    if isinstance(plain, str) and text:
        plain = plain.encode("utf-8", "surrogatepass")
    elif not isinstance(plain, bytes) or text:
        return None
    return plain, plain


def _nanoseconds(value: Any, t: pa.DataType) -> int | None:  # noqa: PLR0911 (one for each kind of time)
    """Nanoseconds since 1970, since midnight, or long; None where value and type do not go together."""
    if isinstance(value, pa.Scalar):
        return _arrow_nanoseconds(value, t)
    if pa.types.is_duration(t) and isinstance(value, dt.timedelta):
        return (value // _MICROSECOND) * 1000 + getattr(value, "nanoseconds", 0)
    if pa.types.is_time(t) and isinstance(value, dt.time) and value.tzinfo is None:
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return (seconds * 10**6 + value.microsecond) * 1000
    if not (pa.types.is_timestamp(t) or pa.types.is_date(t)):
        return None
    if isinstance(value, dt.datetime):
        if (value.tzinfo is not None) != (getattr(t, "tz", None) is not None):
            return None
        moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return ((moment - _EPOCH) // _MICROSECOND) * 1000 + getattr(value, "nanosecond", 0)
    if isinstance(value, dt.date) and getattr(t, "tz", None) is None:
        return (value - _EPOCH.date()).days * 86_400 * 10**9
    return None


def _arrow_nanoseconds(value: pa.Scalar, t: pa.DataType) -> int | None:
    unit = nanoseconds_per_unit(value.type)
    moments = [pa.types.is_timestamp(x) or pa.types.is_date(x) for x in (value.type, t)]
    same = all(moments) or value.type.id == t.id or (pa.types.is_time(value.type) and pa.types.is_time(t))
    if unit is None or not same:
        return None
    zones = [getattr(x, "tz", None) is not None for x in (value.type, t)]
    return int(value.value) * unit if zones[0] == zones[1] else None

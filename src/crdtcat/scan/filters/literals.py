"""Literals: from what users write to values of a column's type, without ever rounding in silence.

Theory. For a literal v and a totally ordered type T let `floor(v)` be the greatest value of T not above v.
Then, for every x in T, `x <= v` is `x <= floor(v)` and `x > v` is `x > floor(v)`; and if v is not itself in
T, `x < v` is `x <= floor(v)` and `x = v` is false. So every comparison with any v of the same kind, however
large or fine, becomes one with a value of T, or a constant if nothing of T is below v. `fit` computes that
floor for every type; `compare.py` applies the rule.

Nothing here looks at columns or rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.python_leaves import is_null, plain_date
from crdtcat.errors import InvalidFilter, LimitExceeded
from crdtcat.limits import NUMBER_DIGITS_MAX
from crdtcat.scan.filters.moments import (
    DAY,
    NANOSECONDS,
    Moment,
    Span,
    TimeOfDay,
    from_arrow,
    parse_moment,
    parse_time,
)
from crdtcat.support.showing import shown

Value = bool | int | float | Decimal | str | bytes | Moment | TimeOfDay | Span
"""A literal in exact form."""

EXACT = Context(prec=2000)
"""For arithmetic on decimals: wide enough that no float, no decimal256 and no sane literal is rounded, as the
caller's own context would, by default to 28 digits."""


class Fitted(NamedTuple):
    """A literal in a type.

    Attributes:
        floor: an Arrow scalar, the greatest value of the type not above the literal; None if all are above.
        exact: whether the floor is the literal itself.
    """

    floor: Any
    exact: bool


def normalize(value: Any) -> Value | None:
    """What a user passed (Python, numpy, pandas, Arrow) in exact form; None for null.

    Raises:
        InvalidFilter: a value of a kind that no column is compared with.
    """
    if isinstance(value, bool | int | float | Decimal | str | bytes | Moment | TimeOfDay | Span):
        return _plain(value)
    if is_null(value):
        return None
    if isinstance(value, Mapping | AbstractSet | list | tuple | np.ndarray):
        raise _not_single(value, type(value).__name__)  # Arrow follows them until its stack ends
    value = plain_date(value)
    try:
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
        while isinstance(scalar, pa.DictionaryScalar | pa.ExtensionScalar):
            scalar = scalar.value
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidFilter(f"{shown(value)} cannot be used in a filter: {error}") from error
    if scalar is None or not scalar.is_valid:
        return None
    kind = scalar.type
    if pt.is_temporal(kind) and not pt.is_interval(kind):
        return from_arrow(scalar)
    result = scalar.as_py()
    if isinstance(result, bool | int | Decimal | str | bytes):
        return result
    if isinstance(result, float | np.floating):
        return float(result)
    raise _not_single(value, str(kind))


def _plain(value: Value) -> Value:
    """A value of Python's own that can be compared with everything of its kind, and be shown."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Decimal):
        return Decimal("NaN") if value.is_snan() else value
    if isinstance(value, int):
        require_digits(value.bit_length() * 30_103 // 100_000)  # the logarithm of 2
    return value


def _not_single(value: object, kind: str) -> InvalidFilter:
    return InvalidFilter(f"{shown(value)} ({kind}) cannot be used in a filter: compare with single values")


def require_digits(count: int) -> None:
    """Raises `LimitExceeded` for an integer of more digits than Python reads and writes."""
    if count > NUMBER_DIGITS_MAX:
        raise LimitExceeded(
            f"a filter holds a number of more than {NUMBER_DIGITS_MAX:,} digits: no column holds any such"
        )


def is_nan(value: Value | None) -> bool:
    """Whether a literal is not a number."""
    return isinstance(value, float | Decimal) and math.isnan(value)


def fit(value: Value, kind: pa.DataType, name: str) -> Fitted:  # noqa: PLR0911 (one line per family of types)
    """The floor of `value` in the comparison type `kind`; NaN is not accepted.

    Raises:
        InvalidFilter: the value is of another kind than the type. `name` says of which column.
    """
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if pt.is_boolean(kind) and isinstance(value, bool):
        return Fitted(pa.scalar(value, kind), exact=True)
    if pt.is_integer(kind) and number:
        return _fit_integer(value, kind)
    if pt.is_floating(kind) and number:
        return _fit_float(value, kind)
    if pt.is_decimal(kind) and number:
        return _fit_decimal(value, kind)
    if (pt.is_string(kind) or pt.is_large_string(kind)) and isinstance(value, str):
        require_unicode(value)
        return Fitted(pa.scalar(value, kind), exact=True)
    if (pt.is_binary(kind) or pt.is_large_binary(kind)) and isinstance(value, bytes):
        return Fitted(pa.scalar(value, kind), exact=True)
    if pt.is_fixed_size_binary(kind) and isinstance(value, bytes):
        return _fit_fixed(value, kind)
    if pt.is_temporal(kind) and isinstance(value, str | Moment | TimeOfDay | Span):
        return _fit_time(value, kind, name)
    raise wrong_kind(value, kind, name)


def require_unicode(text: str) -> None:
    """Raises `InvalidFilter` for text that no column can hold: half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidFilter(f"{shown(text, 200)} is not valid Unicode: {error.reason}") from error


def wrong_kind(value: Any, kind: pa.DataType, name: str) -> InvalidFilter:
    """The error for a literal that a column cannot be compared with."""
    given = shown(value, 300) if isinstance(value, str | bytes) else str(value)
    return InvalidFilter(
        f"column {name} is {kind} and cannot be compared with {given}; write a literal of its type"
    )


def _fit_integer(value: Any, kind: pa.DataType) -> Fitted:
    bits = kind.bit_width
    least, greatest = (
        (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pt.is_signed_integer(kind) else (0, 2**bits - 1)
    )
    if isinstance(value, float | Decimal) and math.isinf(value):
        return Fitted(pa.scalar(greatest, kind) if value > 0 else None, exact=False)
    if value < least:
        return Fitted(None, exact=False)
    if value > greatest:
        return Fitted(pa.scalar(greatest, kind), exact=False)
    floor = math.floor(value)
    return Fitted(pa.scalar(floor, kind), exact=floor == value)


def _fit_float(value: Any, kind: pa.DataType) -> Fitted:
    floor = float_floor(value)
    if pt.is_float64(kind):
        return Fitted(pa.scalar(floor, kind), exact=floor == value)
    with np.errstate(over="ignore"):
        narrow = np.float32(floor)
    if float(narrow) > floor:
        narrow = np.nextafter(narrow, np.float32(-math.inf))
    return Fitted(pa.scalar(float(narrow), kind), exact=float(narrow) == value)


def nearest_float(value: float | Decimal) -> float:
    """The 64-bit float nearest to an exact number; infinity for what is beyond their range."""
    try:
        return float(value)
    except OverflowError:  # an int; of a decimal Python makes infinity
        return math.inf if value > 0 else -math.inf


def float_floor(value: float | Decimal) -> float:
    """The greatest 64-bit float not above `value`, an exact number."""
    near = nearest_float(value)
    return near if near <= value else math.nextafter(near, -math.inf)


def _fit_decimal(value: Any, kind: pa.DataType) -> Fitted:
    greatest = Decimal(10**kind.precision - 1).scaleb(-kind.scale, EXACT)
    if value < greatest.copy_negate():
        return Fitted(None, exact=False)
    if value > greatest:
        return Fitted(pa.scalar(greatest, kind), exact=False)
    step = Decimal(1).scaleb(-kind.scale, EXACT)
    floor = Decimal(value).quantize(step, ROUND_FLOOR, EXACT)
    return Fitted(pa.scalar(floor, kind), exact=floor == value)


def _fit_fixed(value: bytes, kind: pa.DataType) -> Fitted:
    width = kind.byte_width
    if len(value) >= width:
        return Fitted(pa.scalar(value[:width], kind), exact=len(value) == width)
    # Every value that begins with a shorter literal is above it: the floor is the one before the first.
    before = int.from_bytes(value.ljust(width, b"\0"), "big") - 1
    return Fitted(pa.scalar(before.to_bytes(width, "big"), kind) if before >= 0 else None, exact=False)


def _fit_time(value: Any, kind: pa.DataType, name: str) -> Fitted:
    if isinstance(value, str):
        try:
            value = parse_time(value) if pt.is_time(kind) else parse_moment(value)
        except ValueError as error:
            raise InvalidFilter(f"column {name} is {kind}: {error}") from error
    wanted = TimeOfDay if pt.is_time(kind) else Span if pt.is_duration(kind) else Moment
    if not isinstance(value, wanted):
        raise wrong_kind(value, kind, name)
    if isinstance(value, Moment) and value.zoned and not (pt.is_timestamp(kind) and kind.tz is not None):
        raise InvalidFilter(
            f"column {name} is {kind}, without a time zone, and cannot be compared with a time that has one"
        )
    unit = DAY if pt.is_date32(kind) else NANOSECONDS["ms" if pt.is_date64(kind) else kind.unit]
    floor, rest = divmod(value.nanoseconds, unit)
    bits = kind.bit_width
    if floor < -(2 ** (bits - 1)):
        return Fitted(None, exact=False)
    clamped = min(floor, 2 ** (bits - 1) - 1)
    stored = pa.array([clamped], pa.int32() if bits == 32 else pa.int64()).view(kind)[0]
    return Fitted(stored, exact=clamped == floor and rest == 0)

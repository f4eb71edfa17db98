"""Python values of types without children: each is taken if it is exactly a value of the type.

The rules are the table in `crdtcat.chunks.python_values`. Moments, times and durations are counted in
nanoseconds with Python's integers and handed to pyarrow as counts, so that no unit ever cuts one. Ranges and
decimal digits are left to pyarrow, which checks them. No I/O.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

_ROUNDED_BITS = 64  # decimals of so many bits or fewer are rounded by pyarrow without a word
_NANOSECONDS = {
    "W": 604_800 * 10**9, "D": 86_400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9,
    "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1,
}  # fmt: skip
_UUID_BYTES = 16
_FAILURES = (pa.ArrowException, TypeError, ValueError, ArithmeticError)


class Misfit(Exception):
    """A value that is not one of the type: at which index, and why."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(index, why)
        self.index, self.why = index, why


def is_null(value: Any) -> bool:
    """None, and what pandas and numpy have for it; never NaN, which is a float."""
    if value is None:
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in {"NAType", "NaTType"} and type(value).__module__.startswith("pandas")


def plain_date(value: Any) -> Any:
    """A `datetime64` that counts days as Python's date, where there is one; everything else as it is.

    pyarrow takes those that count seconds or less, and fails on days with an error of its own.
    """
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype) == ("D", 1):
        found = value.astype(object)
        return found if isinstance(found, dt.date) else value
    return value


def leaf_array(values: list[Any], t: pa.DataType) -> pa.Array:
    """The values as type `t`. Raises `Misfit` at the first that is none."""
    if not set(map(type, values)) <= {type(None), *_taken_as_they_are(t, values)}:
        values = _each(values, _rule(t))
    if pt.is_floating(t) and t.bit_width < 64:
        return _narrowed(values, t)
    try:
        return pa.array(values, t)
    except _FAILURES as error:
        raise Misfit(first_failure(values, t), str(error)) from error


def first_failure(values: Sequence[Any], t: pa.DataType | None) -> int:
    """The first value that pyarrow does not take after those before it, by halving; only after a failure."""
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pa.array(values[:middle], t)
            good = middle
        except _FAILURES:
            bad = middle
    return bad - 1


def _each(values: list[Any], rule: Callable[[Any], Any]) -> list[Any]:
    taken = []
    for index, value in enumerate(values):
        try:
            taken.append(None if is_null(value) else rule(value))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise Misfit(index, str(error) or type(error).__name__) from error
    return taken


def _taken_as_they_are(t: pa.DataType, values: list[Any]) -> tuple[type, ...]:
    """The Python types that pyarrow converts to `t` exactly, or refuses."""
    tests: tuple[tuple[bool, tuple[type, ...]], ...] = (
        (pt.is_integer(t), (int,)),
        (t == pa.float64(), (float,)),
        (pt.is_decimal(t) and t.bit_width > _ROUNDED_BITS, (Decimal, int)),
        (pt.is_boolean(t), (bool, np.bool_)),
        (_is_text(t), (str,)),
        (_is_bytes(t), (bytes,)),
        (pt.is_date(t), (dt.date,)),
        (pt.is_timestamp(t) and t.unit == "us" and _zones_agree(values, t), (dt.datetime,)),
    )
    return next((types for holds, types in tests if holds), ())


def _zones_agree(values: list[Any], t: pa.DataType) -> bool:
    times = (value for value in values if type(value) is dt.datetime)
    return all((value.utcoffset() is None) == (t.tz is None) for value in times)


def _is_text(t: pa.DataType) -> bool:
    return bool(pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t))


def _is_bytes(t: pa.DataType) -> bool:
    return bool(
        pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t) or pt.is_fixed_size_binary(t)
    )


def _rule(t: pa.DataType) -> Callable[[Any], Any]:  # noqa: PLR0911 (one for each kind of type)
    """What turns one value that is not null into what pyarrow takes; raises `ValueError` and the like."""
    if pt.is_integer(t):
        return _integer
    if pt.is_floating(t):
        return lambda value: _float(value, t.bit_width)
    if pt.is_decimal(t):
        return _decimal if t.bit_width > _ROUNDED_BITS else lambda value: _in_scale(_decimal(value), t.scale)
    if pt.is_date(t):
        day = _NANOSECONDS["D"]
        return lambda value: (
            _counted(_moment(value, zoned=False), day) * (86_400_000 if pt.is_date64(t) else 1)
        )
    if pt.is_timestamp(t):
        return lambda value: _counted(_moment(value, zoned=t.tz is not None), _NANOSECONDS[t.unit])
    if pt.is_time(t):
        return lambda value: _counted(_time(value), _NANOSECONDS[t.unit])
    if pt.is_duration(t):
        return lambda value: _counted(_duration(value), _NANOSECONDS[t.unit])
    if _is_text(t):
        return lambda value: _instance(value, str)
    if _is_bytes(t):
        size = t.byte_width if pt.is_fixed_size_binary(t) else 0
        return lambda value: value.bytes if isinstance(value, UUID) and size == _UUID_BYTES else _bytes(value)
    kinds = {pa.bool_(): (bool, np.bool_), pa.month_day_nano_interval(): (tuple,)}
    return lambda value: _instance(value, *kinds.get(t, ()))


def _instance(value: Any, *types: type) -> Any:
    if not isinstance(value, types):
        raise TypeError(f"{type(value).__name__} is not of that kind")
    return value


def _bytes(value: Any) -> bytes:
    return bytes(_instance(value, bytes, bytearray, memoryview))


def _number(value: Any) -> Any:
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, Real | Decimal):
        raise TypeError(f"{type(value).__name__} is not a number")
    return value


def _integer(value: Any) -> int:
    whole = int(_number(value))
    if whole != value:
        raise ValueError("not a whole number")
    return whole


def _float(value: Any, bits: int) -> float:
    number = float(_number(value))
    if isinstance(value, float):  # Python's own: rounded where the column is narrower
        return number
    with np.errstate(over="ignore"):
        kept = number if bits == 64 else float(np.dtype(f"f{bits // 8}").type(number))
    if kept != (int(value) if isinstance(value, Integral) else value) and number == number:  # noqa: PLR0124
        raise ValueError(f"not exact as a float of {bits} bits")
    return kept


def _decimal(value: Any) -> Decimal | int:
    if isinstance(_number(value), Decimal):
        return Decimal(value)
    return int(value) if isinstance(value, Integral) else Decimal(repr(float(value)))


def _in_scale(value: Decimal | int, scale: int) -> Decimal | int:
    """The value, if it has no more digits behind its point. Of small ones pyarrow makes 0, in decimals of 32
    and 64 bits, where bringing them to the scale overflows."""
    _, digits, exponent = Decimal(value).as_tuple()
    if isinstance(exponent, int) and any(digits):
        zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
        if exponent + zeros < -scale:
            raise ValueError(f"more than {scale} digits behind the point")
    return value


def _narrowed(values: list[Any], t: pa.DataType) -> pa.Array:
    wide = pa.array(values, pa.float64())
    numbers = wide.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        narrow = numbers.astype(t.to_pandas_dtype())
    lost = np.isinf(narrow) & ~np.isinf(numbers)
    if lost.any():
        raise Misfit(int(lost.argmax()), f"too large for {t}")
    return pa.array(narrow, t, mask=np.asarray(wide.is_null().to_numpy(zero_copy_only=False)))


def _counted(nanoseconds: int, unit: int) -> int:
    count, rest = divmod(nanoseconds, unit)
    if rest:
        raise ValueError("finer than the column")
    return int(count)


def _moment(value: Any, *, zoned: bool) -> int:
    """Nanoseconds since 1970."""
    if isinstance(value, np.datetime64):
        if zoned:
            raise ValueError("it has no timezone: add one")
        return _numpy_count(value, "datetime64[D]")
    if not isinstance(_instance(value, dt.date), dt.datetime):
        if zoned:
            raise ValueError("a date has no timezone: give a datetime that has one")
        return int(value.toordinal() - dt.date(1970, 1, 1).toordinal()) * _NANOSECONDS["D"]
    if (value.utcoffset() is not None) != zoned:
        raise ValueError("it has no timezone: add one" if zoned else "it has a timezone: take it off")
    fine = getattr(value, "nanosecond", 0)  # of a pandas.Timestamp
    plain = value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
    since: dt.timedelta = plain - dt.datetime(1970, 1, 1, tzinfo=dt.UTC if zoned else None)
    return _duration(since) + int(fine)


def _time(value: Any) -> int:
    if _instance(value, dt.time).tzinfo is not None:
        raise ValueError("a time of day with a timezone: take it off")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return int(seconds * 10**9 + value.microsecond * 1000)


def _duration(value: Any) -> int:
    if isinstance(value, np.timedelta64):
        return _numpy_count(value, None)
    _instance(value, dt.timedelta)
    fine = getattr(value, "nanoseconds", 0)  # of a pandas.Timedelta
    return int((value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1000 + fine)


def _numpy_count(value: Any, days: str | None) -> int:
    unit, step = np.datetime_data(value.dtype)
    if unit in {"Y", "M"} and days is not None:
        return int(value.astype(days).astype(np.int64)) * _NANOSECONDS["D"]
    if unit not in _NANOSECONDS:
        raise ValueError(f"numpy's unit {unit!r} is not one of {', '.join(_NANOSECONDS)}")
    return int(value.astype(np.int64)) * step * _NANOSECONDS[unit]

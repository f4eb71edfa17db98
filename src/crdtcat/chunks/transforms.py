"""Partition transforms: from a column's values to the values rows are grouped by.

| transform | of | gives |
|---|---|---|
| identity | every type with an order | the value; times as integers in their unit, decimals as text |
| year, month, day, hour | timestamps; dates but for hour | periods since 1970-01-01T00:00 UTC |
| truncate(w) | integers, text, bytes | the multiple of w not above; the first w characters or bytes |
| bucket(n) | integers, date32, text, bytes | an integer from 0 up to n |

Null gives null. NaN is one value, and so are 0.0 and -0.0. Moments without a zone count as UTC.

The bucket of a value never changes: `mix(x) >> 32`, modulo n, where x is an integer's value modulo 2^64, or
for text (as UTF-8) and bytes `len << 32 | crc32` modulo 2^64, and `mix` is the finalizer of SplitMix64: three
rounds of xor-shift (30, 27, 31) with two multiplications between. It is independent of integer width, so
widening a column moves no row.

Vectorized: O(rows), and for text one CRC per distinct value. No I/O.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
import zlib
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks.casts import cast_lossless
from crdtcat.chunks.layout import valid_rows
from crdtcat.chunks.statistics import domain, nanoseconds_per_unit, round_down, round_up, value_type

PERIODS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
"""Time transforms, with numpy's name for their unit."""

NAN = math.nan
"""The one NaN: tuples that hold this very object compare equal."""


def one_nan(value: Any) -> Any:
    """The value; any NaN as `NAN`."""
    return NAN if isinstance(value, float) and math.isnan(value) else value


_HOUR = 3600 * 10**9
_INT64_MIN = -(2**63)
_EPOCH_DAY = dt.date(1970, 1, 1)

Array64 = np.ndarray[Any, np.dtype[np.uint64]]


def is_text(t: pa.DataType) -> bool:
    """Whether a type holds text."""
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def applies_to(transform: str, t: pa.DataType) -> bool:
    """Whether a transform is defined for a column type."""
    t = value_type(t)
    if transform == "identity":
        return domain(t) is not None
    if transform in PERIODS:
        return bool(pa.types.is_timestamp(t) or (pa.types.is_date(t) and transform != "hour"))
    if transform == "bucket" and pa.types.is_date32(t):
        return True
    return bool(pa.types.is_integer(t)) or domain(t) == "bytes"


def apply(transform: str, argument: int | None, array: pa.Array) -> pa.Array:
    """The partition value of each row, as a bool, integer, float64, string or binary array."""
    array = cast_lossless(array, value_type(array.type))
    t = array.type
    if transform in PERIODS:
        return _periods(array, transform)
    if transform == "identity":
        return _identity(array)
    assert argument is not None
    if transform == "bucket":
        return _buckets(array, argument)
    if is_text(t):
        return pc.utf8_slice_codeunits(array.cast(pa.large_string()), 0, argument)
    if domain(t) == "bytes":
        return pc.binary_slice(array.cast(pa.large_binary()), 0, argument)
    return _multiples(array, argument)


def _identity(array: pa.Array) -> pa.Array:
    t = array.type
    if nanoseconds_per_unit(t) is not None:
        return array.view(pa.int32() if t.bit_width == 32 else pa.int64())
    if pa.types.is_floating(t):
        wide = array.cast(pa.float64())
        positive = pc.add(wide, pa.scalar(0.0))  # -0.0 + 0.0 is 0.0
        return pc.if_else(pc.is_nan(positive), pa.scalar(NAN), positive)
    if pa.types.is_decimal(t):
        return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], pa.string())
    if domain(t) == "bytes":
        return array.cast(pa.large_string() if is_text(t) else pa.large_binary())
    return array


def _periods(array: pa.Array, transform: str) -> pa.Array:
    t = array.type
    per_unit = nanoseconds_per_unit(t)
    assert per_unit is not None
    valid = valid_rows(array)
    units = array.view(pa.int32() if t.bit_width == 32 else pa.int64()).fill_null(0)
    length = _HOUR if transform == "hour" else 24 * _HOUR
    moments = units.to_numpy(zero_copy_only=False).astype(np.int64)
    periods = moments // (length // per_unit)
    if transform in {"year", "month"}:
        periods = periods.astype("datetime64[D]").astype(f"datetime64[{PERIODS[transform]}]").astype(np.int64)
    return pa.array(periods, pa.int64(), mask=None if valid is None else ~valid)


def _multiples(array: pa.Array, width: int) -> pa.Array:
    """The multiple of `width` below each integer, but never below what 64 bits hold."""
    valid = valid_rows(array)
    signed = pa.types.is_signed_integer(array.type)
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64 if signed else np.uint64)
    rest = numbers % numbers.dtype.type(width)
    least = np.where(numbers < _INT64_MIN + rest, _INT64_MIN, numbers - rest) if signed else numbers - rest
    return pa.array(least, pa.int64() if signed else pa.uint64(), mask=None if valid is None else ~valid)


def _buckets(array: pa.Array, count: int) -> pa.Array:
    valid = valid_rows(array)
    if domain(array.type) == "bytes":
        plain = array.cast(pa.large_binary())
        encoded = plain.dictionary_encode()
        words = np.array([_word(entry) for entry in encoded.dictionary.to_pylist()], np.uint64)
        codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        words = words[codes] if len(words) else np.zeros(len(array), np.uint64)
    else:
        numbers = array.view(pa.int32()) if pa.types.is_date32(array.type) else array
        words = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    buckets = (mix(words) >> np.uint64(32)) % np.uint64(count)
    return pa.array(buckets.astype(np.int64), mask=None if valid is None else ~valid)


def _word(data: bytes) -> int:
    return (len(data) << 32 | zlib.crc32(data)) & (2**64 - 1)


def mix(words: Array64) -> Array64:
    """SplitMix64's finalizer: every bit of the input moves about half of the output's."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def bucket_of(value: Any, count: int) -> int | None:
    """The bucket of one literal; None if no column that can be bucketed holds such a value."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, uuid.UUID):
        value = value.bytes
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = (value - _EPOCH_DAY).days
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer | bytes):
        return None
    word = _word(value) if isinstance(value, bytes) else int(value) % 2**64
    return int(mix(np.array([word], np.uint64))[0] >> np.uint64(32)) % count


def bounds(transform: str, argument: int | None, value: Any, t: pa.DataType) -> tuple[Any, Any] | None:
    """The range of a column's values, in the domain of its statistics, that one partition value implies.

    Both ends are included; an end that is None is open. None as a whole: nothing is implied, or every row is
    null.
    """
    t = value_type(t)
    if value is None or value is NAN or transform == "bucket":
        return None
    if transform in PERIODS:
        return _period_bounds(value, transform, t)
    return _identity_bounds(value, t) if argument is None else _truncated_bounds(value, argument, t)


def _identity_bounds(value: Any, t: pa.DataType) -> tuple[Any, Any]:
    kind = domain(t)
    if kind == "float":
        return round_down(Decimal(value)), round_up(Decimal(value))
    exact = int(value) if kind == "int" else value.encode() if isinstance(value, str) else value
    return exact, exact


def _truncated_bounds(value: Any, argument: int, t: pa.DataType) -> tuple[Any, Any]:
    if isinstance(value, int):
        last = value // argument * argument + argument - 1
        return (value, last) if domain(t) == "int" else (round_down(value), round_up(last))
    prefix = value.encode() if isinstance(value, str) else value
    if len(value) < argument:
        return prefix, prefix
    if isinstance(value, str):
        return prefix, prefix + b"\xff"  # no UTF-8 has this byte: it is above every continuation
    kept = prefix.rstrip(b"\xff")
    return prefix, kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _period_bounds(period: int, transform: str, t: pa.DataType) -> tuple[int, int]:
    per_unit = nanoseconds_per_unit(t)
    assert per_unit is not None
    if transform in {"year", "month"}:
        unit = PERIODS[transform]
        starts = np.array([period, period + 1]).astype(f"datetime64[{unit}]").astype("datetime64[D]")
        first, after = (int(day) * 24 * _HOUR for day in starts.astype(np.int64))
    else:
        length = _HOUR if transform == "hour" else 24 * _HOUR
        first, after = period * length, (period + 1) * length
    return first // per_unit, after // per_unit - 1

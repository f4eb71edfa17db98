"""Column statistics: bounds and null counts small enough to keep per chunk, in three domains.

A million entries prune as arrays only if bounds of all types share a few representations. So every bound is
an int, a float or bytes, by the column's type (`domain`):

| domain | types | bounds |
|---|---|---|
| int | booleans, integers but uint64, dates, times, timestamps, durations | exact, in the type's own unit |
| float | floats, decimals, uint64 | rounded outward to the nearest float64 |
| bytes | text (as UTF-8), binaries | at most 64 bytes: min cut, max cut and rounded up |
| none | null, intervals, lists, structs, maps | nulls only |

Theory. Bounds may be too wide and never too narrow: `min <= value <= max` for every value that is not null.
None means "no bound on this side". NaN is in no order, so one NaN makes both bounds unknown. Dictionaries,
run ends and extensions have the domain of their values. Order is numeric, or of bytes; it knows no collation.

Everything is vectorized, O(rows). Give logical arrays, not storage arrays: units differ (a time32(s) is
stored in milliseconds).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks.layout import decode_dictionary, decode_runs
from crdtcat.limits import STATISTICS_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

Domain = Literal["int", "float", "bytes"]
Bound = int | float | bytes | None

_PLAIN_NUMBERS = frozenset(
    {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()}
    | {pa.float64()}
)
_DOUBLE = pa.float64()
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known about one column of one chunk.

    Attributes:
        min: no value is below this; None if nothing is known, or nothing is there.
        max: no value is above this; likewise.
        nulls: how many rows are null. Equal to the chunk's rows: there are no values at all.
    """

    min: Bound
    max: Bound
    nulls: int


def domain(t: pa.DataType) -> Domain | None:
    """The domain of a type's bounds; None if it has no order that statistics know."""
    return _domain(value_type(t))


@lru_cache(maxsize=4096)
def _domain(t: pa.DataType) -> Domain | None:
    if pa.types.is_uint64(t) or pa.types.is_floating(t) or pa.types.is_decimal(t):
        return "float"
    if pa.types.is_boolean(t) or pa.types.is_integer(t) or nanoseconds_per_unit(t) is not None:
        return "int"
    return "bytes" if _is_text(t) or _is_bytes(t) else None


def value_type(t: pa.DataType) -> pa.DataType:
    """A type without dictionary, run ends and extension around it."""
    while True:
        if isinstance(t, pa.BaseExtensionType):
            t = t.storage_type
        elif pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
            t = t.value_type
        else:
            return t


def nanoseconds_per_unit(t: pa.DataType) -> int | None:
    """How long one unit of a time type is; None for other types."""
    if pa.types.is_date(t):
        return _DAY if pa.types.is_date32(t) else 10**6
    if pa.types.is_timestamp(t) or pa.types.is_time(t) or pa.types.is_duration(t):
        return _NANOSECONDS[t.unit]
    return None


def statistics(array: pa.Array | pa.ChunkedArray) -> ColumnStatistics:
    """The statistics of a logical array. Cost: O(rows), vectorized; encodings are decoded chunk by chunk."""
    if isinstance(array, pa.ChunkedArray):
        parts = [(statistics(chunk), len(chunk)) for chunk in array.chunks]
        return parts[0][0] if len(parts) == 1 else merge_statistics(parts)
    if isinstance(array.type, pa.BaseExtensionType):
        return statistics(array.storage)
    if pa.types.is_dictionary(array.type):
        return statistics(decode_dictionary(array))
    if pa.types.is_run_end_encoded(array.type):
        return statistics(decode_runs(array))
    kind = domain(array.type)
    nulls = array.null_count
    if kind is None or nulls == len(array):
        return ColumnStatistics(None, None, nulls)
    least, greatest = {"int": _int_bounds, "float": _float_bounds, "bytes": _bytes_bounds}[kind](array)
    return ColumnStatistics(least, greatest, nulls)


def bytes_statistics(least: bytes, greatest: bytes, nulls: int) -> ColumnStatistics:
    """Statistics of a text or binary column whose bounds are known already."""
    return ColumnStatistics(least[:STATISTICS_BYTES_MAX], cut_up(greatest), nulls)


def merge_statistics(parts: Iterable[tuple[ColumnStatistics, int]]) -> ColumnStatistics:
    """Statistics of several runs of rows together, from those of each with its number of rows.

    Runs without values do not matter; among the others an unknown bound stays unknown. Runs may be grouped
    and ordered in any way, but none may be taken twice: null counts add up. Theorems:
    `statistics_merge_grouping`, `statistics_merge_order`, `statistics_merge_sound`, `statistics_merge_tight`;
    of bounds alone `bounds_merge_semilattice`.
    """
    lows: list[Any] = []
    highs: list[Any] = []
    nulls = 0
    for part, rows in parts:
        nulls += part.nulls
        if part.nulls < rows:
            lows.append(part.min)
            highs.append(part.max)
    least = None if not lows or None in lows else min(lows)
    greatest = None if not highs or None in highs else max(highs)
    return ColumnStatistics(least, greatest, nulls)


def time_range(table: pa.Table, column: str) -> tuple[int, int] | None:
    """Least and greatest moment of a timestamp or date column, in microseconds since 1970, rounded outward.

    None if the column has another type, no values, or moments that 64 bits of microseconds cannot hold. Zones
    do not matter; no zone is taken for UTC.
    """
    array = table.column(column)
    return moments(array.type, statistics(array))


def moments(t: pa.DataType, known: ColumnStatistics) -> tuple[int, int] | None:
    """As `time_range`, of a column of this type whose statistics are known."""
    t = value_type(t)
    unit = nanoseconds_per_unit(t)
    if unit is None or not (pa.types.is_timestamp(t) or pa.types.is_date(t)):
        return None
    if known.min is None or known.max is None:
        return None
    least, greatest = int(known.min) * unit // 1000, -(-int(known.max) * unit // 1000)
    return (least, greatest) if -(2**63) < least <= greatest < 2**63 else None


def round_down(value: Any) -> float | None:
    """The greatest float not above an int, float or Decimal."""
    return None if value is None else _nearest(value, -math.inf)


def round_up(value: Any) -> float | None:
    """The least float not below an int, float or Decimal."""
    return None if value is None else _nearest(value, math.inf)


def _nearest(value: Any, towards: float) -> float:
    try:
        near = float(value)
    except OverflowError:  # an int beyond float64
        near = math.inf if value > 0 else -math.inf
    exact = near if math.isinf(near) else Decimal(near)
    wrong = exact > value if towards < 0 else exact < value
    return (math.nextafter(near, towards) if wrong else near) + 0.0  # -0.0 and 0.0 are one bound


def _int_bounds(array: pa.Array) -> tuple[Bound, Bound]:
    if not pa.types.is_boolean(array.type) and not pa.types.is_integer(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    least, greatest = _min_max(array)
    return int(least), int(greatest)


def _float_bounds(array: pa.Array) -> tuple[Bound, Bound]:
    t = array.type
    if pa.types.is_floating(t):
        array = array if t == _DOUBLE else array.cast(_DOUBLE)
        if not array.null_count:
            least, greatest = _min_max(array)  # NaN, if one is
            return (None, None) if least != least else (least + 0.0, greatest + 0.0)  # noqa: PLR0124
        if pc.any(pc.is_nan(array)).as_py():
            return None, None
    elif pa.types.is_decimal(t) and t.bit_width < 128:  # pyarrow orders only the wider ones
        array = array.cast(pa.decimal128(t.precision, t.scale))
    least, greatest = _min_max(array)
    return round_down(least), round_up(greatest)


def _bytes_bounds(array: pa.Array) -> tuple[Bound, Bound]:
    if pa.types.is_string(array.type):
        array = array.view(pa.binary())
    elif not (pa.types.is_fixed_size_binary(array.type) or pa.types.is_binary(array.type)):
        array = array.cast(pa.large_binary())
    least, greatest = _min_max(array)
    return least[:STATISTICS_BYTES_MAX], cut_up(greatest)


def _min_max(array: pa.Array) -> tuple[Any, Any]:
    """Least and greatest value. Of numbers without nulls by numpy, which answers small arrays in a tenth of
    the time; a NaN among floats makes both NaN there."""
    if not array.null_count and array.type in _PLAIN_NUMBERS:
        values = array.to_numpy()
        return np.minimum.reduce(values).item(), np.maximum.reduce(values).item()
    bounds = pc.min_max(array)
    return bounds["min"].as_py(), bounds["max"].as_py()


def cut_up(text: bytes) -> bytes | None:
    """The least string of at most 64 bytes that is not below `text`, up to trailing zero bytes."""
    if len(text) <= STATISTICS_BYTES_MAX:
        return text
    kept = text[:STATISTICS_BYTES_MAX].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def _is_bytes(t: pa.DataType) -> bool:
    if pa.types.is_fixed_size_binary(t):
        return True
    return bool(pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t))

"""Widening: the least type that holds every value of two types, where there is one.

Theory. `widen` is the join of a partial order "every value of `a` is a value of `b`", with None for "nothing
above both". It is commutative, idempotent and associative (None absorbs; struct fields up to their order), so
a column's type can be folded from its definitions in any grouping. Associativity decides the odd cases: a
join that exists only because of the order of arrival is left out.

| | joins to |
|---|---|
| null, anything | the other |
| integers | the least that holds both ranges; signed with unsigned needs twice the unsigned width |
| integer, float | int8 fits float16, 16 bits float32, 32 bits float64; unsigned counts double |
| floats | the wider |
| decimals | enough digits on both sides of the point, up to 76 |
| date32, date64, timestamp without zone | the finer, where a date32 counts as s, a date64 as ms |
| timestamps of one zone, durations | the finer of s, ms, us; nanoseconds join with nothing else |
| times of day | the finer |
| text: string, string_view, large_string | the later in this row |
| bytes: fixed size, binary, binary_view, large_binary | the later in this row |
| lists: fixed size, list, list_view, large_list, large_list_view | the later in this row, items joined |
| struct | fields by name, joined; a field only one has becomes nullable |
| map | keys joined, values joined |
| dictionaries | what they hold, joined, behind the later index of int8, uint8, ..., uint64; ordered if both |
| run-end encoded | what they hold, joined, in runs of the wider ends |
| either of them and something else; extensions that differ | what they hold, joined |

Nanoseconds stand alone because 64 bits of them end in 2262: 9999-12-31, a common "for ever", does not
survive. The other units are exact for the years 1 to 9999 and far beyond. Text and bytes are never joined,
nor booleans with numbers, nor zones with no zone. No I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from crdtcat.chunks.type_codes import LISTS, list_kind, make_decimal
from crdtcat.chunks.type_parts import is_encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT = (pa.string(), pa.string_view(), pa.large_string())
_BYTES = (pa.binary(), pa.binary_view(), pa.large_binary())
_LISTS = ("list", "list_view", "large_list", "large_list_view")
_TIMES = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
_UNITS = ("s", "ms", "us")
_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_FLOATS = {16: pa.float16(), 32: pa.float32(), 64: pa.float64()}
_FLOAT_BITS_FOR_INTEGER_BITS = {8: 16, 16: 32, 32: 64}
INDEX_TYPES = (
    pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()
)  # fmt: skip
"""Index types of dictionaries, by how many entries they number. No index is negative, so this is a chain."""
_DECIMAL_DIGITS = ((9, 32), (18, 64), (38, 128), (76, 256))


def widen(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The least type that holds every value of `a` and of `b` exactly, or None."""
    if a == b:
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_null(b):
        return a
    if is_encoded(a) or is_encoded(b):
        return _encoded(a, b)
    if isinstance(a, pa.BaseExtensionType) or isinstance(b, pa.BaseExtensionType):
        return widen(getattr(a, "storage_type", a), getattr(b, "storage_type", b))
    return _nested(a, b) if a.num_fields or b.num_fields or pa.types.is_struct(a) else _leaf(a, b)


def is_lossless(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether every value of type `a` can become one of type `b` and back.

    Encodings do not count: dictionaries, run ends and the width of offsets change no value, struct fields go
    by name.
    """
    target = _values_only(b)
    return bool(widen(_values_only(a), target) == target)


def index_capacity(index: pa.DataType) -> int:
    """How many entries of a dictionary an index type can number."""
    return int(2 ** (index.bit_width - pa.types.is_signed_integer(index)))


def _encoded(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    value = widen(a.value_type if is_encoded(a) else a, b.value_type if is_encoded(b) else b)
    if value is None:
        return None
    if pa.types.is_dictionary(a) and pa.types.is_dictionary(b):
        index = max(a.index_type, b.index_type, key=INDEX_TYPES.index)
        return pa.dictionary(index, value, ordered=a.ordered and b.ordered)
    if pa.types.is_run_end_encoded(a) and pa.types.is_run_end_encoded(b):
        return pa.run_end_encoded(max(a.run_end_type, b.run_end_type, key=lambda t: t.bit_width), value)
    return value


def _nested(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        return _struct(a, b)
    if pa.types.is_map(a) and pa.types.is_map(b):
        key, item = widen(a.key_type, b.key_type), _field(a.item_field, b.item_field)
        ordered = a.keys_sorted and b.keys_sorted
        return None if key is None or item is None else pa.map_(key, item, keys_sorted=ordered)
    kinds = list_kind(a), list_kind(b)
    if None in kinds:
        return None
    item = _field(a.value_field, b.value_field)
    if item is None:
        return None
    if kinds[0] == kinds[1] == "fixed_size_list" and a.list_size == b.list_size:
        return pa.list_(item, a.list_size)
    rank = max(_LISTS.index(kind) if kind in _LISTS else 0 for kind in kinds)
    return LISTS[_LISTS[rank]][1](item)


def _field(a: pa.Field, b: pa.Field) -> pa.Field | None:
    joined = widen(a.type, b.type)
    return None if joined is None else pa.field(a.name, joined, nullable=a.nullable or b.nullable)


def _struct(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    left, right = {field.name: field for field in a}, {field.name: field for field in b}
    fields = []
    for name in _order(list(left), list(right)):
        if name in left and name in right:
            field = _field(left[name], right[name])
        else:
            field = (left if name in left else right)[name].with_nullable(True)
        if field is None:
            return None
        fields.append(field.remove_metadata())
    return pa.struct(fields)


def _order(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Field order: the longer one's if it has the other's names in the same order, else by name."""
    if len(left) < len(right):
        left, right = right, left
    rest = iter(left)
    if all(name in rest for name in right):
        return list(left)
    return sorted({*left, *right})


def _leaf(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    for join in (_numbers, _decimals, _sequences, _moments, _durations):
        joined = join(a, b)
        if joined is not None:
            return joined
    return None


def _numbers(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        if pa.types.is_signed_integer(a) == pa.types.is_signed_integer(b):
            return max(a, b, key=lambda t: t.bit_width)
        return _SIGNED.get(max(_signed_bits(a), _signed_bits(b)))
    bits = [_float_bits(a), _float_bits(b)]
    return None if None in bits else _FLOATS[max(width for width in bits if width is not None)]


def _signed_bits(t: pa.DataType) -> int:
    """Width of the signed integer that holds an integer type."""
    return int(t.bit_width if pa.types.is_signed_integer(t) else 2 * t.bit_width)


def _float_bits(t: pa.DataType) -> int | None:
    """Width of the float that holds a number type, if one does."""
    if pa.types.is_floating(t):
        return int(t.bit_width)
    return _FLOAT_BITS_FOR_INTEGER_BITS.get(_signed_bits(t)) if pa.types.is_integer(t) else None


def _decimals(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if not (pa.types.is_decimal(a) and pa.types.is_decimal(b)):
        return None
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    least = next((bits for digits, bits in _DECIMAL_DIGITS if precision <= digits), None)
    return None if least is None else make_decimal(max(a.bit_width, b.bit_width, least), precision, scale)


def _sequences(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Joins along a chain: text, bytes, times of day."""
    for chain in (_TEXT, _TIMES):
        if a in chain and b in chain:
            return max(a, b, key=chain.index)
    ranks = [_bytes_rank(a), _bytes_rank(b)]
    return None if None in ranks else _BYTES[max(rank for rank in ranks if rank is not None)]


def _bytes_rank(t: pa.DataType) -> int | None:
    if t in _BYTES:
        return _BYTES.index(t)
    return 0 if pa.types.is_fixed_size_binary(t) else None


def _moments(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pa.types.is_date(a) and pa.types.is_date(b):
        return pa.date64()
    moments = [_moment(a), _moment(b)]
    if moments[0] is None or moments[1] is None or moments[0][1] != moments[1][1]:
        return None
    return pa.timestamp(_UNITS[max(moments[0][0], moments[1][0])], moments[0][1])


def _moment(t: pa.DataType) -> tuple[int, str | None] | None:
    """Rank of the unit, and zone."""
    if pa.types.is_date(t):
        return (0 if pa.types.is_date32(t) else 1, None)
    return (_UNITS.index(t.unit), t.tz) if pa.types.is_timestamp(t) and t.unit in _UNITS else None


def _durations(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if not (pa.types.is_duration(a) and pa.types.is_duration(b)) or "ns" in {a.unit, b.unit}:
        return None
    return max(a, b, key=lambda t: _UNITS.index(t.unit))


def _values_only(t: pa.DataType) -> pa.DataType:  # noqa: PLR0911 (one for each kind of type)
    """`t` without what changes no value: encodings, widths of offsets, order of struct fields."""
    if is_encoded(t):
        return _values_only(t.value_type)
    if t in _TEXT:
        return pa.string()
    if t in _BYTES:
        return pa.binary()
    if pa.types.is_struct(t):
        fields = sorted(t, key=lambda field: field.name)
        return pa.struct([field.with_type(_values_only(field.type)) for field in fields])
    if pa.types.is_map(t):
        return pa.map_(_values_only(t.key_type), t.item_field.with_type(_values_only(t.item_type)))
    if list_kind(t) is not None:
        item = t.value_field.with_type(_values_only(t.value_type))
        return pa.list_(item, t.list_size) if pa.types.is_fixed_size_list(t) else pa.list_(item)
    return t

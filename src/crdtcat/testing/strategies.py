"""Hypothesis strategies for Arrow types, arrays and tables, in every layout Arrow permits.

The same values can lie in memory in many ways: sliced, with garbage under nulls, chunked, with dictionaries
that hold unused, repeated or null entries, with empty chunks. Code that hashes, compares, casts or stores
Arrow data must not notice, so arrays are built here structure by structure rather than from Python values,
and odd layouts are common. Shrinking leads towards short, flat, unsliced arrays.

Not covered: invalid arrays (bad offsets, invalid UTF-8) and the types crdtcat refuses (unions).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from crdtcat.chunks.widen import INDEX_TYPES

Draw = Callable[[st.SearchStrategy[Any]], Any]

_SECONDS_LEAST, _SECONDS_GREATEST = -62_135_596_800, 253_402_300_799  # years 1 to 9999
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_ZONES = ("UTC", "Europe/Paris", "+05:30")
_NAMES = st.sampled_from(("a", "b", "c", "d", "e", "a.b", "With Space", "Größe"))
_LIST_MAKERS = (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)


def _decimal_types() -> st.SearchStrategy[pa.DataType]:
    def of(make: Callable[[int, int], pa.DataType], precision_max: int) -> st.SearchStrategy[pa.DataType]:
        return st.integers(1, precision_max).flatmap(
            lambda precision: st.builds(make, st.just(precision), st.integers(0, precision))
        )

    return st.one_of(of(pa.decimal128, 38), of(pa.decimal32, 9), of(pa.decimal64, 18), of(pa.decimal256, 76))


def leaf_types() -> st.SearchStrategy[pa.DataType]:
    """Every type without children that crdtcat can hold."""
    units = st.sampled_from(("s", "ms", "us", "ns"))
    plain = [
        pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.uint8(),
        pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.large_string(),
        pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.date32(), pa.date64(),
        pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.null(),
        pa.month_day_nano_interval(),
    ]  # fmt: skip
    return st.one_of(
        st.sampled_from(plain),
        st.builds(pa.binary, st.integers(0, 9)),
        st.builds(pa.timestamp, units, st.none() | st.sampled_from(_ZONES)),
        st.builds(pa.duration, units),
        _decimal_types(),
    )


def _encoded_types() -> st.SearchStrategy[pa.DataType]:
    plain = (pa.string(), pa.int64(), pa.float64(), pa.binary(), pa.date32())
    nested = (pa.string_view(), pa.struct([("v", pa.binary_view())]), pa.list_(pa.string_view()))
    values = st.sampled_from((*plain, *nested))
    indices = st.sampled_from(INDEX_TYPES)
    ends = st.sampled_from((pa.int16(), pa.int32(), pa.int64()))
    return st.one_of(
        st.builds(pa.dictionary, indices, values),
        st.builds(pa.run_end_encoded, ends, values),
        st.sampled_from((pa.uuid(), pa.json_(), pa.fixed_shape_tensor(pa.int32(), [2]))),
    )


def _nested_types(child: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    def item(t: pa.DataType, nullable: bool) -> pa.Field:
        return pa.field("item", t, nullable=nullable or pa.types.is_null(t))

    def struct(fields: Sequence[tuple[str, pa.DataType, bool]]) -> pa.DataType:
        return pa.struct([item(t, nullable).with_name(name) for name, t, nullable in fields])

    items = st.builds(item, child, st.booleans())
    keys = st.sampled_from((pa.string(), pa.int32(), pa.date32()))
    fields = st.lists(st.tuples(_NAMES, child, st.booleans()), max_size=3, unique_by=lambda field: field[0])
    return st.one_of(
        st.builds(lambda make, field: make(field), st.sampled_from(_LIST_MAKERS), items),
        st.builds(pa.list_, items, st.integers(0, 3)),
        st.builds(struct, fields),
        st.builds(lambda key, value: pa.map_(key, item(value, True)), keys, child),
    )


def arrow_types(*, depth: int = 2, encoded: bool = True) -> st.SearchStrategy[pa.DataType]:
    """Types crdtcat can hold.

    Args:
        depth: how many levels of lists, structs and maps; 0 means leaves only.
        encoded: whether dictionary, run-end encoded and extension types may occur.
    """
    base = leaf_types() | _encoded_types() if encoded else leaf_types()
    types = base
    for _ in range(depth):
        types = base | _nested_types(types)
    return types


def leaf_values(t: pa.DataType) -> st.SearchStrategy[Any]:
    """Python values, none of them null, that `pa.array` takes for the leaf type `t`."""
    if pa.types.is_boolean(t):
        return st.booleans()
    if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t):
        return _number_values(t)
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return st.text(max_size=6) | st.sampled_from(("a", "b", "\U0010ffff" * 20, "x" * 70))
    if pa.types.is_fixed_size_binary(t):
        return st.binary(min_size=t.byte_width, max_size=t.byte_width)
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return st.binary(max_size=6) | st.sampled_from((b"a", b"\xff" * 70, b"\x00" * 70))
    return _time_values(t)


def _number_values(t: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_floating(t):
        return st.floats(width=cast("Any", t.bit_width))
    if pa.types.is_decimal(t):
        return st.integers(-(10**t.precision) + 1, 10**t.precision - 1).map(
            lambda unscaled: Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -t.scale))
        )
    half = 2 ** (t.bit_width - 1)
    least, greatest = (-half, half - 1) if pa.types.is_signed_integer(t) else (0, 2 * half - 1)
    return st.integers(max(least, -3), 3) | st.integers(least, greatest)


def _time_values(t: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_date32(t):
        return st.integers(_SECONDS_LEAST // 86400, _SECONDS_GREATEST // 86400)
    if pa.types.is_date64(t):
        return st.integers(_SECONDS_LEAST // 86400, _SECONDS_GREATEST // 86400).map(
            lambda day: day * 86_400_000
        )
    if pa.types.is_time(t):
        return st.integers(0, 86400 * _PER_SECOND[t.unit] - 1)
    if pa.types.is_timestamp(t):
        scale = _PER_SECOND[t.unit]
        return st.integers(
            max(_SECONDS_LEAST * scale, -(2**63)), min(_SECONDS_GREATEST * scale + scale - 1, 2**63 - 1)
        )
    if pa.types.is_duration(t):
        return st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
    if t == pa.month_day_nano_interval():
        return st.tuples(*(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (32, 32, 64)))
    raise NotImplementedError(f"no values for {t}")


def _validity(draw: Draw, size: int, *, nullable: bool) -> list[bool]:
    """For each row, whether it holds a value."""
    if not nullable or draw(st.booleans()):
        return [True] * size
    return cast("list[bool]", draw(st.lists(st.booleans(), min_size=size, max_size=size)))


def _leaf(draw: Draw, t: pa.DataType, size: int, *, nullable: bool) -> pa.Array:
    if pa.types.is_null(t):
        return pa.nulls(size)
    valid = _validity(draw, size, nullable=nullable)
    values = draw(st.lists(leaf_values(t), min_size=size, max_size=size))
    physical = pa.int64() if pa.types.is_date64(t) else t  # pa.array takes no integers for date64
    return pa.array([v if ok else None for v, ok in zip(values, valid, strict=True)], physical).view(t)


def _list(draw: Draw, t: pa.DataType, size: int, *, nullable: bool) -> pa.Array:
    """Lists, and maps, whose null rows may cover garbage."""
    valid = _validity(draw, size, nullable=nullable)
    mask = pa.array([not ok for ok in valid], pa.bool_())
    if pa.types.is_fixed_size_list(t):
        child = _array(draw, t.value_type, size * t.list_size, nullable=t.value_field.nullable)
        bits = pa.array([b"x" if ok else None for ok in valid], pa.binary()).buffers()[0]
        return pa.Array.from_buffers(t, size, [bits], children=[child])
    lengths = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if pa.types.is_map(t):
        keys = _array(draw, t.key_type, int(ends[-1]), nullable=False)
        items = _array(draw, t.item_type, int(ends[-1]), nullable=t.item_field.nullable)
        return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, items, type=t, mask=mask)
    child = _array(draw, t.value_type, int(ends[-1]), nullable=t.value_field.nullable)
    if pa.types.is_list(t):
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), child, type=t, mask=mask)
    if pa.types.is_large_list(t):
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), child, type=t, mask=mask)
    width, maker = (
        (pa.int32(), pa.ListViewArray) if pa.types.is_list_view(t) else (pa.int64(), pa.LargeListViewArray)
    )
    offsets, sizes = pa.array(ends[:-1], width), pa.array(lengths, width)
    return maker.from_arrays(offsets, sizes, child, type=t, mask=mask)


def _struct(draw: Draw, t: pa.DataType, size: int, *, nullable: bool) -> pa.Array:
    valid = _validity(draw, size, nullable=nullable)
    children = [_array(draw, field.type, size, nullable=field.nullable) for field in t]
    bits = pa.array([b"x" if ok else None for ok in valid], pa.binary()).buffers()[0]
    return pa.Array.from_buffers(t, size, [bits], children=children)


def _dictionary(draw: Draw, t: pa.DataType, size: int, *, nullable: bool) -> pa.Array:
    """Dictionaries that may hold entries nobody uses, the same entry twice, or null as an entry."""
    entries = draw(st.integers(1, 4))
    dictionary = _array(draw, t.value_type, entries, nullable=nullable)
    valid = _validity(draw, size, nullable=nullable)
    drawn = draw(st.lists(st.integers(0, entries - 1), min_size=size, max_size=size))
    indices = pa.array([i if ok else None for i, ok in zip(drawn, valid, strict=True)], t.index_type)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=t.ordered)


def _runs(draw: Draw, t: pa.DataType, size: int, *, nullable: bool) -> pa.Array:
    inner = sorted(draw(st.sets(st.integers(1, size - 1), max_size=4))) if size > 1 else []
    ends = [*inner, size] if size else []
    values = _array(draw, t.value_type, len(ends), nullable=nullable)
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, t.run_end_type), values, type=t)


def _plain_layout(draw: Draw, t: pa.DataType, size: int, *, nullable: bool) -> pa.Array:
    if isinstance(t, pa.BaseExtensionType):
        if t == pa.json_():
            texts = draw(st.lists(st.sampled_from(("{}", "1", '"x"', "null")), min_size=size, max_size=size))
            valid = _validity(draw, size, nullable=nullable)
            storage = pa.array(
                [v if ok else None for v, ok in zip(texts, valid, strict=True)], t.storage_type
            )
        else:
            storage = _array(draw, t.storage_type, size, nullable=nullable)
        return pa.ExtensionArray.from_storage(t, storage)
    if pa.types.is_dictionary(t):
        return _dictionary(draw, t, size, nullable=nullable)
    if pa.types.is_run_end_encoded(t):
        return _runs(draw, t, size, nullable=nullable)
    if pa.types.is_struct(t):
        return _struct(draw, t, size, nullable=nullable)
    if t.num_fields:
        return _list(draw, t, size, nullable=nullable)
    return _leaf(draw, t, size, nullable=nullable)


def _array(draw: Draw, t: pa.DataType, size: int, *, nullable: bool) -> pa.Array:
    """An array of exactly `size` rows, perhaps a slice of a longer one."""
    before, after = draw(st.sampled_from(((0, 0), (0, 0), (1, 0), (0, 2), (3, 1))))
    array = _plain_layout(draw, t, size + before + after, nullable=nullable)
    return array.slice(before, size) if before or after else array


@st.composite
def arrow_arrays(
    draw: Draw,
    of: pa.DataType | st.SearchStrategy[pa.DataType] | None = None,
    *,
    min_size: int = 0,
    max_size: int = 12,
    nullable: bool = True,
) -> pa.Array:
    """Arrays of one type, in any layout.

    Args:
        draw: given by Hypothesis.
        of: the type, or a strategy for it; any type crdtcat can hold by default.
        min_size: least number of rows.
        max_size: greatest number of rows.
        nullable: whether rows may be null (nested fields say so themselves).
    """
    t = of if isinstance(of, pa.DataType) else draw(arrow_types() if of is None else of)
    return _array(draw, t, draw(st.integers(min_size, max_size)), nullable=nullable)


@st.composite
def arrow_tables(
    draw: Draw,
    types: st.SearchStrategy[pa.DataType] | None = None,
    *,
    schema: pa.Schema | None = None,
    max_columns: int = 4,
    min_rows: int = 0,
    max_rows: int = 12,
) -> pa.Table:
    """Tables with at least one column, whose columns are cut into chunks independently of each other.

    Args:
        draw: given by Hypothesis.
        types: strategy for the columns' types; any type crdtcat can hold by default.
        schema: the exact schema, instead of a drawn one.
        max_columns: greatest number of columns.
        min_rows: least number of rows.
        max_rows: greatest number of rows.
    """
    if schema is None:
        of = arrow_types() if types is None else types
        pairs = draw(
            st.lists(st.tuples(_NAMES, of), min_size=1, max_size=max_columns, unique_by=lambda p: p[0])
        )
        schema = pa.schema([pa.field(name, t) for name, t in pairs])
    rows = draw(st.integers(min_rows, max_rows))
    columns = []
    for field in schema:
        cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=2)))
        sizes = np.diff([0, *cuts, rows]).tolist()
        chunks = [_array(draw, field.type, size, nullable=field.nullable) for size in sizes]
        columns.append(pa.chunked_array(chunks, field.type))
    return pa.table(columns, schema=schema)

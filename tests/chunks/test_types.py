"""Type codes, storage types, widening and lossless casts: laws over every type and layout."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from crdtcat import limits
from crdtcat.chunks.types import (
    cast_lossless,
    decode_type,
    encode_type,
    from_storage,
    is_lossless,
    storage_schema,
    storage_type,
    to_storage,
    widen,
)
from crdtcat.errors import InvalidArgument, LimitExceeded, SchemaMismatch, UnsupportedFormat, UnsupportedType
from crdtcat.testing.strategies import arrow_arrays, arrow_tables, arrow_types
from tests.bounds import bounded

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
UNION = pa.sparse_union([pa.field("x", pa.int8())])


def same(left: pa.Array, right: pa.Array) -> bool:
    """Equal types and rows, NaN equal to NaN, 0.0 not equal to -0.0."""
    a, b = to_storage(left), to_storage(right)
    return bool(left.type == right.type and (a.equals(b) or repr(a.to_pylist()) == repr(b.to_pylist())))


@given(arrow_types())
@relaxed
def test_codes_are_canonical_and_survive_messagepack(t: pa.DataType) -> None:
    code = encode_type(t)
    packed = msgpack.packb(code)
    again = decode_type(msgpack.unpackb(packed))
    assert msgpack.packb(encode_type(again)) == packed
    assert decode_type(msgpack.unpackb(packed, use_list=False)) == again
    assert again == t


@given(arrow_types(), arrow_types())
@relaxed
def test_equal_types_have_equal_codes(a: pa.DataType, b: pa.DataType) -> None:
    if a == b:
        assert encode_type(a) == encode_type(b)
    if encode_type(a) == encode_type(b):
        assert decode_type(encode_type(a)) == decode_type(encode_type(b))


def test_list_item_names_do_not_count() -> None:
    assert encode_type(pa.list_(pa.field("foo", pa.int8()))) == encode_type(pa.list_(pa.int8()))


@pytest.mark.parametrize(
    ("t", "code"),
    [
        (pa.int64(), "int64"),
        (pa.timestamp("us"), ["timestamp", "us"]),
        (pa.timestamp("ns", "Europe/Paris"), ["timestamp", "ns", "Europe/Paris"]),
        (pa.time32("ms"), ["time32", "ms"]),
        (pa.duration("s"), ["duration", "s"]),
        (pa.decimal128(10, 2), ["decimal128", 10, 2]),
        (pa.decimal32(9, 0), ["decimal32", 9, 0]),
        (pa.binary(16), ["fixed_size_binary", 16]),
        (pa.list_(pa.field("item", pa.int8(), nullable=False)), ["list", "int8", False]),
        (pa.list_(pa.int8(), 3), ["fixed_size_list", "int8", True, 3]),
        (pa.struct([("a", pa.int8())]), ["struct", [["a", "int8", True]]]),
        (pa.map_(pa.string(), pa.int8()), ["map", "string", "int8", True, False]),
        (pa.dictionary(pa.int32(), pa.string()), ["dictionary", "string"]),
        (pa.dictionary(pa.uint8(), pa.string()), ["dictionary", "string", "uint8"]),
        (pa.dictionary(pa.int64(), pa.string()), ["dictionary", "string", "int64"]),
        (pa.dictionary(pa.int32(), pa.string(), ordered=True), ["dictionary", "string", "int32", []]),
        (pa.dictionary(pa.int8(), pa.date32(), ordered=True), ["dictionary", "date32", "int8", []]),
        (pa.run_end_encoded(pa.int32(), pa.int8()), ["run_end_encoded", "int8"]),
        (pa.run_end_encoded(pa.int16(), pa.int8()), ["run_end_encoded", "int8", "int16"]),
        (pa.uuid(), ["extension", "arrow.uuid", b"", ["fixed_size_binary", 16]]),
        (pa.month_day_nano_interval(), "interval"),
    ],
)
def test_codes_never_change(t: pa.DataType, code: Any) -> None:
    assert encode_type(t) == code
    assert decode_type(code) == t


@pytest.mark.parametrize(
    "code", ["int7", ["list"], [], 5, None, ["time32", "ns"], ["decimal128", 99, 0], ["decimal7", 1, 0],
             ["dictionary", "string", "int32"], ["dictionary", "string", "string"],
             ["dictionary", "string", "int7"],
             ["run_end_encoded", "string", "int8"], ["dictionary", "string", "int8", "int8"],
             ["dictionary", ["list", "int8", True], "int8", []], ["dictionary"],
             [["x"]], ["struct", [["a"]]], ["fixed_size_binary", -1], ["timestamp", "fortnight"], b"int8"]
)  # fmt: skip
def test_unknown_codes_are_refused(code: Any) -> None:
    with pytest.raises(UnsupportedFormat, match="upgrade"):
        decode_type(code)


def test_nesting_is_bounded() -> None:
    deep: pa.DataType = pa.int8()
    code: Any = "int8"
    for _ in range(limits.NESTING_DEPTH_MAX + 1):
        deep, code = pa.list_(deep), ["list", code, True]
    for refuse in (encode_type, storage_type):
        with pytest.raises(LimitExceeded):
            refuse(deep)
    with pytest.raises(LimitExceeded):
        decode_type(code)


@pytest.mark.parametrize("refuse", [encode_type, storage_type])
def test_refused_types_are_named_with_their_path(refuse: Any) -> None:
    nested = pa.struct([("b", pa.list_(UNION))])
    with pytest.raises(UnsupportedType, match=r"a\.b\[\].*union"):
        refuse(nested, "a")
    with pytest.raises(UnsupportedType):
        to_storage(pa.nulls(0, nested), "a")


class Celsius(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self, scale: str = "C") -> None:
        self.scale = scale
        super().__init__(pa.float32(), "test.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.scale.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
        return cls(serialized.decode())


def test_extensions_are_restored_if_registered_else_their_storage() -> None:
    code = encode_type(Celsius("K"))
    assert code == ["extension", "test.celsius", b"K", "float32"]
    assert decode_type(code) == pa.float32()
    pa.register_extension_type(Celsius())
    try:
        assert decode_type(code) == Celsius("K")
        assert decode_type(encode_type(pa.list_(Celsius("K")))) == pa.list_(Celsius("K"))
    finally:
        pa.unregister_extension_type("test.celsius")
    tensor = pa.fixed_shape_tensor(pa.int16(), [2, 3], dim_names=["x", "y"])
    assert decode_type(encode_type(tensor)) == tensor


@given(arrow_arrays())
@relaxed
def test_storage_round_trip_is_exact(array: pa.Array) -> None:
    stored = to_storage(array)
    stored.validate(full=True)
    assert stored.type == storage_type(array.type) == storage_type(stored.type)
    assert to_storage(stored) is stored or to_storage(stored).type == stored.type
    restored = from_storage(stored, array.type)
    restored.validate(full=True)
    assert same(restored, array)


@settings(relaxed, max_examples=bounded(100, 2))
@given(arrow_tables())
def test_parquet_returns_storage_types_without_help(table: pa.Table) -> None:
    columns = [
        to_storage(column, name) for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    stored = pa.table(columns, schema=storage_schema(table.schema))
    sink = pa.BufferOutputStream()
    pq.write_table(stored, sink, store_schema=False)
    read = pq.ParquetFile(pa.BufferReader(sink.getvalue())).read()
    assert read.schema == stored.schema
    assert read.equals(stored) or repr(read.to_pylist()) == repr(stored.to_pylist())


def test_nested_values_behind_encodings() -> None:
    lists = pa.array([[1, 2], None, [3]])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 7], pa.int32()), lists).slice(1, 5)
    assert to_storage(runs).to_pylist() == [[1, 2], None, [3], [3], [3]]
    assert same(from_storage(to_storage(runs), runs.type), runs)
    entries = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, None], pa.int8()), lists)
    assert to_storage(entries).to_pylist() == [[3], [1, 2], None, None]
    assert same(from_storage(to_storage(entries), entries.type), entries)


def test_signed_zeros_and_nans_survive_dictionaries_and_runs() -> None:
    values = pa.array(np.array([0.0, -0.0, np.nan, -0.0]))
    for t in (pa.dictionary(pa.int32(), pa.float64()), pa.run_end_encoded(pa.int32(), pa.float64())):
        assert repr(to_storage(from_storage(values, t)).to_pylist()) == repr(values.to_pylist())


def test_odd_decimals() -> None:
    wide = pa.array([12, None], pa.decimal128(5, 0)).cast(pa.decimal128(7, 2)).cast(pa.decimal128(5, 0))
    for t, stored in (
        (pa.decimal128(5, -2), pa.decimal128(7, 0)),
        (pa.decimal128(5, 8), pa.decimal128(8, 8)),
    ):
        array = wide.view(t)
        assert to_storage(array).type == stored
        assert same(from_storage(to_storage(array), t), array)
    with pytest.raises(UnsupportedType):
        storage_type(pa.decimal256(76, -2))


def test_nulls_in_fields_declared_without_are_refused() -> None:
    field = pa.field("x", pa.int8(), nullable=False)
    struct = pa.StructArray.from_arrays([pa.array([1, None], pa.int8())], fields=[field])
    with pytest.raises(SchemaMismatch, match=r"c\.x"):
        to_storage(struct, "c")
    hidden = pa.StructArray.from_arrays(
        [pa.array([1, None], pa.int8())], fields=[field], mask=pa.array([False, True])
    )
    assert to_storage(hidden, "c").to_pylist() == [{"x": 1}, None]
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1], pa.int32()), pa.nulls(1, pa.int8()), type=pa.list_(field)
    )
    with pytest.raises(SchemaMismatch, match=r"c\[\]"):
        to_storage(lists, "c")


def test_times_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="column c"):
        to_storage(pa.array([2**62], pa.timestamp("s")), "c")
    with pytest.raises(InvalidArgument, match="column c"):
        to_storage(pa.array([2**30], pa.time32("s")), "c")
    with pytest.raises(InvalidArgument, match="stored as"):
        from_storage(pa.array([1]), pa.string())


def test_dictionary_overflow_is_an_error() -> None:
    with pytest.raises(LimitExceeded, match="200 distinct"):
        from_storage(pa.array(range(200)), pa.dictionary(pa.int8(), pa.int64()), "c")


# Widening ---------------------------------------------------------------------------------------------------

JOINS = [
    (pa.int8(), pa.uint8(), pa.int16()),
    (pa.int64(), pa.uint32(), pa.int64()),
    (pa.int64(), pa.uint64(), None),
    (pa.int32(), pa.float64(), pa.float64()),
    (pa.int64(), pa.float64(), None),
    (pa.int32(), pa.float32(), pa.float64()),
    (pa.float16(), pa.float32(), pa.float32()),
    (pa.decimal128(10, 2), pa.decimal128(5, 4), pa.decimal128(12, 4)),
    (pa.decimal128(38, 0), pa.decimal128(38, 2), pa.decimal256(40, 2)),
    (pa.decimal256(76, 0), pa.decimal128(38, 2), None),
    (pa.date32(), pa.timestamp("us"), pa.timestamp("us")),
    (pa.date32(), pa.timestamp("us", "UTC"), None),
    (pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us"), pa.timestamp("ns"), None),
    (pa.timestamp("us", "UTC"), pa.timestamp("us"), None),
    (pa.string(), pa.large_string(), pa.large_string()),
    (pa.string(), pa.binary(), None),
    (pa.binary(3), pa.binary(4), pa.binary()),
    (pa.bool_(), pa.int8(), None),
    (pa.null(), pa.list_(pa.int8()), pa.list_(pa.int8())),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), pa.string()),
    (
        pa.dictionary(pa.uint8(), pa.string()),
        pa.dictionary(pa.int16(), pa.large_string()),
        pa.dictionary(pa.int16(), pa.large_string()),
    ),
    (
        pa.dictionary(pa.int64(), pa.int8()),
        pa.dictionary(pa.uint64(), pa.int8()),
        pa.dictionary(pa.uint64(), pa.int8()),
    ),
    (
        pa.run_end_encoded(pa.int16(), pa.int8()),
        pa.run_end_encoded(pa.int64(), pa.int16()),
        pa.run_end_encoded(pa.int64(), pa.int16()),
    ),
    (pa.list_(pa.int8()), pa.list_(pa.int16()), pa.list_(pa.int16())),
    (pa.uuid(), pa.binary(16), pa.binary(16)),
    (
        pa.struct([pa.field("b", pa.int8(), nullable=False)]),
        pa.struct([pa.field("b", pa.int16(), nullable=False), pa.field("a", pa.int8(), nullable=False)]),
        pa.struct([pa.field("b", pa.int16(), nullable=False), pa.field("a", pa.int8())]),
    ),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.string())]), None),
]


@pytest.mark.parametrize(("a", "b", "joined"), JOINS)
def test_joins(a: pa.DataType, b: pa.DataType, joined: pa.DataType | None) -> None:
    assert widen(a, b) == widen(b, a) == joined


@st.composite
def related(draw: Any, count: int) -> list[pa.DataType]:
    """Types that often have a join: drawn from one family, sometimes wrapped alike."""
    signed, unsigned = [pa.int8(), pa.int16(), pa.int32(), pa.int64()], [pa.uint8(), pa.uint16(), pa.uint32()]
    floats = [pa.float16(), pa.float32(), pa.float64()]
    numbers = [*signed, *unsigned, pa.uint64(), *floats, pa.dictionary(pa.int8(), pa.int16())]
    plain = [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.json_(),
        pa.dictionary(pa.int32(), pa.string()),
    ]
    runs = pa.run_end_encoded(pa.int16(), pa.string())
    texts = [*plain, pa.dictionary(pa.int8(), pa.large_string()), runs]
    blobs = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.binary(16), pa.uuid()]
    times = [pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))]
    others = [pa.time32("s"), pa.time64("us"), pa.time64("ns"), pa.time32("ms")]
    decimals = [pa.decimal128(10, 2), pa.decimal32(4, 4), pa.decimal64(12, 0), pa.decimal256(60, 30)]
    family = draw(st.sampled_from([numbers, texts, blobs, times, others, decimals]))
    leaf = st.sampled_from([*family, pa.null()])

    def fields(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        def field(name: str, t: pa.DataType, null: bool) -> pa.Field:
            return pa.field(name, t, nullable=null or pa.types.is_null(t))

        drawn = st.builds(field, st.sampled_from("abc"), inner, st.booleans())
        return st.lists(drawn, min_size=1, max_size=3, unique_by=lambda f: f.name).map(pa.struct)

    lists = [
        pa.list_,
        pa.large_list,
        pa.list_view,
        pa.large_list_view,
        lambda t: pa.list_(t, 2),
        lambda t: pa.list_(t, 1),
    ]
    wrap = draw(st.sampled_from(["none", "none", "list", "struct", "map"]))
    types = {
        "none": leaf,
        "list": st.builds(lambda make, t: make(t), st.sampled_from(lists), leaf),
        "struct": fields(leaf),
        "map": st.builds(pa.map_, leaf.filter(lambda t: not pa.types.is_null(t)), leaf),
    }[wrap]
    return [draw(types) for _ in range(count)]


def join(a: pa.DataType | None, b: pa.DataType | None) -> pa.DataType | None:
    return None if a is None or b is None else widen(a, b)


def by_name(t: pa.DataType | None) -> Any:
    """A type without the order of its struct fields."""
    code = None if t is None else encode_type(t)

    def strip(part: Any) -> Any:
        if isinstance(part, list):
            rest = [strip(inner) for inner in part]
            return ["struct", sorted(rest[1], key=lambda field: field[0])] if part[:1] == ["struct"] else rest
        return part

    return strip(code)


@given(arrow_types(), arrow_types())
@relaxed
def test_widen_is_commutative_and_idempotent(a: pa.DataType, b: pa.DataType) -> None:
    assert widen(a, a) == a
    assert widen(a, b) == widen(b, a)


@given(related(3), st.permutations(range(3)))
@relaxed
def test_widen_is_associative_in_any_order(types: list[pa.DataType], order: list[int]) -> None:
    left = reduce(join, types)
    right = join(types[order[0]], join(types[order[1]], types[order[2]]))
    assert by_name(left) == by_name(right)


@given(related(2), st.data())
@relaxed
def test_every_value_survives_widening(types: list[pa.DataType], data: st.DataObject) -> None:
    a, b = types
    joined = widen(a, b)
    assume(joined is not None)
    assert is_lossless(a, joined)
    assert is_lossless(b, joined)
    array = data.draw(arrow_arrays(a))
    cast = cast_lossless(array, joined)
    cast.validate(full=True)
    assert cast.type == joined
    assert same(cast_lossless(cast, a), array)


@given(related(2), st.data())
@relaxed
def test_a_cast_between_any_types_keeps_values_or_fails(
    types: list[pa.DataType], data: st.DataObject
) -> None:
    a, b = types
    array = data.draw(arrow_arrays(a))
    try:
        cast = cast_lossless(array, b)
    except (SchemaMismatch, LimitExceeded):
        assert not is_lossless(a, b) or "limit" in str(b)
        return
    cast.validate(full=True)
    back = cast_lossless(cast, a)
    left, right = to_storage(back).to_pylist(), to_storage(array).to_pylist()
    assert repr(left).replace("-0.0", "0.0") == repr(right).replace("-0.0", "0.0")


def test_casts_fail_by_column_row_and_value() -> None:
    with pytest.raises(SchemaMismatch, match=r"column c, row 1: 1e\+300"):
        cast_lossless(pa.array([1.0, 1e300]), pa.float32(), "c")
    with pytest.raises(SchemaMismatch, match=r"column c.*300"):
        cast_lossless(pa.array([1, 300]), pa.int8(), "c")
    with pytest.raises(SchemaMismatch, match="row 0: 2049"):
        cast_lossless(pa.array([2049], pa.int16()), pa.float16())
    with pytest.raises(SchemaMismatch, match="column c is int64, the rows have string"):
        cast_lossless(pa.array(["1"]), pa.int64(), "c")
    with pytest.raises(SchemaMismatch, match=r"c\.y has values"):
        cast_lossless(pa.array([{"x": 1, "y": 2}]), pa.struct([("x", pa.int64())]), "c")
    with pytest.raises(SchemaMismatch, match="c"):
        cast_lossless(pa.array([1], pa.timestamp("s")), pa.date64(), "c")
    with pytest.raises(SchemaMismatch, match="c"):
        cast_lossless(pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC"), "c")


def test_decimals_are_rescaled_before_they_are_narrowed() -> None:
    narrow = pa.array([Decimal("0.0001"), None], pa.decimal32(4, 4))
    wide = cast_lossless(narrow, pa.decimal256(60, 30))
    assert cast_lossless(wide, narrow.type).equals(narrow)


def test_casts_that_work_by_value() -> None:
    assert cast_lossless(pa.chunked_array([[1], [2]]), pa.int8()).type == pa.int8()
    assert cast_lossless(pa.array([None, None], pa.string()), pa.int8()).to_pylist() == [None, None]
    assert cast_lossless(pa.array(["a"]), pa.dictionary(pa.int8(), pa.string())).type.index_type == pa.int8()
    zoned = cast_lossless(
        pa.array([1], pa.timestamp("ns", "UTC")).cast(pa.timestamp("ns", "UTC")),
        pa.timestamp("ns", "Asia/Tokyo"),
    )
    assert zoned.type.tz == "Asia/Tokyo"
    assert is_lossless(pa.string_view(), pa.string())
    assert is_lossless(pa.string(), pa.dictionary(pa.int8(), pa.string()))
    assert not is_lossless(pa.list_(pa.int8()), pa.list_(pa.int8(), 2))


@pytest.mark.parametrize("values", [pa.string_view(), pa.large_string(), pa.string(), pa.binary_view()])
def test_dictionaries_of_every_kind_of_text_are_stored(values: pa.DataType) -> None:
    dictionary = pa.array(["a", None, "b"]).cast(pa.binary()).cast(pa.large_binary()).cast(values)
    array = pa.DictionaryArray.from_arrays(pa.array([2, None, 0, 1], pa.uint8()), dictionary)
    rows = [
        None if value is None else bytes(value) for value in to_storage(array).cast(pa.binary()).to_pylist()
    ]
    assert rows == [b"b", None, b"a", None]
    assert to_storage(array.slice(2, 1)).cast(pa.binary()).to_pylist() == [b"a"]


@pytest.mark.parametrize("values", [[None], [None, {"d": None}, {"d": "x"}, None]])
def test_entries_that_pyarrow_names_behind_a_null_struct(values: list[Any]) -> None:
    """It takes the first entry of a dictionary there, also of an empty one."""
    named = pa.dictionary(pa.int8(), pa.string())
    flat, deep = pa.struct([("d", named)]), pa.struct([("s", pa.struct([("d", named)]))])
    assert to_storage(pa.array(values, flat)).to_pylist() == values
    inside = [value and {"s": value} for value in values]
    assert to_storage(pa.array(inside, deep)).to_pylist() == inside
    assert to_storage(pa.array([values], pa.list_(flat))).to_pylist() == [values]


def test_entries_that_a_dictionary_does_not_have_are_refused() -> None:
    wrong = pa.DictionaryArray.from_arrays(pa.array([1], pa.int8()), pa.array(["a"]), safe=False)
    for column in (wrong, pa.StructArray.from_arrays([wrong], ["d"]), pa.chunked_array([wrong])):
        with pytest.raises(
            InvalidArgument, match="column c: names entries that its dictionary does not have"
        ):
            to_storage(column, "c")

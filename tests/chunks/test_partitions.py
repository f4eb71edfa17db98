"""Partitions: the split against a plain model, buckets that never move, ranges that contain their rows."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat import limits
from crdtcat.chunks.partitions import (
    PartitionField,
    Partitioning,
    decode_values,
    encode_values,
    parse_partitioning,
)
from crdtcat.chunks.statistics import statistics
from crdtcat.chunks.transforms import NAN, applies_to, bucket_of
from crdtcat.chunks.types import to_storage
from crdtcat.errors import InvalidArgument, LimitExceeded
from crdtcat.testing.strategies import arrow_tables, arrow_types
from tests.bounds import bounded

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
TIMED: list[tuple[str, int | None]] = [("year", None), ("month", None), ("day", None), ("hour", None)]
TRANSFORMS: list[tuple[str, int | None]] = [("identity", None), *TIMED, ("bucket", 4), ("truncate", 3)]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("country", PartitionField("country")),
        ("day(ts)", PartitionField("ts", "day")),
        ("bucket(16, id)", PartitionField("id", "bucket", 16)),
        ("truncate(10, name)", PartitionField("name", "truncate", 10)),
        ("Größe in m", PartitionField("Größe in m")),
        ("year", PartitionField("year")),
        ('"day(ts)"', PartitionField("day(ts)")),
        ('hour("a, \\"b\\"")', PartitionField('a, "b"', "hour")),
    ],
)
def test_fields_have_one_text(text: str, field: PartitionField) -> None:
    assert PartitionField.parse(text) == field
    assert str(field) == text


def test_spaces_do_not_matter() -> None:
    assert [str(field) for field in parse_partitioning(["bucket( 16 ,id )"]).fields] == ["bucket(16, id)"]


@given(st.text(min_size=1), st.sampled_from(TRANSFORMS))
def test_any_column_name_survives(name: str, transform: tuple[str, int | None]) -> None:
    field = PartitionField(name, *transform)
    assert PartitionField.parse(str(field)) == field


@pytest.mark.parametrize(
    "spec",
    ["day(3, ts)", "bucket(ts)", "bucket(0, ts)", "bucket(65537, x)", "week(ts)", "a,b", "", [5], ["a"] * 2],
)
def test_bad_specs(spec: Any) -> None:
    with pytest.raises(InvalidArgument):
        parse_partitioning(spec)


def test_too_many_fields() -> None:
    with pytest.raises(LimitExceeded):
        parse_partitioning([f"c{i}" for i in range(limits.PARTITION_FIELDS_MAX + 1)])


def test_specs_in_every_form() -> None:
    assert parse_partitioning(None) == parse_partitioning([]) == Partitioning()
    assert not Partitioning()
    one = parse_partitioning("day(ts)")
    assert one == parse_partitioning(("day(ts)",)) == parse_partitioning(one)
    assert parse_partitioning([str(field) for field in one.fields]) == one


def test_validation_names_field_and_type() -> None:
    schema = pa.schema([("a", pa.list_(pa.int8())), ("f", pa.float64()), ("d", pa.date32())])
    for text, told in (
        ("x", "no column 'x'"),
        ("a", "identity"),
        ("bucket(2, f)", "double"),
        ("hour(d)", "hour"),
    ):
        with pytest.raises(InvalidArgument, match=told):
            parse_partitioning([text]).validate(schema)


def scalar_value(transform: str, argument: int | None, scalar: pa.Scalar) -> Any:
    """The model: one value at a time, in Python."""
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(scalar.type) and scalar.type.tz:  # Python's years end before a zone's may
        scalar = scalar.cast(pa.timestamp(scalar.type.unit, "UTC"))
    value = scalar.as_py()
    if transform in {"year", "month", "day", "hour"}:
        moment = dt.datetime.combine(value, dt.time()) if not isinstance(value, dt.datetime) else value
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment
        days = moment.toordinal() - dt.date(1970, 1, 1).toordinal()
        months = (moment.year - 1970) * 12 + moment.month - 1
        return {"year": moment.year - 1970, "month": months, "day": days, "hour": days * 24 + moment.hour}[
            transform
        ]
    if transform == "bucket":
        return bucket_of(scalar, argument or 1)
    if transform == "truncate":
        return max(value - value % (argument or 1), -(2**63)) if isinstance(value, int) else value[:argument]
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    if isinstance(value, Decimal):
        return format(value, "f")
    return scalar.value if isinstance(value, dt.date | dt.time) else value


MODEL_TYPES = [
    pa.int8(), pa.int64(), pa.uint64(), pa.bool_(), pa.float64(), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.binary(2), pa.date32(), pa.date64(), pa.timestamp("us"),
    pa.timestamp("s", "Europe/Paris"), pa.timestamp("ms", "UTC"), pa.decimal128(5, 2),
    pa.dictionary(pa.int8(), pa.string()), pa.time32("s"), pa.run_end_encoded(pa.int32(), pa.int64()),
]  # fmt: skip


@st.composite
def tables_to_split(draw: Any) -> tuple[pa.Table, Partitioning]:
    fields, columns = [], []
    for name in ("k", "l")[: draw(st.integers(1, 2))]:
        t = draw(st.sampled_from(MODEL_TYPES))
        transform, argument = draw(st.sampled_from([pair for pair in TRANSFORMS if applies_to(pair[0], t)]))
        fields.append(PartitionField(name, transform, argument))
        columns.append(pa.field(name, t))
    columns.append(pa.field("payload", draw(arrow_types(depth=1))))
    return draw(arrow_tables(schema=pa.schema(columns))), Partitioning(tuple(fields))


@settings(relaxed, max_examples=bounded(100, 2))
@given(tables_to_split())
def test_split_is_what_the_model_says(drawn: tuple[pa.Table, Partitioning]) -> None:
    table, partitioning = drawn
    parts = partitioning.split(table)
    numbered = partitioning.split(table.append_column("row", pa.array(range(table.num_rows))))
    expected: dict[bytes, list[int]] = {}
    for row in range(table.num_rows):
        values: list[Any] = []
        for field in partitioning.fields:
            scalar = table.column(field.column)[row]
            while isinstance(scalar, pa.DictionaryScalar | pa.RunEndEncodedScalar):
                scalar = scalar.value if isinstance(scalar, pa.DictionaryScalar) else scalar.as_py()
                scalar = scalar if isinstance(scalar, pa.Scalar) else pa.scalar(scalar)
            values.append(scalar_value(field.transform, field.argument, scalar))
        expected.setdefault(encode_values(tuple(values)), []).append(row)
    assert {encode_values(values): part.column("row").to_pylist() for values, part in numbered} == expected
    assert len(parts) == len(expected)
    for (one, part), (other, rows) in zip(parts, numbered, strict=True):
        assert encode_values(one) == encode_values(other)
        part.validate(full=True)
        assert part.schema == table.schema
        order = np.array(rows.column("row").to_pylist(), np.int64)
        whole = to_storage(table.column("payload")).take(pa.array(order))
        assert repr(to_storage(part.column("payload")).to_pylist()) == repr(whole.to_pylist())


@settings(relaxed, max_examples=bounded(100, 2))
@given(tables_to_split())
def test_ranges_contain_their_rows(drawn: tuple[pa.Table, Partitioning]) -> None:
    table, partitioning = drawn
    for values, part in partitioning.split(table):
        for index, field in enumerate(partitioning.fields):
            column = part.column(field.column)
            span = partitioning.bounds(index, values[index], column.type)
            known = statistics(column)
            if values[index] is None:
                assert known.nulls == len(column)
                assert span is None
            elif span is not None and known.min is not None and known.max is not None:
                lo, hi = span
                assert lo is None or lo <= known.max
                assert hi is None or known.min <= hi
                if known.max not in {b"", None} and isinstance(known.max, int | float):
                    assert lo <= known.min
                    assert hi >= known.max


@settings(relaxed, max_examples=bounded(100, 2))
@given(tables_to_split(), st.randoms(use_true_random=False))
def test_groups_come_in_one_order(drawn: tuple[pa.Table, Partitioning], random: Any) -> None:
    table, partitioning = drawn
    rows = list(range(table.num_rows))
    random.shuffle(rows)
    keys = [field.column for field in partitioning.fields]
    table = table.select(keys)
    shuffled = pa.concat_tables([table.slice(row, 1) for row in rows]) if rows else table
    expected = [encode_values(values) for values, _ in partitioning.split(table)]
    assert [encode_values(values) for values, _ in partitioning.split(shuffled)] == expected


def test_nulls_first_nan_last_one_zero() -> None:
    table = pa.table({"x": [1.0, math.nan, None, -0.0, 0.0, -math.nan]})
    parts = parse_partitioning(["x"]).split(table)
    assert [values for values, _ in parts] == [(None,), (0.0,), (1.0,), (NAN,)]
    assert [part.num_rows for _, part in parts] == [1, 2, 1, 2]


def test_no_fields_and_no_rows() -> None:
    table = pa.table({"x": [1, 2]})
    assert Partitioning().split(table) == [((), table)]
    assert parse_partitioning(["x"]).split(table.slice(0, 0)) == []


def test_too_many_partitions() -> None:
    table = pa.table({"x": range(limits.PARTITION_VALUES_PER_COMMIT_MAX + 1)})
    with pytest.raises(LimitExceeded, match="coarser"):
        parse_partitioning(["x"]).split(table)


BUCKETS = [  # Never change these: rows are stored by them.
    (0, 16, 0), (1, 16, 13), (-1, 16, 12), (34, 16, 3), (2**63 - 1, 16, 14),
    (-(2**63), 16, 5), (2**64 - 1, 16, 12), ("", 16, 0), ("a", 16, 15),
    ("iceberg", 16, 13), ("Größe", 16, 10), (b"\x00\x01", 16, 2),
    (dt.date(2024, 1, 2), 16, 9), (uuid.UUID(int=7), 16, 14), ("a", 1000, 575), (12345, 65536, 61718),
]  # fmt: skip


@pytest.mark.parametrize(("value", "count", "bucket"), BUCKETS)
def test_buckets_never_change(value: Any, count: int, bucket: int) -> None:
    assert bucket_of(value, count) == bucket
    if not isinstance(value, uuid.UUID):
        t = pa.uint64() if isinstance(value, int) and value >= 2**63 else None
        ((values, _),) = parse_partitioning([f"bucket({count}, x)"]).split(
            pa.table({"x": pa.array([value], t)})
        )
        assert values == (bucket,)


def test_buckets_do_not_depend_on_width_and_literals_find_them() -> None:
    partitioning = parse_partitioning(["bucket(8, x)"])
    for t in (pa.int8(), pa.int32(), pa.uint16(), pa.int64()):
        for values, part in partitioning.split(pa.table({"x": pa.array(range(20), t)})):
            for value in part.column("x"):
                assert (
                    partitioning.bucket_of(0, value) == partitioning.bucket_of(0, value.as_py()) == values[0]
                )
    for literal in (1.0, True, None, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), [1]):
        assert partitioning.bucket_of(0, literal) is None
    assert parse_partitioning(["x"]).bucket_of(0, 1) is None


def test_buckets_are_even() -> None:
    parts = parse_partitioning(["bucket(10, x)"]).split(pa.table({"x": range(10_000)}))
    assert all(900 < part.num_rows < 1100 for _, part in parts)


@pytest.mark.parametrize(
    ("text", "value", "t", "span"),
    [
        ("x", 5, pa.int64(), (5, 5)),
        ("x", True, pa.bool_(), (1, 1)),
        ("x", "ä", pa.string(), (b"\xc3\xa4", b"\xc3\xa4")),
        ("x", "0.10", pa.decimal128(5, 2), (0.09999999999999999, 0.1)),
        ("x", NAN, pa.float64(), None),
        ("day(x)", 1, pa.timestamp("s"), (86400, 172799)),
        ("day(x)", 1, pa.date32(), (1, 1)),
        ("month(x)", 1, pa.date32(), (31, 58)),
        ("year(x)", -1, pa.date32(), (-365, -1)),
        ("hour(x)", -1, pa.timestamp("ms", "UTC"), (-3600000, -1)),
        ("truncate(10, x)", -10, pa.int64(), (-10, -1)),
        ("truncate(10, x)", 20, pa.uint64(), (20.0, 29.0)),
        ("truncate(2, x)", "ab", pa.string(), (b"ab", b"ab\xff")),
        ("truncate(2, x)", b"ab", pa.binary(), (b"ab", b"ac")),
        ("truncate(2, x)", "a", pa.string(), (b"a", b"a")),
        ("truncate(1, x)", b"\xff", pa.binary(), (b"\xff", None)),
        ("bucket(4, x)", 1, pa.int64(), None),
        ("x", None, pa.int64(), None),
    ],
)
def test_bounds(text: str, value: Any, t: pa.DataType, span: Any) -> None:
    assert parse_partitioning([text]).bounds(0, value, t) == span


def test_truncation_at_the_edge_of_64_bits() -> None:
    partitioning = parse_partitioning(["truncate(10, x)"])
    ((values, _),) = partitioning.split(pa.table({"x": [-(2**63), -(2**63) + 1]}))
    assert values == (-(2**63),)
    assert decode_values(encode_values(values), len(values), "t") == values
    lo, hi = partitioning.bounds(0, values[0], pa.int64()) or (None, None)
    assert lo == -(2**63)
    assert hi is not None
    assert hi >= -(2**63) + 1


numbers = st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()
scalars = st.none() | numbers | st.text(max_size=9) | st.binary(max_size=9)


@given(st.lists(scalars).map(tuple))
def test_encoded_values_survive(values: tuple[Any, ...]) -> None:
    assert repr(decode_values(encode_values(values), len(values), "t")) == repr(values).replace("-nan", "nan")


def test_dictionaries_that_outgrow_their_indices_are_split_too() -> None:
    t = pa.dictionary(pa.int8(), pa.string())
    chunks = [pa.array([f"{i}-{j}" for j in range(100)]).dictionary_encode().cast(t) for i in (1, 2)]
    table = pa.table({"k": [0, 1] * 100, "d": pa.chunked_array(chunks)})
    parts = parse_partitioning(["k"]).split(table)
    assert [part.num_rows for _, part in parts] == [100, 100]
    assert parts[1][1].column("d").to_pylist() == table.column("d").to_pylist()[1::2]


def test_huge_values_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="truncate"):
        encode_values(("x" * 2000,))

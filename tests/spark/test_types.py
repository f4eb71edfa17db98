"""Types both ways: whatever Spark has comes back as it was; whatever Arrow has is shown exactly or
refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)
from pyspark.sql import types as spark_types

from crdtcat import Catalog
from crdtcat.errors import SchemaMismatch, UnsupportedType
from crdtcat.spark import load, save
from crdtcat.spark.types import arrow_schema, spark_schema, table_schema, to_spark
from crdtcat.testing.strategies import arrow_arrays, arrow_types
from tests.spark.rows import values

EVERY_TYPE = [
    "cast(id as boolean) as boolean",
    "cast(id as byte) as byte",
    "cast(id as short) as short",
    "cast(id as int) as int",
    "id as long",
    "cast(id / 3 as float) as float",
    "id / 7 as double",
    "cast(id as decimal(38, 10)) as dec",
    "cast(id / 4 as decimal(6, 2)) as small",
    "cast(id as string) as string",
    "cast(concat('é☃', id) as binary) as binary",
    "date_add(date'1969-12-30', cast(id as int)) as date",
    "timestamp'1969-12-31 23:59:59.123456 UTC' + make_dt_interval(cast(id as int)) as stamp",
    "timestamp_ntz'2026-11-16 01:02:03.000001' as naive",
    "make_dt_interval(cast(id as int), 1, 2, 3.5) as duration",
    "cast('12:34:56.789012' as time) as time",
    "null as nothing",
    "array(array()) as nothings",
    "array(id, null) as list",
    "map(cast(id as string), id, 'x', null) as map",
    "struct(id as a, array(struct(cast(id as string) as b)) as c) as nest",
    "if(id % 2 = 0, null, named_struct('odd näme', id)) as maybe",
    "id as `Größe in m.`",
]


def every_type(spark: Any, count: int) -> Any:
    """Rows of all types, of which one is null throughout."""
    df = spark.range(0, count, 1, 2).selectExpr("id as `~`", *EVERY_TYPE)
    return df.select(*[F.when(F.col("`~`") != 3, F.col(f"`{name}`")).alias(name) for name in df.columns[1:]])


def test_every_type_of_spark(spark: Any, tmp_path: Path) -> None:
    df = every_type(spark, 7)
    assert [row for row in df.collect() if not any(value is not None for value in row)]
    save(df, tmp_path, "t")
    df.write.format("crdtcat").mode("append").save(f"{tmp_path}/t")
    wanted = values(df.union(df))
    for back in (
        spark.read.format("crdtcat").load(f"{tmp_path}/t"),
        load(spark, tmp_path, "t"),
        load(spark, tmp_path, "t", native=False),
    ):
        assert [(f.name, f.dataType.simpleString()) for f in back.schema] == [
            (f.name, f.dataType.simpleString()) for f in df.schema
        ]
        assert values(back) == wanted
    local = Catalog(tmp_path).read("t")
    assert local.schema.field("stamp").type == pa.timestamp("us", "UTC")
    assert local.column("dec").to_pylist()[0] == Decimal("0E-10")
    # In segments rather than inside version files, where Spark's own reader is asked:
    big = every_type(spark, 120).drop("duration", "time", "nothing", "nothings")
    save(big, Catalog(tmp_path, inline_bytes=0), "big")
    plan = load(spark, tmp_path, "big")._jdf.queryExecution().toString()
    assert "FileScan parquet" in plan
    assert "MapInArrow" not in plan
    assert values(load(spark, tmp_path, "big")) == values(big)


WIDENED = [
    ("interval '1' day", "interval day to second"),
    ("interval '1:02' hour to minute", "interval day to second"),
    ("cast('12:34:56.789' as time(3))", "time(6)"),
    ("'Ä' collate UNICODE_CI", "string"),
    ("array(interval '3' day)", "array<interval day to second>"),
]


def test_what_comes_back_as_a_wider_type(spark: Any, tmp_path: Path) -> None:
    """Fields of an interval, digits of a time and collations are not kept; every value is."""
    df = spark.range(2).selectExpr(*[f"{value} as c{at}" for at, (value, _) in enumerate(WIDENED)])
    save(df, tmp_path, "t")
    back = load(spark, tmp_path, "t")
    assert [field.dataType.simpleString() for field in back.schema] == [shown for _, shown in WIDENED]
    assert values(back) == values(df)


def test_types_that_spark_does_not_have(spark: Any, tmp_path: Path) -> None:
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    table = pa.table(
        {
            "u8": pa.array([255, None], pa.uint8()),
            "u16": pa.array([65535, None], pa.uint16()),
            "u32": pa.array([2**32 - 1, None], pa.uint32()),
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "half": pa.array([1.5, None], pa.float16()),
            "view": pa.array(["v", None], pa.string_view()),
            "fixed": pa.array([b"abc", None], pa.binary(3)),
            "seconds": pa.array([noon, None], pa.timestamp("s", "Europe/Paris")),
            "nanos": pa.array([noon.replace(tzinfo=None), None], pa.timestamp("ns")),
            "day": pa.array([date(2026, 11, 16), None], pa.date64()),
            "time": pa.array([time(1, 2, 3), None], pa.time32("s")),
            "took": pa.array([timedelta(milliseconds=5), None], pa.duration("ms")),
            "words": pa.array(["a", None]).dictionary_encode(),
            "viewed": pa.DictionaryArray.from_arrays([0, None], pa.array(["b"], pa.string_view())),
            "lists": pa.array([[1, None], None], pa.list_view(pa.int8())),
            "pair": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
            "tiny": pa.array([Decimal("1.5"), None], pa.decimal32(3, 1)),
        }
    )
    lake = Catalog(tmp_path)
    lake.create_table("t", table.schema)
    lake.table("t").append(table)
    back = spark.read.format("crdtcat").load(f"{tmp_path}/t")
    row = next(row for row in back.collect() if row.u8 is not None)
    assert (row.u8, row.u16, row.u32, row.u64) == (255, 65535, 2**32 - 1, 2**64 - 1)
    assert (row.half, row.view, bytes(row.fixed)) == (1.5, "v", b"abc")
    assert (row.words, row.viewed) == ("a", "b")
    assert row.seconds.astimezone(UTC) == noon
    assert (row.nanos, row.day) == (datetime(2026, 11, 16, 12), datetime(2026, 11, 16))  # noqa: DTZ001
    assert (row.time, row.took, row.tiny) == (time(1, 2, 3), timedelta(milliseconds=5), Decimal("1.5"))
    assert (row.lists, row.pair) == ([1, None], [1, 2])
    assert [tuple(row) for row in back.collect() if row.u8 is None] == [(None,) * len(back.columns)]
    assert values(load(spark, lake, "t")) == values(back)
    # In segments, those of them that Spark's own reader reads as we do:
    names = ["u8", "u16", "u32", "u64", "view", "fixed", "words"]
    stored = Catalog(tmp_path, inline_bytes=0)
    stored.create_table("stored", table.select(names).schema).append(table.select(names))
    native = load(spark, stored, "stored")
    plan = native._jdf.queryExecution().toString()
    assert "FileScan parquet" in plan
    assert "MapInArrow" not in plan
    other = spark.read.format("crdtcat").load(f"{tmp_path}/stored")
    assert native.schema == other.schema
    assert values(native) == values(other) == values(back.select(*names))


def test_what_has_no_type_at_all() -> None:
    """`array()` and `map()`: Spark says of both that nothing in them is null, which is all that there is."""
    nothing = spark_types.NullType()
    kept = spark_types.StructType().add("a", spark_types.ArrayType(nothing, containsNull=False))
    kept.add("m", spark_types.MapType(spark_types.StringType(), nothing, valueContainsNull=False))
    assert table_schema(kept).types == [pa.list_(pa.null()), pa.map_(pa.string(), pa.null())]
    refused = spark_types.ArrayType(spark_types.MapType(nothing, nothing, valueContainsNull=False))
    with pytest.raises(UnsupportedType, match=r"column m\[\] is a map whose keys have no type"):
        table_schema(spark_types.StructType().add("m", refused))


def test_what_spark_cannot_hold_is_refused_by_column(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path)
    lake.commit("t", pa.table({"a": [1], "wide": pa.array([1], pa.decimal256(50, 2))}))
    with pytest.raises(UnsupportedType, match="column wide is decimal256"):
        load(spark, lake, "t")
    assert load(spark, lake, "t", columns=["a"]).collect()[0].a == 1
    lake.commit("fine", pa.table({"at": pa.array([1_000, 1], pa.timestamp("ns"))}))
    with pytest.raises(Exception, match="column at is timestamp"):
        load(spark, lake, "fine").collect()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_arrow_type_becomes_exactly_what_spark_declares(data: st.DataObject) -> None:
    """No session needed: Spark checks batches against the Arrow form of the schema it was given."""
    t = data.draw(arrow_types())
    column = pa.chunked_array([data.draw(arrow_arrays(t))], t)
    table = pa.Table.from_arrays([column], schema=pa.schema([pa.field("c", t)]))
    try:
        target = arrow_schema(spark_schema(table.schema))
    except UnsupportedType:
        return
    try:
        shown = to_spark(table, target)
    except SchemaMismatch as error:
        assert "column c" in str(error)  # noqa: PT017
        return
    shown.validate(full=True)
    assert shown.schema.equals(target)
    assert shown.column(0).is_null().to_pylist() == table.column(0).is_null().to_pylist()
    back = table_schema(spark_schema(table.schema))
    assert arrow_schema(spark_schema(back)).equals(back)  # a second round changes nothing

"""Every kind of input, and what becomes of its types."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.types import to_storage
from crdtcat.errors import SchemaMismatch, UserError
from crdtcat.testing.strategies import arrow_tables
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, refused, rows

TABLE = pa.table({"a": pa.array([1, 2, None], pa.int64()), "b": ["x", None, "z"]})


class OnlyStream:
    """Somebody's own container that speaks the Arrow C stream protocol and nothing else."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return TABLE.to_reader().__arrow_c_stream__(requested_schema)


def dicts() -> Iterator[dict[str, Any]]:
    yield from TABLE.to_pylist()


KINDS: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "reader": lambda: TABLE.to_reader(max_chunksize=1),
    "stream": OnlyStream,
    "pandas": lambda: pd.DataFrame({"a": pd.array([1, 2, None], "Int64"), "b": ["x", None, "z"]}),
    "polars": lambda: pl.DataFrame({"a": [1, 2, None], "b": ["x", None, "z"]}),
    "lazy polars": lambda: pl.LazyFrame({"a": [1, 2, None], "b": ["x", None, "z"]}),
    "duckdb": lambda: duckdb.sql("select * from (values (1::bigint, 'x'), (2, null), (null, 'z')) v(a, b)"),
    "list of dicts": lambda: [{"a": 1, "b": "x"}, {"a": 2}, {"b": "z"}],
    "generator of dicts": dicts,
    "tuple of dicts": lambda: tuple(TABLE.to_pylist()),
    "dict of lists": lambda: {"a": [1, 2, None], "b": ["x", None, "z"]},
    "dict of arrays": lambda: {"a": TABLE["a"], "b": pa.array(["x", None, "z"])},
    "iterable of batches": lambda: iter(TABLE.to_batches(max_chunksize=2)),
    "list of tables": lambda: [TABLE.slice(0, 1), TABLE.slice(1)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_into_a_new_table(kind: str) -> None:
    catalog = lake()
    assert catalog.commit("t", KINDS[kind]()).rows == 3
    assert rows(catalog.read("t")) == TABLE.to_pylist()
    assert catalog.table("t").schema.field("a").type == pa.int64()


@pytest.mark.parametrize("verb", ["append", "overwrite", "stream"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_into_a_declared_table(kind: str, verb: str) -> None:
    table = lake().create_table("t", pa.schema([("b", pa.large_string()), ("a", pa.int32())]))
    if verb == "stream":
        with table.stream() as stream:
            stream.write(KINDS[kind]())
    else:
        getattr(table, verb)(KINDS[kind]())
    assert table.read() == TABLE.select(["b", "a"]).cast(table.schema)


def test_a_scan_is_an_input() -> None:
    catalog = lake(inline_bytes=0)
    catalog.commit("t", TABLE)
    catalog.commit("copy", catalog.table("t").scan(filter="a > 1"))
    assert rows(catalog.read("copy")) == [{"a": 2, "b": None}]


def test_numpy_values() -> None:
    catalog = lake()
    catalog.commit("t", {"a": np.arange(3, dtype=np.uint8), "b": np.array([1.5, 2.5, 3.5], np.float32)})
    assert catalog.table("t").schema == pa.schema([("a", pa.uint8()), ("b", pa.float32())])


def test_pandas_integers_with_gaps_go_back_into_an_integer_column() -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("a", pa.int64())]))
    frame = pd.DataFrame({"a": [1, None, 3]})
    assert frame["a"].dtype == np.float64  # what pandas makes of a gap
    table.append(frame)
    assert rows(table.read()) == [{"a": 1}, {"a": None}, {"a": 3}]
    with refused(catalog, SchemaMismatch, "a", "1.5"):
        table.append(pd.DataFrame({"a": [1.5]}))


def test_dicts_take_the_types_of_the_table() -> None:
    schema = pa.schema(
        [
            ("n", pa.int16()),
            ("t", pa.timestamp("ms", "Europe/Paris")),
            ("d", pa.decimal128(9, 2)),
            ("s", pa.struct([("x", pa.float32())])),
        ]
    )
    table = lake().create_table("t", schema)
    moment = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    table.append([{"n": 1, "t": moment, "d": Decimal("1.50"), "s": {"x": 2.0}}, {"n": None}])
    assert table.read().schema == schema
    assert rows(table.read())[0] == {"n": 1, "t": moment, "d": Decimal("1.50"), "s": {"x": 2.0}}


def test_only_the_columns_that_dicts_name_are_stored() -> None:
    table = lake().create_table("t", pa.schema([("a", pa.int64()), ("b", pa.string())]))
    version = table.append([{"a": 1}])
    log = table.head().log
    assert [f.name for f in table.head().columns.fields(int(log.schema[log.index_of(version.id)]))] == ["a"]
    assert rows(table.read()) == [{"a": 1, "b": None}]


def test_an_empty_list_is_no_rows_where_the_columns_are_known() -> None:
    table = lake().create_table("t", pa.schema([("a", pa.int64())]))
    assert table.append([]).rows == 0
    assert table.read() == table.schema.empty_table()


def test_input_that_looks_wrong_is_looked_at_again_with_a_fresh_head() -> None:
    catalog = lake()
    schema = pa.schema([("a", pa.int32())])
    stale = catalog.create_table("t", schema)
    fresh = another(catalog).table("t")
    fresh.add_column("b", pa.string())
    fresh.widen_column("a", pa.int64())
    stale.append([{"a": 1, "b": "new column"}])
    other = another(catalog).table("t")  # knows only what the table was created with
    other.append(pa.table({"a": [2**40]}))  # fits only the wider type
    third = another(catalog).table("t")
    third.append(pa.table({"a": [2], "b": ["stream"]}).to_reader())  # refused before its first row was taken
    with another(catalog).table("t").stream() as stream:
        stream.write([{"b": "in a stream"}])
    assert rows(fresh.read()) == [
        {"a": 1, "b": "new column"},
        {"a": 2**40, "b": None},
        {"a": 2, "b": "stream"},
        {"a": None, "b": "in a stream"},
    ]


def test_a_stream_that_was_used_up_is_not_committed_by_half() -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("a", pa.int8())]))
    batches = [pa.record_batch({"a": [1]}), pa.record_batch({"a": [2**40]})]
    with refused(catalog, SchemaMismatch, "a", str(2**40)):
        table.append(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert len(table.history()) == 0


def test_an_error_in_the_middle_of_an_iterable_writes_nothing() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise ZeroDivisionError

    catalog = lake()
    table = catalog.create_table("t")
    with pytest.raises(ZeroDivisionError):
        table.append(broken())
    assert len(table.history()) == 0


def canonical(table: pa.Table) -> bytes:
    """Content, whatever the layout: what equal rows of equal types share."""
    arrays = [
        to_storage(column, name) for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    content, _ = hash_table(pa.Table.from_arrays(arrays, names=table.column_names))
    return content


@settings(max_examples=bounded(120, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(arrow_tables())
def test_all_arrow_types_round_trip(given_table: pa.Table) -> None:
    if not given_table.num_columns:
        return
    for options in ({}, {"inline_bytes": 0, "chunk_rows": 2}):
        catalog = lake(**options)
        catalog.commit("t", given_table)
        read = catalog.read("t")
        assert read.num_rows == given_table.num_rows
        assert read.column_names == given_table.column_names
        assert canonical(read) == canonical(given_table)
        streamed = pa.Table.from_batches(catalog.table("t").scan().to_reader(), read.schema)
        assert canonical(streamed) == canonical(read)


def test_what_is_no_part_of_a_type_is_not_kept() -> None:
    inner = pa.field("element", pa.int64(), nullable=False, metadata={"inner": "x"})
    schema = pa.schema([pa.field("a", pa.list_(inner), metadata={"outer": "x"})], metadata={"table": "x"})
    catalog = lake()
    catalog.commit("t", pa.table({"a": [[1]]}, schema=schema))
    read = catalog.read("t").schema
    assert read == schema
    assert not read.metadata
    assert not read.field("a").metadata
    assert str(read.field("a").type) == "list<item: int64 not null>"


ODD_TYPES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "nested": pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.int32())))])),
    "decimal": pa.decimal256(70, 10),
    "timestamp with zone": pa.timestamp("ns", "America/New_York"),
    "fixed binary": pa.binary(4),
    "run ends": pa.run_end_encoded(pa.int32(), pa.string()),
    "uuid": pa.uuid(),
    "list view": pa.list_view(pa.int64()),
    "string view": pa.string_view(),
    "interval": pa.month_day_nano_interval(),
    "duration": pa.duration("us"),
    "half float": pa.float16(),
}


@pytest.mark.parametrize("name", ODD_TYPES)
def test_odd_types_keep_their_type_with_no_rows_and_in_rows_without_them(name: str) -> None:
    catalog = lake()
    type = ODD_TYPES[name]
    catalog.commit("t", pa.table({"x": pa.array([], type), "n": pa.array([], pa.int64())}))
    catalog.table("t").append([{"n": 1}])
    read = catalog.read("t")
    assert read.schema == pa.schema([("x", type), ("n", pa.int64())])
    assert read.column("x").null_count == 1 or name == "run ends"
    assert rows(read) == [{"x": None, "n": 1}]
    declared = catalog.create_table("declared", pa.schema([("x", type)]))
    assert declared.read() == declared.schema.empty_table()
    assert declared.scan().to_reader().read_all().num_rows == 0


def test_nulls_first_and_values_later() -> None:
    catalog = lake()
    catalog.commit("t", [{"a": None, "b": []}])
    catalog.commit("t", [{"a": 1, "b": ["x"]}])
    catalog.commit("t", pa.table({"a": [2]}))
    assert rows(catalog.read("t", ["a"])) == [{"a": None}, {"a": 1}, {"a": 2}]
    with refused(catalog, SchemaMismatch, "'a'"):
        catalog.commit("t", [{"a": "x"}])
    declared = catalog.create_table("declared", pa.schema([("a", pa.null())]))
    with refused(catalog, SchemaMismatch, "'a'", "widen_column"):
        declared.append([{"a": 1}])


@pytest.mark.parametrize("verb", ["append", "overwrite", "stream"])
def test_iterables_take_the_types_of_the_table(verb: str) -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("a", pa.float64())]))
    frames = (pd.DataFrame({"a": values}) for values in ([1, 2], [2.5]))
    if verb == "stream":
        with table.stream() as stream:
            stream.write(frames)
    else:
        getattr(table, verb)(frames)
    assert rows(table.read()) == [{"a": 1.0}, {"a": 2.0}, {"a": 2.5}]


def test_a_dict_in_a_list_or_iterable_is_a_row_and_by_itself_it_is_columns() -> None:
    rows = [{"a": [1, 2]}, {"a": [3]}]
    for data in (rows, tuple(rows), iter(rows), (row for row in rows)):
        catalog = lake()
        catalog.commit("t", data)
        assert catalog.read("t").to_pylist() == rows
    catalog = lake()
    catalog.commit("t", rows[0])
    with catalog.table("t").stream() as stream:
        stream.write({"a": [3]})
        stream.write([{"a": 4}])
    assert catalog.read("t")["a"].to_pylist() == [1, 2, 3, 4]


def test_days_of_numpy_are_dates() -> None:
    day, date = np.datetime64("2026-01-01"), dt.date(2026, 1, 1)
    for data in ([{"v": day}], {"v": [day]}, {"v": [day, None, np.datetime64("NaT", "D")]}):
        catalog = lake()
        catalog.commit("t", data)
        assert catalog.read("t").schema.field("v").type == pa.date32()
        assert catalog.read("t")["v"][0].as_py() == date
        for filter in (
            [("v", ">=", day)],
            [("v", "in", [day])],
            [("v", "=", np.datetime64("2026-01-01T00:00:00"))],
        ):
            assert catalog.read("t", filter=filter).num_rows == 1
        assert catalog.read("t", filter=[("v", "<", day)]).num_rows == 0


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ({"v": [np.datetime64("2026-01-01"), 5]}, "row 1: 5 does not fit"),
        ([{"v": [np.datetime64("2026-01-01")]}], "no value that Arrow has a type for"),
        ([{"v": np.datetime64("2026-01", "M")}], "no value that Arrow has a type for"),
        ({"v": np.array(1)}, "column 'v' is numpy.ndarray, no list or array of values"),
        (np.array(1), "cannot take rows from numpy.ndarray"),
        ([{"v": np.array(5)}], "no value that Arrow has a type for"),
    ],
)
def test_values_of_numpy_that_are_refused(data: Any, part: str) -> None:
    with pytest.raises(UserError, match=re.escape(part)):
        lake().commit("t", data)

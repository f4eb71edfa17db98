"""Ingest: everything users hand us becomes one stream, and everything else is refused by name."""

from __future__ import annotations

import csv
import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from crdtcat.chunks.ingest import check_schema, reader
from crdtcat.errors import InvalidArgument, InvalidName, LimitExceeded, SchemaMismatch, UnsupportedType
from crdtcat.testing.strategies import arrow_tables
from tests.bounds import bounded

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
TABLE = pa.Table.from_pylist(ROWS)


class Stream:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


class Batch:
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        Stream(),
        Batch(),
        ROWS,
        iter(ROWS),
        {"a": [1, 2], "b": ["x", None]},
        {"a": np.array([1, 2]), "b": pl.Series(["x", None])},
        TABLE.to_struct_array(),
        TABLE.to_struct_array().chunk(0),
        TABLE.to_batches(),
        [TABLE.slice(0, 1), TABLE.slice(1)],
        (batch for batch in TABLE.to_batches(max_chunksize=1)),
        pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=[7, 8]),
        pl.DataFrame(ROWS),
        pl.DataFrame(ROWS).lazy(),
    ],
    ids=lambda data: type(data).__name__,
)
def test_accepted_things_give_the_same_rows(data: Any) -> None:
    stream = reader(data)
    assert isinstance(stream, pa.RecordBatchReader)
    assert stream.read_all().to_pylist() == ROWS


def test_duckdb_relations() -> None:
    with duckdb.connect() as connection:
        query = "select 1::bigint as a, 'x' as b union all select 2, null order by a"
        assert reader(connection.sql(query)).read_all().to_pylist() == ROWS


def test_a_reader_is_passed_on_in_bounded_memory() -> None:
    made = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal made
        for i in range(1000):
            made += 1
            yield pa.record_batch({"x": [i]})

    for source in (batches(), pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), batches())):
        made = 0
        stream = reader(source)
        stream.read_next_batch()
        stream.read_next_batch()
        assert made <= 3
        assert stream.read_all().num_rows == 998


@given(arrow_tables())
@settings(max_examples=bounded(100, 2), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_arrow_tables_pass_unchanged(table: pa.Table) -> None:
    assert reader(table).read_all().schema == table.schema


def test_metadata_is_dropped() -> None:
    field = pa.field("x", pa.int64(), metadata={"k": "v"})
    table = pa.table([[1]], schema=pa.schema([field], metadata={"a": "b"}))
    schema = reader(table).schema
    assert not schema.metadata
    assert not schema.field(0).metadata


def test_the_index_of_pandas() -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index([5, 7], name="k"))
    assert reader(frame).read_all().to_pydict() == {"a": [1, 2], "k": [5, 7]}
    assert reader(frame.reset_index(drop=True)).schema.names == ["a"]
    assert reader(frame.rename_axis(None)).schema.names == ["a"]  # numbers of rows, such as a filter leaves
    assert reader(frame.head(0)).read_all().num_rows == 0
    levels = frame.assign(b="x", c=3).set_index(["b"], append=True)
    assert reader(levels).read_all().to_pydict() == {"a": [1, 2], "c": [3, 3], "k": [5, 7], "b": ["x", "x"]}
    with pytest.raises(InvalidName, match="'a' occurs twice"):
        reader(frame.rename_axis("a"))
    with pytest.raises(InvalidArgument, match="to_frame"):
        reader(frame["a"])
    with pytest.raises(InvalidArgument, match="column name 0"):
        reader(pd.DataFrame([[1]]))


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["x", "y"]),
        pd.Index([0.5, 1.5]),
        pd.to_datetime(["2026-01-01", "2026-01-02"]),
        pd.MultiIndex.from_tuples([(1, 2), (1, 3)]),
        pd.MultiIndex.from_tuples([(1, 2), (1, 3)], names=["k", None]),
    ],
)
def test_an_index_without_a_name_that_is_more_than_row_numbers_is_not_lost(index: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"has no name: .rename_axis.*reset_index"):
        reader(pd.DataFrame({"a": [1, 2]}, index=index))
    assert reader(pd.DataFrame({"a": [1, 2]}, index=index).reset_index(drop=True)).schema.names == ["a"]


@pytest.mark.parametrize("gathered", [lambda held: pd.DataFrame({"a": held}), lambda held: {"a": held}])
def test_python_objects_in_pandas_are_taken_exactly_or_refused(gathered: Any) -> None:
    fine = pd.Timestamp("2026-01-01 00:00:00.000000001")
    cases: list[tuple[list[Any], pa.DataType, list[str]]] = [
        ([fine, None], pa.timestamp("ns"), [str(fine), "None"]),  # pyarrow by itself takes microseconds
        ([pd.Timedelta(1), pd.NaT], pa.duration("ns"), [str(pd.Timedelta(1)), "None"]),
        (["x", float("nan"), None, pd.NA], pa.string(), ["x", "None", "None", "None"]),
        ([1, float("nan")], pa.int64(), ["1", "None"]),
        ([[1], np.array([2, 3]), None], pa.list_(pa.int64()), ["[1]", "[2, 3]", "None"]),
    ]
    for values, kind, told in cases:
        table = reader(gathered(pd.Series(values, dtype=object))).read_all()
        assert table.schema.types == [kind]
        assert [str(value) for value in table["a"].to_pylist()] == told
    noon, day = dt.datetime(2026, 1, 1, 12), dt.date(2026, 1, 1)  # noqa: DTZ001 (a moment without a zone)
    for mixed, row in (([day, noon], 1), ([b"x", "y"], 1), ([noon, noon.replace(tzinfo=dt.UTC)], 1)):
        with pytest.raises(SchemaMismatch, match=f"column 'a', row {row}"):
            reader(gathered(pd.Series(mixed, dtype=object)))
    with pytest.raises(InvalidArgument, match="column 'a' of complex128"):
        reader(gathered(pd.Series([1j])))


def test_sparse_columns_of_pandas_are_taken_in_full() -> None:
    counts, shares = pd.arrays.SparseArray([0, 7, 0]), pd.arrays.SparseArray([np.nan, 0.5, np.nan])
    frame = pd.DataFrame({"dense": [1, 2, 3], "count": counts, "share": shares})
    rows = {"dense": [1, 2, 3], "count": [0, 7, 0], "share": [None, 0.5, None]}
    columns = {"dense": [1, 2, 3], "count": counts, "share": frame["share"]}
    for data in (frame, [frame], columns):
        table = reader(data).read_all()
        assert table.to_pydict() == rows
        assert table.schema.types == [pa.int64(), pa.int64(), pa.float64()]
    indexed = pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index(counts, name="count"))
    assert reader(indexed).read_all().to_pydict() == {"a": [1, 2, 3], "count": [0, 7, 0]}


def test_rows_with_missing_keys() -> None:
    table = reader([{"a": 1}, {"b": 2}, {}]).read_all()
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}, {"a": None, "b": None}]


def test_a_schema_decides_types_and_order() -> None:
    schema = pa.schema([("b", pa.int8()), ("a", pa.float32()), ("c", pa.string())])
    for data in ([{"a": 1, "b": 2}], {"a": [1], "b": [2]}, {"a": pa.array([1]), "b": np.array([2])}):
        table = reader(data, schema).read_all()
        assert table.schema == schema
        assert table.to_pylist() == [{"b": 2, "a": 1.0, "c": None}]
    assert reader([], schema).schema == schema
    assert reader([{}, {}], schema).read_all().num_rows == 2
    with pytest.raises(SchemaMismatch, match="'z' is not in the schema"):
        reader([{"z": 1}], schema)
    with pytest.raises(SchemaMismatch, match="not null"):
        reader([{}], pa.schema([pa.field("x", pa.int8(), nullable=False)]))


def test_mixed_rows_are_refused_by_column_and_row() -> None:
    rows: list[dict[str, Any]] = [{"a": 1, "b": i} for i in range(100)]
    rows[63]["b"] = "oops"
    with pytest.raises(SchemaMismatch, match="column 'b', row 63: 'oops'"):
        reader(rows)
    with pytest.raises(SchemaMismatch, match="column 'b' holds int8, and row 2 has 300"):
        reader([{"b": 1}, {"b": None}, {"b": 300}, {"b": 301}], pa.schema([("b", pa.int8())]))
    with pytest.raises(SchemaMismatch, match="row 0"):
        reader([{"b": 2**70}])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (5, "int"),
        (None, "NoneType"),
        ("rows", "str"),
        (b"rows", "bytes"),
        (object(), "object"),
        ([1, 2], "list of int"),
        ([{"a": 1}, 5], "row 1 is int"),
        ([{1: 2}], "column name 1"),
        ([], "empty list"),
        ([None], "list of NoneType"),
        ([{}], "no columns"),
        ({}, "no columns"),
        (pa.table({}), "no columns"),
        ({"a": "text"}, "column 'a' is str"),
        ({"a": 5}, "column 'a' is int"),
        ({"a": [1], "b": [1, 2]}, "different lengths"),
        (pa.array([1]), "int64"),
        (pa.array([{"a": 1}, None]), "null rows"),
        (np.zeros((2, 2)), "numpy.ndarray"),
        (pl.Series("a", [1]), "polars.*to_frame"),
    ],
)
def test_other_things_are_refused_by_name(data: Any, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        reader(data)


@pytest.mark.parametrize("frame", [pl.DataFrame, pl.LazyFrame])
def test_objects_in_polars_are_refused_by_column(frame: Any) -> None:
    """Its Arrow data would be their addresses in memory."""
    with pytest.raises(UnsupportedType, match="'odd'"):
        reader(frame({"a": [1], "odd": [object()]}))


def test_polars_types_that_arrow_does_not_have_are_told_by_type_not_by_what_names_say() -> None:
    named = pl.Series(["Object"], dtype=pl.Enum(["Object", "Int128"]))
    assert reader(pl.DataFrame({"a": named, "s": [{"Object": 1}]})).read_all().to_pylist() == [
        {"a": "Object", "s": {"Object": 1}}
    ]
    for kind, value in ((pl.Int128, 1), (pl.List(pl.Int128), [1]), (pl.Struct({"x": pl.Int128}), {"x": 1})):
        with pytest.raises(UnsupportedType, match=r"column 'wide' holds integers of 128 bits .*: cast it"):
            reader(pl.DataFrame({"wide": pl.Series([value], dtype=kind)}))


def test_batches_must_agree() -> None:
    good, other = pa.record_batch({"x": [1]}), pa.record_batch({"x": ["a"]})
    with pytest.raises(SchemaMismatch, match="item 1: column 'x'"):
        reader([good, other]).read_all()
    with pytest.raises(InvalidArgument, match="item 1 is int"):
        reader([good, 5]).read_all()


def test_iterables_of_anything_that_holds_rows(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,x\n2,\n")
    for items in (
        pd.read_csv(tmp_path / "x.csv", chunksize=1, dtype={"b": "str"}),
        (pl.DataFrame(ROWS[i : i + 1], schema={"a": pl.Int64, "b": pl.String}) for i in (0, 1)),
        ([row] for row in ROWS),
        [TABLE.slice(0, 1), TABLE.select(["b", "a"]).slice(1)],
    ):
        assert reader(items).read_all().to_pylist() == ROWS
    with pytest.raises(SchemaMismatch, match="item 1 has the columns"):
        reader([TABLE, TABLE.select(["a"])]).read_all()
    with pytest.raises(InvalidArgument, match="generator of int"):
        reader(number for number in (1, 2))


def test_what_pandas_and_csv_let_through() -> None:
    with pytest.raises(InvalidName, match="twice"):
        reader(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InvalidArgument, match="more fields than the header"):
        reader(list(csv.DictReader(["a", "1,2"])))


def test_names_and_types_are_checked_before_any_row() -> None:
    def never() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": [1 // 0]})

    for field, error in (
        (pa.field("", pa.int8()), InvalidName),
        (pa.field("a\n", pa.int8()), InvalidName),
        (pa.field("s", pa.struct([("x", pa.int8()), ("x", pa.int8())])), InvalidName),
        (pa.field("s", pa.list_(pa.struct([(" x", pa.int8())]))), InvalidName),
        (pa.field("d", pa.dictionary(pa.int8(), pa.struct([(" x", pa.int8())]))), InvalidName),
        (pa.field("u", pa.dense_union([pa.field("x", pa.int8())])), UnsupportedType),
    ):
        with pytest.raises(error):
            reader(pa.RecordBatchReader.from_batches(pa.schema([field]), never()))
    with pytest.raises(InvalidName, match="twice"):
        reader(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(LimitExceeded):
        check_schema(pa.schema([(f"c{i}", pa.int8()) for i in range(10_001)]))


def test_no_library_is_imported_for_the_caller() -> None:
    program = (
        "import sys; from crdtcat.chunks.ingest import reader; reader([{'a': 1}]).read_all();"
        "sys.exit(any(name in sys.modules for name in ('polars', 'duckdb')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

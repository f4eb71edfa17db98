"""Wrong input on purpose: each gets a typed error that names what is wrong, and nothing is written."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import limits
from crdtcat.errors import (
    InvalidArgument,
    InvalidFilter,
    InvalidName,
    LimitExceeded,
    SchemaMismatch,
    UnsupportedType,
    UserError,
)
from tests.catalog.lakes import lake, refused, rows

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("at", pa.timestamp("ms", "UTC")),
    ]
)

WRONG: list[tuple[str, Any, type[UserError], tuple[str, ...]]] = [
    ("unknown column", {"id": [1], "nope": [1]}, SchemaMismatch, ("'nope'", "append with evolve=True")),
    ("unknown key in dicts", [{"id": 1, "nope": 1}], SchemaMismatch, ("'nope'",)),
    ("wrong type", pa.table({"id": ["x"]}), SchemaMismatch, ("'id'", "int32", "string")),
    ("wrong value in dicts", [{"id": "x"}], SchemaMismatch, ("'id'", "'x'")),
    (
        "number for a text",
        pa.table({"id": pa.array([1], pa.int32()), "name": [5]}),
        SchemaMismatch,
        ("'name'",),
    ),
    ("too large", pa.table({"id": [2**40]}), SchemaMismatch, ("id", str(2**40), "int32")),
    ("a fraction", pa.table({"id": [1.5]}), SchemaMismatch, ("id", "1.5")),
    ("a fraction in dicts", [{"id": 1}, {"id": 1.5}], SchemaMismatch, ("'id'", "row 1", "1.5", "int32")),
    ("a fraction in a dict", {"id": [1.5]}, SchemaMismatch, ("'id'", "row 0", "1.5")),
    (
        "naive",
        [{"id": 1, "at": dt.datetime.fromisoformat("2024-05-01")}],
        SchemaMismatch,
        ("'at'", "add a timezone"),
    ),
    ("null", pa.table({"id": pa.array([1, None], pa.int32())}), SchemaMismatch, ("'id'", "null")),
    ("null in dicts", [{"id": None}], SchemaMismatch, ("'id'", "null")),
    ("missing column", pa.table({"name": ["x"]}), SchemaMismatch, ("'id'", "null")),
    ("no zone", {"id": [1], "at": pa.array([0], pa.timestamp("us"))}, SchemaMismatch, ("at", "timestamp")),
    ("other case", {"ID": [1]}, SchemaMismatch, ("'ID'", "'id'")),
    ("no columns", pa.table({}), InvalidArgument, ("no columns",)),
    ("no rows to speak of", [{}], InvalidArgument, ("no columns",)),
    ("uneven columns", {"id": [1, 2], "name": ["x"]}, InvalidArgument, ("lengths",)),
    ("not rows", 42, InvalidArgument, ("int",)),
    ("text", "a,b\n1,2", InvalidArgument, ("str",)),
    ("a path", Path("x.parquet"), InvalidArgument, ("import_parquet() takes files",)),
    ("one row", {"id": 1, "name": "x"}, InvalidArgument, ("'id'", "for one row give [row]")),
    ("half rows", [{"id": 1}, 5], InvalidArgument, ("row 1",)),
    ("two of a name", pa.Table.from_arrays([[1], [2]], names=["id", "id"]), InvalidName, ("'id'", "twice")),
    ("alike", pa.table({"ﬁ": [1], "fi": [1]}), InvalidName, ("look alike",)),
    ("control character", {"id": [1], "na\tme": [1]}, InvalidName, ("control",)),
    ("long name", {"id": [1], "x" * 300: [1]}, LimitExceeded, ("255",)),
]


@pytest.mark.parametrize("verb", ["append", "overwrite", "stream"])
@pytest.mark.parametrize(("data", "kind", "parts"), [case[1:] for case in WRONG], ids=[c[0] for c in WRONG])
def test_wrong_rows(data: Any, kind: type[UserError], parts: tuple[str, ...], verb: str) -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    table.append([{"id": 1, "name": "kept", "at": None}])
    with refused(catalog, kind, *parts):
        if verb == "stream":
            with table.stream() as stream:
                stream.write(data)
        else:
            getattr(table, verb)(data)
    assert rows(table.read(["id", "name"])) == [{"id": 1, "name": "kept"}]
    table.append([{"id": 2}])  # the handle is none the worse
    assert table.scan().count() == 2


def test_types_no_parquet_file_holds_are_refused_by_name() -> None:
    catalog = lake()
    union = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    for data in (pa.table({"u": union}), pa.table({"u": pa.array([[1]]), "v": union})):
        with refused(catalog, UnsupportedType, "union"):
            catalog.commit("t", data)


def test_nesting_has_a_limit() -> None:
    catalog = lake()
    type = pa.int64()
    for _ in range(limits.NESTING_DEPTH_MAX + 1):
        type = pa.list_(type)
    with refused(catalog, UserError, "deep"):
        catalog.commit("t", pa.table({"x": pa.array([], type)}))


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("options", "kind", "part"),
    [
        ({"key": ""}, InvalidArgument, "empty"),
        ({"key": 5}, InvalidArgument, "key=5"),
        ({"key": "\ud800"}, InvalidArgument, "Unicode"),
        ({"key": "k" * 256}, LimitExceeded, "255"),
        ({"metadata": "text"}, InvalidArgument, "dict"),
        ({"metadata": {1: 2}}, InvalidArgument, "dict from text"),
        ({"metadata": {"x": object()}}, InvalidArgument, "object"),
        ({"metadata": {"x": {"y": {1, 2}}}}, InvalidArgument, "set"),
        ({"metadata": {"x": 2**64}}, InvalidArgument, "range"),
        ({"metadata": {"x": "y" * 70_000}}, LimitExceeded, "65,536"),
        ({"metadata": {"x": nested(64)}}, InvalidArgument, "deeper than 64 levels"),
    ],
)
@pytest.mark.parametrize("verb", ["append", "overwrite", "stream"])
def test_wrong_metadata_and_keys(options: Any, kind: type[UserError], part: str, verb: str) -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    with refused(catalog, kind, part):
        if verb == "stream":
            table.stream(**options)
        else:
            getattr(table, verb)([{"id": 1}], **options)


def test_metadata_too_deep_to_store() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(5000):
        inner["x"] = {}
        inner = inner["x"]
    catalog = lake()
    with refused(catalog, InvalidArgument, "metadata"):
        catalog.commit("t", [{"a": 1}], metadata=deep)


def test_names_that_differ_by_case_are_two_columns() -> None:
    catalog = lake()
    catalog.commit("t", {"a": [1], "A": [2]})
    assert rows(catalog.read("t", ["A"])) == [{"A": 2}]
    assert catalog.table("t").scan(filter="A = 2").count() == 1
    assert catalog.table("t").scan(filter="A = 1").count() == 0


def test_odd_names_work_everywhere() -> None:
    catalog = lake(inline_bytes=0)
    names = ["a.b", "With Space", "Größe", "select", 'quo"te', "日本", "a" * 255]
    catalog.commit("t", {name: [n, n + 1] for n, name in enumerate(names)})
    for n, name in enumerate(names):
        assert rows(catalog.read("t", [name], [(name, "==", n)])) == [{name: n}]


def test_too_many_partitions_in_one_commit() -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("p", pa.int64())]), partition_by=["p"])
    count = limits.PARTITION_VALUES_PER_COMMIT_MAX + 1
    with refused(catalog, LimitExceeded, "partition"):
        table.append(pa.table({"p": range(count)}))


def test_partition_values_have_a_size() -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("p", pa.string())]), partition_by=["p"])
    with refused(catalog, LimitExceeded, "truncate"):
        table.append({"p": ["x" * 2000]})


def test_rows_without_the_partition_column() -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("p", pa.string()), ("v", pa.int64())]), partition_by=["p"])
    with refused(catalog, SchemaMismatch, "'p'", "partitioned", "'t'"):
        table.append({"v": [1]})


@pytest.mark.parametrize(
    ("columns", "part"),
    [("a", "list"), ([], "at least one"), (["nope"], "'nope'"), (["a", "a"], "twice"), ([5], "5")],
)
def test_wrong_columns_in_a_scan(columns: Any, part: str) -> None:
    catalog = lake()
    catalog.commit("t", {"a": [1]})
    with refused(catalog, InvalidArgument, part):
        catalog.read("t", columns)


@pytest.mark.parametrize(
    "filter",
    ["nope = 1", "a = ", "drop table t", "", 5, [("a", "~", 1)], [("nope", "=", 1)], "a = 'x'", object()],
)
def test_wrong_filters(filter: Any) -> None:
    catalog = lake()
    catalog.commit("t", {"a": [1]})
    with refused(catalog, UserError):
        catalog.read("t", filter=filter)


HALF = "\ud800"


@pytest.mark.parametrize("data", [[{HALF: 1}], {HALF: [1]}, [{"id": 1, HALF: 2}], [{"..": 1}], {".": [1]}])
@pytest.mark.parametrize("declared", [False, True])
def test_names_that_no_column_may_have(data: Any, declared: bool) -> None:
    catalog = lake()
    if declared:
        catalog.create_table("t", SCHEMA)
    with refused(catalog, UserError):
        catalog.commit("t", data)
    table = catalog.create_table("t", SCHEMA, exist_ok=True)
    for verb in (table.append, table.overwrite, table.write):
        with refused(catalog, UserError):
            verb(data)
    with refused(catalog, UserError):
        table.append(data, evolve=True)


@pytest.mark.parametrize(
    ("partition_by", "kind"),
    [
        ([HALF], InvalidName),
        (["x" * 300], LimitExceeded),
        (["bucket(2, \u200b)"], InvalidName),
        (["day(..)"], InvalidName),
        (['"a "'], InvalidName),
    ],
)
def test_partition_columns_have_names_that_columns_may_have(
    partition_by: list[str], kind: type[UserError]
) -> None:
    catalog = lake()
    with refused(catalog, kind, "column name"):
        catalog.create_table("t", partition_by=partition_by)
    with refused(catalog, UserError):
        catalog.create_table("t", SCHEMA, key=partition_by)


def test_queries_and_filters_that_are_not_unicode() -> None:
    catalog = lake()
    catalog.commit("t", [{"name": "x"}])
    for filter in (
        f"name = '{HALF}'",
        f"name like '{HALF}%'",
        [("name", "=", HALF)],
        [("name", "in", [HALF])],
    ):
        with refused(catalog, InvalidFilter, "Unicode"):
            catalog.read("t", filter=filter)
    for query in (f"select '{HALF}'", f'select * from "{HALF}"'):
        with refused(catalog, InvalidArgument, "Unicode"):
            catalog.sql(query)

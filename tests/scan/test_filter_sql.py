"""SQL filters give the rows DuckDB gives."""

from __future__ import annotations

import contextlib
import pickle

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.errors import InvalidFilter, LimitExceeded
from crdtcat.limits import CONDITIONS_MAX
from crdtcat.scan.filters import parse_filter
from tests.bounds import bounded
from tests.scan.filter_tables import CONDITIONS, EXTRAS, POOLS, SCHEMA, tables

_CONNECTION = duckdb.connect()
_CONNECTION.execute("set threads = 1")


def load(table: pa.Table) -> None:
    # A copy in DuckDB's own storage: its scan of Arrow data would hand the filter back to Arrow.
    _CONNECTION.register("arrow_rows", table)
    _CONNECTION.execute("create or replace temp table rows_copy as select * from arrow_rows")
    _CONNECTION.unregister("arrow_rows")


def by_duckdb(condition: str) -> list[int]:
    found = _CONNECTION.execute(f"select row from rows_copy where {condition} order by row")
    return [row for (row,) in found.fetchall()]


def ours(condition: str, table: pa.Table) -> list[int]:
    row_filter = parse_filter(condition, table.schema)
    found: list[int] = (
        table.select(["row", *row_filter.columns]).filter(row_filter.expression)["row"].to_pylist()
    )
    return found


def agrees_with_duckdb(condition: str) -> None:
    """A condition, its negation and more than it, on rows with every value beside every other, and nulls."""
    columns = {
        name: [[None, *pool][(row * step + row // 3) % (len(pool) + 1)] for row in range(60)]
        for step, (name, pool) in enumerate(POOLS.items(), start=1)
    }
    table = pa.table({"row": list(range(60)), **columns}, schema=SCHEMA)
    load(table)
    for text in (condition, f"not ({condition})", f"({condition}) or tiny = 3"):
        assert ours(text, table) == by_duckdb(text), text


@given(table=tables(), conditions=st.lists(CONDITIONS, min_size=1, max_size=8))
@settings(max_examples=bounded(80, 2), deadline=None)
def test_rows_are_those_duckdb_gives(table: pa.Table, conditions: list[str]) -> None:
    load(table)
    for condition in conditions:
        assert ours(condition, table) == by_duckdb(condition), condition


@pytest.mark.parametrize("condition", EXTRAS)
def test_every_listed_form_agrees_with_duckdb(condition: str) -> None:
    agrees_with_duckdb(condition)


def test_the_example_of_the_documentation() -> None:
    schema = pa.schema(
        [
            ("amount", pa.int64()),
            ("country", pa.string()),
            ("ts", pa.timestamp("us", "UTC")),
            ("x", pa.int8()),
        ]
    )
    text = "amount > 10 and country in ('DE','FR') and ts >= timestamp '2026-01-01' and not (x is null)"
    row_filter = parse_filter(text, schema)
    assert row_filter.columns == ("amount", "country", "ts", "x")
    assert str(row_filter) == (
        "amount > 10 and country in ('DE', 'FR') and ts >= '2026-01-01 00:00:00.000000Z' and x is not null"
    )
    again = pickle.loads(pickle.dumps(row_filter))
    assert again == row_filter
    assert again.expression.equals(row_filter.expression)


ALL_TYPES = pa.table(
    {
        "dictionary": pa.array(["a", "b", None]).dictionary_encode(),
        "large": pa.array(["a", "b", None], pa.large_string()),
        "half": pa.array([1.0, 2.0, None], pa.float16()),
        "narrow": pa.array([1, 2, None], pa.decimal32(5, 2)),
        "binary": pa.array([b"\x00\xff", b"b", None]),
        "fixed": pa.array([b"aa", b"bb", None], pa.binary(2)),
        "zoned": pa.array([0, 10**6, None], pa.timestamp("us", "Europe/Berlin")),
        "clock": pa.array([0, 3600, None], pa.time32("s")),
        "date64": pa.array([0, 86_400_000, None], pa.date64()),
        "deep": pa.array([{"a": {"b": 1}}, {"a": {"b": 2}}, None]),
        'quo"ted': pa.array([1, 2, None]),
        "naïve ☃": pa.array([1, 2, None]),
        "select": pa.array([1, 2, None]),
    }
)


@pytest.mark.parametrize(
    "condition",
    [
        "dictionary = 'a'",
        "dictionary in ('a', 'x')",
        "dictionary like 'a%'",
        "large = 'a'",
        "half <= 1.5",
        "half in (1)",
        "narrow = 1",
        "narrow in (1.00)",
        r"binary = '\x00\xFF'::blob",
        "fixed < 'b'::blob",
        "fixed <= 'aaa'::blob",
        "zoned = '1970-01-01'",
        "zoned < timestamptz '1970-01-01 02:00:01+02:00'",
        "zoned <= timestamp '1970-01-01 00:00:00.5'",
        "clock < '00:30'",
        "clock < time '00:30:00.5'",
        "date64 = date '1970-01-01'",
        "deep.a.b = 1",
        "deep['a']['b'] = 1",
        '"quo""ted" = 1',
        '"naïve ☃" = 1',
        '"select" = 1',
    ],
)
def test_every_layout_and_name_can_be_filtered(condition: str) -> None:
    row_filter = parse_filter(condition, ALL_TYPES.schema)
    rows = ALL_TYPES.append_column("row", pa.array([0, 1, 2]))
    assert rows.filter(row_filter.expression)["row"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("tiny < 1000", [0, 2]), ("tiny > 1000", []), ("tiny != 1000", [0, 2]), ("tiny > -1000", [0, 2])],
)
def test_a_literal_beyond_the_type_compares_as_a_number(condition: str, expected: list[int]) -> None:
    table = pa.table({"row": [0, 1, 2], "tiny": pa.array([1, None, 127], pa.int8())})
    assert ours(condition, table) == expected
    assert ours(f"not ({condition})", table) == ([] if expected else [0, 2])


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("amout > 1", "no column 'amout' at character 1; did you mean 'amount'"),
        ("name = 'x' and amuont = 1", "at character 16; did you mean 'amount'"),
        ("AMOUNT > 1", "did you mean 'amount'"),
        ("nested.b = 1", "no column 'b'"),
        ("amount.b = 1", "not a struct"),
        ("amount >", "line 1, column 8"),
        ("amount > 1 group by amount", "'group by', line 1"),
        ("amount > 1; drop table x", "'drop'"),
        ("name = 'x", "not valid SQL"),
        ("", "not valid SQL"),
        ("amount > 'x'", "is int64 and cannot be compared with 'x'"),
        ("amount = true", "cannot be compared with True"),
        ("name > 3", "is string and cannot be compared with 3"),
        ("day > 'soon'", "'soon' is not a date"),
        ("day > '2026-02-30'", "is date32"),
        ("moment > timestamptz '2026-01-01 00:00:00Z'", "without a time zone"),
        ("amount", "is not a condition"),
        ("nested = 1", "cannot be compared"),
        ("amount in (select 1)", "not supported"),
        ("amount > ?", "not supported"),
        ("moment < now()", "not supported"),
        ("amount % amount = 0", "not supported"),
        ("cast(name as int) = 1", "not supported"),
        ("amount like 'a%'", "LIKE needs a string"),
        ("name like 'a!' escape '!'", "ends in its escape character"),
        ("(" * 5000 + "amount > 1" + ")" * 5000, "nested too deeply"),
    ],
)
def test_bad_filters_say_what_is_wrong(condition: str, message: str) -> None:
    schema = pa.schema(
        [
            ("amount", pa.int64()),
            ("name", pa.string()),
            ("day", pa.date32()),
            ("moment", pa.timestamp("us")),
            ("nested", pa.struct([("a", pa.int64())])),
        ]
    )
    with pytest.raises(InvalidFilter) as raised:
        parse_filter(condition, schema)
    assert message in str(raised.value)


def test_many_conditions_work_and_too_many_are_refused() -> None:
    table = pa.table({"row": [0, 1], "big": [5, -5]})
    assert ours(" or ".join(f"big = {value}" for value in range(CONDITIONS_MAX)), table) == [0]
    assert ours(f"big in ({', '.join(map(str, range(10_000)))})", table) == [0]
    with pytest.raises(LimitExceeded, match="more than 1,000; put values"):
        parse_filter(" or ".join(f"big = {value}" for value in range(CONDITIONS_MAX + 1)), table.schema)


@pytest.mark.parametrize("text", ["@", "big = @", "- @", "{ : }", "{ : } = big"])
def test_what_the_parser_lets_through_or_fails_on(text: str) -> None:
    with pytest.raises(InvalidFilter, match="incomplete"):
        parse_filter(text, SCHEMA)


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_text_is_a_filter_or_a_typed_error(text: str) -> None:
    with contextlib.suppress(InvalidFilter):
        parse_filter(text, SCHEMA)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_both_zeros_are_in_a_list_with_one(kind: pa.DataType) -> None:
    rows = pa.table({"s": pa.array([-0.0, 0.0, 1.0, None], kind)})
    for text, count in (("s in (0)", 2), ("s in (-0.0, 1)", 3), ("s not in (0)", 1)):
        assert rows.filter(parse_filter(text, rows.schema).expression).num_rows == count, text

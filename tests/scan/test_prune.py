"""Pruning never loses a row, never claims too much, and works where it obviously should."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.chunks.statistics import domain
from crdtcat.scan.filters import ColumnBounds, Pruned, parse_filter, prune
from tests.bounds import bounded
from tests.scan.filter_tables import CONDITIONS, SCHEMA, tables
from tests.scan.test_filter_arrow import EXPRESSIONS
from tests.scan.test_filter_dnf import FILTERS


def domain_value(scalar: Any) -> Any:
    if domain(scalar.type) == "bytes":
        value = scalar.as_py()
        return value.encode() if isinstance(value, str) else value
    if domain(scalar.type) == "int":
        return int(scalar.as_py()) if not pa.types.is_temporal(scalar.type) else scalar.value
    return scalar.as_py()


def outward(value: Any, *, up: bool) -> Any:
    """The plainest outer bound: a float on the right side, 64 bytes on the right side."""
    if isinstance(value, bytes):
        if len(value) <= 64:
            return value
        return value[:63] + bytes((value[63] + 1,)) if up else value[:64]
    if isinstance(value, Decimal | int):
        near = float(value)
        wrong = near < value if up else near > value
        return math.nextafter(near, math.inf if up else -math.inf) if wrong else near
    return value


class TrueStatistics:
    """Statistics computed the slow way from the rows of each entry; `hide` drops some of them."""

    def __init__(self, chunks: Sequence[pa.Table], hide: Sequence[int] = ()) -> None:
        self._chunks, self._hide = chunks, hide
        self.asked: list[str] = []

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        return np.array([chunk.num_rows for chunk in self._chunks], np.int64)

    def bounds(self, column: str) -> ColumnBounds | None:
        self.asked.append(column)
        where = domain(SCHEMA.field(column).type)
        sides: dict[bool, list[Any]] = {False: [], True: []}
        known: dict[bool, list[bool]] = {False: [], True: []}
        nulls = []
        for number, chunk in enumerate(self._chunks):
            hidden = self._hide[number] if number < len(self._hide) else 0
            values = (
                [domain_value(value) for value in chunk[column].combine_chunks() if value.is_valid]
                if where
                else []
            )
            numbers = not any(isinstance(value, float) and math.isnan(value) for value in values)
            for up in (False, True):
                there = bool(values) and numbers and not hidden & (1 << up)
                best = (max if up else min)(values) if there else None
                known[up].append(there)
                rounded = best if where == "int" or best is None else outward(best, up=up)
                sides[up].append(rounded)
            nulls.append(-1 if hidden & 4 else chunk[column].null_count)
        lows, highs = (_array(sides[up], where) for up in (False, True))
        return ColumnBounds(
            lows, highs, np.array(known[False], bool), np.array(known[True], bool), np.array(nulls)
        )


def _array(values: list[Any], where: str | None) -> Any:
    if where == "bytes":
        return pa.array(values, pa.large_binary())
    return np.array(
        [0 if value is None else value for value in values], np.int64 if where == "int" else np.float64
    )


def cut(table: pa.Table, sizes: Sequence[int]) -> list[pa.Table]:
    chunks, start = [], 0
    for size in sizes:
        chunks.append(table.slice(start, size))
        start += size
    return [*chunks, table.slice(start)]


ANY_FILTER: st.SearchStrategy[Any] = st.one_of(CONDITIONS, FILTERS, EXPRESSIONS)


@given(
    table=tables(rows=16),
    sizes=st.lists(st.integers(0, 4), max_size=5),
    hide=st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 7]), max_size=6),
    filters=st.lists(ANY_FILTER, min_size=1, max_size=10),
)
@settings(max_examples=bounded(100, 2), deadline=None)
def test_pruning_never_loses_a_row_and_never_claims_too_much(
    table: pa.Table, sizes: list[int], hide: list[int], filters: list[Any]
) -> None:
    chunks = cut(table, sizes)
    source = TrueStatistics(chunks, hide)
    for one in filters:
        row_filter = parse_filter(one, SCHEMA)
        pruned = prune(row_filter.predicate, source, SCHEMA)
        for chunk, may, every in zip(chunks, pruned.may_match, pruned.all_match, strict=True):
            matching = chunk.filter(row_filter.expression).num_rows
            assert may or matching == 0, (str(row_filter), chunk.to_pylist())
            assert not every or matching == chunk.num_rows, (str(row_filter), chunk.to_pylist())


@given(table=tables(rows=16), one=ANY_FILTER, column=st.sampled_from(SCHEMA.names))
@settings(max_examples=bounded(150, 2), deadline=None)
def test_matching_rows_have_the_values_that_equalities_names(table: pa.Table, one: Any, column: str) -> None:
    row_filter = parse_filter(one, SCHEMA)
    values = row_filter.predicate.equalities(column)
    if values is not None:
        found = table.filter(row_filter.expression)[column]
        assert {value.as_py() for value in found} <= {value.as_py() for value in values}


def entries(kind: pa.DataType, *chunks: list[Any]) -> tuple[pa.Schema, Any]:
    schema = pa.schema([("x", kind)])
    tables_of = [pa.table({"x": pa.array(values, kind)}) for values in chunks]

    class Source(TrueStatistics):
        def bounds(self, column: str) -> ColumnBounds | None:
            where = domain(kind)
            values = [[domain_value(v) for v in t["x"].combine_chunks() if v.is_valid] for t in tables_of]
            lows = [
                outward(min(v), up=False) if v and where != "int" else min(v, default=None) for v in values
            ]
            highs = [
                outward(max(v), up=True) if v and where != "int" else max(v, default=None) for v in values
            ]
            known = np.array([bool(v) for v in values], np.bool_)
            nulls = np.array([t["x"].null_count for t in tables_of], np.int64)
            return ColumnBounds(_array(lows, where), _array(highs, where), known, known, nulls)

    return schema, Source(tables_of)


def bits(pruned: Pruned) -> str:
    """Per entry: `-` pruned, `?` to be filtered, `+` all match."""
    return "".join(
        "+" if a else "?" if m else "-" for m, a in zip(pruned.may_match, pruned.all_match, strict=True)
    )


DAY = dt.date(2026, 1, 1)
E = pc.field("x")


@pytest.mark.parametrize(
    ("kind", "chunks", "filters", "expected"),
    [
        (pa.int64(), [[1, 2], [3, 9], [10, 12]], "x > 3", "-?+"),
        (pa.int64(), [[1, 2], [3, 9], [10, 12]], "x >= 3", "-++"),
        (pa.int64(), [[1, 2], [3, 9], [10, 12]], "not (x >= 3)", "+--"),
        (pa.int64(), [[1, 2], [3, 9], [10, 12]], "x between 2 and 9", "?+-"),
        (pa.int64(), [[1, 2], [3, 9], [10, 12]], "x = 5 or x > 9", "-?+"),
        (pa.int64(), [[1, 2], [3, 9], [10, 12]], "x in (0, 11, 40)", "--?"),
        (pa.int64(), [[1, 2], [5, 5], [10, 12]], "x in (5, 6)", "-+-"),
        (pa.int64(), [[1, 2], [5, 5], [10, 12]], "x not in (5, 6)", "+-+"),
        (pa.int64(), [[1, 2], [5, 5], [6, 6]], "x not in (5, null)", "---"),
        (pa.int64(), [[1, None], [None, None], [1, 1]], "x = 1", "?-+"),
        (pa.int64(), [[1, None], [None, None], [1, 1]], "x is null", "?+-"),
        (pa.int64(), [[1, None], [None, None], [1, 1]], "x is not null", "?-+"),
        (pa.int64(), [[1, None], [None, None], [1, 1]], [("x", "not in", [1])], "?+-"),
        (pa.int8(), [[1, 2], [None, None]], "x < 1000", "+-"),
        (pa.int8(), [[1, 2], [None, None]], "x > 1000", "--"),
        (pa.int64(), [[1, 2], [3, 4]], E > 2, "-+"),
        (pa.int64(), [[1, 2], [3, 4]], (E > 2) | (E + 1 > 7), "?+"),
        (pa.int64(), [[1, 2], [3, 4]], (E > 2) & (E + 1 > 7), "-?"),
        (pa.int64(), [[1, 2], [3, 4]], E.isin([3, 9]), "-?"),
        (pa.string(), [["abc", "abd"], ["b", "c"], ["aa", "z"]], "x like 'ab%'", "+-?"),
        (pa.string(), [["abc", "abd"], ["b", "c"], ["aa", "z"]], "x like 'ab%d'", "?-?"),
        (pa.string(), [["abc", "abd"], ["b", "c"], ["aa", "z"]], "x not like 'ab%'", "-+?"),
        (pa.string(), [["é", "é"], ["ü", "ü"]], "x = 'é'", "+-"),
        (pa.string(), [["z" * 70] * 2, ["z" * 80] * 2], "x = '" + "z" * 70 + "'", "??"),
        (pa.string(), [["a", "b"], ["c", "d"]], "x in ('b', 'bb')", "?-"),
        (pa.bool_(), [[True, True], [False, False], [True, False]], "x", "+-?"),
        (pa.date32(), [[DAY], [dt.date(2026, 2, 1)]], "x < '2026-01-15'", "+-"),
        (pa.timestamp("s"), [[0, 1], [2, 3]], "x > timestamp '1970-01-01 00:00:01.5'", "-+"),
        (pa.timestamp("ns", "UTC"), [[0, 1], [2, 3]], "x >= '1970-01-01 00:00:00.000000002Z'", "-+"),
        (pa.float64(), [[0.0, 1.0], [2.0, 3.0]], "x > 1.5", "-+"),
        (pa.decimal128(20, 2), [[Decimal("0.10")] * 2, [Decimal("0.11")] * 2], "x = 0.1", "?-"),
        (pa.decimal128(20, 2), [[Decimal("0.10")] * 2, [Decimal("0.50")] * 2], "x = 0.5", "-+"),
        (pa.uint64(), [[2**63 + 1] * 2, [5]], "x > 9223372036854775808", "?-"),
        (pa.uint64(), [[2**63 + 1] * 2, [5]], "x < 10", "-+"),
    ],
)
def test_obvious_cases(kind: pa.DataType, chunks: list[list[Any]], filters: Any, expected: str) -> None:
    schema, source = entries(kind, *chunks)
    assert bits(prune(parse_filter(filters, schema).predicate, source, schema)) == expected


def test_nan_keeps_everything() -> None:
    nan = ColumnBounds(np.zeros(1), np.zeros(1), np.array([False]), np.array([False]), np.array([0]))
    assert _with(nan, pa.float64(), "x > 1") == "?"
    assert _with(nan._replace(known_max=np.array([True])), pa.float64(), "x > 1") == "?"
    both = nan._replace(known_min=np.array([True]), known_max=np.array([True]))
    assert _with(both, pa.float64(), "x > 1") == "-"
    assert _with(both._replace(minimum=np.array([math.nan])), pa.float64(), "x > 1") == "?"


def test_bounds_of_another_domain_say_nothing() -> None:
    yes = np.array([True])
    integers = ColumnBounds(np.zeros(1, np.int64), np.zeros(1, np.int64), yes, yes, np.array([0]))
    assert _with(integers, pa.int64(), "x > 1") == "-"
    assert _with(integers, pa.float64(), "x > 1") == "?"
    assert _with(integers, pa.string(), "x > 'a'") == "?"
    assert _with(None, pa.int64(), "x > 1") == "?"


def _with(bounds: ColumnBounds | None, kind: pa.DataType, text: str) -> str:
    class Source:
        rows = np.array([2])

        def bounds(self, column: str) -> ColumnBounds | None:
            return bounds

    schema = pa.schema([("x", kind)])
    return bits(prune(parse_filter(text, schema).predicate, Source(), schema))


def test_a_predicate_bound_to_another_type_prunes_nothing() -> None:
    schema, source = entries(pa.int64(), [1], [5])
    predicate = parse_filter("x > 3", pa.schema([("x", pa.int32())])).predicate
    assert bits(prune(predicate, source, schema)) == "??"


def test_no_entries() -> None:
    schema, source = entries(pa.int64())
    assert bits(prune(parse_filter("x > 3 and x in (4)", schema).predicate, source, schema)) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tiny = 1", {1}),
        ("tiny in (1, 2) and tiny in (2, 3)", {2}),
        ("tiny = 1 or tiny = 2", {1, 2}),
        ("tiny = 1 or big = 2", None),
        ("tiny = 1 and big > 2", {1}),
        ("not (tiny != 1)", {1}),
        ("tiny is null", {None}),
        ("tiny > 1", None),
        ("tiny = 1000", set()),
        ("nested.a = 1", None),
        ("false", set()),
    ],
)
def test_equalities(text: str, expected: set[Any] | None) -> None:
    found = parse_filter(text, SCHEMA).predicate.equalities("tiny")
    assert (None if found is None else {value.as_py() for value in found}) == expected


def test_floats_have_no_equalities() -> None:
    assert parse_filter("double = 0", SCHEMA).predicate.equalities("double") is None


def test_work_is_per_predicate_not_per_entry() -> None:
    """A million entries cost the same few array operations as ten, and each column is asked for once."""

    class Counted(np.ndarray[Any, np.dtype[np.int64]]):
        operations = 0

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
            Counted.operations += 1
            plain = [value.view(np.ndarray) if isinstance(value, Counted) else value for value in inputs]
            return getattr(ufunc, method)(*plain, **options)

    def operations(count: int) -> tuple[int, list[str], int]:
        asked: list[str] = []

        class Source:
            rows = np.full(count, 10)

            def bounds(self, column: str) -> ColumnBounds:
                asked.append(column)
                low = np.arange(count, dtype=np.int64)
                yes = np.ones(count, np.bool_)
                return ColumnBounds(
                    low.view(Counted), (low + 1).view(Counted), yes, yes, np.zeros(count, np.int64)
                )

        Counted.operations = 0
        predicate = parse_filter(
            "x > 5 and not (x = 7) and x in (6, 8, 9)", pa.schema([("x", pa.int64())])
        ).predicate
        pruned = prune(predicate, Source(), pa.schema([("x", pa.int64())]))
        return Counted.operations, asked, int(pruned.may_match.sum())

    few, many = operations(20), operations(1_000_000)
    assert few == many
    assert many[1] == ["x"]
    assert many[2] == 5

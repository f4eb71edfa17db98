"""Tuples give the rows pyarrow gives, wherever pyarrow takes them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters import parse_filter
from tests.bounds import bounded
from tests.scan.filter_tables import POOLS, SCHEMA, tables

_COLUMNS = sorted(set(POOLS) - {"nested"})
_SIGNS = ["=", "==", "!=", "<", "<=", ">", ">="]


def ours(filters: Any, table: pa.Table) -> list[int]:
    row_filter = parse_filter(filters, table.schema)
    found: list[int] = (
        table.select(["row", *row_filter.columns]).filter(row_filter.expression)["row"].to_pylist()
    )
    return found


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, str, Any]:
    column = draw(st.sampled_from(_COLUMNS))
    more: dict[str, list[Any]] = {"tiny": [1000, 1.5], "single": [0.3, 1], "double": [1, 2]}
    pool = POOLS[column] + more.get(column, [])
    if draw(st.booleans()):
        members = draw(st.lists(st.sampled_from([None, *POOLS[column]]), min_size=1, max_size=3))
        return column, draw(st.sampled_from(["in", "not in"])), members
    return column, draw(st.sampled_from(_SIGNS)), draw(st.sampled_from([None, *pool]))


FILTERS = st.one_of(
    st.lists(conditions(), min_size=1, max_size=3),
    st.lists(st.lists(conditions(), min_size=1, max_size=2), min_size=1, max_size=3),
)


@given(table=tables(), filters=st.lists(FILTERS, min_size=1, max_size=8))
@settings(max_examples=bounded(80, 2), deadline=None)
def test_rows_are_those_pyarrow_gives(table: pa.Table, filters: list[Any]) -> None:
    for one in filters:
        try:
            expected = table.filter(pq.filters_to_expression(one))["row"].to_pylist()
        except (pa.ArrowException, OverflowError):
            expected = None  # pyarrow takes no such literal for this column; we do
        found = ours(one, table)
        assert expected is None or found == expected, one


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([("price", "=", 2)], [1]),
        ([("price", ">", 1.5)], [1]),
        ([("price", "<", Decimal("1.505"))], [0]),
        ([("big", ">", 1.5)], [1]),
        ([("big", "=", np.int8(1))], [0]),
        ([("big", "=", pa.scalar(1, pa.int16()))], [0]),
        ([("big", "<", 10**30)], [0, 1]),
        ([("big", "is null")], [2]),
        ([("big", "is not null", None)], [0, 1]),
        (("big", "=", 1), [0]),
        ([("moment", ">", "2026-01-01")], [1]),
        ([("moment", "<=", np.datetime64("2026-01-01T00:00:00.000000001"))], [0]),
        ([("moment", "<", pd.Timestamp("2026-01-01T00:00:00.0005"))], [0]),
        ([("moment", "<", dt.date(2026, 1, 2))], [0]),
        ([(("nested", "a"), "=", 1)], [0]),
        ([("big", "in", np.array([1, 7]))], [0]),
        ([("big", "in", {1, 7})], [0]),
        ([("big", "in", pa.array([1, 7]))], [0]),
        ([("big", "not in", [])], [0, 1, 2]),
    ],
)
def test_literals_of_every_kind(filters: Any, expected: list[int]) -> None:
    table = pa.table(
        {
            "row": [0, 1, 2],
            "price": pa.array([Decimal("1.50"), Decimal("2.00"), None], pa.decimal128(6, 2)),
            "big": [1, 2**62, None],
            "moment": pa.array([dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2), None], pa.timestamp("ms")),  # noqa: DTZ001
            "nested": [{"a": 1}, {"a": 2}, None],
        }
    )
    assert ours(filters, table) == expected


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ([], "empty filter"),
        ([[]], "empty list"),
        ([("tiny", "=", 1), [("tiny", "=", 1)]], "mixes"),
        ([("tiny", "~", 1)], "unknown operator '~'"),
        ([("tiny", "=")], "needs a value"),
        ([("tiny", "is null", 3)], "takes no value"),
        ([("tiny", "in", 3)], "take a list"),
        ([("name", "in", "abc")], "take a list"),
        ([("tinny", "=", 1)], "did you mean 'tiny'"),
        ([("tiny", "=", "x")], "cannot be compared with 'x'"),
        ([("tiny", "in", [1, "x"])], "cannot be compared with 'x'"),
        ([("tiny", "=", [1])], "compare with single values"),
        ([("tiny", "=", object())], "cannot be used in a filter"),
        ([("moment", ">", dt.datetime(2026, 1, 1, tzinfo=dt.UTC))], "without a time zone"),
        ([(7, "=", 1)], "not a column name"),
        ([("tiny", "=", 1, 2)], "not a condition"),
        (["tiny"], "mixes tuples"),
        (None, "is not a filter"),
        (17, "is not a filter"),
    ],
)
def test_bad_tuples_say_what_is_wrong(filters: Any, message: str) -> None:
    with pytest.raises(InvalidFilter) as raised:
        parse_filter(filters, SCHEMA)
    assert message in str(raised.value)

"""Functions and casts in SQL filters give what DuckDB gives, on random rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounds import bounded
from tests.scan.filter_tables import tables
from tests.scan.test_filter_sql import agrees_with_duckdb, by_duckdb, load, ours

PARTS = ["year", "month", "day", "hour", "minute", "second"]
FORMS = [
    *(f"{part}(moment) >= {least}" for part in PARTS for least in (1, 23, 59, 2026)),
    *(f"extract({part} from moment) = {value}" for part in PARTS for value in (0, 1, 31, 2025)),
    *(f"date_part('{part}', day) <= 12" for part in ("year", "month", "day")),
    "EXTRACT(MONTH FROM day) = 12",
    "date_part('YEAR', moment) = 2026",
    "coalesce(tiny, 0) = 0",
    "coalesce(tiny, 1000) > 100",
    "coalesce(tiny, null, big) > 1",
    "coalesce(null, tiny) = 1",
    "coalesce(tiny, double) > 1",
    "coalesce(tiny, single) = 0.1",
    "coalesce(single, 0.1) = 0.1",
    "coalesce(single, 0.1e0) = 0.1",
    "coalesce(double, 'nan'::double) > 1e300",
    "coalesce(double, 0.1) <= 0.1",
    "coalesce(price, 0) <= 0",
    "coalesce(price, 0.1) = 0.1",
    "coalesce(price, price) is null",
    "coalesce(huge, huge) > 2",
    "coalesce(huge, 18446744073709551615) > 2",
    "coalesce(name, '') = ''",
    "coalesce(name, 'ab') like 'a%'",
    "length(coalesce(name, 'ab')) = 2",
    "upper(coalesce(lower(name), 'ab')) = 'AB'",
    "coalesce(flag, false)",
    "not coalesce(flag, true)",
    "coalesce(day, date '2026-01-01') = '2026-01-01'",
    "coalesce(day, '2026-01-01') >= '2026-01-01'",
    "coalesce(moment, date '2026-01-01') = '2026-01-01'",
    "ifnull(tiny, 5) = 5",
    "coalesce(nested.a, 1) = 1",
    "coalesce(tiny, 0) + 1 > 1",
    "coalesce(tiny, 0) is null",
    "coalesce(tiny, 0) = coalesce(big, 0)",
    "tiny::smallint > 1",
    "tiny::int = 1",
    "cast(tiny as bigint) = 1",
    '"odd näme"::integer = 1',
    "tiny::double > 0.5",
    "price::double > 0.05",
    "tiny::varchar = '1'",
    "big::text like '-%'",
    "cast(huge as varchar) like '%1'",
    "flag::varchar = 'true'",
    "name::varchar = 'ab'",
    "length(tiny::varchar) = 2",
    "moment::date = date '2026-01-01'",
    "day::timestamp >= timestamp '2026-01-01 00:00:00'",
    "hour(day::timestamp) = 0",
]


@given(table=tables(), conditions=st.lists(st.sampled_from(FORMS), min_size=1, max_size=12))
@settings(max_examples=bounded(60, 2), deadline=None)
def test_rows_are_those_duckdb_gives(table: pa.Table, conditions: list[str]) -> None:
    load(table)
    for condition in conditions:
        for text in (condition, f"not ({condition})"):
            assert ours(text, table) == by_duckdb(text), text


@pytest.mark.parametrize("condition", FORMS)
def test_every_listed_form_agrees_with_duckdb(condition: str) -> None:
    agrees_with_duckdb(condition)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_other_layouts_of_text(kind: pa.DataType) -> None:
    table = pa.table({"row": [0, 1, 2], "t": pa.array(["a", "b", None], pa.string()).cast(kind)})
    assert ours("coalesce(t, 'b') = 'b'", table) == [1, 2]
    assert ours("t::varchar = 'a'", table) == [0]
    assert ours("upper(t) = 'A'", table) == [0]


def test_half_floats_and_narrow_decimals() -> None:
    columns = {"h": pa.array([1.5, None], pa.float16()), "d": pa.array([1, None], pa.decimal32(5, 2))}
    table = pa.table({"row": [0, 1], **columns})
    assert ours("coalesce(h, 2) = 2", table) == [1]
    assert ours("coalesce(d, 2.5) = 2.5", table) == [1]

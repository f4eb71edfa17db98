"""Random tables and random filters over them, shared by the filter and pruning tests.

Values come from small pools, so that filters hit, bounds touch literals, and chunks have equal values.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("tiny", pa.int8()),
        ("big", pa.int64()),
        ("huge", pa.uint64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("price", pa.decimal128(6, 2)),
        ("name", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("ms")),
        ("nested", pa.struct([("a", pa.int64())])),
        ("odd näme", pa.int32()),
    ]
)

_EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001 (a column without a zone)
POOLS: dict[str, list[Any]] = {
    "tiny": [-128, -1, 0, 1, 2, 3, 127],
    "big": [-(2**63), -(2**53) - 1, -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1],
    "huge": [0, 1, 2, 2**53 + 1, 2**63 + 1, 2**64 - 1],
    "single": [-math.inf, -1.5, -0.0, 0.0, 0.1, 1.0, 2.5, math.inf, math.nan],
    "double": [-math.inf, -1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 1e300, math.inf, math.nan],
    "price": [Decimal("-9999.99"), Decimal("-0.10"), Decimal("0.00"), Decimal("0.10"), Decimal("2.50")],
    "name": ["", "a", "ab", "abc", "a_c", "a%", "a\\", "b\nb", "é", "☃ü", "z" * 70, "z" * 70 + "a"],
    "flag": [True, False],
    "day": [dt.date(2025, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 1, 2)],
    "moment": [_EPOCH + dt.timedelta(milliseconds=step) for step in (-86_400_000, -1, 0, 1, 86_400_000)],
    "nested": [{"a": 1}, {"a": 2}, {"a": None}],
    "odd näme": [1, 2, 3],
}


@st.composite
def tables(draw: st.DrawFn, *, rows: int = 12) -> pa.Table:
    count = draw(st.integers(0, rows))
    columns: dict[str, Any] = {"row": list(range(count))}
    for name, pool in POOLS.items():
        # A narrow choice per column makes chunks whose rows all satisfy a filter.
        some = draw(st.lists(st.sampled_from([None, *pool]), min_size=1, max_size=4))
        columns[name] = draw(st.lists(st.sampled_from(some), min_size=count, max_size=count))
    return pa.table(columns, schema=SCHEMA)


_NUMBERS = ["-1", "0", "1", "1.5", "2", "2.5", "0.1", "127", "128", "-129", "1000", "1e0", "2.5e0", "0.1e0"]
_DAYS = ["'2026-01-01'", "date '2026-01-01'", "date '2025-12-31'", "timestamp '2026-01-01 12:00:00'"]
_MOMENTS = [
    "'2026-01-01'",
    "date '2026-01-01'",
    "timestamp '2026-01-01 00:00:00.0005'",
    "'2026-01-01T00:00:00.001'",
]
_TEXTS = ["''", "'a'", "'ab'", "'abc'", "'é'", "'zz'", "'" + "z" * 70 + "'"]
LITERALS: dict[str, list[str]] = {
    "tiny": _NUMBERS,
    "big": [
        *_NUMBERS,
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
    ],
    "huge": ["0", "1", "1.5", "9007199254740993", "9223372036854775809", "18446744073709551615"],
    "single": [*_NUMBERS, "0.1", "'0.1'::float", "'nan'::double", "'inf'::double"],
    "double": [*_NUMBERS, "1e300", "'nan'::double", "'-inf'::double"],
    "price": ["0", "-0.1", "0.10", "2.5", "0.105", "2.495", "99999", "-10000"],
    "name": _TEXTS,
    "flag": ["true", "false"],
    "day": _DAYS,
    "moment": _MOMENTS,
    "nested.a": ["1", "2", "1.5"],
    '"odd näme"': ["1", "2", "3"],
}
_PATTERNS = ["a%", "%", "_", "a_c", "%b%", "ab", "a\\%", "", "☃%", "_%", "z%a", "b_b", "%\\"]


@st.composite
def _leaf(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(LITERALS)))
    literal = st.sampled_from(LITERALS[column])
    sign = draw(st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="]))
    kind = draw(st.integers(0, 9))
    if kind < 4:
        return f"{column} {sign} {draw(literal)}"
    if kind == 4:
        return f"{draw(literal)} {sign} {column}"
    if kind == 5:
        members = draw(st.lists(st.one_of(literal, st.just("null")), min_size=1, max_size=4))
        return f"{column} {draw(st.sampled_from(['in', 'not in']))} ({', '.join(members)})"
    if kind == 6:
        return f"{column} is {draw(st.sampled_from(['', 'not ']))}null"
    if kind == 7:
        return f"{column} between {draw(literal)} and {draw(literal)}"
    if kind == 8:
        sign = draw(st.sampled_from(["like", "not like", "ilike", "not ilike"]))
        return f"name {sign} '{draw(st.sampled_from(_PATTERNS))}'"
    return draw(st.sampled_from(EXTRAS))


EXTRAS = [
    "flag",
    "not flag",
    "flag is true",
    "flag is not false",
    "(tiny > 1) is not true",
    "tiny is not distinct from 1",
    "double is distinct from 2.5",
    "single in (0.1e0)",
    "single in (0.1, 2.5)",
    "single in (0.1, 2.5e0)",
    "single in ('0.1'::float, 0.1)",
    "single in (0.1, double)",
    "single not in (0.1e0, null)",
    "single between 0.1e0 and 0.1",
    "single between 0.1 and '0.1'::float",
    "single between 0.1 and double",
    "single is not distinct from 0.1e0",
    "single is distinct from 0.1",
    "single > double",
    "double = double",
    "double >= single",
    "tiny < big",
    "tiny = huge",
    "tiny + 1 > 2",
    "tiny * 1.5 >= 1.5",
    "tiny % 2 = 1",
    "tiny // 2 = 1",
    "tiny / 2 > 0.5",
    "price + 0.1 = 0.2",
    "price * 2 > tiny",
    "double * 2 > 3",
    "-tiny > 0",
    'abs("odd näme" - 2) = 1',
    "length(name) = 2",
    "lower(name) = 'ab'",
    "upper(name) = 'AB'",
    "year(day) = 2026",
    "moment::date = date '2026-01-01'",
    "moment::date > '2025-12-31'",
    "moment >= date '2026-01-01' + interval 1 day",
    "starts_with(name, 'ab')",
    "name like 'a!%' escape '!'",
    "isnan(double)",
    "nested.a is null",
    "true",
    "null",
    "1 > 2",
    "tiny > null",
]

CONDITIONS: st.SearchStrategy[str] = st.recursive(
    _leaf(),
    lambda inner: st.one_of(
        inner.map(lambda part: f"not ({part})"),
        st.lists(inner, min_size=2, max_size=3).map(" and ".join).map("({})".format),
        st.lists(inner, min_size=2, max_size=3).map(" or ".join).map("({})".format),
    ),
    max_leaves=5,
)

"""What is said about SQL that filters do not take: the user's words, the right place, what to do."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters import parse_filter
from crdtcat.scan.filters.sql_errors import FUNCTIONS
from tests.bounds import bounded

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("n", pa.int64()),
        ("ratio", pa.float64()),
        ("ts", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)


def refusal(condition: str) -> str:
    with pytest.raises(InvalidFilter) as raised:
        parse_filter(condition, SCHEMA)
    return str(raised.value)


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ('name = "a"', "no column 'a' at character 8; "),
        ('name = "a"', "text takes single quotes: 'a'"),
        ('name in ("it\'s")', "text takes single quotes: 'it''s'"),
    ],
)
def test_text_in_double_quotes(condition: str, hint: str) -> None:
    assert hint in refusal(condition)


def test_an_unquoted_name_gets_no_hint_about_quotes() -> None:
    assert "single quotes" not in refusal("name = a")


@pytest.mark.parametrize(
    ("condition", "words", "hint"),
    [
        ("tags && ['a']", "tags && ['a']", "filter lists after reading"),
        ("date_trunc('day', ts) = '2026-01-01'", "date_trunc('day', ts)", "compare with a range"),
        ("n > 0 and Date_Trunc('day',ts) = ''", "Date_Trunc('day',ts)", "compare with a range"),
        ("ts < now()", "now()", "as a literal"),
        ("n in (select 1)", "n IN (SELECT 1)", "write them as a list"),
        ("n = ?", "?", "pass tuples"),
        ("regexp_matches(name, 'a(b)')", "regexp_matches(name, 'a(b)')", "use like"),
        ("case when n > 1 then true end", "CASE WHEN n > 1 THEN TRUE END", "and, or, not"),
        ("ts > date '2026-01-01' - interval 1 month", "INTERVAL '1' MONTH", "weeks, days, hours"),
        ("sum(n) > 1", "sum(n)", "one row at a time"),
        ("zoned at time zone 'UTC' > ''", "zoned AT TIME ZONE 'UTC'", "an offset"),
        ("cast(name as int) = 1", "CAST(name AS INT)", "from numbers to double"),
        ("name || 'x' = 'ax'", "name || 'x'", "one by one"),
        ("extract(week from ts) = 1", "EXTRACT(WEEK FROM ts)", "year, month, day, hour, minute, second"),
        ("date_part('week', ts) = 1", "date_part('week', ts)", "'year', 'month'"),
        ("coalesce(n, name) = 1", "coalesce(n, name)", "of one type"),
        ("name = upper('a')", "upper('a')", "upper takes a column"),
        ("uper(name) = 'A'", "uper(name)", "no function 'uper', perhaps 'upper'"),
        ("foo('(', n) = 1", "foo('(', n)", f"functions are {', '.join(FUNCTIONS)}"),
        ("name = $$a$$", "$$a$$", "see docs/filters.md"),
        ("xor(n > 1, n > 2)", "xor(n > 1, n > 2)", "see docs/filters.md"),
        ("name.lower() = 'a'", "name.lower()", "see docs/filters.md"),
    ],
)
def test_what_is_not_supported_is_quoted_with_what_to_do(condition: str, words: str, hint: str) -> None:
    message = refusal(condition)
    assert words in message.replace("\\'", "'")
    assert hint in message
    assert "not supported in filters" in message
    assert message.endswith("see docs/filters.md")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("hour(zoned) = 1", "zoned is timestamp[us, tz=UTC], and hour needs a timestamp without a zone"),
        ("year(n) = 1", "year needs a date or a timestamp without a zone"),
        ("upper(n) = 'A'", "n is int64, and upper needs text"),
    ],
)
def test_functions_say_what_they_need(condition: str, words: str) -> None:
    assert words in refusal(condition)


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        ("date_trunc('day', ts) = ''", "date_trunc"),
        ("n > 0 and  date_trunc('day', ts) = ''", "date_trunc"),
        ("name = 'ä☃' and foo(n) = 1", "foo"),
        ("n = 1 or\n  missing = 2", "missing"),
        ('n = 1 and "miss ing" = 2', '"miss ing"'),
        ("n > 1 and mod(n, n) = 0", "mod"),
        ("n > 1 and n & 1 = 1", "n & 1"),
        ("n > 1 and n in (select 1)", "n in"),
        ("n > 1 and 'a' in tags", "'a'"),
        ("n > 1 and tags[1] = 'a'", "tags[1]"),
    ],
)
def test_places_are_right(condition: str, wrong: str) -> None:
    assert f" at character {condition.index(wrong) + 1}" in refusal(condition)


@pytest.mark.parametrize(
    "condition", ["cast(name as int) = 1", "name::int = 1", "(n, n) = (1, 1)", "tags && []"]
)
def test_places_that_are_not_known_are_left_out(condition: str) -> None:
    assert "at character" not in refusal(condition)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("n = 1 and", "something is missing at 'and', line 1, column 7"),
        ("tags &&", "something is missing at '&&', line 1, column 6"),
        ("n = 1\nor n = 0x10", "at 'x10', line 2, column 9"),
        ("name = 'x", "a quote is not closed"),
        (" ", "it is empty"),
    ],
)
def test_what_is_no_sql_says_where(condition: str, words: str) -> None:
    assert words in refusal(condition)


WORDS = [
    *(
        "n",
        "name",
        "tags",
        '"a"',
        "'a'",
        "1",
        "(",
        ")",
        "[",
        "]",
        ",",
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
    ),
    *(
        "=",
        ">",
        "&&",
        "||",
        "@>",
        "->",
        "~",
        "*",
        "::int",
        "like",
        "between",
        "case",
        "when",
        "end",
        "select",
    ),
    *("cast(", "foo(", "extract(", "interval", "date", "escape", "over", ";", "{", "}", ":x", "?", "lambda"),
]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join))
@settings(max_examples=bounded(400, 2), deadline=None)
def test_no_message_tells_of_the_parser(text: str) -> None:
    try:
        parse_filter(text, SCHEMA)
        message = ""
    except InvalidFilter as error:
        message = str(error)
    assert "sqlglot" not in message
    assert "<class" not in message

"""What is said about SQL that filters do not take: the words of the user, where they stand, what to do.

Theory. The parser keeps the offsets of names, literals and called functions, and of nothing else. So a place
is told only where the first thing of a node has an offset, and text is quoted as it was written only where
both ends are known; elsewhere it is the parser's own rendering. The text hangs on the root of the tree
(`remember`), so that errors can be made from a node alone. Nothing of the parser's insides, such as the names
of its classes, gets into a message.
"""

from __future__ import annotations

import difflib
import re

from sqlglot import exp, tokenize
from sqlglot.errors import ParseError, SqlglotError

from crdtcat.errors import InvalidFilter
from crdtcat.support.showing import shown

FUNCTIONS = (
    *("abs", "cast", "coalesce", "date_part", "day", "extract", "hour", "isnan", "length", "lower", "minute"),
    *("month", "second", "starts_with", "upper", "year"),
)
"""The functions of filters, as the page about them lists them."""

_PAGE = "see docs/filters.md"
_CLAUSES = frozenset(("where", "select", "from", "order", "limit", "having"))
_CLASSES = re.compile(r"Required keyword: '\w+' missing for <class '[^']*'>")
_CASTS = (
    "columns are cast from numbers to double, from integers to wider integers, from integers and booleans to "
    "varchar, from timestamps to date, from dates to timestamp"
)
_LITERAL = "a filter means the same whenever it runs, so put the value in as a literal"
_CLOCKS = frozenset(("now", "today", "get_current_timestamp", "transaction_timestamp"))
_TAKES = {
    "coalesce": "takes values of one type, of which at least one is a column",
    "date_part": "takes 'year', 'month', 'day', 'hour', 'minute' or 'second' and a column",
}
_INSTEAD: tuple[tuple[tuple[type[exp.Expr], ...], str], ...] = (
    (
        (exp.TimestampTrunc, exp.DateTrunc),
        "compare with a range, such as ts >= '2026-01-01' and ts < '2026-02-01'",
    ),
    ((exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Rand), _LITERAL),
    ((exp.Extract,), "the parts are year, month, day, hour, minute, second"),
    ((exp.Array, exp.ArrayOverlaps, exp.ArrayContains, exp.ArrayContainsAll), "filter lists after reading"),
    ((exp.Query, exp.Exists), "read the values first and write them as a list: in (1, 2)"),
    (
        (exp.Placeholder, exp.Parameter),
        "put the value in the text, or pass tuples such as [('amount', '>', 10)]",
    ),
    (
        (exp.RegexpLike, exp.SimilarTo, exp.Glob, exp.Contains, exp.EndsWith),
        "use like, where % is any run of characters and _ any one",
    ),
    ((exp.Case, exp.If), "write it with and, or, not"),
    ((exp.Interval,), "intervals are of weeks, days, hours, minutes or seconds"),
    ((exp.Window, exp.AggFunc), "a filter sees one row at a time"),
    ((exp.AtTimeZone,), "compare with literals that have an offset: timestamptz '2026-01-01 00:00:00+01:00'"),
    ((exp.Cast,), _CASTS),
    ((exp.DPipe, exp.Concat), "compare the columns one by one"),
)


def remember(tree: exp.Expr, text: str) -> None:
    """Keep the text a tree was parsed from, for errors about its nodes."""
    tree.meta["text"] = text


def unsupported(node: exp.Expr) -> InvalidFilter:
    """The error for SQL that is well formed but not taken."""
    hint = _instead(node) or (_about_functions(node) if isinstance(node, exp.Func) else "")
    return InvalidFilter(
        f"{quoted(node)}{position(node)} is not supported in filters; {hint + '; ' if hint else ''}{_PAGE}"
    )


def not_a_condition(node: exp.Expr) -> InvalidFilter:
    """The error for a value that stands where something true or false is needed."""
    return InvalidFilter(f"{quoted(node)}{position(node)} is not a condition; compare it; {_PAGE}")


def not_sql(text: str, error: SqlglotError) -> InvalidFilter:
    """The error for text that is no SQL at all."""
    places = error.errors if isinstance(error, ParseError) else []
    place = places[0] if places else {}
    if "highlight" not in place:
        reason = "a quote is not closed" if text.strip() else "it is empty"
        return InvalidFilter(f"the filter {shown(text, 300)} is not valid SQL: {reason}; {_PAGE}")
    found = place["highlight"]
    reason = _CLASSES.sub("something is missing", place["description"])
    if "<class" in reason:
        reason = "it is incomplete"
    where = f"line {place['line']}, column {place['col'] - len(found) + 1}"
    alone = "a filter is the condition alone, as in amount > 10; " if found.lower() in _CLAUSES else ""
    return InvalidFilter(
        f"the filter {shown(text, 300)} is not valid SQL: {reason} at {found!r}, {where}; {alone}{_PAGE}"
    )


def quoted(node: exp.Expr) -> str:
    """The SQL of a node: as written, if both its ends are known."""
    start, text = node.meta.get("start"), node.root().meta.get("text")
    if start is None or text is None:
        return repr(node.sql(dialect="duckdb"))
    end = node.meta["end"] + 1
    return repr(text[start : _call_end(text, end) if _called(node) else end])


def position(node: exp.Expr) -> str:
    """Where in the text a node begins, if the parser recorded it."""
    start = _start(node)
    return f" at character {start + 1}" if start is not None else ""


def _start(node: exp.Expr) -> int | None:
    if "start" in node.meta:
        return int(node.meta["start"])
    if isinstance(node, exp.Column):
        return _start(node.parts[0])
    begins_with_operand = isinstance(node, exp.Binary | exp.Between | exp.In | exp.Bracket)
    if begins_with_operand and not isinstance(node, exp.Func) and isinstance(node.this, exp.Expr):
        return _start(node.this)
    return None


def _called(node: exp.Expr) -> str:
    """The name of a function as the user called it; empty for whatever is no call."""
    text, end = node.root().meta.get("text"), node.meta.get("end")
    if text is None or end is None or not text[end + 1 :].lstrip().startswith("("):
        return ""
    return str(text[node.meta["start"] : end + 1])


def _call_end(text: str, end: int) -> int:
    """Where a call ends whose name ends at `end`: after the parenthesis that closes it."""
    depth = 0
    for token in tokenize(text, dialect="duckdb"):
        if token.start >= end:
            depth += (text[token.start] == "(") - (text[token.start] == ")")
            if depth == 0:
                return int(token.end) + 1
    return end


def _about_functions(node: exp.Expr) -> str:
    called = _called(node).lower()
    if called in _TAKES:
        return f"{called} {_TAKES[called]}"
    close = [] if called in FUNCTIONS else difflib.get_close_matches(called, FUNCTIONS, n=3)
    if close:
        return f"there is no function {called!r}, perhaps {' or '.join(map(repr, close))} is meant"
    if called in FUNCTIONS:
        return f"{called} takes a column"
    return f"functions are {', '.join(FUNCTIONS)}"


def _instead(node: exp.Expr) -> str:
    inside = node.args.get("query") if isinstance(node, exp.In) else None
    if _called(node).lower() in _CLOCKS:
        return _LITERAL
    for kinds, hint in _INSTEAD:
        if isinstance(node, kinds) or isinstance(inside, kinds):
            return hint
    return ""

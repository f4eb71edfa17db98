"""The names in the text of a query that may mean tables, and the text with views in their place.

Only the names are replaced, where they stand: the rest of a query reaches DuckDB as it was written. Names of
common table expressions are no tables where they are seen, by DuckDB's rules. Nothing is looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crdtcat.errors import InvalidArgument
from crdtcat.limits import SQL_NESTING_MAX

if TYPE_CHECKING:
    from sqlglot import exp

_COMMENT: Final = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_EXPLAIN: Final = re.compile(
    rf"{_COMMENT}*explain\b(?:{_COMMENT}*analyze\b)?(?:{_COMMENT}*\(\s*(?:analyze|format)\b[^)]*\))?",
    re.IGNORECASE | re.DOTALL,
)
_TABLE: Final = re.compile(rf"\btable{_COMMENT}+$", re.IGNORECASE | re.DOTALL)
_SHOW: Final = re.compile(rf"({_COMMENT}*)show(?={_COMMENT}+[\w\"])", re.IGNORECASE | re.DOTALL)
_SHOWN: Final = re.compile(  # by DuckDB itself: what it has, and not a table
    rf"{_COMMENT}*show{_COMMENT}+(?:all|databases|schemas|tables|variables)\b", re.IGNORECASE | re.DOTALL
)
_EVERY: Final = re.compile(
    rf"{_COMMENT}*(?:show|desc|describe)\b(?:{_COMMENT}+all\b)?(?:{_COMMENT}+tables\b)?[\s;]*",
    re.IGNORECASE | re.DOTALL,
)


_BRACKET: Final = re.compile(  # or what may hold some that are none
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(\$\w*\$).*?\1|--[^\n]*|/\*.*?\*/|[(\[{]|[)\]}]""", re.DOTALL
)


class TableName(NamedTuple):
    """A name, where it stands in the text, and whether other parts of the query refer to it by that name."""

    name: str
    start: int
    end: int
    referred: bool


def check_nesting(text: str) -> None:
    """Raise `InvalidArgument` for brackets too deep inside each other: DuckDB's parser, and what walks its
    tree, would end the process. O(characters), where there are as many brackets at all."""
    if sum(map(text.count, "([{")) <= SQL_NESTING_MAX:
        return
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += (found[0] in "([{") - (found[0] in ")]}")
        if depth > SQL_NESTING_MAX:
            raise InvalidArgument(f"sql(): more than {SQL_NESTING_MAX} brackets inside each other")


def asks_for_every_table(text: str) -> bool:
    """Whether a query is `show tables`, or one of the other ways to say so."""
    return _EVERY.fullmatch(text) is not None


def described(text: str) -> str:
    """`show t` as `describe t`, which the parser knows, and everything else as it is."""
    return text if _SHOWN.match(text) else _SHOW.sub(r"\1describe", text, count=1)


def table_names(text: str) -> list[TableName]:
    """Every name that may be a table's, in order.

    Raises `InvalidArgument` for what cannot be parsed.
    """
    import sqlglot  # noqa: PLC0415 (brings in a parser: only for those who write SQL)
    from sqlglot import exp  # noqa: PLC0415
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    explain = _EXPLAIN.match(text)  # which the parser does not know
    blanked = text if explain is None else " " * explain.end() + text[explain.end() :]
    try:
        tree = sqlglot.parse_one(blanked, read="duckdb")
    except (SqlglotError, RecursionError) as error:
        raise InvalidArgument(
            f"sql(): it cannot be seen which tables this query reads; write it in plainer SQL ({error})"
        ) from error
    found = [
        _placed(text, table)
        for table in tree.find_all(exp.Table)
        if table.name and not table.args.get("db") and not _is_common(table)
    ]
    return sorted(set(found), key=lambda name: name.start)


def with_views(text: str, names: Sequence[TableName], views: Mapping[str, str]) -> str:
    """The text with every name that has a view replaced by it, still called what it was."""
    parts, end = list[str](), 0
    for name in names:
        if name.name in views:
            alias = name.name.replace('"', '""')
            called = f' as "{alias}"' if name.referred else ""
            parts += [text[end : name.start], f'"{views[name.name]}"{called}']
            end = name.end
    return "".join([*parts, text[end:]])


def _placed(text: str, table: exp.Table) -> TableName:
    from sqlglot import exp  # noqa: PLC0415

    start: Any = table.this.meta.get("start")
    end: Any = table.this.meta.get("end")
    if start is None or end is None:
        raise InvalidArgument(f"sql(): it cannot be seen where {table.name!r} is; write it in plainer SQL")
    # `describe t`, `summarize t` and `table t` take no alias, and need none.
    alone = isinstance(table.parent, exp.Describe | exp.Summarize) or _TABLE.search(text[:start])
    return TableName(table.name, start, end + 1, referred=not (table.alias or alone))


def _is_common(table: exp.Table) -> bool:
    """Whether a common table expression of this name is seen from here."""
    from sqlglot import exp  # noqa: PLC0415

    wanted = table.name.casefold()
    path: list[exp.Expr] = [table]
    while (node := path[-1].parent) is not None:
        seen: Sequence[exp.Expr] = ()
        if isinstance(node, exp.With):  # from within one of several: those before it, and perhaps itself
            index = next(at for at, one in enumerate(node.expressions) if one is path[-1])
            seen = node.expressions[: index + _recurs(node, path)]
        elif (common := node.args.get("with_")) is not None and common is not path[-1]:
            seen = common.expressions
        if any(one.alias.casefold() == wanted for one in seen):
            return True
        path.append(node)
    return False


def _recurs(common: exp.With, path: Sequence[exp.Expr]) -> bool:
    """Whether the expression that ends a path sees itself: after the `union`, where rows come from before."""
    from sqlglot import exp  # noqa: PLC0415

    union = path[-1].this
    return (
        bool(common.args.get("recursive"))
        and isinstance(union, exp.SetOperation)
        and any(node is union.expression for node in path)
    )

"""SQL LIKE patterns: what prefix they fix, and how Arrow matches them.

Theory. A pattern is a list of literal characters, `%` (any run) and `_` (any one character). The literal
characters before the first wildcard are a prefix every match has, so `LIKE 'abc%d'` is
`starts_with 'abc' and` the rest: the first half prunes, and adding it changes no result. As in DuckDB and
PostgreSQL's standard setting, there is no escape character unless ESCAPE names one; Arrow's own `match_like`
always escapes with a backslash, so the rest is matched as an anchored regular expression instead.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters.compare import compare
from crdtcat.scan.filters.operand import Computed, Operand
from crdtcat.scan.filters.predicate import And, Opaque, Predicate, StartsWith

ANY_RUN = None
ANY_ONE = ""
Token = str | None
"""A literal character, `ANY_RUN` or `ANY_ONE`."""


def like(operand: Operand, pattern: str, *, escape: str = "", ignore_case: bool = False) -> Predicate:
    """`operand LIKE pattern`, or ILIKE.

    Raises:
        InvalidFilter: the operand is no string, or the pattern ends in its escape character.
    """
    if not (pt.is_string(operand.type) or pt.is_large_string(operand.type)):
        raise InvalidFilter(f"column {operand} is {operand.type}; LIKE needs a string")
    if ignore_case:
        lowered = pc.utf8_lower(operand.expression())
        operand = Computed(f"lower({operand})", operand.type, operand.columns, lowered)
        pattern = str(pc.utf8_lower(pa.scalar(pattern)).as_py())
    tokens = tokenize(pattern, escape)
    wild = [place for place, token in enumerate(tokens) if token in (ANY_RUN, ANY_ONE)]
    prefix = "".join(token or "" for token in tokens[: wild[0] if wild else len(tokens)])
    if not wild:
        return compare(operand, "=", prefix, sql=True)
    starts = StartsWith(operand, prefix.encode())
    if wild == [len(tokens) - 1] and tokens[-1] is ANY_RUN:
        return starts
    text = f"{operand} like {pattern!r}"
    rest = Opaque(text, operand.columns, pc.match_substring_regex(operand.expression(), regular(tokens)))
    return And((starts, rest)) if prefix else rest


def tokenize(pattern: str, escape: str = "") -> list[Token]:
    """The pattern as literal characters and wildcards."""
    tokens: list[Token] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            literal = next(characters, None)
            if literal is None:
                raise InvalidFilter(f"the LIKE pattern {pattern!r} ends in its escape character")
            tokens.append(literal)
        else:
            tokens.append(ANY_RUN if character == "%" else ANY_ONE if character == "_" else character)
    return tokens


def regular(tokens: list[Token]) -> str:
    """An RE2 expression that matches whole strings, newlines included."""
    return r"(?s)\A" + "".join(map(_regular_token, tokens)) + r"\z"


def _regular_token(token: Token) -> str:
    if token is ANY_RUN:
        return ".*"
    if token == ANY_ONE:
        return "."
    plain = token.isalnum() or not token.isascii()
    return token if plain else rf"\x{{{ord(token):x}}}"

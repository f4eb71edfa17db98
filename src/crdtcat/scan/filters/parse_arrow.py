"""What can be known about a filter given as a `pyarrow.compute.Expression`.

The expression itself filters the rows, by Arrow's rules; the predicate made here only prunes. So it must be
implied by what Arrow computes, whatever implicit casts Arrow inserts: a comparison is understood only where
those casts cannot change its result, and everything else becomes `Opaque`, which keeps every row.

By trial, Arrow compares integers with float literals as 32-bit floats, floats with integer literals in the
column's width, and decimals with floats as floats: those are understood only for literals that survive.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.types import no_rows
from crdtcat.errors import InvalidFilter, LimitExceeded
from crdtcat.limits import CONDITIONS_MAX
from crdtcat.scan.filters.arrow_tree import (
    Call,
    Literal,
    Node,
    Reference,
    conditions,
    references,
    take_apart,
)
from crdtcat.scan.filters.compare import compare, contained
from crdtcat.scan.filters.literals import Value, normalize
from crdtcat.scan.filters.operand import Field, resolve
from crdtcat.scan.filters.predicate import (
    FLIPPED,
    And,
    Constant,
    In,
    IsNaN,
    IsNull,
    Not,
    Opaque,
    Operator,
    Or,
    Predicate,
    StartsWith,
    depth,
)

_SIGNS: dict[str, Operator] = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MATCH, _SKIP, _EMIT_NULL = 0, 1, 2  # SetLookupOptions.null_matching_behavior
_EXACT_IN_FLOAT32 = 2**24
_DEPTH_MAX = 100  # levels of "and", "or", "not" that are understood: every look at a chunk goes down them


def parse_arrow(expression: Any, schema: pa.Schema) -> Predicate:
    """The predicate that an expression implies; `Opaque` over every column if it cannot be taken apart.

    Raises:
        InvalidFilter: an unknown column, columns by position (a projection would shift them), or an
            expression that Arrow cannot bind to the schema as a boolean.
        LimitExceeded: more than `limits.CONDITIONS_MAX` conditions, or calls inside each other.
    """
    try:
        expression.__reduce__()
    except pa.ArrowNotImplementedError as error:
        raise InvalidFilter(f"{expression} cannot be stored or sent; name its columns: {error}") from error
    require_few(conditions(expression))  # before Arrow binds it, step by step inside each other
    tree = take_apart(expression)
    if tree is not None:
        for reference in references(tree):
            resolve(reference.path, schema)
    try:
        no_rows(schema).filter(expression)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidFilter(f"{expression!s:.500} does not fit the schema: {error!s:.500}") from error
    try:
        found = None if tree is None else _Reader(schema).condition(tree)
    except RecursionError:  # understanding is for pruning; Arrow goes deeper, and filters rows all the same
        found = None
    if found is None or depth(found) > _DEPTH_MAX:
        return Opaque(str(expression), tuple(schema.names), expression)
    return found


def require_few(count: int) -> None:
    """Raises `LimitExceeded` for a filter of too many conditions: Arrow would exhaust its stack."""
    if count > CONDITIONS_MAX:
        raise LimitExceeded(
            f"the filter has {count:,} conditions, or calls inside each other, more than {CONDITIONS_MAX:,}; "
            "put values of one column into one 'in' list, which may be of any length"
        )


class _Reader:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def condition(self, node: Node) -> Predicate:
        understood = self._understood(node)
        if understood is not None:
            return understood
        needs = tuple(dict.fromkeys(reference.path[0] for reference in references(node)))
        return Opaque(_text(node), needs, None)

    def _understood(self, node: Node) -> Predicate | None:  # noqa: PLR0911 (one case per node)
        match node:
            case Literal(value) if pt.is_boolean(value.type):
                return Constant(value.as_py())
            case Reference(path):
                field = resolve(path, self._schema)
                return compare(field, "=", True, sql=False) if pt.is_boolean(field.declared) else None
            case Call("and_kleene", _):
                return And(tuple(self.condition(argument) for argument in _chain(node)))
            case Call("or_kleene", _):
                return Or(tuple(self.condition(argument) for argument in _chain(node)))
            case Call("invert", (argument,)):
                return Not(self.condition(argument))
            case Call(function, (Reference(path), Literal(value))) if function in _SIGNS:
                return _comparison(resolve(path, self._schema), _SIGNS[function], value)
            case Call(function, (Literal(value), Reference(path))) if function in _SIGNS:
                return _comparison(resolve(path, self._schema), FLIPPED[_SIGNS[function]], value)
            case Call(
                "if_else",
                (
                    Call("is_valid", (Reference(path),)),
                    Call("is_in", (Reference(other),), options),
                    Literal(value),
                ),
            ) if path == other and not value.is_valid:  # DuckDB's "in": unknown where there is no value
                return _membership(resolve(path, self._schema), options or {}, nulls=_EMIT_NULL)
            case Call(function, (Reference(path),), options):
                return _property(resolve(path, self._schema), function, options or {}, node)
            case _:
                return None


def _chain(node: Call) -> list[Node]:
    """What one function joins, however it is bracketed: `a or b or c` is a call inside a call."""
    parts: list[Node] = []
    waiting: list[Node] = [node]
    while waiting:
        last = waiting.pop()
        if isinstance(last, Call) and last.function == node.function:
            waiting.extend(reversed(last.arguments))
        else:
            parts.append(last)
    return parts


def _comparison(field: Field, sign: Operator, scalar: Any) -> Predicate | None:
    value = normalize(scalar) if scalar.is_valid else None
    if value is None:
        return Constant(None)
    if isinstance(scalar.type, pa.BaseExtensionType) or not _exact(field, value, scalar.type):
        return None
    try:
        return compare(field, sign, value, sql=False)
    except InvalidFilter:  # Arrow has rules for it that we do not: leave it to Arrow
        return None


def _exact(field: Field, value: Value, kind: pa.DataType) -> bool:
    """Whether Arrow's comparison of the field with this literal is exact, whatever it casts to what."""
    column = field.type
    if isinstance(field.declared, pa.BaseExtensionType):
        return False
    if pt.is_integer(column) and isinstance(value, float):
        return abs(value) <= _EXACT_IN_FLOAT32 and pa.scalar(value, pa.float32()).as_py() == value
    if pt.is_floating(column):
        small = isinstance(value, int) and abs(value) <= _EXACT_IN_FLOAT32
        wide = pt.is_floating(kind) and not pt.is_float16(kind) and not pt.is_float16(field.declared)
        return small or wide
    if pt.is_decimal(column):
        return not isinstance(value, float)
    return not (pt.is_integer(column) and pt.is_decimal(kind))


def _property(field: Field, function: str, options: dict[str, Any], node: Node) -> Predicate | None:
    """Functions of one field."""
    if function == "is_valid" or (function == "is_null" and not options["nan_is_null"].as_py()):
        return IsNull(field) if function == "is_null" else Not(IsNull(field))
    if function == "is_nan" and pt.is_floating(field.declared):
        return IsNaN(field)
    if function == "is_in":
        return _membership(field, options)
    if function in ("starts_with", "match_like") and not options["ignore_case"].as_py():
        pattern = options["pattern"].as_py()
        pattern = pattern.encode() if isinstance(pattern, str) else pattern
        if function == "starts_with":
            return StartsWith(field, pattern)
        stops = [pattern.index(mark) for mark in (b"%", b"_", b"\\") if mark in pattern]
        rest = Opaque(_text(node), field.columns, None)
        return And((StartsWith(field, pattern[: min(stops, default=len(pattern))]), rest))
    return None


def _membership(field: Field, options: dict[str, Any], nulls: int | None = None) -> Predicate | None:
    values = options["value_set"].values
    nulls = options["null_matching_behavior"].as_py() if nulls is None else nulls
    same = values.type == field.declared or (pt.is_integer(values.type) and pt.is_integer(field.type))
    if (
        not same
        or isinstance(field.declared, pa.BaseExtensionType)
        or nulls not in (_MATCH, _SKIP, _EMIT_NULL)
    ):
        return None
    found = contained(field, values, sql=False)
    if not isinstance(found, In):
        return None
    null = None if nulls == _EMIT_NULL else found.null if nulls == _MATCH else False
    return In(field, found.values, null)


def _text(node: Node) -> str:
    match node:
        case Literal(value):
            return str(value)
        case Reference(path):
            return str(Field(path, pa.null()))
        case Call(function, arguments):
            return f"{function}({', '.join(map(_text, arguments))})"

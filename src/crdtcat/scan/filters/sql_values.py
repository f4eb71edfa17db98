"""The values inside SQL conditions: columns, literals, casts, arithmetic and a few functions.

Theory. Literals stay exact (see `sql_literals.py`) until they meet an operand. Arithmetic follows DuckDB's
types (see `sql_numbers.py`); overflow is an error rather than a wrong row. What has no meaning that holds on
every machine, or would round otherwise than DuckDB does, is refused by name.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.types as pt
from sqlglot import exp

from crdtcat.chunks.types import no_rows
from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters.literals import EXACT, fit, is_nan
from crdtcat.scan.filters.moments import Span
from crdtcat.scan.filters.operand import Computed, Operand, resolve
from crdtcat.scan.filters.predicate import show
from crdtcat.scan.filters.sql_errors import position, unsupported
from crdtcat.scan.filters.sql_functions import DATE_PARTS, apply, cast_type
from crdtcat.scan.filters.sql_literals import Constant, cast_literal, check_arguments, fold, number, span
from crdtcat.scan.filters.sql_numbers import Term, common_type, in_type, is_number, type_of

_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
}
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.Length: "length",
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}


class Values:
    """Reads terms against one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._empty = no_rows(schema)

    def term(self, node: exp.Expr) -> Term:  # noqa: C901, PLR0911, PLR0912 (one case per kind of node)
        """The term of a node. Raises `InvalidFilter`."""
        check_arguments(node)
        match node:
            case exp.Paren():
                return self.term(node.this)
            case exp.Column() | exp.Dot() | exp.Bracket():
                return resolve(_path(node), self._schema, position(node), _quotes(node))
            case exp.Null():
                return Constant(None)
            case exp.Boolean():
                return Constant(bool(node.this))
            case exp.Literal():
                return Constant(node.this if node.is_string else number(node.this))
            case exp.Neg():
                return self._negated(node)
            case exp.Interval():
                return Constant(span(node))
            case exp.Cast() if not isinstance(node, exp.TryCast):
                inner = self.term(node.this)
                return cast_literal(inner, node) if isinstance(inner, Constant) else self._cast(inner, node)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv() | exp.Mod():
                return self._arithmetic(node)
            case exp.Abs():
                inner = _in_arithmetic(self.term(node.this), node)
                return self.computed(f"abs({inner})", pc.abs_checked(inner.expression()), inner.columns)
            case exp.Coalesce():
                return self._coalesce(node)
            case exp.Extract():
                return self._function(node.name, node.expression, node)
            case exp.Anonymous() if node.name.lower() == "date_part" and len(node.expressions) == 2:
                part, subject = node.expressions
                return self._function(part.this if part.is_string else "", subject, node)
            case _ if type(node) in _FUNCTIONS:
                return self._function(_FUNCTIONS[type(node)], node.this, node)
            case _:
                raise unsupported(node)

    def computed(self, text: str, arrow: Any, columns: tuple[str, ...]) -> Computed:
        """An operand of the type Arrow derives for an expression. Raises `InvalidFilter` if it has none."""
        try:
            derived = ds.dataset(self._empty).scanner(columns={"x": arrow}).projected_schema.types[0]
        except pa.ArrowException as error:
            raise InvalidFilter(f"{text} cannot be computed: {error}") from error
        return Computed(text, derived, columns, arrow)

    def _negated(self, node: exp.Expr) -> Term:
        inner = self.term(node.this)
        if not isinstance(inner, Constant):
            inner = _in_arithmetic(inner, node)
            return self.computed(f"-({inner})", pc.negate_checked(inner.expression()), inner.columns)
        if isinstance(inner.value, Decimal):
            return Constant(EXACT.minus(inner.value))
        if isinstance(inner.value, int | float) and not isinstance(inner.value, bool):
            return Constant(-inner.value)
        if isinstance(inner.value, Span):
            return Constant(Span(-inner.value.nanoseconds))
        raise unsupported(node)

    def _function(self, name: str, subject: exp.Expr, node: exp.Expr) -> Operand:
        name, inner = name.lower(), self.term(subject)
        by_part = isinstance(node, exp.Extract | exp.Anonymous)
        if isinstance(inner, Constant) or (by_part and name not in DATE_PARTS):
            raise unsupported(node)
        return self.computed(f"{name}({inner})", apply(name, inner), inner.columns)

    def _cast(self, inner: Operand, node: exp.Cast) -> Operand:
        kind = cast_type(inner.type, node)
        if kind == inner.type:
            return inner
        text = f"cast({inner} as {node.to.sql(dialect='duckdb').lower()})"
        return self.computed(text, inner.expression().cast(kind, safe=False), inner.columns)

    def _coalesce(self, node: exp.Coalesce) -> Operand:
        terms = [self.term(part) for part in (node.this, *node.expressions)]
        kept = [term for term in terms if not isinstance(term, Constant) or term.value is not None]
        types = [term.type for term in kept if not isinstance(term, Constant)]
        if not types:
            raise unsupported(node)
        kind: pa.DataType | None = types[0]
        if all(is_number(found) and not pt.is_decimal(found) and not pt.is_uint64(found) for found in types):
            kind = common_type([type_of(term, node) for term in kept], node)
            parts = [in_type(term, kind) for term in kept] if kind is not None else []
        elif all(found == kind for found in types):
            parts = [_exactly(term, kind, node) for term in kept]
        else:
            parts = []
        if not parts:
            raise unsupported(node)
        text = f"coalesce({', '.join(map(str, parts))})"
        columns = tuple(dict.fromkeys(column for part in parts for column in part.columns))
        return self.computed(text, pc.coalesce(*(part.expression() for part in parts)), columns)

    def _arithmetic(self, node: exp.Expr) -> Term:
        left, right = self.term(node.this), self.term(node.expression)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return Constant(fold(node, left.value, right.value))
        types = [type_of(side, node) for side in (left, right)]
        common = pa.float64() if isinstance(node, exp.Div) else common_type(types, node)
        a, b = (in_type(side, common) for side in (left, right))
        text = f"({a} {_SYMBOLS[type(node)]} {b})"
        x, y = a.expression(), b.expression()
        match node:
            case exp.Add():
                arrow = x + y
            case exp.Sub():
                arrow = x - y
            case exp.Mul():
                arrow = x * y
            case exp.Div():
                arrow = pc.divide(x, y)
            case _:
                divisor = right.value if isinstance(right, Constant) else None
                if common != pa.int64() or not divisor:
                    raise unsupported(node)  # with a column as divisor, zero would have to give null
                arrow = x / y if isinstance(node, exp.IntDiv) else x - (x / y) * y
        return self.computed(text, arrow, tuple(dict.fromkeys((*a.columns, *b.columns))))


def _in_arithmetic(term: Term, node: exp.Expr) -> Operand:
    """A number of columns in the type that arithmetic on it is done in. Raises `InvalidFilter`."""
    if isinstance(term, Constant):
        raise unsupported(node)
    return in_type(term, type_of(term, node))


def _quotes(node: exp.Expr) -> str:
    """What to add when there is no such column: a single name in double quotes may be meant as text."""
    name = node.this
    if not isinstance(node, exp.Column) or len(node.parts) > 1 or not name.args.get("quoted"):
        return ""
    text = "'" + name.name.replace("'", "''") + "'"
    return f"; double quotes are for names, text takes single quotes: {text}"


def _exactly(term: Term, kind: Any, node: exp.Expr) -> Operand:
    """A term as an operand of a type which its literal, if it is one, must be a value of."""
    if not isinstance(term, Constant):
        return term
    assert term.value is not None
    if is_nan(term.value):
        raise unsupported(node)
    floor, exact = fit(term.value, kind, "coalesce")
    if not exact:
        raise unsupported(node)
    return Computed(show(floor), kind, (), pc.scalar(floor))


def _path(node: exp.Expr) -> list[str]:
    if node.find(exp.Func):
        raise unsupported(node)
    if isinstance(node, exp.Bracket):
        keys = node.expressions
        if len(keys) != 1 or not keys[0].is_string:
            raise unsupported(node)
        return [*_path(node.this), keys[0].this]
    if isinstance(node, exp.Column | exp.Dot):
        parts = list(node.parts)
        head = _path(parts[0]) if isinstance(parts[0], exp.Bracket) else [parts[0].name]
        if all(isinstance(part, exp.Identifier) for part in parts[1:]):
            return head + [part.name for part in parts[1:]]
    raise unsupported(node)

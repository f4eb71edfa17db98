"""The values inside SQL conditions: columns, literals, casts, arithmetic and a few functions.

Theory. Literals stay exact (see `sql_literals.py`) until they meet an operand. Arithmetic follows DuckDB's
types: with a double it is double, else with a float it is float, else with a decimal it is decimal, else it
is 64-bit integer and overflow is an error rather than a wrong row. Both sides are cast explicitly before
Arrow sees them, since Arrow would narrow literals by its own rules.

Only casts that lose nothing, or lose it as DuckDB does, are taken for columns; others are refused by name.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.types as pt
from sqlglot import exp

from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters.moments import Span
from crdtcat.scan.filters.operand import Computed, Operand, resolve
from crdtcat.scan.filters.sql_literals import (
    NAIVE,
    Constant,
    cast_literal,
    check_arguments,
    fold,
    number,
    position,
    span,
    unsupported,
)

_TYPE = exp.DataType.Type
_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
}
_TEXT_FUNCTIONS: dict[type[exp.Expr], tuple[str, Any]] = {
    exp.Lower: ("lower", pc.utf8_lower),
    exp.Upper: ("upper", pc.utf8_upper),
    exp.Length: ("length", pc.utf8_length),
}
_DATE_FUNCTIONS: dict[type[exp.Expr], tuple[str, Any]] = {
    exp.Year: ("year", pc.year),
    exp.Month: ("month", pc.month),
    exp.Day: ("day", pc.day),
}

Term = Operand | Constant


class Values:
    """Reads terms against one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._empty = schema.empty_table()

    def term(self, node: exp.Expr) -> Term:  # noqa: PLR0911, C901 (one case per kind of node)
        """The term of a node. Raises `InvalidFilter`."""
        check_arguments(node)
        match node:
            case exp.Paren():
                return self.term(node.this)
            case exp.Column() | exp.Dot() | exp.Bracket():
                return resolve(_path(node), self._schema, position(node))
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
                inner, target = self.term(node.this), node.to
                return (
                    cast_literal(inner, node)
                    if isinstance(inner, Constant)
                    else self._cast(inner, target, node)
                )
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv() | exp.Mod():
                return self._arithmetic(node)
            case exp.Abs():
                inner = self._number(node.this, node)
                inner = _in_type(inner, _arithmetic_type(inner.type))
                return self.computed(f"abs({inner})", pc.abs_checked(inner.expression()), inner.columns)
            case _ if type(node) in _TEXT_FUNCTIONS or type(node) in _DATE_FUNCTIONS:
                return self._function(node)
            case _:
                raise unsupported(node)

    def computed(self, text: str, arrow: Any, columns: tuple[str, ...]) -> Computed:
        """An operand of the type Arrow derives for an expression. Raises `InvalidFilter` if it has none."""
        try:
            derived = ds.dataset(self._empty).scanner(columns={"x": arrow}).projected_schema.types[0]
        except pa.ArrowException as error:
            raise InvalidFilter(f"{text} cannot be computed: {error}") from error
        return Computed(text, derived, columns, arrow)

    def _number(self, part: exp.Expr, node: exp.Expr) -> Operand:
        inner = self.term(part)
        if isinstance(inner, Constant) or not _is_number(inner.type):
            raise unsupported(node)
        return inner

    def _negated(self, node: exp.Expr) -> Term:
        inner = self.term(node.this)
        if not isinstance(inner, Constant):
            inner = _in_type(self._number(node.this, node), _arithmetic_type(inner.type))
            return self.computed(f"-({inner})", pc.negate_checked(inner.expression()), inner.columns)
        if isinstance(inner.value, int | float | Decimal) and not isinstance(inner.value, bool):
            return Constant(-inner.value)
        if isinstance(inner.value, Span):
            return Constant(Span(-inner.value.nanoseconds))
        raise unsupported(node)

    def _function(self, node: exp.Expr) -> Operand:
        inner = self.term(node.this)
        texts = type(node) in _TEXT_FUNCTIONS
        name, function = _TEXT_FUNCTIONS[type(node)] if texts else _DATE_FUNCTIONS[type(node)]
        if isinstance(inner, Constant):
            raise unsupported(node)
        is_text = pt.is_string(inner.type) or pt.is_large_string(inner.type)
        is_day = pt.is_date(inner.type) or (pt.is_timestamp(inner.type) and inner.type.tz is None)
        if not (is_text if texts else is_day):
            raise InvalidFilter(f"{name}({inner}) cannot be computed: {inner} is {inner.type}")
        return self.computed(f"{name}({inner})", function(inner.expression()), inner.columns)

    def _cast(self, inner: Operand, target: exp.DataType, node: exp.Expr) -> Operand:
        wanted, kind = target.this, inner.type
        integer = pt.is_integer(kind) and not pt.is_uint64(kind)
        if wanted is _TYPE.DOUBLE and _is_number(kind):
            arrow = pa.float64()
        elif wanted is _TYPE.BIGINT and integer:
            arrow = pa.int64()
        elif wanted is _TYPE.DATE and pt.is_timestamp(kind) and kind.tz is None:
            arrow = pa.date32()
        elif wanted in NAIVE and pt.is_date(kind):
            arrow = pa.timestamp("us")
        else:
            raise unsupported(node)
        text = f"cast({inner} as {wanted.value.lower()})"
        return self.computed(text, inner.expression().cast(arrow, safe=False), inner.columns)

    def _arithmetic(self, node: exp.Expr) -> Term:
        left, right = self.term(node.this), self.term(node.expression)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return Constant(fold(node, left.value, right.value))
        types = [_type_of(side, node) for side in (left, right)]
        common = pa.float64() if isinstance(node, exp.Div) else _common_type(types, node)
        a, b = (_in_type(side, common) for side in (left, right))
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
                if not pt.is_int64(common) or not divisor:
                    raise unsupported(node)  # with a column as divisor, zero would have to give null
                arrow = x / y if isinstance(node, exp.IntDiv) else x - (x / y) * y
        return self.computed(text, arrow, tuple(dict.fromkeys((*a.columns, *b.columns))))


def _path(node: exp.Expr) -> list[str]:
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


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _type_of(side: Term, node: exp.Expr) -> pa.DataType:
    if not isinstance(side, Constant):
        if not _is_number(side.type) or pt.is_uint64(side.type):
            raise unsupported(node)
        return _arithmetic_type(side.type)
    value = side.value
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return pa.int64()
    if isinstance(value, Decimal):
        return pa.scalar(value).type
    raise unsupported(node)


def _arithmetic_type(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pt.is_integer(kind) else kind


def _common_type(types: list[pa.DataType], node: exp.Expr) -> pa.DataType | None:
    """The type both sides are cast to; None for decimals, which Arrow combines exactly as they are."""
    for kind in (pa.float64(), pa.float32()):
        if kind in types:
            return kind
    if all(pt.is_int64(kind) for kind in types):
        return pa.int64()
    if any(pt.is_decimal256(kind) for kind in types):
        raise unsupported(node)
    return None


def _in_type(side: Term, kind: pa.DataType | None) -> Operand:
    if isinstance(side, Constant):
        value: Any = side.value
        if kind is not None and pt.is_float32(kind):
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        scalar = pa.scalar(value if kind is None or not pt.is_floating(kind) else float(value), kind)
        if kind is None and isinstance(value, int):
            scalar = pa.scalar(Decimal(value))
        return Computed(str(value), scalar.type, (), pc.scalar(scalar))
    if kind is None:
        kind = pa.decimal128(19, 0) if pt.is_integer(side.type) else side.type
    if side.type == kind:
        return side
    return Computed(str(side), kind, side.columns, side.expression().cast(kind, safe=False))

"""The values inside SQL conditions: columns, literals, casts, arithmetic and a few functions.

Theory. Literals stay exact (`1.5` is a decimal, `1e0` a double, `date '...'` a moment) until they meet an
operand. Arithmetic follows DuckDB's types: with a double it is double, else with a float it is float, else
with a decimal it is decimal, else it is 64-bit integer and overflow is an error rather than a wrong row.
Both sides are cast explicitly before Arrow sees them, since Arrow would narrow literals by its own rules.

Only casts that lose nothing, or lose it as DuckDB does, are taken for columns; others are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.types as pt
from sqlglot import exp

from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters.literals import Value
from crdtcat.scan.filters.moments import DAY, Moment, Span, parse_moment, parse_time
from crdtcat.scan.filters.operand import Computed, Operand, resolve

_TYPE = exp.DataType.Type
_INTEGERS = {_TYPE.TINYINT, _TYPE.SMALLINT, _TYPE.INT, _TYPE.BIGINT}
_NAIVE = {_TYPE.TIMESTAMP, _TYPE.TIMESTAMPNTZ, _TYPE.TIMESTAMP_S, _TYPE.TIMESTAMP_MS, _TYPE.TIMESTAMP_NS}
_ZONED = {_TYPE.TIMESTAMPTZ, _TYPE.TIMESTAMPLTZ}
_TEXTS = {_TYPE.VARCHAR, _TYPE.TEXT, _TYPE.CHAR}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
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


_ARGUMENTS = frozenset(
    ("this", "expression", "expressions", "low", "high", "to", "unit", "table", "db", "catalog", "quoted")
    + ("is_string", "typed", "nested", "negate")
)
"""What may be set on a node. A parser release that says more with an argument we do not read is refused."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; None is null."""

    value: Value | None


Term = Operand | Constant


def unsupported(node: exp.Expr) -> InvalidFilter:
    """The error for SQL that is well formed but not taken."""
    return InvalidFilter(f"{node.sql(dialect='duckdb')!r}{position(node)} is not supported in filters")


def position(node: exp.Expr) -> str:
    """Where in the text a node's first name stands, if the parser recorded it."""
    starts = [name.meta["start"] for name in node.find_all(exp.Identifier) if "start" in name.meta]
    return f" at character {min(starts) + 1}" if starts else ""


def check_arguments(node: exp.Expr, *, negatable: bool = False) -> None:
    """Refuse a node that carries a modifier which would go unread."""
    unread = {name for name, value in node.args.items() if value and name not in _ARGUMENTS}
    if unread or (node.args.get("negate") and not negatable):
        raise unsupported(node)


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
                return Constant(node.this if node.is_string else _number(node.this))
            case exp.Neg():
                return self._negated(node)
            case exp.Interval():
                return Constant(_span(node))
            case exp.Cast() if not isinstance(node, exp.TryCast):
                inner, target = self.term(node.this), node.to
                return (
                    _cast_literal(inner, node)
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
        elif wanted in _NAIVE and pt.is_date(kind):
            arrow = pa.timestamp("us")
        else:
            raise unsupported(node)
        text = f"cast({inner} as {wanted.value.lower()})"
        return self.computed(text, inner.expression().cast(arrow, safe=False), inner.columns)

    def _arithmetic(self, node: exp.Expr) -> Term:
        left, right = self.term(node.this), self.term(node.expression)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return Constant(_fold(node, left.value, right.value))
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


def _number(text: str) -> Value:
    if text.isdigit():
        return int(text)
    return float(text) if "e" in text.lower() else Decimal(text)


def _span(node: exp.Interval) -> Span:
    unit = node.args.get("unit")
    seconds = _SECONDS.get(unit.name.upper().removesuffix("S")) if unit is not None else None
    try:
        amount = Decimal(node.this.this)
    except (InvalidOperation, TypeError, ValueError, AttributeError):
        raise unsupported(node) from None
    if seconds is None:
        raise unsupported(node)
    return Span(int(amount * seconds * 10**9))


def _fold(node: exp.Expr, left: Any, right: Any) -> Any:
    """Arithmetic of two literals."""
    if left is None or right is None:
        return None
    if isinstance(left, Moment) and isinstance(right, Span) and isinstance(node, exp.Add | exp.Sub):
        step = right.nanoseconds if isinstance(node, exp.Add) else -right.nanoseconds
        return Moment(left.nanoseconds + step, left.zoned)
    if any(isinstance(side, bool) or not isinstance(side, int | float | Decimal) for side in (left, right)):
        raise unsupported(node)
    if isinstance(left, float) or isinstance(right, float) or isinstance(node, exp.Div):
        left, right = float(left), float(right)
    if isinstance(node, exp.Add):
        return left + right
    if isinstance(node, exp.Sub):
        return left - right
    if isinstance(node, exp.Mul):
        return left * right
    if isinstance(node, exp.Div) and right:
        return left / right
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


def _cast_literal(inner: Constant, node: exp.Cast) -> Constant:  # noqa: PLR0911, C901 (one case per type)
    """A cast of a literal, done now."""
    wanted, value = node.to.this, inner.value
    if value is None:
        return inner
    try:
        if wanted in (_TYPE.DOUBLE, _TYPE.FLOAT) and isinstance(value, str | int | float | Decimal):
            return Constant(float(value) if wanted is _TYPE.DOUBLE else float(np.float32(value)))
        if wanted in _INTEGERS and isinstance(value, str | int):
            return Constant(int(value))
        if wanted is _TYPE.DECIMAL and isinstance(value, str | int | Decimal):
            return _cast_decimal(Decimal(value), node)
        if wanted is _TYPE.TIME and isinstance(value, str):
            return Constant(parse_time(value))
        if wanted in {_TYPE.DATE, *_NAIVE, *_ZONED} and isinstance(value, str | Moment):
            moment = parse_moment(value) if isinstance(value, str) else value
            if wanted is _TYPE.DATE:
                return Constant(Moment(moment.nanoseconds // DAY * DAY))
            return Constant(Moment(moment.nanoseconds, zoned=wanted in _ZONED))
        if wanted in _TEXTS and isinstance(value, str):
            return inner
        if wanted is _TYPE.VARBINARY and isinstance(value, str):
            return Constant(value.encode("ascii").decode("unicode_escape").encode("latin-1"))
    except (ValueError, ArithmeticError) as error:
        raise InvalidFilter(f"{node.sql(dialect='duckdb')}: {error}") from error
    raise unsupported(node)


def _cast_decimal(value: Decimal, node: exp.Cast) -> Constant:
    sizes = [int(size.name) for size in node.to.expressions]
    if sizes and value != round(value, sizes[1] if len(sizes) > 1 else 0):
        raise unsupported(node)  # it would round; write the literal that is meant
    return Constant(value)

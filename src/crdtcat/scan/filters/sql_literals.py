"""Literals in SQL filters, and what every node of a parsed filter is checked for.

Literals stay exact: `1.5` is a decimal, `1e0` a double, `date '...'` a moment. Casts of literals and
arithmetic between them are done here, once, while parsing; what would round is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, localcontext
from typing import Any

import numpy as np
from sqlglot import exp

from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters.literals import EXACT, Value, normalize, require_digits
from crdtcat.scan.filters.moments import DAY, Moment, Span, parse_moment, parse_time
from crdtcat.scan.filters.sql_errors import quoted, unsupported
from crdtcat.support.showing import shown

_TYPE = exp.DataType.Type
_INTEGERS = {_TYPE.TINYINT, _TYPE.SMALLINT, _TYPE.INT, _TYPE.BIGINT}
NAIVE = {_TYPE.TIMESTAMP, _TYPE.TIMESTAMPNTZ, _TYPE.TIMESTAMP_S, _TYPE.TIMESTAMP_MS, _TYPE.TIMESTAMP_NS}
_ZONED = {_TYPE.TIMESTAMPTZ, _TYPE.TIMESTAMPLTZ}
TEXTS = {_TYPE.VARCHAR, _TYPE.TEXT, _TYPE.CHAR}
_STRICT = Context(prec=EXACT.prec, traps=[Inexact, InvalidOperation, Overflow])
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
_SPAN_MAX = 10**12  # of any unit: longer than any column of moments reaches
_ARGUMENTS = frozenset(
    (
        *("this", "expression", "expressions", "low", "high", "to", "unit", "table", "db", "catalog"),
        *("quoted", "is_string", "typed", "nested", "negate"),
    )
)
"""What may be set on a node. A parser release that says more with an argument we do not read is refused."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; None is null. `is_single`: it was cast to a float of 32 bits."""

    value: Value | None
    is_single: bool = False

    @property
    def is_double(self) -> bool:
        """Whether it is a float of 64 bits."""
        return isinstance(self.value, float) and not self.is_single

    def as_double(self) -> Constant:
        """A number as the nearest double; anything else as it is."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | Decimal):
            return self
        return Constant(float(self.value))


def check_arguments(node: exp.Expr | None, *, negatable: bool = False) -> None:
    """Refuse a node that carries a modifier which would go unread, and one that is not there: the parser
    takes a sign before nothing."""
    if node is None:
        raise InvalidFilter("the filter is incomplete: a sign stands before or after nothing")
    unread = {name for name, value in node.args.items() if value and name not in _ARGUMENTS}
    if unread or (node.args.get("negate") and not negatable):
        raise unsupported(node)


def number(text: str) -> Value:
    """A numeric literal: an int, a decimal, or with an exponent a double. Raises `InvalidFilter`."""
    require_digits(len(text))
    try:
        if text.isdigit():
            return int(text)
        return float(text) if "e" in text.lower() else Decimal(text)
    except (ValueError, InvalidOperation) as error:  # an exponent without a number, digits of another script
        raise InvalidFilter(f"{shown(text)} is no number that a filter takes") from error


def span(node: exp.Interval) -> Span:
    """An interval of a fixed length; months and years have none. Raises `InvalidFilter`."""
    unit = node.args.get("unit")
    seconds = _SECONDS.get(unit.name.upper().removesuffix("S")) if unit is not None else None
    try:
        amount = Decimal(node.this.this)
    except (InvalidOperation, TypeError, ValueError, AttributeError):
        raise unsupported(node) from None
    if seconds is None or not amount.is_finite() or amount.copy_abs() > _SPAN_MAX:
        raise unsupported(node)
    return Span(int(EXACT.multiply(amount, seconds * 10**9)))


def fold(node: exp.Expr, left: Any, right: Any) -> Any:
    """Arithmetic of two literals, exact unless one is a double. Raises `InvalidFilter`."""
    if left is None or right is None:
        return None
    if isinstance(left, Moment) and isinstance(right, Span) and isinstance(node, exp.Add | exp.Sub):
        step = right.nanoseconds if isinstance(node, exp.Add) else -right.nanoseconds
        return Moment(left.nanoseconds + step, left.zoned)
    if any(isinstance(side, bool) or not isinstance(side, int | float | Decimal) for side in (left, right)):
        raise unsupported(node)
    try:
        with localcontext(_STRICT):
            return normalize(_folded(node, left, right))
    except ArithmeticError as error:
        raise InvalidFilter(f"{quoted(node)} is too large, or has too many digits") from error


def _folded(node: exp.Expr, left: Any, right: Any) -> Any:
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


def cast_literal(inner: Constant, node: exp.Cast) -> Constant:  # noqa: PLR0911, C901 (one case per type)
    """A cast of a literal, done now."""
    wanted, value = node.to.this, inner.value
    if value is None:
        return inner
    try:
        if wanted in (_TYPE.DOUBLE, _TYPE.FLOAT) and isinstance(value, str | int | float | Decimal):
            return _cast_float(value, is_single=wanted is _TYPE.FLOAT)
        if wanted in _INTEGERS and isinstance(value, str | int):
            return Constant(int(value))
        if wanted is _TYPE.DECIMAL and isinstance(value, str | int | Decimal):
            return _cast_decimal(Decimal(value), node)
        if wanted is _TYPE.TIME and isinstance(value, str):
            return Constant(parse_time(value))
        if wanted in {_TYPE.DATE, *NAIVE, *_ZONED} and isinstance(value, str | Moment):
            moment = parse_moment(value) if isinstance(value, str) else value
            if wanted is _TYPE.DATE:
                return Constant(Moment(moment.nanoseconds // DAY * DAY))
            return Constant(Moment(moment.nanoseconds, zoned=wanted in _ZONED))
        if wanted in TEXTS and isinstance(value, str):
            return inner
        if wanted is _TYPE.VARBINARY and isinstance(value, str):
            return Constant(value.encode("ascii").decode("unicode_escape").encode("latin-1"))
    except (ValueError, ArithmeticError) as error:
        raise InvalidFilter(f"{quoted(node)}: {error}") from error
    raise unsupported(node)


def _cast_float(value: Any, *, is_single: bool) -> Constant:
    if not is_single:
        return Constant(float(value))
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    if math.isinf(single) and not math.isinf(float(value)):
        raise OverflowError("beyond the greatest float of 32 bits")
    return Constant(single, is_single=True)


def _cast_decimal(value: Decimal, node: exp.Cast) -> Constant:
    sizes = [int(size.name) for size in node.to.expressions]
    step = Decimal(1).scaleb(-sizes[1] if len(sizes) > 1 else 0, EXACT)
    if not value.is_finite() or (sizes and value != value.quantize(step, context=EXACT)):
        raise unsupported(node)  # it would round; write the literal that is meant
    return Constant(value)

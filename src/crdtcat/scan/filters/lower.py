"""From a predicate tree to the Arrow expression that filters rows.

Theory. The expression gives true, false or null for exactly the rows for which the tree gives true, false or
unknown. Arrow's Kleene kernels and comparisons already do; `is_in` and constants do not know null, so a
null is put in where the operand is null. Long chains are built as balanced trees: Arrow walks expressions
recursively, and ten thousand alternatives must not become ten thousand stack frames.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.scan.filters.predicate import (
    Always,
    And,
    Compare,
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
)

_COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def to_expression(predicate: Predicate) -> Any:  # noqa: C901, PLR0911, PLR0912 (one case per node)
    """The `pyarrow.compute.Expression` of a predicate. Linear in the size of the tree."""
    match predicate:
        case And(parts):
            return balanced([to_expression(part) for part in parts], operator.and_)
        case Or(parts):
            return balanced([to_expression(part) for part in parts], operator.or_)
        case Not(part):
            return ~to_expression(part)
        case Constant(value):
            return pc.scalar(pa.scalar(value, pa.bool_()))
        case Compare(operand, sign, value, nan_is_greatest):
            found = compared(operand.expression(), sign, value)
            return (
                found | pc.is_nan(operand.expression()) if nan_is_greatest and sign in (">", ">=") else found
            )
        case In(operand, values, null):
            subject = operand.expression()
            found = subject.isin(values.array)
            if null is True:
                return found | pc.is_null(subject)
            return found if null is False else _unless_null(subject, found)
        case StartsWith(operand, prefix):
            return _starts_with(operand.expression(), operand.type, prefix)
        case IsNull(operand):
            return operand.reference().is_null()
        case IsNaN(operand):
            return pc.is_nan(operand.expression())
        case Always(operand, truth):
            return _unless_null(operand.reference(), pc.scalar(truth))
        case Opaque(_, _, arrow):
            return arrow
        case _:
            raise AssertionError(f"not a predicate: {predicate!r}")


def compared(left: Any, sign: Operator, right: Any) -> Any:
    """`left sign right` by Arrow's own rules."""
    return _COMPARE[sign](left, right)


def balanced(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """All parts joined by an associative operator, in a tree of logarithmic depth."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(balanced(parts[:middle], join), balanced(parts[middle:], join))


def _unless_null(subject: Any, found: Any) -> Any:
    return pc.if_else(subject.is_valid(), found, pc.scalar(pa.scalar(None, pa.bool_())))


def _starts_with(subject: Any, kind: pa.DataType, prefix: bytes) -> Any:
    text = pt.is_string(kind) or pt.is_large_string(kind)
    return pc.starts_with(subject, prefix.decode() if text else prefix)

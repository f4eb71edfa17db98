"""Numbers of different types meeting in arithmetic: the type both sides are brought to.

Theory. As in DuckDB: with a double it is double, else with a float it is float, else with a decimal it is
decimal, else it is 64-bit integer. Both sides are cast explicitly before Arrow sees them, since Arrow would
narrow literals by its own rules. Unsigned 64-bit integers fit none of these and are refused.
"""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from sqlglot import exp

from crdtcat.scan.filters.operand import Computed, Operand
from crdtcat.scan.filters.sql_errors import unsupported
from crdtcat.scan.filters.sql_literals import Constant

Term = Operand | Constant
"""A value inside a condition: of columns, or literal."""


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is one arithmetic is done in."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def type_of(side: Term, node: exp.Expr) -> pa.DataType:
    """The type a side brings to arithmetic. Raises `InvalidFilter` if it is no number."""
    if not isinstance(side, Constant):
        if not is_number(side.type) or pt.is_uint64(side.type):
            raise unsupported(node)
        return arithmetic_type(side.type)
    value = side.value
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return pa.int64()
    if isinstance(value, Decimal):
        with suppress(pa.ArrowInvalid):  # of more digits than Arrow has
            return pa.scalar(value).type
    raise unsupported(node)


def arithmetic_type(kind: pa.DataType) -> pa.DataType:
    """The type arithmetic on a column of numbers is done in."""
    return pa.int64() if pt.is_integer(kind) else kind


def common_type(types: list[pa.DataType], node: exp.Expr) -> pa.DataType | None:
    """The type both sides are cast to; None for decimals, which Arrow combines exactly as they are."""
    for kind in (pa.float64(), pa.float32()):
        if kind in types:
            return kind
    if all(pt.is_int64(kind) for kind in types):
        return pa.int64()
    if any(pt.is_decimal256(kind) for kind in types):
        raise unsupported(node)
    return None


def in_type(side: Term, kind: pa.DataType | None) -> Operand:
    """A side cast to what `common_type` said."""
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

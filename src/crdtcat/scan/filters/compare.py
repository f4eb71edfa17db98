"""Comparisons of an operand with a literal, as predicates whose literal is a value of the operand's type.

Theory: the floor rule of `literals.py`. This is the only place where an operator may change because a
literal does not fit, and where the two readings of NaN part: in IEEE 754 (Arrow, DNF tuples) a comparison
with NaN is false; in SQL (DuckDB, Spark, PostgreSQL) NaN equals itself and is above every number.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from crdtcat.scan.filters.literals import Value, fit, is_nan, nearest_float, normalize, wrong_kind
from crdtcat.scan.filters.members import Members
from crdtcat.scan.filters.operand import Computed, Operand
from crdtcat.scan.filters.predicate import (
    Always,
    And,
    Compare,
    Constant,
    In,
    IsNaN,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
)

_FLOAT_DIGITS = 15
"""Decimals of at most this many digits survive the way through a 64-bit float."""


def compare(operand: Operand, operator: Operator, value: Value | None, *, sql: bool) -> Predicate:
    """`operand operator value`. With null it is unknown for every row.

    With `sql`, NaN is SQL's and numbers are rounded to a float column's type; without, NaN is IEEE's and
    numbers are exact.

    Raises:
        InvalidFilter: the literal is of another kind than the operand.
    """
    if value is None:
        return Constant(None)
    operand, value = _meet(operand, value, sql=sql)
    if is_nan(value):
        return _compare_nan(operand, operator, sql=sql)
    floor, exact = fit(value, operand.type, str(operand))
    if floor is None:
        return Always(operand, truth=operator in (">", ">=", "!="))
    if not exact:
        if operator in ("=", "!="):
            return Always(operand, truth=operator == "!=")
        operator = "<=" if operator in ("<", "<=") else ">"
    return Compare(operand, operator, floor, nan_is_greatest=sql and pt.is_floating(operand.type))


def contained(operand: Operand, values: Iterable[Any], *, sql: bool) -> Predicate:
    """`operand in (values)`. In SQL a null in the list makes misses unknown; in Arrow it matches nulls.

    Values are as `normalize` takes them. Those of the operand's own kind, and arrays of its type, are
    converted all at once.

    Raises:
        InvalidFilter: a literal is of another kind than the operand.
    """
    values = values if isinstance(values, pa.Array) else list(values)
    members = Members.at_once(values, operand.type)
    if members is not None:
        null = values.null_count > 0 if isinstance(values, pa.Array) else None in values
        members = members.with_both_zeros() if sql and pt.is_floating(operand.type) else members
        return _found(operand, members, sql=sql, null=null)
    values = [normalize(value) for value in values]
    null = None in values
    met = [_meet(operand, value, sql=sql) for value in values if value is not None]
    if any(target is not operand for target, _ in met):  # a value of them is met by way of floats
        return _one_by_one(operand, values, sql=sql, null=null)
    found = [member for _, value in met for member in _members(operand, value, sql=sql)]
    kept = found if pt.is_floating(operand.type) else dict.fromkeys(found)  # both zeros, every NaN
    return _found(operand, Members.of(kept, operand.type), sql=sql, null=null)


def _found(operand: Operand, members: Members, *, sql: bool, null: bool) -> Predicate:
    found: Predicate = In(operand, members, null=None if sql else null)
    if sql and members.has_nan:  # in lists, Arrow tells NaNs apart by their bits
        found = Or((In(operand, members.without_nan()), IsNaN(operand)))
    return Or((found, Constant(None))) if sql and null else found


def _one_by_one(operand: Operand, values: Iterable[Value | None], *, sql: bool, null: bool) -> Predicate:
    """The same as a comparison with each value, where they cannot be members of one list."""
    parts = tuple(compare(operand, "=", value, sql=sql) for value in values if sql or value is not None)
    found = Or(parts) if len(parts) > 1 else parts[0]
    if sql:
        return found
    known = And((Not(IsNull(operand)), found))
    return Or((known, IsNull(operand))) if null else known


def _members(operand: Operand, value: Value, *, sql: bool) -> list[Any]:
    """The values of the operand's type that are a member if `value` is in the list: none, one, both zeros."""
    if isinstance(value, float | Decimal) and is_nan(value):
        return [pa.scalar(float(value), operand.type)] if pt.is_floating(operand.type) else []
    if not sql and pt.is_float32(operand.type) and isinstance(value, float):
        # Arrow casts the list to the column's type, rounding to nearest.
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    floor, exact = fit(value, operand.type, str(operand))
    if not exact:
        return []
    if sql and pt.is_floating(operand.type) and floor.as_py() == 0:
        return [pa.scalar(0.0, operand.type), pa.scalar(-0.0, operand.type)]
    return [floor]


def _meet(operand: Operand, value: Value, *, sql: bool) -> tuple[Operand, Value]:
    """Bring operand and literal to where engines compare them, if that is not exactly where they are."""
    kind = operand.type
    if sql and pt.is_floating(kind) and isinstance(value, int | Decimal) and not isinstance(value, bool):
        # SQL engines cast integers and decimals to the column's float type: 0.1 finds the nearest float.
        with np.errstate(over="ignore"):
            near = nearest_float(value) if pt.is_float64(kind) else float(np.float32(str(value)))
            return operand, near
    if pt.is_decimal(kind) and isinstance(value, float) and not is_nan(value):
        if kind.precision <= _FLOAT_DIGITS and fit(value, kind, str(operand)).exact:
            return operand, value
        cast = operand.expression().cast(pa.float64())
        return Computed(f"cast({operand} as double)", pa.float64(), operand.columns, cast), value
    return operand, value


def _compare_nan(operand: Operand, operator: Operator, *, sql: bool) -> Predicate:
    numeric = pt.is_integer(operand.type) or pt.is_decimal(operand.type) or pt.is_floating(operand.type)
    if not numeric:
        raise wrong_kind("NaN", operand.type, str(operand))
    if not sql:
        return Always(operand, truth=operator == "!=")
    if not pt.is_floating(operand.type):
        return Always(operand, truth=operator in ("<", "<=", "!="))
    if operator in ("=", ">="):
        return IsNaN(operand)
    if operator in ("!=", "<"):
        return Not(IsNaN(operand))
    return Always(operand, truth=operator == "<=")

"""Filters as conditions on Spark's columns, where Spark gives every row the truth that we would.

What it may see otherwise (floats and their NaN, timestamps of other units, values inside others, functions)
is left to our reader. Pure: no request, no session."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)

from crdtcat.scan.filters import predicate as tree
from crdtcat.scan.filters.operand import Field

_LONGS: Final = range(-(2**63), 2**63)
MEMBERS_MAX: Final = 1000
"""Of a list: each is an object of the JVM, made one by one, and part of a plan that is copied many times."""
_COMPARED: Final = (
    pt.is_integer,
    pt.is_string,
    pt.is_large_string,
    pt.is_boolean,
    pt.is_date32,
    pt.is_decimal,
)


def condition(node: tree.Predicate, names: Mapping[str, str] | None = None) -> Any:
    """A predicate as a condition on Spark's columns, if Spark gives every row the same truth; else `None`.

    `names` tells what columns are called in the frame, if not as they are in the table."""
    if isinstance(node, tree.Constant):
        return F.lit(node.value).cast("boolean")
    if isinstance(node, tree.Not):
        inner = condition(node.part, names)
        return None if inner is None else ~inner
    if isinstance(node, tree.And | tree.Or):
        parts = [condition(part, names) for part in node.parts]
        if any(part is None for part in parts):
            return None
        joined = parts[0]
        for part in parts[1:]:
            joined = joined & part if isinstance(node, tree.And) else joined | part
        return joined
    return _leaf(node, names)


def _leaf(node: tree.Predicate, names: Mapping[str, str] | None) -> Any:
    if not isinstance(node, tree.Compare | tree.In | tree.IsNull):
        return None
    operand = node.operand
    if not isinstance(operand, Field) or len(operand.path) != 1:
        return None
    name = operand.path[0]
    column = F.col(quoted(name if names is None else names[name]))
    if isinstance(node, tree.IsNull):
        return column.isNull()
    if not any(kind(operand.type) for kind in _COMPARED):
        return None
    try:
        return _compared(column, node)
    except OverflowError:  # days that Python has no name for, and Spark takes from it
        return None


def _compared(column: Any, node: tree.Compare | tree.In) -> Any:
    if isinstance(node, tree.In):
        if node.null is not None or len(node.values) > MEMBERS_MAX:
            return None
        return column.isin([_plain(value) for value in node.values])
    value = F.lit(_plain(node.value))
    return {
        "=": column == value,
        "!=": column != value,
        "<": column < value,
        "<=": column <= value,
        ">": column > value,
        ">=": column >= value,
    }[node.operator]


def _plain(value: pa.Scalar) -> Any:
    """A value as Spark takes it: an integer that is no long of Java's as a decimal, as such columns are."""
    plain = value.as_py()
    return Decimal(plain) if isinstance(plain, int) and plain not in _LONGS else plain


def quoted(name: str) -> str:
    """A column's name as Spark's parser takes it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"

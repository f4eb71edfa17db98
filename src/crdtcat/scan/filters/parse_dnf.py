"""Filters as tuples, in the disjunctive normal form that `pyarrow.parquet` takes.

`[(column, operator, value), ...]` holds where every tuple does; a list of such lists holds where one of them
does. Operators: `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, and without a value `is null`,
`is not null`. A column is a name, or a tuple of names for a field inside structs.

The rows are those pyarrow gives, with its two readings of null: a comparison with null matches nothing, while
in lists null is a value like others (`not in [1]` keeps nulls). Where pyarrow refuses a literal that has
another width than the column (an integer against a decimal, a float against a large integer), this compares
exactly instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters.compare import compare, contained
from crdtcat.scan.filters.literals import normalize
from crdtcat.scan.filters.operand import resolve
from crdtcat.scan.filters.predicate import And, IsNull, Not, Operator, Or, Predicate
from crdtcat.support.showing import shown

_SIGNS: dict[str, Operator] = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_EXAMPLE = "expected tuples such as [('amount', '>', 10), ('country', 'in', ['DE', 'FR'])]"


def parse_dnf(filters: Sequence[Any], schema: pa.Schema) -> Predicate:
    """The predicate of a list of tuples, or of a list of lists of tuples.

    Raises:
        InvalidFilter: empty, malformed, an unknown column or operator, a literal of the wrong kind.
    """
    if not filters:
        raise InvalidFilter(f"an empty filter; {_EXAMPLE}")
    if all(isinstance(part, tuple) for part in filters):
        return _conjunction(filters, schema)
    if all(isinstance(part, list) for part in filters):
        parts = tuple(_conjunction(part, schema) for part in filters)
        return parts[0] if len(parts) == 1 else Or(parts)
    raise InvalidFilter(f"{shown(filters)} mixes tuples with other things; {_EXAMPLE}")


def _conjunction(filters: Sequence[Any], schema: pa.Schema) -> Predicate:
    if not filters:
        raise InvalidFilter(f"an empty list of conditions; {_EXAMPLE}")
    parts = tuple(_condition(part, schema) for part in filters)
    return parts[0] if len(parts) == 1 else And(parts)


def _condition(condition: Any, schema: pa.Schema) -> Predicate:
    if not isinstance(condition, tuple) or len(condition) not in (2, 3) or not isinstance(condition[1], str):
        raise InvalidFilter(f"{shown(condition, 200)} is not a condition; {_EXAMPLE}")
    name, sign, *rest = condition
    path = (name,) if isinstance(name, str) else name
    if not isinstance(path, tuple) or not path or not all(isinstance(part, str) for part in path):
        raise InvalidFilter(f"{shown(name)} is not a column name")
    field = resolve(path, schema)
    sign = " ".join(sign.lower().split())
    if sign in ("is null", "is not null"):
        if rest and rest[0] is not None:
            raise InvalidFilter(f"{shown(condition, 200)}: {shown(sign)} takes no value")
        return IsNull(field) if sign == "is null" else Not(IsNull(field))
    if not rest:
        raise InvalidFilter(f"{shown(condition, 200)}: {shown(sign)} needs a value")
    if sign in ("in", "not in"):
        found = contained(field, _members(rest[0]), sql=False)
        return found if sign == "in" else Not(found)
    if sign not in _SIGNS:
        known = ", ".join((*_SIGNS, "in", "not in", "is null", "is not null"))
        raise InvalidFilter(f"{shown(condition, 200)}: unknown operator {shown(sign)}; use one of {known}")
    return compare(field, _SIGNS[sign], normalize(rest[0]), sql=False)


def _members(values: Any) -> list[Any] | pa.Array:
    """What a list holds; an array stays one."""
    if isinstance(values, str | bytes) or not isinstance(
        values, Collection | np.ndarray | pa.Array | pa.ChunkedArray
    ):
        raise InvalidFilter(f"'in' and 'not in' take a list of values, not {shown(values)}")
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuf":
        return pa.array(values)
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return values if isinstance(values, pa.Array) else list(values)

"""Functions and casts of columns in SQL conditions.

Theory. Only what Arrow computes exactly as DuckDB does is taken. Parts of dates are those of wall time: a
timestamp with a zone has no year before somebody picks a zone, and DuckDB would pick the machine's, so those
are refused. Casts are taken where they can neither fail on a row nor print a value in another way than DuckDB
does, which leaves out text to numbers, narrower integers, and floats, decimals and times to text.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from sqlglot import exp

from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters.operand import Operand
from crdtcat.scan.filters.sql_errors import unsupported
from crdtcat.scan.filters.sql_literals import NAIVE, TEXTS
from crdtcat.scan.filters.sql_numbers import is_number

_TYPE = exp.DataType.Type
_INTEGERS = {
    _TYPE.SMALLINT: pa.int16(),
    _TYPE.INT: pa.int32(),
    _TYPE.BIGINT: pa.int64(),
}
_TEXT_FUNCTIONS: dict[str, Any] = {"lower": pc.utf8_lower, "upper": pc.utf8_upper, "length": pc.utf8_length}
_CLOCK_PARTS: dict[str, Any] = {"hour": pc.hour, "minute": pc.minute, "second": pc.second}
DATE_PARTS: dict[str, Any] = {"year": pc.year, "month": pc.month, "day": pc.day, **_CLOCK_PARTS}
"""The parts `extract` and `date_part` know, each also a function of its own."""


def apply(name: str, inner: Operand) -> Any:
    """The Arrow expression of a function of one operand.

    Raises:
        InvalidFilter: the operand has another type than the function takes.
    """
    kind = inner.type
    if name in _TEXT_FUNCTIONS:
        fits, needs = _is_text(kind), "text"
    else:
        naive = pt.is_timestamp(kind) and kind.tz is None
        fits, needs = naive or (pt.is_date(kind) and name not in _CLOCK_PARTS), "a timestamp without a zone"
        if name not in _CLOCK_PARTS:
            needs = f"a date or {needs}"
    if not fits:
        raise InvalidFilter(
            f"{name}({inner}) cannot be computed: {inner} is {kind}, and {name} needs {needs}; "
            "see docs/filters.md"
        )
    return {**_TEXT_FUNCTIONS, **DATE_PARTS}[name](inner.expression())


def cast_type(kind: pa.DataType, node: exp.Cast) -> pa.DataType:
    """The Arrow type for a cast of an operand of type `kind`.

    Raises:
        InvalidFilter: the cast is not taken.
    """
    wanted = node.to.this
    found: pa.DataType | None = None
    if wanted is _TYPE.DOUBLE and is_number(kind):
        found = pa.float64()
    elif wanted in _INTEGERS and pt.is_integer(kind):
        found = _INTEGERS[wanted] if _holds(_INTEGERS[wanted], kind) else None
    elif wanted in TEXTS and not node.to.expressions:
        found = kind if _is_text(kind) else pa.string() if _prints_alike(kind) else None
    elif wanted is _TYPE.DATE and pt.is_timestamp(kind) and kind.tz is None:
        found = pa.date32()
    elif wanted in NAIVE and pt.is_date(kind):
        found = pa.timestamp("us")
    if found is None:
        raise unsupported(node)
    return found


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether a signed type holds every value of an integer type."""
    fits: bool = narrow.bit_width + pt.is_unsigned_integer(narrow) <= wide.bit_width
    return fits


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _prints_alike(kind: pa.DataType) -> bool:
    """Whether Arrow and DuckDB write every value of the type with the same characters."""
    return bool(pt.is_integer(kind) or pt.is_boolean(kind))

"""What to say of values that do not fit a column: what it holds, which value in which row, what to do.

The casts of `crdtcat.chunks.casts` say why a cast failed; a user wants to know what to change. Advice follows
from the two types: widen the column where a type holds both, make a new one where none does, add or remove a
time zone where that is all that is wrong. No I/O, and nothing is ever changed here.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from crdtcat.chunks.casts import cast_lossless
from crdtcat.chunks.widen import widen
from crdtcat.errors import SchemaMismatch


def cast_rows(values: pa.Array | pa.ChunkedArray, to: pa.DataType, column: str) -> pa.Array | pa.ChunkedArray:
    """`cast_lossless`, whose error names the first row that does not fit, its value, and what to do.

    Cost: one cast; on failure as much again, by halving. Raises `SchemaMismatch`, `UnsupportedType`.
    """
    try:
        return cast_lossless(values, to, column)
    except SchemaMismatch as error:
        row = _first_misfit(values, to)
        raise refusal(column, to, values.type, row=row, value=str(values[row]), why=_nested(error)) from error


def refusal(
    column: str,
    held: pa.DataType,
    given: pa.DataType | None,
    *,
    row: int | None = None,
    value: str = "",
    why: str = "",
) -> SchemaMismatch:
    """The error for values of type `given` in a column that holds `held`.

    Args:
        column: its name.
        held: what the column holds.
        given: what the rows hold, where that is known.
        row: the row the value is in, counted from the start of the rows or batch given.
        value: the value, as text.
        why: what is wrong with it, where the types do not say.
    """
    shown = value if len(value) <= 80 else f"{value[:77]}..."
    what = f"the rows have {given}" if row is None else f"row {row} has {shown}"
    if row is not None and given is not None:
        what += f" ({given})"
    reason = f" ({why})" if why else ""
    return SchemaMismatch(
        f"column {column!r} holds {held}, and {what}, which does not fit{reason}: {advice(held, given)}"
    )


def advice(held: pa.DataType, given: pa.DataType | None) -> str:
    """What to do about values of type `given` for a column of type `held`."""
    if pa.types.is_null(held):
        return (
            "a column of type null holds nothing else until it is widened: call widen_column() first; "
            "in a stream, let the first batch bring the type"
        )
    if given is None:
        return "change the value, or leave it out"
    if (
        pa.types.is_timestamp(held)
        and pa.types.is_timestamp(given)
        and (held.tz is None) != (given.tz is None)
    ):
        times = "times with and without a timezone never meet"
        if held.tz is None:
            return f"{times}; take the timezone off the values, or put them into a column that has one"
        return f"{times}; add a timezone to the values (datetime.replace(tzinfo=...), or a cast)"
    wider = widen(held, given)
    if wider is None:
        return (
            f"cast the rows; if the column should hold such values, {held} cannot be widened to {given} "
            "without loss: use a new column or table"
        )
    return (
        "cast the rows"
        if wider == held
        else f"cast the rows, or widen the column to {wider} with widen_column()"
    )


def _first_misfit(values: pa.Array | pa.ChunkedArray, to: pa.DataType) -> int:
    good, bad = 0, len(values)  # all before `good` fit; one before `bad` does not
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            cast_lossless(values.slice(good, middle - good), to)
            good = middle
        except SchemaMismatch:
            bad = middle
    return good


def _nested(error: SchemaMismatch) -> str:
    """The cast's own words where they say more than "a value did not fit": a struct's field."""
    text: Any = error.args[0]
    return str(text) if "no such field" in str(text) else ""

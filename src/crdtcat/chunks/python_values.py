"""Python values as Arrow arrays, exactly, or not at all.

`pa.array(values, type)` cuts what does not fit: 1.5 becomes 1 in an int64, a struct loses the keys its type
does not name, a datetime loses its time of day in a date. Here a value is taken only if reading it back
gives an equal one:

| column | takes |
|---|---|
| integers | whole numbers of any kind, but no booleans |
| floats | floats; integers and decimals that are exact |
| decimals | integers and decimals that are exact; floats by the digits they print |
| dates | dates; naive datetimes at midnight |
| timestamps without zone | naive datetimes, dates |
| timestamps with a zone | datetimes with a timezone, of any zone |
| times, durations | `time` without a timezone; `timedelta` |
| text, bytes, booleans | `str`; `bytes` and the like, `UUID` where there are 16; `bool` |
| lists | lists, tuples, sets, one-dimensional numpy arrays |
| structs | dicts; a missing key is null, a key too many is refused unless its value is null |
| maps | dicts, lists of pairs |

numpy scalars and the Timestamp, Timedelta, NaT and NA of pandas count as what they are; a `datetime64` that
counts days is a date. One thing is rounded: Python has no float32, so a Python float in a float32 or float16
column becomes the nearest one; a finite float that would become infinite is refused. 0.0 and -0.0 count as
equal.

Nested values are taken apart column by column, so a leaf's values are looked at together: where all are of
the one Python type that pyarrow converts exactly, they are not looked at one by one. No I/O.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.chunks import python_leaves
from crdtcat.chunks.casts import cast_lossless
from crdtcat.chunks.misfits import refusal
from crdtcat.chunks.python_leaves import Misfit, is_null, plain_date
from crdtcat.chunks.type_codes import check_depth, list_kind
from crdtcat.errors import LimitExceeded, SchemaMismatch
from crdtcat.limits import NESTING_DEPTH_MAX
from crdtcat.support.showing import shown

FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)
"""What pyarrow raises for Python values that do not fit a type, or each other."""

_PLAIN = {type(None), bool, int, float, str, bytes, dict, list, tuple, Decimal, dt.date, dt.datetime}


def python_array(values: Sequence[Any], t: pa.DataType | None, column: str) -> pa.Array:
    """The values of a column as an array of type `t`, or of the type they have in common.

    Cost: O(values). Raises `SchemaMismatch` by column and row, `LimitExceeded` for values nested too deeply.
    """
    require_shallow(values, column)
    values = _settled(list(values))
    wanted = _inferred(values, column) if t is None else t
    try:
        return _build(values, wanted)
    except Misfit as error:
        value = values[error.index]
        if t is None:
            raise SchemaMismatch(
                f"column {column!r}, row {error.index}: {shown(value)} does not fit the {wanted} of the "
                f"other rows ({error.why}): make the values of a column alike"
            ) from error
        raise refusal(
            column, t, _type_of(value), row=error.index, value=shown(value), why=error.why
        ) from error


def require_shallow(values: Iterable[Any], column: str) -> None:
    """Raises `LimitExceeded` for values nested too deeply, or in themselves: pyarrow would crash."""
    level: list[Iterable[Any]] = [values]
    depth = 0
    while holding := [t for t in set(map(type, chain(*level))) if issubclass(t, list | tuple | dict)]:
        depth += 1
        check_depth(repr(column), depth)
        found = [value for value in chain(*level) if type(value) in holding]
        distinct = dict(zip(map(id, found), found, strict=True)).values()
        level = [value.values() if isinstance(value, dict) else value for value in distinct]


def require_near(rows: Any) -> None:
    """Raises `LimitExceeded` for rows in lists inside each other, or in a list that holds itself: each would
    be opened inside the one before, until Python's stack ends."""
    depth = 0
    while isinstance(rows, list | tuple) and rows:
        depth += 1
        if depth > NESTING_DEPTH_MAX:
            raise LimitExceeded(
                f"rows in more than {NESTING_DEPTH_MAX} lists inside each other: give a list of dicts"
            )
        rows = rows[0]


def _inferred(values: list[Any], column: str) -> pa.DataType:
    try:
        found = pa.array(values).type
    except FAILURES as error:
        row = python_leaves.first_failure(values, None)
        wrong = "does not fit the type of the rows before: make the values of a column alike"
        if isinstance(error, UnicodeEncodeError):
            wrong = "is no Unicode text: mend it, or give bytes"
        elif not _has_a_type(values[row]):
            wrong = "is no value that Arrow has a type for: convert it, to text say"
        raise SchemaMismatch(
            f"column {column!r}, row {row}: {shown(values[row])} {wrong} ({error})"
        ) from error
    fine = any(getattr(v, "nanosecond", 0) or getattr(v, "nanoseconds", 0) for v in values)
    if fine and pa.types.is_timestamp(found):  # pyarrow takes microseconds from a pandas.Timestamp
        return pa.timestamp("ns", found.tz)
    return pa.duration("ns") if fine and pa.types.is_duration(found) else found


def _has_a_type(value: Any) -> bool:
    try:
        pa.array([value])
    except FAILURES:
        return False
    return True


def _type_of(value: Any) -> pa.DataType | None:
    """The type of a value for an error's advice; plain values only: pyarrow 26 can crash on odd mixtures."""
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value):
        types = {name: _type_of(item) for name, item in value.items()}
        return None if None in types.values() else pa.struct(list(types.items()))
    if isinstance(value, list) and value:
        item = _type_of(value[-1])
        return None if item is None else pa.list_(item)
    if type(value) not in _PLAIN or isinstance(value, dict | list | tuple):
        return None
    try:
        return pa.array([value]).type
    except FAILURES:
        return None


def _settled(values: list[Any]) -> list[Any]:
    """Every null as None, Arrow's scalars as what they hold, numpy's days as dates."""
    if set(map(type, values)) <= _PLAIN:
        return values
    held = (value.as_py() if isinstance(value, pa.Scalar) else value for value in values)
    return [None if is_null(value) else plain_date(value) for value in held]


def _build(values: list[Any], t: pa.DataType) -> pa.Array:
    values = _settled(values)
    if isinstance(t, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(t, _build(values, t.storage_type))
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return cast_lossless(_build(values, t.value_type), t)
    if pa.types.is_struct(t):
        return _finished(_structs(values, t), t)
    if pa.types.is_map(t):
        return _finished(_maps(values, t), t)
    if list_kind(t) is not None:
        return _finished(_lists(values, t), t)
    return python_leaves.leaf_array(values, t)


def _finished(array: pa.Array, t: pa.DataType) -> pa.Array:
    """The kind of list, and what may be null: nothing else is left to differ."""
    try:
        return cast_lossless(array, t)
    except SchemaMismatch as error:
        row = next(i for i in range(len(array)) if not _fits(array.slice(i, 1), t))
        raise Misfit(row, str(error.args[0])) from error


def _fits(array: pa.Array, t: pa.DataType) -> bool:
    try:
        cast_lossless(array, t)
    except SchemaMismatch:
        return False
    return True


def _structs(values: list[Any], t: pa.DataType) -> pa.Array:
    names = {field.name for field in t}
    for index, value in enumerate(values):
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise Misfit(index, f"{type(value).__name__} is not a dict")
        extra = [key for key in value.keys() - names if not is_null(value[key])]
        if extra:
            raise Misfit(index, f"the struct has no field {extra[0]!r}")
    nulls = [value is None for value in values]
    if not names:
        return pa.array([None if null else {} for null in nulls], t)
    children = [
        _within(
            f".{field.name}",
            [None if null else value.get(field.name) for value, null in zip(values, nulls, strict=True)],
            field.type,
            lambda index: index,
        )
        for field in t
    ]
    fields = [pa.field(field.name, field.type) for field in t]
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(nulls, pa.bool_()))


def _lists(values: list[Any], t: pa.DataType) -> pa.Array:
    flat, offsets, nulls = _flattened(values, _items)
    if pa.types.is_fixed_size_list(t):
        for index, null in enumerate(nulls):
            size = offsets[index + 1] - offsets[index]
            if not null and size != t.list_size:
                raise Misfit(index, f"{size} items, not {t.list_size}")
    items = _within("[]", flat, t.value_type, lambda index: bisect_right(offsets, index) - 1)
    return pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), items, mask=pa.array(nulls, pa.bool_())
    )


def _maps(values: list[Any], t: pa.DataType) -> pa.Array:
    flat, offsets, nulls = _flattened(values, _pairs)

    def row_of(index: int) -> int:
        return bisect_right(offsets, index) - 1

    for index, (key, _) in enumerate(flat):
        if is_null(key):
            raise Misfit(row_of(index), "a key of a map is never null")
    keys = _within(" key", [key for key, _ in flat], t.key_type, row_of)
    items = _within(" value", [item for _, item in flat], t.item_type, row_of)
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), keys, items, mask=pa.array(nulls, pa.bool_())
    )


def _flattened(
    values: list[Any], items: Callable[[Any], list[Any] | None]
) -> tuple[list[Any], list[int], list[bool]]:
    """All items one after the other, where each row's begin and the last's end, and which rows are null."""
    flat: list[Any] = []
    offsets, nulls = [0], []
    for index, value in enumerate(values):
        nulls.append(value is None)
        if not nulls[-1]:
            found = items(value)
            if found is None:
                raise Misfit(index, f"{type(value).__name__} in place of a list or map")
            flat += found
        offsets.append(len(flat))
    return flat, offsets, nulls


def _items(value: Any) -> list[Any] | None:
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            return None
        return list(value.tolist() if value.dtype.kind in "biufUO" else value)
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping) or not hasattr(value, "__len__"):
        return None
    return list(value)


def _pairs(value: Any) -> list[Any] | None:
    pairs = list(value.items()) if isinstance(value, Mapping) else _items(value)
    if pairs is None or any(not isinstance(pair, list | tuple) or len(pair) != 2 for pair in pairs):
        return None
    return pairs


def _within(path: str, values: list[Any], t: pa.DataType, row_of: Callable[[int], int]) -> pa.Array:
    try:
        return _build(values, t)
    except Misfit as error:
        raise Misfit(row_of(error.index), f"at {path.strip()}: {error.why}") from error

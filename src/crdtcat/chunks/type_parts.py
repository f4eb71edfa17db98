"""The types within a type, and the same type around others: for whatever changes types from the inside.

Parts are listed in one order for all who ask: a struct's fields, a map's key and value, a list's items, what
a dictionary, a run or an extension holds. An extension keeps its storage: around another it would be another
type, or none. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.type_codes import LISTS, list_kind


def parts(t: pa.DataType) -> list[pa.DataType]:
    """The types directly within `t`; none in a leaf."""
    if is_leaf(t):  # nearly always, and told without asking for every kind there is
        return []
    if isinstance(t, pa.BaseExtensionType):
        return [t.storage_type]
    if pa.types.is_struct(t):
        return [field.type for field in t]
    if pa.types.is_map(t):
        return [t.key_type, t.item_type]
    return [t.value_type] if is_encoded(t) or list_kind(t) is not None else []


def around(t: pa.DataType, inner: Sequence[pa.DataType]) -> pa.DataType:
    """`t` around other parts, as many as it has; field names and what may be null stay."""
    if inner == parts(t) or isinstance(t, pa.BaseExtensionType):
        return t
    if pa.types.is_struct(t):
        return pa.struct([field.with_type(kind) for field, kind in zip(t, inner, strict=True)])
    if pa.types.is_map(t):
        return pa.map_(inner[0], t.item_field.with_type(inner[1]), keys_sorted=t.keys_sorted)
    if pa.types.is_dictionary(t):
        return pa.dictionary(t.index_type, inner[0], ordered=t.ordered)
    if pa.types.is_run_end_encoded(t):
        return pa.run_end_encoded(t.run_end_type, inner[0])
    item, kind = t.value_field.with_type(inner[0]), list_kind(t)
    return pa.list_(item, t.list_size) if kind == "fixed_size_list" else LISTS[kind or "list"][1](item)


def is_leaf(t: pa.DataType) -> bool:
    """Whether there is no type within `t`."""
    return not (t.num_fields or isinstance(t, pa.BaseExtensionType | pa.DictionaryType))


def is_plain(t: pa.DataType) -> bool:
    """Whether a count of nulls tells whether a row of this type is null, and it is stored as one leaf.

    The entries of dictionaries and the runs of run ends have nulls of their own.
    """
    wrapped = isinstance(t, pa.BaseExtensionType) or pt.is_dictionary(t) or pt.is_run_end_encoded(t)
    return not (wrapped or pt.is_null(t) or pt.is_interval(t) or t.num_fields)


def is_encoded(t: pa.DataType) -> bool:
    """Whether values lie behind a dictionary or in runs."""
    return bool(pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t))


def without_encodings(t: pa.DataType) -> pa.DataType:
    """`t` without dictionaries and runs, at any depth: types that agree in this hold the same values.

    Values of such types have equal storage arrays, so one may be shown as the other without a cast.
    """
    return t if is_leaf(t) else _mapped(t, lambda part: part.value_type if is_encoded(part) else part)


def roomy(t: pa.DataType) -> pa.DataType:
    """`t` with indices and run ends of no fewer than 32 bits, dictionaries unordered: for values that nobody
    has counted yet, or put in an order."""

    def wide(part: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(part):
            return pa.dictionary(max(part.index_type, pa.int32(), key=lambda t: t.bit_width), part.value_type)
        if pa.types.is_run_end_encoded(part) and part.run_end_type.bit_width < 32:
            return pa.run_end_encoded(pa.int32(), part.value_type)
        return part

    return _mapped(t, wide)


def _mapped(t: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """`change` of every part from the inside out, and then of `t` itself."""
    return change(around(t, [_mapped(part, change) for part in parts(t)]))

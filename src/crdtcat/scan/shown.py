"""From stored arrays to the columns of today: widened, restored to their types, null where there is nothing.

Arrow cannot filter, gather or replace values of all its types, and can of all storage types. So rows that
still have to be moved about are kept as storage arrays of the column's type (`stored_column`), and become
what users see last (`as_shown`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from crdtcat.chunks.types import (
    cast_lossless,
    decode_type,
    is_lossless,
    restored,
    storage_type,
    to_storage,
    without_encodings,
)
from crdtcat.format.ops import ColumnId
from crdtcat.format.schema_code import StoredField
from crdtcat.head.columns import Column


def shown_column(column: Column, field: StoredField | None, stored: pa.Table) -> pa.ChunkedArray:
    """A column as users see it, from the stored field that holds it; `None` reads as null."""
    if field is None:
        nulls = pa.nulls(stored.num_rows, storage_type(column.type, column.name))
        return restored([nulls], column.type, column.name, column.order)
    arrays, logical = stored.column(field.name).chunks, decode_type(field.type)
    if without_encodings(logical) == without_encodings(column.type):
        return restored(arrays, column.type, column.name, column.order)
    found = cast_lossless(restored(arrays, logical, column.name), column.type)
    if not column.order:
        return found
    return restored(map(to_storage, found.chunks), column.type, column.name, column.order)


def stored_column(column: Column, field: StoredField | None, stored: pa.Table) -> pa.Array:
    """The same rows as one storage array of the column's type."""
    if field is not None and without_encodings(decode_type(field.type)) == without_encodings(column.type):
        return _one(stored.column(field.name))
    return to_storage(shown_column(column, field, stored), column.name)


def retyped(held: pa.ChunkedArray, column: Column, wanted: pa.DataType) -> pa.ChunkedArray:
    """A column's storage arrays as those of another type; null where that cannot hold its values."""
    if without_encodings(column.type) == without_encodings(wanted):
        return held
    if not is_lossless(column.type, wanted):
        return pa.chunked_array([pa.nulls(len(held), storage_type(wanted))])
    shown = restored(held.chunks, column.type, column.name)
    arrays = [to_storage(array, column.name) for array in cast_lossless(shown, wanted).chunks]
    return pa.chunked_array(arrays, storage_type(wanted))


def matching(there: Sequence[Column], wanted: Sequence[Column]) -> list[Column | None]:
    """For each column of some head, the column of another that it is, by whatever name; of several the first.
    O(columns)."""
    first: dict[ColumnId, int] = {}
    for number, held in enumerate(there):
        for instance in held.instances:
            first.setdefault(instance, number)
    found = [[first[instance] for instance in column.instances if instance in first] for column in wanted]
    return [there[min(numbers)] if numbers else None for numbers in found]


def brought(rows: pa.Table, held: Sequence[Column | None], wanted: Sequence[Column]) -> pa.Table:
    """Columns of one head, held as storage arrays, as those of another; null where there is none.

    `held` are the columns as `matching` finds them; the rows are of those of them that are there."""
    arrays = [
        pa.nulls(rows.num_rows, storage_type(column.type))
        if there is None
        else retyped(rows.column(there.name), there, column.type)
        for there, column in zip(held, wanted, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=[column.name for column in wanted])


def as_shown(columns: Sequence[Column], stored: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns held as storage arrays, under their names, as users see them."""
    arrays = []
    for column in columns:
        held = stored.column(column.name)
        if held.type != column.type:
            held = restored(held.chunks, column.type, column.name, column.order)
        arrays.append(held)
    return pa.Table.from_arrays(arrays, schema=schema)


def _one(array: pa.ChunkedArray) -> pa.Array:
    return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()

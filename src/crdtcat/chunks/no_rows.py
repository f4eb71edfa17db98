"""A table without rows, of columns of any type.

Made by way of storage types: pyarrow makes empty arrays of most types and not of all (a list of extensions, a
dictionary of decimals within a list). No I/O.
"""

from __future__ import annotations

import pyarrow as pa

from crdtcat.chunks.storage_types import from_storage, storage_type
from crdtcat.chunks.type_parts import is_leaf


def no_rows(schema: pa.Schema) -> pa.Table:
    """No rows of these columns. Raises `UnsupportedType` for a type that no column has."""
    return pa.Table.from_arrays([_nothing(field) for field in schema], schema=schema)


def _nothing(field: pa.Field) -> pa.Array:
    if is_leaf(field.type):
        return pa.array([], field.type)
    return from_storage(pa.nulls(0, storage_type(field.type, field.name)), field.type, field.name)

"""Data frames of pandas and polars, neither of which is imported here, on their way to Arrow."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from crdtcat import names
from crdtcat.chunks.python_values import python_array
from crdtcat.errors import InvalidArgument, UnsupportedType

_NOT_IN_ARROW: Final = {
    "Object": "Python objects",
    "Int128": "integers of 128 bits",
    "UInt128": "integers of 128 bits",
}


def pandas_reader(data: Any) -> pa.RecordBatchReader:
    """A stream of a pandas DataFrame's rows: its columns, sparse ones in full, then the levels of its index.

    An index without a name is left out where it only numbers the rows. Columns of Python objects are taken as
    lists of Python values are: exactly, see `crdtcat.chunks.python_values`, where pyarrow would cut.

    Raises `InvalidArgument`, `InvalidName`, `SchemaMismatch`.
    """
    if type(data).__name__ != "DataFrame":
        raise InvalidArgument(f"cannot take rows from a {type_name(data)}; call .to_frame() on it first")
    levels = _levels(data.index)
    found = [*data.columns, *(level.name for level in levels)]
    odd = [name for name in found if not isinstance(name, str)]
    if odd:
        raise InvalidArgument(f"pandas column name {odd[0]!r} is not a text: rename the columns first")
    names.validate_column_names(found)
    columns = [*(data[name] for name in data.columns), *levels]
    return pa.table([pandas_column(held, held.name) for held in columns], found).to_reader()


def _levels(index: Any) -> list[Any]:
    """The columns that an index stands for. Raises `InvalidArgument` where they have no name."""
    count, unnamed = index.nlevels, [name for name in index.names if name is None]
    if unnamed and count == 1 and (index.dtype.kind in "iu" or not len(index)):
        return []
    if unnamed:
        raise InvalidArgument(
            f"the frame's index ({', '.join(map(str, index.dtypes if count > 1 else [index.dtype]))}) has no "
            'name: .rename_axis("name") makes a column of it, .reset_index(drop=True) drops it'
        )
    return [index.get_level_values(level).to_series() for level in range(count)]


def pandas_column(held: Any, name: str) -> pa.Array | pa.ChunkedArray:
    """A series or index of pandas without its labels; what pandas calls missing is null.

    Raises `InvalidArgument`, `SchemaMismatch`, `LimitExceeded`.
    """
    if held.dtype == object:
        values = [None if missing else value for value, missing in zip(held, held.isna(), strict=True)]
        return python_array(values, None, name)
    try:
        return pa.array(np.asarray(held) if is_sparse(held.dtype) else held, from_pandas=True)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidArgument(
            f"column {name!r} of {held.dtype} cannot be read as Arrow data: convert it ({error})"
        ) from error


def is_sparse(kind: Any) -> bool:
    """Whether this is the type of a pandas array that leaves out one value; Arrow has no such arrays."""
    return type(kind).__name__ == "SparseDtype"


def polars_data(data: Any) -> Any:
    """A frame or series of polars that can be given out as Arrow data; a lazy one is collected.

    Raises `InvalidArgument` for a series without fields, `UnsupportedType` for columns of a type that Arrow
    does not have: of Python objects polars gives out the addresses.
    """
    if type(data).__name__ == "LazyFrame":
        data = data.collect()
    if type(data).__name__ == "Series" and not hasattr(data.dtype, "fields"):
        raise InvalidArgument(f"cannot take rows from a {type_name(data)}; call .to_frame() on it first")
    for name, kind in getattr(data, "schema", {}).items():
        foreign = _NOT_IN_ARROW.keys() & _polars_kinds(kind)
        if foreign:
            raise UnsupportedType(
                f"column {name!r} holds {_NOT_IN_ARROW[foreign.pop()]} (polars {kind}): cast it"
            )
    return data


def _polars_kinds(kind: Any) -> set[str]:
    """The names of a polars type and of all within it; those of fields and categories are none of them."""
    inner = [kind.inner] if getattr(kind, "inner", None) is not None else []
    within = [*inner, *(field.dtype for field in getattr(kind, "fields", ()))]
    return {str(kind.base_type())}.union(*map(_polars_kinds, within))


def type_name(thing: Any) -> str:
    """What an error calls a thing: its type, with the module where that is not Python's own."""
    t = type(thing)
    return t.__qualname__ if t.__module__ == "builtins" else f"{t.__module__}.{t.__qualname__}"

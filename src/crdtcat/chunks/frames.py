"""Data frames of pandas and polars, neither of which is imported here, on their way to Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat import names
from crdtcat.chunks.python_values import require_shallow
from crdtcat.errors import InvalidArgument, UnsupportedType


def pandas_reader(data: Any) -> pa.RecordBatchReader:
    """A stream of a pandas DataFrame's rows, sparse columns in full, with its index where that has a name.

    Raises `InvalidArgument`, `InvalidName`.
    """
    if type(data).__name__ != "DataFrame":
        raise InvalidArgument(f"cannot take rows from a {type_name(data)}; call .to_frame() on it first")
    names.validate_column_names([name for name in data.columns if isinstance(name, str)])
    odd = [name for name in data.columns if not isinstance(name, str)]
    if odd:
        raise InvalidArgument(f"pandas column name {odd[0]!r} is not a text: rename the columns first")
    for name, kind in data.dtypes.items():
        if kind.kind == "O":
            require_shallow(data[name], name)
    full = {name: np.asarray(data[name]) for name, kind in data.dtypes.items() if is_sparse(kind)}
    data = data.assign(**full) if full else data
    if is_sparse(data.index.dtype):
        data = data.set_index(data.index.astype(data.index.dtype.subtype))
    named = any(name is not None for name in data.index.names)
    return pa.Table.from_pandas(data, preserve_index=named).to_reader()


def is_sparse(kind: Any) -> bool:
    """Whether this is the type of a pandas array that leaves out one value; Arrow has no such arrays."""
    return type(kind).__name__ == "SparseDtype"


def polars_data(data: Any) -> Any:
    """A frame or series of polars that can be given out as Arrow data; a lazy one is collected.

    Raises `UnsupportedType` for columns of Python objects: polars gives out their addresses.
    """
    if type(data).__name__ == "LazyFrame":
        data = data.collect()
    for name, kind in getattr(data, "schema", {}).items():
        if "Object" in str(kind):
            raise UnsupportedType(f"column {name!r} holds Python objects (polars {kind}): cast it")
    return data


def type_name(thing: Any) -> str:
    """What an error calls a thing: its type, with the module where that is not Python's own."""
    t = type(thing)
    return t.__qualname__ if t.__module__ == "builtins" else f"{t.__module__}.{t.__qualname__}"

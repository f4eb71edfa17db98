"""Everything users hand us, as one stream of Arrow record batches.

| given | how |
|---|---|
| Arrow Table, RecordBatch, RecordBatchReader, struct array | as it is |
| anything with `__arrow_c_stream__` or `__arrow_c_array__` (polars, DuckDB relations, ...) | its stream |
| pandas DataFrame | columns, sparse ones in full, and the index; one that only numbers rows is left out |
| polars LazyFrame | collected first: it is a query, not data |
| list of dicts | a column per key, a missing key is null |
| dict of columns | a column per key |
| iterable of any of these but dicts (`pandas.read_csv(chunksize=...)`, a generator of frames) | one by one |
| iterable of dicts | as a list of dicts: each is a row, also where its values are lists |

Readers, streams and iterables are passed on batch by batch and never held whole. Libraries are recognized by
the module of the object's type, so none is imported that the caller did not import. Schema metadata (pandas
writes some) and field metadata are dropped: they belong to one writer, not to the table.

Python values are taken exactly or refused, see `crdtcat.chunks.python_values`. The items of an iterable have
the same columns; the first decides their types, and later ones are cast where nothing is lost.

Names and types are checked before the first row is read: a bad name, a type that cannot be held, no columns
at all are errors with nothing written. No I/O of our own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat import names
from crdtcat.chunks.frames import pandas_column, pandas_reader, polars_data, type_name
from crdtcat.chunks.layout import count_nulls
from crdtcat.chunks.misfits import cast_rows
from crdtcat.chunks.python_values import python_array, require_near
from crdtcat.chunks.storage_types import storage_type
from crdtcat.errors import InvalidArgument, SchemaMismatch
from crdtcat.support.showing import shown

_ACCEPTED = (
    "an Arrow table, record batch or reader, anything with __arrow_c_stream__, a pandas or polars frame, "
    "a DuckDB relation, a list of dicts, a dict of columns, or an iterable of tables, of frames or of lists "
    "of dicts"
)

_NOTHING = object()


def reader(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """A stream of `data`'s rows. A reader or iterator that was given is used up by reading the result.

    Args:
        data: see the table above.
        schema: for lists of dicts and dicts of columns: the columns to make, in this order; keys it does not
            name are refused. Other data carries its own types, and this is ignored.

    Raises:
        InvalidArgument: not a thing that holds rows, or no columns.
        InvalidName: a column name that is not allowed.
        SchemaMismatch: values of one column that have no common type, by column and row.
        UnsupportedType: a type that Parquet cannot hold, by column.
    """
    try:
        source = _reader(data, schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"{type_name(data)} cannot be read as Arrow data: {error}") from error
    bare = pa.schema([field.remove_metadata() for field in source.schema])
    check_schema(bare)
    return source if bare.equals(source.schema, check_metadata=True) else _relabelled(source, bare)


def check_schema(schema: pa.Schema) -> None:
    """Checks that a table may have these columns, nested fields too. Cost: O(fields).

    Raises `InvalidArgument` if there are none, `InvalidName`, `LimitExceeded` or `UnsupportedType`.
    """
    if len(schema) == 0:
        raise InvalidArgument("the data has no columns: a table needs at least one")
    try:
        _check_again(schema)
    except TypeError:  # an extension type written in Python has no hash
        _check(schema)


def _check(schema: pa.Schema) -> None:
    names.validate_column_names(schema.names)
    for field in schema:
        storage_type(field.type, field.name)
        _check_nested(field.type)


_check_again = lru_cache(maxsize=1024)(_check)  # a program appends rows of the same few schemas


def _check_nested(t: pa.DataType) -> None:
    if isinstance(t, pa.BaseExtensionType):
        _check_nested(t.storage_type)
        return
    if pa.types.is_struct(t):
        names.validate_column_names(field.name for field in t)
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        _check_nested(t.value_type)
        return
    for i in range(t.num_fields):
        _check_nested(t.field(i).type)


def _relabelled(source: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """The same batches without metadata."""
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in source)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return _struct_reader(data)
    return _columns_reader(data, schema) if isinstance(data, Mapping) else _foreign_reader(data, schema)


def is_iterable_of_rows(data: Any) -> bool:
    """Whether `data` gives rows, or things that hold rows, one by one, rather than being such a thing."""
    single = (
        pa.RecordBatchReader | pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray | Mapping | str | bytes
    )
    if isinstance(data, single) or not isinstance(data, Iterable) or _is_one_value(data):
        return False
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and hasattr(data, "columns" if type(data).__name__ == "DataFrame" else "to_frame"):
        return False
    lazy = library == "polars" and type(data).__name__ == "LazyFrame"
    return not (lazy or hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"))


def _is_one_value(data: Any) -> bool:
    """Whether it is a numpy array of no dimension: it looks like a list, and has no length."""
    return isinstance(data, np.ndarray) and data.ndim == 0


def _foreign_reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if is_iterable_of_rows(data):
        return _iterable_reader(data, schema)
    library = type(data).__module__.partition(".")[0]
    if library == "pandas":
        return pandas_reader(data)
    if library == "polars":
        data = polars_data(data)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    hint = "; import_parquet() takes files" if isinstance(data, str | os.PathLike) else ""
    raise InvalidArgument(f"cannot take rows from {type_name(data)}; give {_ACCEPTED}{hint}")


def _struct_reader(data: pa.Array | pa.ChunkedArray) -> pa.RecordBatchReader:
    if not pa.types.is_struct(data.type):
        raise InvalidArgument(
            f"an Arrow array of {data.type} has no column names: give a struct array or a table"
        )
    chunks = data.chunks if isinstance(data, pa.ChunkedArray) else [data]
    if any(chunk.null_count for chunk in chunks):
        raise InvalidArgument("a struct array given as rows has null rows: drop them, a row is never null")
    batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in chunks]
    return pa.RecordBatchReader.from_batches(pa.schema(list(data.type)), batches)


def _columns_reader(
    data: Mapping[Any, Any], schema: pa.Schema | None, rows: int | None = None
) -> pa.RecordBatchReader:
    _check_keys(data, schema)
    sizes = {name: len(values) for name, values in data.items()}
    if len(set(sizes.values())) > 1:
        raise InvalidArgument(f"the columns have different lengths: {sizes}")
    if rows is None:
        rows = next(iter(sizes.values()), 0)
    if schema is None:
        return pa.table({name: _column(name, values, None) for name, values in data.items()}).to_reader()
    columns = [_column(field.name, data.get(field.name, [None] * rows), field.type) for field in schema]
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and (nulls := count_nulls(column)):
            raise SchemaMismatch(f"column {field.name!r} is declared not null, and has {nulls} nulls")
    return pa.table(columns, schema=schema).to_reader()


def _iterable_reader(data: Iterable[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    require_near(data)
    rest: Iterator[Any] = iter(data)
    first = next(rest, _NOTHING)
    if first is _NOTHING:
        if schema is None:
            raise InvalidArgument(
                f"an empty {type_name(data)} has no columns: give a table with a schema and no rows"
            )
        return pa.RecordBatchReader.from_batches(schema, [])
    if isinstance(first, Mapping):
        return _rows_reader([first, *rest], schema)
    check_item(first, type_name(data))
    start = reader(first)
    return continued(start, rest, start.schema)


def check_item(item: Any, container: str) -> None:
    """Raises `InvalidArgument`, naming the iterable's type, if its first item cannot hold rows."""
    signs = ("__iter__", "__arrow_c_stream__", "__arrow_c_array__", "collect")  # the last of a LazyFrame
    if isinstance(item, str | bytes) or not any(hasattr(item, sign) for sign in signs):
        raise InvalidArgument(f"cannot take rows from {container} of {type_name(item)}; give {_ACCEPTED}")


def continued(first: pa.RecordBatchReader, rest: Iterator[Any], schema: pa.Schema) -> pa.RecordBatchReader:
    """One stream of the rows of `first` and of every further item, all cast to `schema`. Reads nothing yet.

    Reading it raises `SchemaMismatch` for an item with other columns or a value that does not fit, and
    `InvalidArgument` for one that holds no rows, by the item's number.
    """
    return pa.RecordBatchReader.from_batches(schema, _batches(first, rest, schema))


def _batches(first: pa.RecordBatchReader, rest: Iterator[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    yield from (_alike(batch, schema, 0) for batch in first)
    for number, item in enumerate(rest, start=1):
        try:
            source = reader(item, schema)
        except (InvalidArgument, SchemaMismatch) as error:
            raise type(error)(f"item {number} is {type_name(item)}: {error.args[0]}") from error
        yield from (_alike(batch, schema, number) for batch in source)


def _alike(batch: pa.RecordBatch, schema: pa.Schema, number: int) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    if sorted(batch.schema.names) != sorted(schema.names):
        raise SchemaMismatch(
            f"item {number} has the columns {batch.schema.names}, and the first {schema.names}: "
            "make them equal"
        )
    try:
        columns = [cast_rows(batch.column(field.name), field.type, field.name) for field in schema]
    except SchemaMismatch as error:
        raise SchemaMismatch(f"item {number}: {error.args[0]}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _rows_reader(rows: list[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    keys: dict[Any, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidArgument(f"row {number} is {type_name(row)}, not a dict like those before")
        keys.update(dict.fromkeys(row))
    return _columns_reader({key: [row.get(key) for row in rows] for key in keys}, schema, len(rows))


def _check_keys(data: Mapping[Any, Any], schema: pa.Schema | None) -> None:
    known = set() if schema is None else set(schema.names)
    for key, values in data.items():
        if key is None:
            raise InvalidArgument(
                "a row has more fields than the header (a csv.DictReader keeps them under the key None): "
                "mend the file, or drop that key from the rows"
            )
        if not isinstance(key, str):
            raise InvalidArgument(f"column name {shown(key)} is {type_name(key)}, not a text")
        if isinstance(values, str | bytes) or not hasattr(values, "__len__") or _is_one_value(values):
            raise InvalidArgument(
                f"column {key!r} is {type_name(values)}, no list or array of values: for one row give [row]"
            )
        if schema is not None and key not in known:
            raise SchemaMismatch(
                f"column {key!r} is not in the schema {schema.names}: drop it, or add the column"
            )
    if schema is None:
        names.validate_column_names(data)  # before Arrow sees them: it takes no lone surrogates


def _column(name: str, values: Any, t: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    """Arrow, numpy and pandas have types of their own and are cast; Python's values take the column's."""
    if type(values).__module__.partition(".")[0] == "pandas":
        values = pandas_column(values, name)
    elif hasattr(values, "__arrow_c_stream__"):
        values = pa.chunked_array(values)
    if isinstance(values, np.ndarray) and values.dtype != object:
        try:
            values = pa.array(values)
        except (pa.ArrowException, ValueError) as error:
            raise InvalidArgument(
                f"column {name!r}, {type_name(values)}, is not one of values: {error}"
            ) from error
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values if t is None else cast_rows(values, t, name)
    return python_array(values, t, name)

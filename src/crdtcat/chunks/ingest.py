"""Everything users hand us, as one stream of Arrow record batches.

| given | how |
|---|---|
| Arrow Table, RecordBatch, RecordBatchReader, struct array | as it is |
| anything with `__arrow_c_stream__` or `__arrow_c_array__` (polars, DuckDB relations, ...) | its stream |
| pandas DataFrame | columns; the index only if it has a name |
| polars LazyFrame | collected first: it is a query, not data |
| list of dicts | a column per key, a missing key is null |
| dict of columns | a column per key |
| iterable of record batches or tables | one by one |

Readers, streams and iterables are passed on batch by batch and never held whole. Libraries are recognized by
the module of the object's type, so none is imported that the caller did not import. Schema metadata (pandas
writes some) and field metadata are dropped: they belong to one writer, not to the table.

Names and types are checked before the first row is read: a bad name, a type that cannot be held, no columns
at all are errors with nothing written. No I/O of our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa

from crdtcat import names
from crdtcat.chunks.casts import cast_lossless
from crdtcat.chunks.storage_types import storage_type
from crdtcat.errors import InvalidArgument, SchemaMismatch

_ACCEPTED = (
    "an Arrow table, record batch or reader, anything with __arrow_c_stream__, a pandas or polars frame, "
    "a DuckDB relation, a list of dicts, a dict of columns, or an iterable of record batches"
)

_MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)
"""What pyarrow raises for Python values that do not fit a type, or each other."""

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
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"{_name(data)} cannot be read as Arrow data: {error}") from error
    bare = source.schema.remove_metadata()
    bare = pa.schema([field.remove_metadata() for field in bare])
    check_schema(bare)
    return source if bare.equals(source.schema, check_metadata=True) else _relabelled(source, bare)


def check_schema(schema: pa.Schema) -> None:
    """Checks that a table may have these columns, nested fields too. Cost: O(fields).

    Raises `InvalidArgument` if there are none, `InvalidName`, `LimitExceeded` or `UnsupportedType`.
    """
    if len(schema) == 0:
        raise InvalidArgument("the data has no columns: a table needs at least one")
    names.validate_column_names(schema.names)
    for field in schema:
        storage_type(field.type, field.name)
        _check_nested(field.type)


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


def _foreign_reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    library = type(data).__module__.partition(".")[0]
    if library == "pandas":
        return _pandas_reader(data)
    if library == "polars" and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise InvalidArgument(f"cannot take rows from {_name(data)}; give {_ACCEPTED}")
    return _iterable_reader(data, schema)


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


def _pandas_reader(data: Any) -> pa.RecordBatchReader:
    if type(data).__name__ != "DataFrame":
        raise InvalidArgument(f"cannot take rows from a {_name(data)}; call .to_frame() on it first")
    odd = [name for name in data.columns if not isinstance(name, str)]
    if odd:
        raise InvalidArgument(f"pandas column name {odd[0]!r} is not a text: rename the columns first")
    named = any(name is not None for name in data.index.names)
    return pa.Table.from_pandas(data, preserve_index=named).to_reader()


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
        if not field.nullable and column.null_count:
            raise SchemaMismatch(
                f"column {field.name!r} is declared not null, and has {column.null_count} nulls"
            )
    return pa.table(columns, schema=schema).to_reader()


def _iterable_reader(data: Iterable[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    rest: Iterator[Any] = iter(data)
    first = next(rest, _NOTHING)
    if first is _NOTHING:
        if schema is None:
            raise InvalidArgument(
                f"an empty {_name(data)} has no columns: give a table with a schema and no rows"
            )
        return pa.RecordBatchReader.from_batches(schema, [])
    if isinstance(first, Mapping):
        return _rows_reader([first, *rest], schema)
    if isinstance(first, pa.RecordBatch | pa.Table):
        return pa.RecordBatchReader.from_batches(first.schema, _batches(chain([first], rest), first.schema))
    raise InvalidArgument(f"cannot take rows from {_name(data)} of {_name(first)}; give {_ACCEPTED}")


def _batches(items: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for number, item in enumerate(items):
        if not isinstance(item, pa.RecordBatch | pa.Table):
            raise InvalidArgument(
                f"item {number} is {_name(item)}, not a record batch or table like those before"
            )
        if item.schema != schema:
            raise SchemaMismatch(
                f"batch {number} has schema {item.schema}, the first has {schema}: make them equal"
            )
        yield from item.to_batches() if isinstance(item, pa.Table) else [item]


def _rows_reader(rows: list[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    keys: dict[Any, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidArgument(f"row {number} is {_name(row)}, not a dict like those before")
        keys.update(dict.fromkeys(row))
    return _columns_reader({key: [row.get(key) for row in rows] for key in keys}, schema, len(rows))


def _check_keys(data: Mapping[Any, Any], schema: pa.Schema | None) -> None:
    for key, values in data.items():
        if not isinstance(key, str):
            raise InvalidArgument(f"column name {key!r} is {_name(key)}, not a text")
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise InvalidArgument(f"column {key!r} is {_name(values)}, not a list or an array of values")
        if schema is not None and key not in schema.names:
            raise SchemaMismatch(
                f"column {key!r} is not in the schema {schema.names}: drop it, or add the column"
            )


def _column(name: str, values: Any, t: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    if hasattr(values, "__arrow_c_stream__"):
        values = pa.chunked_array(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values if t is None else cast_lossless(values, t, name)
    try:
        return pa.array(values, t)
    except _MISFITS as error:
        row, value = _first_misfit(values, t)
        wanted = f"type {t}" if t is not None else "the type of the rows before"
        raise SchemaMismatch(
            f"column {name!r}, row {row}: {value!r:.80} does not fit {wanted} ({error})"
        ) from error


def _first_misfit(values: Any, t: pa.DataType | None) -> tuple[int, Any]:
    """The first row that cannot join those before it, by halving: O(rows log rows), only on failure."""
    items = list(values)
    good, bad = 0, len(items)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pa.array(items[:middle], t)
            good = middle
        except _MISFITS:
            bad = middle
    return bad - 1, items[bad - 1]


def _name(thing: Any) -> str:
    t = type(thing)
    return t.__qualname__ if t.__module__ == "builtins" else f"{t.__module__}.{t.__qualname__}"

"""Arrow tables as data frames, scans as relations, of libraries that need not be there.

None of them holds every type that a table can; what one cannot is an error of ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crdtcat.errors import InvalidArgument, UnsupportedType
from crdtcat.support.showing import shown

if TYPE_CHECKING:
    from crdtcat.scan.scan import Scan


def as_pandas(table: pa.Table, **options: Any) -> Any:
    """A pandas DataFrame; `options` go to `pyarrow.Table.to_pandas`.

    Raises `InvalidArgument`: no pandas; `UnsupportedType`: it cannot hold these values.
    """
    _optional("pandas", "to_pandas", "pandas")
    of_values = () if options else (TypeError, ValueError)  # else they may be about the options
    with _named("pandas", pa.ArrowException, *of_values):
        return table.to_pandas(**options)


def as_polars(table: pa.Table) -> Any:
    """A polars DataFrame. Ordered texts are an `Enum` there, with the entries of all rows.

    Raises `InvalidArgument`: no polars; `UnsupportedType`: it cannot hold these values.
    """
    polars = _optional("polars", "to_polars", "polars")
    with _named("polars", polars.exceptions.PolarsError, polars.exceptions.PanicException):
        frame = polars.from_arrow(table)
        enums = {name: polars.Enum(entries) for name, entries in _orders(table)}
        return frame.cast(enums) if enums else frame


def _orders(table: pa.Table) -> Iterator[tuple[str, list[str]]]:
    """Columns that are ordered texts, and their entries in their order."""
    for field in table.schema:
        if pa.types.is_dictionary(field.type) and field.type.ordered and _is_text(field.type.value_type):
            whole = table.column(field.name).unify_dictionaries()
            yield field.name, whole.chunk(0).dictionary.to_pylist() if whole.num_chunks else []


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def as_duckdb(scan: Scan, connection: Any = None) -> Any:
    """A DuckDB relation over the rows of a scan, which are read when and as far as they are wanted.

    Raises `InvalidArgument`: no duckdb, no connection of it, no columns; `UnsupportedType`: it cannot hold
    such values.
    """
    duckdb = duckdb_module("to_duckdb")
    require_connection(duckdb, connection)
    rows = _duckdb_rows(scan)
    with _named("DuckDB", duckdb.NotImplementedException):
        return (connection or duckdb.connect()).from_arrow(rows)


def as_duckdb_view(scan: Scan, connection: Any, name: str) -> None:
    """The rows of a scan under a name in a connection. Raises as `as_duckdb` does."""
    rows = _duckdb_rows(scan)
    with _named("DuckDB", duckdb_module("sql").NotImplementedException):
        connection.register(name, rows)


def duckdb_module(wanted_by: str) -> Any:
    """DuckDB. Raises `InvalidArgument` where it is not installed."""
    return _optional("duckdb", wanted_by, "sql")


def _optional(name: str, wanted_by: str, extra: str) -> Any:
    """A module that need not be installed. Raises `InvalidArgument` where it is not."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C while an extension module was initialized
            raise KeyboardInterrupt from error
        raise InvalidArgument(f"{wanted_by} needs {name}: pip install 'crdtcat[{extra}]'") from error


def require_connection(duckdb: Any, connection: Any) -> None:
    """Raises `InvalidArgument` for what is neither None nor a connection of DuckDB."""
    if connection is not None and not isinstance(connection, duckdb.DuckDBPyConnection):
        raise InvalidArgument(f"connection={shown(connection, 60)}: pass a DuckDB connection")


def _duckdb_rows(scan: Scan) -> Any:
    from crdtcat.scan.duckdb_rows import DuckRows  # noqa: PLC0415 (brings in pyarrow.dataset)

    if not scan.schema.names:
        table = scan.plan.head.table
        raise InvalidArgument(f"table {table!r} has no columns yet, and DuckDB needs one")
    return DuckRows(scan)


@contextmanager
def _named(library: str, *errors: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise UnsupportedType(
            f"{library} cannot hold these values ({str(error)[:300]}): cast them in what to_table() returns"
        ) from error

"""Arrow tables as data frames and relations of libraries that need not be there.

None of them holds every type that a table can; what one cannot is an error of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from crdtcat.errors import InvalidArgument, UnsupportedType


def as_pandas(table: pa.Table, **options: Any) -> Any:
    """A pandas DataFrame; `options` go to `pyarrow.Table.to_pandas`.

    Raises `InvalidArgument`: no pandas; `UnsupportedType`: it cannot hold these values.
    """
    try:
        import pandas  # noqa: F401, ICN001, PLC0415 (optional)
    except ImportError as error:
        raise InvalidArgument("to_pandas needs pandas: pip install 'crdtcat[pandas]'") from error
    with _named("pandas", pa.ArrowException):
        return table.to_pandas(**options)


def as_polars(table: pa.Table) -> Any:
    """A polars DataFrame.

    Raises `InvalidArgument`: no polars; `UnsupportedType`: it cannot hold these values.
    """
    try:
        import polars  # noqa: ICN001, PLC0415 (optional)
    except ImportError as error:
        raise InvalidArgument("to_polars needs polars: pip install 'crdtcat[polars]'") from error
    with _named("polars", polars.exceptions.PolarsError, polars.exceptions.PanicException):
        return polars.from_arrow(table)


def as_duckdb(table: pa.Table, connection: Any = None) -> Any:
    """A DuckDB relation.

    Raises `InvalidArgument`: no duckdb; `UnsupportedType`: it cannot hold these values.
    """
    try:
        import duckdb  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise InvalidArgument("to_duckdb needs duckdb: pip install 'crdtcat[sql]'") from error
    if not table.column_names:
        raise InvalidArgument("there are no columns yet, and DuckDB needs one")
    with _named("DuckDB", duckdb.NotImplementedException):
        return (connection or duckdb.connect()).from_arrow(table)


@contextmanager
def _named(library: str, *errors: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise UnsupportedType(
            f"{library} cannot hold these values ({str(error)[:300]}): cast them in what to_table() returns"
        ) from error

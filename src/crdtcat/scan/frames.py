"""Arrow tables as data frames of libraries that need not be there."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from crdtcat.errors import InvalidArgument


def as_pandas(table: pa.Table, **options: Any) -> Any:
    """A pandas DataFrame; `options` go to `pyarrow.Table.to_pandas`. Raises `InvalidArgument`: no pandas."""
    try:
        import pandas  # noqa: F401, ICN001, PLC0415 (optional)
    except ImportError as error:
        raise InvalidArgument("to_pandas needs pandas: pip install 'crdtcat[pandas]'") from error
    return table.to_pandas(**options)


def as_polars(table: pa.Table) -> Any:
    """A polars DataFrame. Raises `InvalidArgument` without polars."""
    try:
        import polars  # noqa: ICN001, PLC0415 (optional)
    except ImportError as error:
        raise InvalidArgument("to_polars needs polars: pip install 'crdtcat[polars]'") from error
    return polars.from_arrow(table)

"""A scan as DuckDB reads it: bound to one snapshot, and told what the query wants of it.

DuckDB asks an Arrow dataset for a scanner with the columns a query uses and with the conditions it leaves to
the source, and takes the rows as a stream. So chunks that cannot match are never fetched, of the others only
the columns wanted, and memory stays bounded. What it does not hand over (functions, comparisons of floats,
joins) it applies to the rows itself. A condition that cannot be planned with is applied to the rows here.

Importing this brings in `pyarrow.dataset`: only for those who use DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from crdtcat.errors import InvalidFilter, LimitExceeded

if TYPE_CHECKING:
    from crdtcat.scan.scan import Scan


class DuckRows(ds.Dataset):  # type: ignore[misc]
    """The rows of a scan, as many times as they are asked for.

    Args:
        scan: what to read.
    """

    def __init__(self, scan: Scan) -> None:
        self._scan = scan  # the base class is made by Arrow's factories alone, and none of it is used

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._scan.schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_options: Any) -> _Scanner:
        """What DuckDB asks: some columns of the rows that meet a condition. No request yet."""
        try:
            return _Scanner(self._scan.narrowed(columns, filter))
        except (InvalidFilter, LimitExceeded):  # DuckDB's conditions, not the caller's: Arrow's matter
            return _Scanner(self._scan, filter, columns)


class _Scanner:
    """One reading of the rows."""

    def __init__(self, scan: Scan, filter: Any = None, columns: Sequence[str] | None = None) -> None:
        self._scan, self._filter, self._columns = scan, filter, columns

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        if self._filter is None:
            return self._scan.to_reader()
        names = self._scan.schema.names if self._columns is None else list(self._columns)
        found = (table.filter(self._filter).select(names) for table in self._scan.tables())
        schema = pa.schema([self._scan.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, (b for table in found for b in table.to_batches()))

"""Change feeds: what they have in common, whatever the kind of table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from crdtcat.chunks.types import combinable, no_rows
from crdtcat.errors import InvalidArgument
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.scan.frames import as_pandas, as_polars
from crdtcat.scan.shown import as_shown

CHANGE: Final = "_change"
Change = Literal["insert", "update_before", "update_after", "delete"]


class Feed(ABC):
    """What changed between two snapshots. Nothing is read until rows are asked for.

    Made by `Table.changes`. Rows have the later snapshot's columns and, before them, `_change`: "insert",
    "delete", or "update_before" and "update_after", which follow one another row by row. Deleted rows come
    first, then updated ones, then inserted ones, each in row order.
    """

    label: ClassVar[str] = CHANGE
    """The column that says what kind of change a row is."""

    def __init__(self, old: Head, new: Head, columns: Sequence[Column] | None = None) -> None:
        self.columns = new.columns.all if columns is None else tuple(columns)
        if self.label in [column.name for column in self.columns]:
            raise InvalidArgument(
                f"the feed has a column {self.label!r}: rename the table's column of that name"
            )
        self.old, self.new = old.snapshot, new.snapshot
        self._head = new
        self._shown = pa.schema([pa.field(item.name, item.type, item.nullable) for item in self.columns])
        self.schema = pa.schema([pa.field(self.label, pa.string(), nullable=False), *self._shown])

    @property
    @abstractmethod
    def deleted(self) -> int:
        """How many rows were deleted."""

    @property
    @abstractmethod
    def touched(self) -> int:
        """How many rows were updated, at most: some may have been given the values they had."""

    @property
    @abstractmethod
    def inserted(self) -> int:
        """How many rows were inserted."""

    @abstractmethod
    def tables(self) -> Iterator[pa.Table]:
        """The changes, piece by piece. Raises `Corrupt` on damage."""

    def marked(self, rows: pa.Table, change: Change) -> pa.Table:
        """Rows, held as storage arrays, as one kind of change."""
        return self.shown(rows, pa.array([change] * rows.num_rows, pa.string()))

    def shown(self, rows: pa.Table, marks: pa.Array) -> pa.Table:
        """Rows, held as storage arrays, as the feed shows them."""
        shown = as_shown(self.columns, rows, self._shown)
        return pa.Table.from_arrays([pa.chunked_array([marks]), *shown.columns], schema=self.schema)

    def to_table(self) -> pa.Table:
        """All changes as one Arrow table; indices of dictionaries as in `Scan.to_table`."""
        tables = list(self.tables())
        return combinable(pa.concat_tables(tables)) if tables else no_rows(self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The changes as a stream of record batches."""
        batches = (batch for table in self.tables() for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_pandas(self, **options: Any) -> Any:
        """A pandas DataFrame; `options` go to `pyarrow.Table.to_pandas`. Needs `crdtcat[pandas]`."""
        return as_pandas(self.to_table(), **options)

    def to_polars(self) -> Any:
        """A polars DataFrame. Needs `crdtcat[polars]`."""
        return as_polars(self.to_table())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return (
            f"Changes({self.old.id[:12]} to {self.new.id[:12]}: {self.inserted:,} rows inserted, "
            f"{self.touched:,} touched, {self.deleted:,} deleted)"
        )

"""The verbs of tables, by the table's name: what a transaction has besides its beginning and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from crdtcat.head import Version
from crdtcat.transaction.table import StagedTable


class TableVerbs(ABC):
    """Verbs that name their table. More of them, branches and scans are at `table(name)`."""

    @abstractmethod
    def table(self, name: str, branch: str = ...) -> StagedTable:
        """A handle on a table."""

    def read(
        self, table: str, columns: Sequence[str] | None = None, filter: Any = None, **options: Any
    ) -> pa.Table:
        """Rows of a table as this transaction sees it. See `Table.read`."""
        return self.table(table).read(columns, filter, **options)

    def append(self, table: str, data: Any, **options: Any) -> Version:
        """Stage rows to be added. See `Table.append`."""
        return self.table(table).append(data, **options)

    def overwrite(self, table: str, data: Any, **options: Any) -> Version:
        """Stage a replacement of all rows, or of partitions. See `Table.overwrite`."""
        return self.table(table).overwrite(data, **options)

    def update(self, table: str, where: Any, values: Any, **options: Any) -> Version:
        """Stage new values for the rows that match. See `Table.update`."""
        return self.table(table).update(where, values, **options)

    def update_rows(self, table: str, start: int, stop: int, data: Any, **options: Any) -> Version:
        """Stage new values for rows by number. See `Table.update_rows`."""
        return self.table(table).update_rows(start, stop, data, **options)

    def delete(self, table: str, where: Any = None, **options: Any) -> Version:
        """Stage the deletion of the rows that match, or have some `keys`. See `Table.delete`."""
        return self.table(table).delete(where, **options)

    def write(self, table: str, data: Any, **options: Any) -> Version:
        """Stage what makes the table equal `data`. See `Table.write`."""
        return self.table(table).write(data, **options)

    def upsert(self, table: str, data: Any, **options: Any) -> Version:
        """Stage rows to be set by their keys. See `Table.upsert`."""
        return self.table(table).upsert(data, **options)

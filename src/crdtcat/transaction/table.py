"""A table inside a transaction: the verbs that read and change it, on what is pinned and staged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crdtcat.head import Head, Version
from crdtcat.scan import Scan
from crdtcat.staged import StagedSession
from crdtcat.table.columns import Columns
from crdtcat.table.reads import Reads
from crdtcat.table.writes import Writes
from crdtcat.transaction.reading import Read
from crdtcat.verbs.travel import At


class StagedTable(Reads, Writes, Columns):
    """A handle on one table inside a transaction. What it writes is visible to it, and to nobody else.

    What it reads is remembered, for transactions that are serializable. Reads of the past (`at=`) are not:
    they give the same for ever.
    """

    _session: StagedSession

    def _kept_up(self, version: Version) -> Version:
        return version

    def _reads(self, columns: Sequence[str] | None, filter: Any) -> None:
        self._session.reads.append(Read(None if columns is None else tuple(columns), filter))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        *,
        at: At | None = None,
        verify: bool | None = None,
    ) -> Scan:
        """As `Table.scan`."""
        if at is None:
            self._reads(columns, filter)
        return super().scan(columns, filter, at=at, verify=verify)

    def head(self, at: At | None = None) -> Head:
        """As `Table.head`; counts as a read of everything."""
        if at is None:
            self._reads(None, None)
        return super().head(at)

    def update(
        self,
        where: Any,
        values: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Version:
        """As `Table.update`."""
        self._reads(None, where)
        return super().update(where, values, metadata=metadata, key=key)

    def update_rows(self, start: int, stop: int, data: Any, **options: Any) -> Version:
        """As `Table.update_rows`; which rows have these numbers depends on all of them."""
        self._reads(None, None)
        return super().update_rows(start, stop, data, **options)

    def delete(self, where: Any = None, **options: Any) -> Version:
        """As `Table.delete`."""
        self._reads(None, where)
        return super().delete(where, **options)

    def overwrite(self, data: Any, *, where: Any = None, **options: Any) -> Version:
        """As `Table.overwrite`."""
        self._reads(None, where)
        return super().overwrite(data, where=where, **options)

"""The verbs of a table that change rows, each in a line or two over the layers below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crdtcat.errors import InvalidArgument
from crdtcat.head import Version
from crdtcat.support.showing import shown
from crdtcat.table.kept_up import KeptUp
from crdtcat.verbs import change, rows, upsert
from crdtcat.verbs.stream import StreamWriter
from crdtcat.verbs.write import write
from crdtcat.verbs.write_keyed import write_keyed


class Writes(KeptUp):
    """Adding, replacing, changing and deleting rows."""

    def append(
        self,
        data: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        evolve: bool = False,
    ) -> Version:
        """Add rows. Never waits for, retries because of, or fails because of another writer.

        Requests: 1 PUT when the rows are few enough to ride inside the version file, else 2; no read or list.
        (About one commit in 64 then also bundles the log, unless the catalog was opened with `upkeep=False`.)

        Args:
            data: Arrow table, batch or reader, anything with `__arrow_c_stream__`, pandas, polars, DuckDB, a
                list of dicts (rows), a dict of columns. Also an iterable of tables, frames or lists of dicts,
                such as `pandas.read_csv(chunksize=...)`: its items have the same columns and are read one by
                one. A dict in a list or iterable is always one row, also where its values are lists.
            metadata: what to remember about this commit; `None` is `{}`.
            key: idempotency key: of the commits with one key, one counts.
            evolve: whether columns the table does not have are added.

        Raises:
            UserError: the rows do not fit; nothing was written.
            StoreUnavailable, AccessDenied: nothing became visible.
            CommitUnknown: the store gave no clear answer.
        """
        return self._kept_up(rows.append(self._session, data, metadata=metadata, key=key, evolve=evolve))

    def overwrite(
        self,
        data: Any,
        *,
        where: Any = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        evolve: bool = False,
    ) -> Version:
        """Replace all rows, or, with `where`, the partitions it selects. Concurrent appends survive.

        Requests: a refresh of the head, then 1 or 2 PUTs; with `where`, also a read of the partition columns
        of chunks that an update of them lies over. Raises as `append` does, and `InvalidArgument` where
        `where` cuts through a partition, or where rows that an overwrite brought there were moved elsewhere
        since and would be lost.
        """
        version = rows.overwrite(self._session, data, where=where, metadata=metadata, key=key, evolve=evolve)
        return self._kept_up(version)

    def upsert(
        self,
        data: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        evolve: bool = False,
    ) -> Version:
        """Insert rows into a keyed table, or update those whose keys are there, without looking.

        Columns that `data` does not have stay as they are; a null is a value, and where `data` is dicts of
        which some lack a column, those rows say null: upsert rows of other columns by a call of their own. Of
        two upserts of one cell the greater version id wins, whoever made it; of two rows of one key in `data`
        the later. In CAS mode nothing is read first, so it conflicts with upserts of the same cells since
        this handle last looked, or committed. Arguments, errors and requests are those of `append`, which
        does the same in a keyed table. Raises `InvalidArgument` for a table without a key.
        """
        version = upsert.upsert(self._session, data, metadata=metadata, key=key, evolve=evolve)
        return self._kept_up(version)

    def write(
        self,
        data: Any,
        *,
        on: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Version:
        """Make the table equal `data`: same rows, same order, same columns. Only what differs is stored.

        Rows that stayed keep their identity, so concurrent writes and updates of other rows or columns all
        hold; of concurrent changes to one cell the greater version wins and the other is listed.

        Requests: a refresh; a read of the chunks that differ (their footers tell which columns); 1 to 3 PUTs.
        Memory: the data, and what is read of a run of chunks that differ. A keyed table is read as a whole,
        and keeps the order of its keys, whatever that of `data`. Rows of a partitioned table have the order
        of `data` within each partition.

        Args:
            data: rows in any form that `append` takes.
            on: columns that tell rows apart, if there are such: rows with equal values are one row before and
                after, however much else of them changed. One that moved past others, or to another partition,
                is deleted and inserted anew: rows keep their order for life.
            metadata: what to remember about this commit.
            key: idempotency key.

        Raises:
            UserError: the rows do not fit; nothing was written.
            StoreUnavailable, CommitUnknown: as `append` does.
        """
        if self.key:
            if on is not None:
                raise InvalidArgument(f"on={shown(on)}: rows of a keyed table are told apart by its key")
            version = write_keyed(self._session, data, metadata=metadata, key=key)
        else:
            version = write(self._session, data, on=on, metadata=metadata, key=key)
        return self._kept_up(version)

    def update(
        self,
        where: Any,
        values: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Version:
        """Give rows new values. Only the changed cells are stored.

        Requests: a refresh, a read of the columns that the filter and the values look at, then 1 or 2 PUTs;
        the version file has some 150 bytes for each chunk with changed rows, and about 1 per scattered row.
        Of concurrent updates of one cell the greater version wins and the others are listed by `conflicts`;
        updates of different cells all hold. In a keyed table the cells are upserted, under the keys that
        matched.

        Args:
            where: which rows, as in `scan`; `None` for all.
            values: a dict from columns to constants, to `pyarrow.compute` expressions over the old values, or
                to functions from a table of the rows to an array; or rows of new values, one for each row
                that matches, in their order.
            metadata: what to remember about this commit.
            key: idempotency key.

        Raises:
            InvalidFilter, InvalidArgument, SchemaMismatch: nothing was written.
            StoreUnavailable, CommitUnknown: as `append` does.
        """
        verb = upsert.update_where if self.key else change.update
        return self._kept_up(verb(self._session, where, values, metadata=metadata, key=key))

    def update_rows(
        self,
        start: int,
        stop: int,
        data: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Version:
        """Give the rows number `start` up to `stop` of the table new values, in some columns.

        Rows are numbered as `read` returns them, in the newest snapshot. Requests: a refresh, then 1 or 2
        PUTs; no row is read. Raises as `update` does. Rows of a keyed table are known by their keys: `upsert`
        them.
        """
        version = change.update_rows(self._session, start, stop, data, metadata=metadata, key=key)
        return self._kept_up(version)

    def delete(
        self,
        where: Any = None,
        *,
        keys: Any = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Version:
        """Delete the rows that match a filter, `"true"` for all; or, in a keyed table, those with some keys.

        Deletes are final: a concurrent update of a deleted row is lost and listed. Rows that others add
        meanwhile stay. In a keyed table an upsert with a greater version id brings the key back.

        Requests: a refresh, a read of the filter's columns where statistics do not decide, then 1 PUT. By
        `keys` it is blind: 1 PUT, 2 for many, no read, no list, and no matter whether they are there. Raises
        as `update` does, and `InvalidArgument` unless exactly one of `where` and `keys` is given.

        Args:
            where: which rows, as in `scan`.
            keys: values of the key column; tuples where the key is several columns; or rows in any form that
                `append` takes, of which only the key columns count.
            metadata: what to remember about this commit.
            key: idempotency key.
        """
        if (where is None) == (keys is None):
            ask = (
                "delete what? Pass a filter"
                if where is None
                else "delete what? Pass one of the two, a filter"
            )
            raise InvalidArgument(f'{ask}, or keys=[...]; delete("true") deletes all rows')
        if keys is not None:
            return self._kept_up(upsert.delete_keys(self._session, keys, metadata=metadata, key=key))
        verb = upsert.delete_where if self.key else change.delete
        return self._kept_up(verb(self._session, where, metadata=metadata, key=key))

    def stream(self, *, metadata: Mapping[str, Any] | None = None, key: str | None = None) -> StreamWriter:
        """A writer for more rows than fit in memory: one pass, visible all at once when it commits."""
        return StreamWriter(self._session, metadata=metadata, key=key, committed=self._kept_up)

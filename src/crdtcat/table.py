"""A table: the verbs, each in a line or two over the layers below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from crdtcat.errors import NoSnapshots
from crdtcat.handle import Handle
from crdtcat.head import (
    Chunk,
    Conflict,
    Diff,
    Head,
    History,
    Snapshot,
    Version,
    diff_heads,
    prove_chunk,
)
from crdtcat.maintenance import (
    CheckpointResult,
    CollectResult,
    Depth,
    MergeResult,
    Progress,
    VerifyReport,
    checkpoint,
    collect_log,
    merge,
    upkeep,
    verify,
)
from crdtcat.merkle import Proof
from crdtcat.scan import Scan
from crdtcat.verbs import branches, change, rows, travel
from crdtcat.verbs import columns as column_verbs
from crdtcat.verbs.branches import Branch
from crdtcat.verbs.restore import restore
from crdtcat.verbs.stream import StreamWriter
from crdtcat.verbs.travel import At


class Table(Handle):
    """A handle on one table. Get one from `Catalog.table` or `Catalog.create_table`.

    Picklable and fork-safe: a copy in another process commits under an identity of its own. Thread-safe; one
    commit of a handle is in flight at a time.
    """

    def _start(self) -> None:
        super()._start()
        self._branches: dict[str, Table] = {}

    # Writing.

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
        (About one commit in 32 then also bundles the log, unless the catalog was opened with `upkeep=False`.)

        Args:
            data: Arrow table, batch or reader, anything with `__arrow_c_stream__`, pandas, polars, DuckDB, a
                list of dicts, a dict of columns. Also an iterable of any of these, such as
                `pandas.read_csv(chunksize=...)`: its items have the same columns and are read one by one.
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

        Requests: a refresh of the head, then 1 or 2 PUTs. Raises as `append` does, and `InvalidArgument`
        where `where` cuts through a partition.
        """
        version = rows.overwrite(self._session, data, where=where, metadata=metadata, key=key, evolve=evolve)
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

        Requests: a refresh, a read of the columns that the filter and the values look at, then 1 or 2 PUTs.
        Of concurrent updates of one cell the greater version wins and the others are listed by `conflicts`;
        updates of different cells all hold.

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
        version = change.update(self._session, where, values, metadata=metadata, key=key)
        return self._kept_up(version)

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
        PUTs; no row is read. Raises as `update` does.
        """
        version = change.update_rows(self._session, start, stop, data, metadata=metadata, key=key)
        return self._kept_up(version)

    def delete(
        self, where: Any, *, metadata: Mapping[str, Any] | None = None, key: str | None = None
    ) -> Version:
        """Delete the rows that match a filter; `"true"` deletes all.

        Deletes are final: a concurrent update of a deleted row is lost and listed. Rows that others add
        meanwhile stay.

        Requests: a refresh, a read of the filter's columns where statistics do not decide, then 1 PUT. Raises
        as `update` does.
        """
        return self._kept_up(change.delete(self._session, where, metadata=metadata, key=key))

    def stream(self, *, metadata: Mapping[str, Any] | None = None, key: str | None = None) -> StreamWriter:
        """A writer for more rows than fit in memory: one pass, visible all at once when it commits."""
        return StreamWriter(self._session, metadata=metadata, key=key, committed=self._kept_up)

    def _kept_up(self, version: Version) -> Version:
        upkeep(self._session, version.id)
        return version

    # Reading.

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        *,
        at: At | None = None,
        verify: bool | None = None,
    ) -> Scan:
        """What to read, pinned to one snapshot; see `Scan` for the ways to have it.

        Args:
            columns: names, in the order wanted; all by default.
            filter: SQL text, tuples such as `[("amount", ">", 10)]`, or a `pyarrow.compute.Expression`.
            at: a `Snapshot` or its token, a version id, a tag, a moment; now by default.
            verify: whether to check every column against its BLAKE3 hash; the catalog's setting by default.

        Raises:
            InvalidArgument, InvalidFilter, NotFound, Expired: as named.
        """
        return Scan(
            travel.head_at(self._session, at),
            self._session.store,
            columns=columns,
            filter=filter,
            verify=self._session.options.verify if verify is None else verify,
            footers=self._footers,
        )

    def read(
        self, columns: Sequence[str] | None = None, filter: Any = None, *, at: At | None = None
    ) -> pa.Table:
        """All rows of a scan as one Arrow table."""
        return self.scan(columns, filter, at=at).to_table()

    def head(self, at: At | None = None) -> Head:
        """The table as it is now, or as it was.

        Requests: one LIST page per 1,000 files of the log (and of `transactions/`, if the table took part in
        one), one GET per new file that no bundle covers. Raises `NoSnapshots` where there is no commit yet.
        """
        head = travel.head_at(self._session, at)
        if not len(head.log):
            raise NoSnapshots(f"table {self.name!r} has no commit yet")
        return head

    @property
    def schema(self) -> pa.Schema:
        """The columns now. Costs what `head` does; works before the first commit too."""
        return self._session.head().schema

    @property
    def properties(self) -> Mapping[str, Any]:
        """Table properties now. Costs what `head` does."""
        return self._session.head().properties

    def history(self, at: At | None = None) -> History:
        """Standing versions in the order all readers agree on; empty before the first commit."""
        return travel.head_at(self._session, at).history

    def conflicts(self, at: At | None = None) -> tuple[Conflict, ...]:
        """Concurrent writes that lost, and to whom."""
        return travel.head_at(self._session, at).conflicts

    def diff(self, a: At, b: At | None = None) -> Diff:
        """The chunks that differ between two snapshots, and how many rows they hold; `b` is now by default.

        Requests: what `head` makes for each; no data is read. Time: both heads, then O(changes * log chunks).
        """
        return diff_heads(travel.head_at(self._session, a), travel.head_at(self._session, b))

    def proof(self, chunk: Chunk | int | str, at: At | None = None) -> Proof:
        """A proof that a chunk (one of `head.chunks`, its number or its hash) is in the table.

        `crdtcat.check_proof(root_hash, chunk, proof)` checks it without catalog or store. Requests: what
        `head` makes. Raises `NotFound`: no such chunk at that snapshot.
        """
        return prove_chunk(travel.head_at(self._session, at), chunk)

    # Names for snapshots, and going back to them.

    def tag(self, name: str, at: At | None = None, *, replace: bool = False) -> Snapshot:
        """Name a snapshot. Raises `AlreadyExists` unless `replace`."""
        return travel.write_tag(self._session, name, at, replace=replace)

    def tags(self) -> dict[str, Snapshot]:
        """All tags. One LIST, and one GET for each."""
        return travel.list_tags(self._session)

    def delete_tag(self, name: str) -> None:
        """Remove a tag; the snapshot stays readable by its token. Raises `NotFound`."""
        travel.delete_tag(self._session, name)

    def restore(self, at: At, *, metadata: Mapping[str, Any] | None = None) -> Version:
        """Make the table what it was at `at`, as a new version over the old chunks."""
        return self._kept_up(restore(self._session, at, metadata=metadata))

    # Branches.

    def branch(self, name: str, at: At | None = None) -> Table:
        """Start a branch at a snapshot of this one; now by default. Copies nothing.

        Requests: a refresh of the head, 2 GETs and 1 PUT of a small file. Raises `AlreadyExists`,
        `InvalidName`, and as `at=` does.
        """
        made = Table(branches.make_branch(self._session, name, at))
        self._branches[name] = made
        return made

    def _on(self, name: str) -> Table:
        """The handle on a branch; the same one each time, until it learns that the branch was deleted."""
        found = self._branches.get(name)
        if found is None or found.dropped:
            found = self._branches[name] = Table(branches.open_branch(self._session, name))
        return found

    def branches(self) -> dict[str, Branch]:
        """All branches but main, by name. One LIST, and one GET for each."""
        return branches.list_branches(self._session)

    def merge(self, name: str) -> MergeResult:
        """Bring every commit of another branch into this one; concurrent changes merge as always.

        One PUT makes all of it visible at once, under the ids it had; merging again changes nothing. Costs a
        refresh of both before, and one of this branch after. Raises `NotFound`, `StoreUnavailable`.
        """
        return merge(self._session, branches.open_branch(self._session, name))

    def delete_branch(self, name: str) -> None:
        """Delete a branch for everybody. What was merged from it stays. Raises `NotFound`."""
        branches.delete_branch(self._session, name)
        self._branches.pop(name, None)

    # Columns and properties.

    def add_column(self, name: str, type: pa.DataType) -> Version:
        """Add a column; existing rows are null there. Raises `AlreadyExists`, `InvalidName`."""
        return self._kept_up(column_verbs.add_column(self._session, name, type))

    def drop_column(self, name: str) -> Version:
        """Drop a column. Values that others write to it meanwhile survive and are listed as a conflict."""
        return self._kept_up(column_verbs.drop_column(self._session, name))

    def rename_column(self, name: str, to: str) -> Version:
        """Rename a column. Raises `AlreadyExists`, `NotFound`, `InvalidName`."""
        return self._kept_up(column_verbs.rename_column(self._session, name, to))

    def widen_column(self, name: str, type: pa.DataType) -> Version:
        """Let a column hold a wider type. Raises `SchemaMismatch` where that could lose a value."""
        return self._kept_up(column_verbs.widen_column(self._session, name, type))

    def reorder_columns(self, names: Sequence[str]) -> Version:
        """Put columns in this order; those not named follow."""
        return self._kept_up(column_verbs.reorder_columns(self._session, names))

    def set_properties(self, **properties: Any) -> Version:
        """Set properties; `None` removes one."""
        return self._kept_up(column_verbs.set_properties(self._session, properties))

    # Upkeep.

    def checkpoint(self) -> CheckpointResult:
        """Bundle every version that is not in a bundle. Happens by itself; call it to have it done now."""
        return checkpoint(self._session)

    def collect(self) -> CollectResult:
        """Delete log files that bundles older than the grace period cover. Happens by itself, too."""
        return collect_log(self._session)

    def verify(
        self, depth: Depth = "bytes", *, progress: bool | Callable[[Progress], object] | None = None
    ) -> VerifyReport:
        """Check every object the table rests on, earlier snapshots included; name what is damaged or missing.

        Requests: one GET per file of the log, tag and settings file; one LIST per folder of `data/` that has
        one of its segments; but for "metadata" one GET per segment, or per 8 MiB of larger ones. Memory: the
        log and a few pieces of segments.

        Args:
            depth: "metadata": the log can be read, and segments are there; "bytes": every byte of every
                segment matches its hash; "content": so do the decoded values.
            progress: `True` prints to standard error; a function is called with `Progress` values.

        Raises:
            StoreUnavailable, AccessDenied: the store cannot be asked. Damage is reported, not raised.
        """
        return verify(self._session, depth, progress)

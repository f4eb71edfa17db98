"""The verbs of a table that read, each in a line or two over the layers below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from crdtcat.cas.reading import EVERYTHING, HISTORY, Read
from crdtcat.chunks.types import combinable, no_rows
from crdtcat.errors import InvalidArgument, NoSnapshots
from crdtcat.head import Chunk, Conflict, Head, History, prove_chunk
from crdtcat.log import empty_log
from crdtcat.merkle import Proof
from crdtcat.scan import Scan
from crdtcat.scan.changes import Changes
from crdtcat.scan.difference import Diff, diff_heads
from crdtcat.scan.execute import Execution
from crdtcat.scan.feed import Feed
from crdtcat.scan.key_conflicts import LostCell, lost_cells
from crdtcat.scan.keyed_changes import KeyedChanges
from crdtcat.scan.keyed_parts import only
from crdtcat.scan.lost import lost_value, lost_values
from crdtcat.scan.merge_execute import MergedExecution
from crdtcat.scan.plan import make_plan
from crdtcat.support.arguments import require_flag
from crdtcat.table.handle import Handle
from crdtcat.verbs import travel
from crdtcat.verbs.travel import At


class Reads(Handle):
    """Rows, heads, history and what can be told from them."""

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
        if verify is not None:
            require_flag("verify", verify)
        head = travel.head_at(self._session, at)
        scan = Scan(
            head,
            self._session.store,
            columns=columns,
            filter=filter,
            verify=self._session.options.verify if verify is None else verify,
            footers=self._footers,
        )
        if at is None:
            self._session.looked(head, Read(None if columns is None else tuple(columns), filter))
        return scan

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
        head = self._seen(HISTORY, at)
        if not len(head.log):
            raise NoSnapshots(f"table {self.name!r} has no commit yet")
        return head

    def _all_of(self, at: At | None) -> Head:
        """A head of which all rows may be looked at."""
        return self._seen(EVERYTHING, at)

    def _seen(self, read: Read, at: At | None = None) -> Head:
        """A head, and what is looked at of it: that counts for the present, and not for the past."""
        head = travel.head_at(self._session, at)
        if at is None:
            self._session.looked(head, read)
        return head

    @property
    def schema(self) -> pa.Schema:
        """The columns now. Costs what `head` does; works before the first commit too."""
        return self._seen(Read(of="schema")).schema

    @property
    def properties(self) -> Mapping[str, Any]:
        """Table properties now. Costs what `head` does."""
        return self._seen(Read(of="properties")).properties

    def history(self, at: At | None = None) -> History:
        """Standing versions in the order all readers agree on; empty before the first commit."""
        return self._seen(HISTORY, at).history

    def conflicts(self, at: At | None = None) -> tuple[Conflict, ...]:
        """Concurrent writes that lost, and to whom."""
        return self._seen(Read(of="conflicts"), at).conflicts

    def lost_cells(self, at: At | None = None, *, blind: bool = False) -> list[LostCell]:
        """Cells of a keyed table that lost to a version which had not seen them, by key.

        Those between versions that had both read nothing, as blind upserts, are left out, unless `blind`.
        Requests: a refresh, and a read of the key columns of all chunks, replaced ones too, whose keys
        overlap those of another version. Raises `InvalidArgument` for a table without a key.
        """
        require_flag("blind", blind)
        head = self._seen(HISTORY, at)
        if head.keyed is None:
            raise InvalidArgument(f"table {self.name!r} has no key: conflicts() lists its cells")
        execution = Execution(
            make_plan(head, None, None),
            self._session.store,
            self._footers,
            verify=self._session.options.verify,
        )
        found = lost_cells(head, head.keyed, lambda chunk: execution.stored(chunk, head.settings.key))
        return [cell for cell in found if blind or not cell.blind]

    def lost_values(self, conflict: Conflict | LostCell, at: At | None = None) -> pa.Table:
        """What the loser of a conflict about cells wrote, as a table of that column.

        Its rows are those of `conflict.rows`, in order; of a cell that `lost_cells` told, one row; of a
        misfit, all that its version wrote to the column, in the type it wrote; so are values of a column that
        was dropped since. Requests: a refresh, and a read of those chunks. Raises `InvalidArgument` for a
        conflict that is not about cells, `NotFound` if its version was expired, or what it wrote was let go
        by an expiry.
        """
        head = travel.head_at(self._session, at)
        if isinstance(conflict, LostCell):
            return lost_value(head, conflict, self._session.store, self._footers)
        return lost_values(head, conflict, self._session.store, self._footers)

    def changes(self, since: At | None, until: At | None = None) -> Feed:
        """The change feed: rows inserted, updated (before and after) and deleted between two snapshots.

        Applied to one snapshot it gives the other. A column is the one it was, by whatever name; a new one
        takes the place of the one of its name that was dropped. That a column was added, renamed or dropped
        is no change of rows; that their values in it are others is.

        Requests: a refresh; reading it, what a scan of the chunks with changed rows takes: all chunks where a
        column was dropped and others of its values or its name are there. Counting what changed reads
        nothing. Of a keyed table the chunks are read, at both snapshots, whose ranges of keys meet, directly
        or by way of others, those of new rows; all of them where columns are others.

        Args:
            since: where to start: a snapshot or its token, a version, a tag, a moment; `None` is before the
                first commit. Keep `changes.new` and pass it next time: late versions are then neither lost
                nor repeated.
            until: where to end; now by default.
        """
        new, old = self._all_of(until), self._before(since)
        return self._feed(old, new)()

    def _feed(self, old: Head, new: Head) -> Callable[[], Feed]:
        """What makes the feed between two heads, by what is known now."""
        if self.key:
            return lambda: KeyedChanges(old, new, self._rows_of)
        whole = self._session.head(refresh=False).log
        store, verify = self._session.store, self._session.options.verify
        return lambda: Changes(old, new, whole, store, verify=verify)

    def _rows_of(self, head: Head, entries: tuple[int, ...] | None) -> pa.Table:
        """All rows of a keyed table, or of some entries that share keys with no others."""
        plan = make_plan(head, None, None)
        alone = plan if entries is None else only(plan, entries)
        verify = self._session.options.verify
        execution = Execution(alone, self._session.store, self._footers, verify=verify)
        tables = list(MergedExecution(alone, execution).tables())
        return combinable(pa.concat_tables(tables)) if tables else no_rows(alone.schema)

    def _before(self, since: At | None) -> Head:
        """Where a comparison starts; `None` is before the first commit."""
        if since is None:
            return Head(self.name, empty_log(), self._session.settings)
        return travel.head_at(self._session, since)

    def diff(self, a: At | None, b: At | None = None) -> Diff:
        """What differs between two snapshots: columns, chunks, and with `rows()` the rows, as `changes` tells
        them.

        `a` is where to start, `None` before the first commit; `b` is now by default.

        Requests: what `head` makes for each; no data is read but for `rows()`. Time: both heads and, once for
        each, their trees (O(chunks) to build one, what is new to follow another), then O(changes * log
        chunks).
        """
        old, new = self._before(a), self._all_of(b)
        return diff_heads(old, new, self._feed(old, new))

    def proof(self, chunk: Chunk | int | str, at: At | None = None) -> Proof:
        """A proof that a chunk (one of `head.chunks`, its number or its hash) is in the table.

        `crdtcat.check_proof(root_hash, chunk, proof)` checks it without catalog or store. Requests: what
        `head` makes. Raises `NotFound`: no such chunk at that snapshot.
        """
        return prove_chunk(self._all_of(at), chunk)

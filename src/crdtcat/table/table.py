"""A table: its verbs, put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crdtcat.head import Snapshot, Version
from crdtcat.maintenance import MergeResult, merge
from crdtcat.table.columns import Columns
from crdtcat.table.reads import Reads
from crdtcat.table.tended import Tended
from crdtcat.table.writes import Writes
from crdtcat.verbs import branches, tags, travel
from crdtcat.verbs.branches import Branch
from crdtcat.verbs.restore import restore
from crdtcat.verbs.travel import At


class Table(Reads, Writes, Columns, Tended):
    """A handle on one table. Get one from `Catalog.table` or `Catalog.create_table`.

    Picklable and fork-safe: a copy in another process commits under an identity of its own. Thread-safe; one
    commit of a handle is in flight at a time.
    """

    def _start(self) -> None:
        super()._start()
        self._branches: dict[str, Table] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_branches": self._branches}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._branches = state["_branches"]

    # Names for snapshots, and going back to them.

    def tag(self, name: str, at: At | None = None, *, replace: bool = False) -> Snapshot:
        """Name a snapshot. Raises `AlreadyExists` if the name is another one's, unless `replace`, and
        `Expired` where an expiry passes the snapshot at this moment: then a tag that was there stays as it
        was. Requests: a refresh, 1 PUT and 1 LIST; with `replace` a GET more, and a PUT for one that moves.

        A name that is a date, "2026-01-01", is a tag from then on in `at=`; pass a `date` to mean the moment
        at which the day begins.
        """
        return travel.write_tag(self._session, name, at, replace=replace)

    def tags(self) -> dict[str, Snapshot]:
        """All tags. One LIST, and one GET for each."""
        return tags.list_tags(self._session)

    def delete_tag(self, name: str) -> None:
        """Remove a tag; the snapshot stays readable by its token. Raises `NotFound`."""
        tags.delete_tag(self._session, name)

    def restore(self, at: At, *, metadata: Mapping[str, Any] | None = None) -> Version:
        """Make the table what it was at `at`, as a new version over the old chunks."""
        return self._kept_up(restore(self._session, at, metadata=metadata))

    # Branches.

    def branch(self, name: str, at: At | None = None) -> Table:
        """Start a branch at a snapshot of this one; now by default. Copies nothing.

        Requests: a refresh of the head, 2 GETs, 1 PUT of a small file and 1 LIST. Raises `AlreadyExists`,
        `InvalidName`, `StoreUnavailable` where an expiry under way may pass it, and as `at=` does.
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
        refresh of both before, and one of this branch after. Of merge mode, theorem:
        `strong_eventual_consistency`. In CAS mode it is one commit, 2 PUTs, judged by all that the other
        branch had not seen. Raises `NotFound`, `StoreUnavailable`, `InvalidArgument`;
        in CAS mode also `CommitConflict`, `CommitContended`, `CommitUnknown`.
        """
        return merge(self._session, branches.open_branch(self._session, name))

    def delete_branch(self, name: str) -> None:
        """Delete a branch for everybody. What was merged stays. Raises `NotFound`, `InvalidArgument`."""
        branches.delete_branch(self._session, name)
        if (handle := self._branches.pop(name, None)) is not None:
            handle._ended()

    def _ended(self) -> None:
        """What this handle is on was just dropped, and nothing that is committed by it can be read again."""
        for handle in (self, *self._branches.values()):
            handle._session.dropped = True

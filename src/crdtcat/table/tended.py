"""The verbs of a table that look after it, each in a line or two over the layers below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from crdtcat.head import Version
from crdtcat.maintenance import (
    CheckpointResult,
    CollectResult,
    CompactResult,
    Depth,
    ExpireResult,
    Progress,
    TableStats,
    VerifyReport,
    checkpoint,
    collect_log,
    compact,
    expire,
    stats,
    verify,
)
from crdtcat.table.handle import Handle
from crdtcat.verbs.switch import switch_mode


class Tended(Handle):
    """Upkeep and checks. Never fails a writer, never changes a value."""

    def checkpoint(self) -> CheckpointResult:
        """Bundle every version that is not in a bundle. Happens by itself; call it to have it done now.

        Requests: a refresh, one GET per live bundle, 1 PUT, and 1 for each different set of columns in which
        rows were inlined; as much again for every 64 MiB of these.
        """
        return checkpoint(self._session)

    def collect(
        self, *, dry_run: bool = False, progress: bool | Callable[[Progress], object] | None = None
    ) -> CollectResult:
        """Delete log files that bundles older than the grace period cover. Happens by itself, too.

        Of this table's log only; segments are the whole catalog's: `Catalog.collect`. Requests: one LIST page
        per 1,000 files, one small GET per bundle not seen before, one GET per old bundle that covers
        something listed and per file deleted, one DELETE per 256.

        Args:
            dry_run: only say what would be deleted; it is read all the same.
            progress: `True` prints to standard error; a function is called with `Progress` values.

        Raises:
            NotFound: the table was dropped.
            StoreUnavailable, Corrupt: what was deleted until then is gone, and covered.
        """
        return collect_log(self._session, dry_run=dry_run, progress=progress)

    def compact(
        self,
        *,
        rows: int | None = None,
        cluster_by: Sequence[str] | None = None,
        progress: bool | Callable[[Progress], object] | None = None,
    ) -> CompactResult:
        """Write small chunks together, fold in what lies over rows, leave out deleted ones. Changes no value.

        Fails no writer and conflicts with nothing; may run anywhere, any number of times at once. Requests:
        a refresh, a read of what is written anew, 2 PUTs per 128 MiB of Arrow content. Memory: that.

        Args:
            rows: how many rows a chunk should have; the handle's option by default.
            cluster_by: columns to put the rows in order of, so that filters on them read few chunks; text as
                bytes, NaN after numbers, nulls last, partition by partition. That changes the order in which
                rows are shown, and so is a commit. Rows keep their identity; later ones are appended behind.
                Only what is out of order is sorted: called again it does nothing, and after appends it
                writes what they overlap, and what comes behind that. What is larger than 128 MiB is written
                twice, and once more for every factor of 64.
            progress: `True` prints to standard error; a function is called with `Progress` values.

        Raises:
            InvalidArgument: `cluster_by` names a column that is not there or has no order; or the table has a
                key, which is the order of its rows.
            StoreUnavailable, Corrupt: what was done until then stands.
        """
        return compact(self._session, rows=rows, cluster_by=cluster_by, progress=progress)

    def switch_mode(self, mode: str) -> Version | None:
        """Switch the table between "merge" and "cas" for everybody; `None` if it is in that mode.

        Safe beside whoever reads and writes: a commit made meanwhile counts in the mode that it meets. To CAS
        mode it takes `max_commit_delay_seconds`. Branches keep the mode that they started in. Requests: two
        refreshes, 3 PUTs, a LIST and a GET or three; to CAS mode a refresh and a PUT more; then a
        `checkpoint`.

        Raises:
            InvalidArgument: no such mode, or this is a branch.
            CapabilityMissing: the store cannot create exclusively.
            CommitUnknown, StoreUnavailable: it may be half done, which harms nobody: repeat it.
        """
        made = switch_mode(self._session, mode)
        checkpoint(self._session)
        return made

    def expire(
        self,
        older_than: timedelta | datetime | None = None,
        keep_last: int | None = None,
        *,
        dry_run: bool = False,
        progress: bool | Callable[[Progress], object] | None = None,
    ) -> ExpireResult:
        """Forget the history of old versions; the table stays what it is, and what only they held can be
        collected. `at=` below the horizon raises `Expired` from then on.

        Tags and branches hold it back. It waits until what is to be forgotten is `max_commit_delay_seconds`
        old. In CAS mode the newest commit stays in history, whatever is asked for. Requests: a refresh, what
        `tags` and `branches` cost, twice; 2 PUTs, 1 more for rows that were inlined and 1 more in CAS mode,
        2 LISTs, one small GET per bundle not seen before, a DELETE, and a refresh.

        Args:
            older_than: an age, or a moment (naive means UTC); `timedelta(0)` is all that is old enough.
            keep_last: how many versions stay in history. With both, what either keeps is kept.
            dry_run: whether only to say what would be done.
            progress: `True` prints to standard error; a function is called with `Progress` values, step by
                step, and while it waits.

        Raises:
            InvalidArgument: neither is given; an age below zero, a moment in the future; this is a branch.
            CapabilityMissing: the store cannot create a file exclusively.
            StoreUnavailable: nothing was expired, or nobody knows; run it again.
        """
        return expire(
            self._session, older_than=older_than, keep_last=keep_last, dry_run=dry_run, progress=progress
        )

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

    def stats(self) -> TableStats:
        """What the table holds, what that takes, how much is shared, and what upkeep would gain.

        Requests: a refresh, and one GET per bundle where other files of the log lie beside it. Reads no data.
        """
        return stats(self._session)

"""The verbs of a table that look after it, each in a line or two over the layers below."""

from __future__ import annotations

from collections.abc import Callable

from crdtcat.handle import Handle
from crdtcat.maintenance import (
    CheckpointResult,
    CollectResult,
    CompactResult,
    Depth,
    Progress,
    TableStats,
    VerifyReport,
    checkpoint,
    collect_log,
    compact,
    stats,
    verify,
)


class Tended(Handle):
    """Upkeep and checks. Never fails a writer, never changes a value."""

    def checkpoint(self) -> CheckpointResult:
        """Bundle every version that is not in a bundle. Happens by itself; call it to have it done now."""
        return checkpoint(self._session)

    def collect(self) -> CollectResult:
        """Delete log files that bundles older than the grace period cover. Happens by itself, too."""
        return collect_log(self._session)

    def compact(
        self, *, rows: int | None = None, progress: bool | Callable[[Progress], object] | None = None
    ) -> CompactResult:
        """Write small chunks together, fold in what lies over rows, leave out deleted ones. Changes no value.

        Fails no writer and conflicts with nothing; may run anywhere, any number of times at once. Requests:
        a refresh, a read of what is written anew, 2 PUTs per 128 MiB of Arrow content. Memory: that.

        Args:
            rows: how many rows a chunk should have; the handle's option by default.
            progress: `True` prints to standard error; a function is called with `Progress` values.

        Raises:
            StoreUnavailable, Corrupt: what was done until then stands.
        """
        return compact(self._session, rows=rows, progress=progress)

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

        Requests: a refresh. Reads no data.
        """
        return stats(self._session)

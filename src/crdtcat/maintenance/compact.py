"""Compaction: small and changed chunks become whole ones, and nobody notices.

Rows are written again under the ids they had (`crdtcat.maintenance.rewrite`). What is replaced stays in the
log until it is expired. A compaction may run beside writers and other compactions; it conflicts with nothing,
and it counts only where everything it folded does (`crdtcat.head.compactions`). If columns are named, rows
are put in their order first (`crdtcat.maintenance.cluster`); what is in order is compacted like any other.

Memory: one group of chunks at a time, of those that share rows a commit's worth, and the encoded segment of a
commit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from crdtcat.errors import InvalidArgument
from crdtcat.head import Head
from crdtcat.head.keyed import KeyedRows
from crdtcat.maintenance import rewrite
from crdtcat.maintenance.cluster import Clusterer, check_columns
from crdtcat.maintenance.compact_keyed import Done, KeyedCompactor, keyed_groups
from crdtcat.maintenance.compact_plan import LEAST_SHARE, groups
from crdtcat.maintenance.progress import Progress, Tell, teller
from crdtcat.maintenance.rewrite import Counts, Rewriter
from crdtcat.session import Session
from crdtcat.support.showing import shown


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction did.

    Attributes:
        versions: versions written. Those that put rows in another order are part of history.
        chunks_before, chunks_after: of the chunks it replaced, and those it wrote.
        rows: rows written again.
        bytes: encoded bytes stored.
        cells_folded: cells whose newer values are now in place.
        rows_left_out: deleted rows that are no longer stored with the others.
        cluster_by: the columns that rows are in the order of.
        seconds: how long it took.
    """

    versions: int = 0
    chunks_before: int = 0
    chunks_after: int = 0
    rows: int = 0
    bytes: int = 0
    cells_folded: int = 0
    rows_left_out: int = 0
    cluster_by: tuple[str, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        by = f" by {', '.join(self.cluster_by)}" if self.cluster_by else ""
        if not self.versions:
            return f"nothing to {'cluster' if by else 'compact'}{by} ({self.seconds:.2f} s)"
        return (
            f"{'clustered' if by else 'compacted'} {self.chunks_before:,} chunks into "
            f"{self.chunks_after:,}{by}: {self.rows:,} rows, "
            f"{self.bytes:,} bytes stored, {self.cells_folded:,} cells folded, "
            f"{self.rows_left_out:,} deleted rows left out, {self.seconds:.2f} s"
        )


def compact(
    session: Session,
    *,
    rows: int | None = None,
    cluster_by: Sequence[str] | None = None,
    progress: bool | Tell | None = None,
) -> CompactResult:
    """Write small and changed chunks anew; before that, with `cluster_by`, those that are out of order.

    Theorem: `compaction_invisible`.

    Costs a refresh and a read of what is written anew; 2 PUTs per 128 MiB of Arrow content. Keyed, a refresh
    more, and the same again for what is small once it is merged.

    Raises:
        InvalidArgument: columns that rows cannot be ordered by.
        StoreUnavailable, Corrupt: what was published before stands and is right.
    """
    began, tell = time.monotonic(), teller(progress)
    sizes = chunk_sizes(session, rows)
    head = session.head()
    clustered, by = Counts(), tuple[str, ...]()
    if cluster_by is not None:
        by = check_columns(head, cluster_by)
        sorter = Clusterer(session, by, sizes.target, tell)
        sorter.run(head)
        clustered = sorter.counts
        head = session.head() if clustered.versions else head
    if head.keyed is not None:
        return _compact_keyed(session, head, head.keyed, sizes, tell)
    todo = list(groups(head, least=sizes.least, target=sizes.target))
    work = Compactor(session, head, sizes.most)
    total = sum(map(len, todo))
    for group in todo:
        work.add(group)
        tell(Progress("compacting", work.counts.chunks_before, total, "chunks", bytes=work.counts.bytes))
    work.publish()
    return CompactResult(**asdict(clustered + work.counts), cluster_by=by, seconds=time.monotonic() - began)


def _compact_keyed(
    session: Session, head: Head, keyed: KeyedRows, sizes: ChunkSizes, tell: Tell
) -> CompactResult:
    """In two rounds: what overlaps may be small once it is merged, and is then joined with its neighbours."""
    began, done, total = time.monotonic(), list[Done](), 0
    for _ in range(2):
        todo = list(keyed_groups(head, keyed, least=sizes.least, target=sizes.target))
        if not todo:
            break
        work = KeyedCompactor(session, head, keyed, sizes.target)
        total += sum(len(group.chunks) for group in todo)
        for group in todo:
            done.append(work.write(group))
            before = sum(one.chunks_before for one in done)
            tell(Progress("compacting", before, total, "chunks", bytes=sum(one.bytes for one in done)))
        head = session.head()
        keyed = head.keyed or keyed
    return keyed_result(done, time.monotonic() - began)


def keyed_result(done: Sequence[Done], seconds: float) -> CompactResult:
    """What was done to groups of a keyed table, taken together."""
    return CompactResult(
        versions=len(done),
        chunks_before=sum(one.chunks_before for one in done),
        chunks_after=sum(one.chunks_after for one in done),
        rows=sum(one.rows for one in done),
        bytes=sum(one.bytes for one in done),
        rows_left_out=sum(one.rows_before - one.rows for one in done),
        seconds=seconds,
    )


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """How many rows make a chunk small, how many it should have, and how many it has at most."""

    least: int
    target: int
    most: int


def chunk_sizes(session: Session, rows: object) -> ChunkSizes:
    """As the caller or the catalog's options say. Raises `InvalidArgument`."""
    if rows is not None and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 1):
        raise InvalidArgument(
            f"rows={shown(rows)}: how many rows should a chunk have? Pass a number from 1 on"
        )
    options = session.options
    target = rows or options.chunk_rows or options.chunk_rows_target
    return ChunkSizes(
        max(2, target // LEAST_SHARE), target, rows or options.chunk_rows or options.chunk_rows_max
    )


class Compactor:
    """Writes groups of entries anew, a version whenever enough have gathered."""

    def __init__(self, session: Session, head: Head, rows_max: int) -> None:
        self._work, self._rows_max = Rewriter(session, head), rows_max

    @property
    def counts(self) -> Counts:
        """What was written so far."""
        return self._work.counts

    def add(self, group: Sequence[int]) -> None:
        """Take one group; publishes what has gathered if it is enough."""
        self._work.rewrite(group, self._rows_max)
        if self._work.waiting_bytes >= rewrite.COMMIT_BYTES:
            self.publish()

    def publish(self) -> None:
        """Make what has gathered visible, as one version."""
        self._work.publish()

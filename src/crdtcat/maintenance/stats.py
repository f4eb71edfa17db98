"""Figures about a table: what it holds, what that takes, and what upkeep would gain. Reads no data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crdtcat.cas.reading import HISTORY
from crdtcat.format.kinds import OVERLAY
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.log import Log
from crdtcat.maintenance.compact_keyed import keyed_groups
from crdtcat.maintenance.compact_plan import LEAST_SHARE, Simple, copy_columns, groups
from crdtcat.maintenance.loose import loose_files
from crdtcat.session import Session
from crdtcat.support.showing import shown


@dataclass(frozen=True, slots=True)
class TableStats:
    """What a table holds and takes. Bytes are logical (Arrow content) or stored (encoded, in objects).

    Attributes:
        table: its name.
        rows: rows in the table.
        versions: standing versions.
        chunks: chunks that rows are read from.
        logical_bytes: Arrow content of these chunks.
        history_bytes: Arrow content of all chunks ever added: what the table would take without sharing.
        segments: segments the log refers to.
        stored_bytes: their size, and that of rows inside version files.
        past_bytes: of these, segments that only earlier snapshots need: what expiry could free.
        dedup_ratio: chunks added, by content, for one that was stored: 1 where nothing is shared.
        overlay_share: newer values of changed cells, as a share of the Arrow content that is read.
        small_chunks: chunks with under a fourth of the rows that a chunk should have.
        small_chunk_share: their share of all chunks.
        log_files: version files, claims and bundles.
        loose_files: version files and claims. Those that a bundle has stay for a grace period.
        compactable: chunks that `compact` would write anew.
        compacted: chunks they would become, about.
        is_keyed: whether the table has a key: then it has at most so many rows, as several may share a key.
        waiting_files: version files and claims that no bundle has: what `checkpoint` would put into one.
        collectable_files: log files that `collect` would delete now.
        left_chunks: chunks that `compact` leaves as they are, whatever their size.
        left_columns: the columns for which it does: added, or dropped, while others wrote to them.
    """

    table: str
    rows: int
    versions: int
    chunks: int
    logical_bytes: int
    history_bytes: int
    segments: int
    stored_bytes: int
    past_bytes: int
    dedup_ratio: float
    overlay_share: float
    small_chunks: int
    small_chunk_share: float
    log_files: int
    loose_files: int
    compactable: int
    compacted: int
    is_keyed: bool = False
    waiting_files: int = 0
    collectable_files: int = 0
    left_chunks: int = 0
    left_columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        most = "up to " if self.is_keyed else ""
        lines = [
            f"{self.table}: {most}{self.rows:,} rows in {self.chunks:,} chunks, {self.versions:,} versions",
            f"  content   {self.logical_bytes:,} bytes now, {self.history_bytes:,} with all history",
            f"  stored    {self.stored_bytes:,} bytes in {self.segments:,} segments and the log",
            f"  past      {self.past_bytes:,} of these bytes are for earlier snapshots only",
            f"  sharing   {self.dedup_ratio:.2f} chunks added for each stored",
            f"  overlays  {self.overlay_share:.1%} of what is read",
            f"  small     {self.small_chunks:,} chunks ({self.small_chunk_share:.1%})",
            f"  log       {self.log_files:,} files, {self.loose_files:,} of them no bundles",
        ]
        if self.left_chunks:
            names = ", ".join(map(shown, self.left_columns))
            lines.append(
                f"  left      {self.left_chunks:,} chunks by compact(), for others wrote to {names} while it "
                "was added or dropped: put its values into a new column, and drop it"
            )
        return "\n".join([*lines, *(f"  to gain   {gain}" for gain in self.gains)])

    @property
    def gains(self) -> list[str]:
        """What upkeep would gain, in words; empty where it would gain nothing."""
        found = []
        if self.waiting_files > 1:
            found.append(f"checkpoint() and collect(): {self.waiting_files:,} files become one bundle")
        if self.collectable_files:
            found.append(f"collect(): {self.collectable_files:,} files go that bundles stand for")
        if self.compactable:
            found.append(f"compact(): {self.compactable:,} chunks become about {self.compacted:,}")
        if self.past_bytes:
            found.append(f"expiring history: up to {self.past_bytes:,} bytes")
        return found


def stats(session: Session) -> TableStats:
    """Figures about a table. Costs a refresh, and one GET per bundle where log files lie beside it;
    O(chunks)."""
    listing = session.refresh(described=True).listing
    head = session.head(refresh=False)
    session.looked(head, HISTORY)
    log, live = head.log, head.live
    overlays = _read_overlays(head)
    logical, over = int(log.nbytes[live].sum()), int(log.nbytes[overlays].sum())
    least, target = _chunk_rows(session)
    small = int((head.rows.live_rows(live) < least).sum())
    todo = _compactable(head, least, target)
    anew = sum(map(len, todo))
    distinct = np.unique(log.hash, axis=0, return_index=True)[1] if log.chunk_count else np.empty(0, int)
    unique_bytes = int(log.nbytes[distinct].sum())
    history = int(log.nbytes.sum())
    inlined = sum(map(len, log.inline.values()))
    loose, left = loose_files(session, listing), _left_columns(head)
    return TableStats(
        table=session.table,
        rows=head.row_count,
        versions=head.version,
        chunks=len(live),
        logical_bytes=logical,
        history_bytes=history,
        segments=len(log.segment_name),
        stored_bytes=int(log.segment_size.sum()) + inlined,
        past_bytes=_past_bytes(log, head.rows.chunks_read),
        dedup_ratio=history / unique_bytes if unique_bytes else 1.0,
        overlay_share=over / (logical + over) if over else 0.0,
        small_chunks=small,
        small_chunk_share=small / len(live) if len(live) else 0.0,
        log_files=loose.files,
        loose_files=loose.commits,
        compactable=anew,
        compacted=sum(max(1, -(-_rows(head, group) // target)) for group in todo),
        is_keyed=head.keyed is not None,
        waiting_files=loose.waiting,
        collectable_files=loose.collectable,
        left_chunks=_left(head) if left else 0,
        left_columns=left,
    )


def _chunk_rows(session: Session) -> tuple[int, int]:
    """Below how many rows a chunk is small, and how many one should have: as `compact` sees it."""
    target = session.options.chunk_rows or session.options.chunk_rows_target
    return max(2, target // LEAST_SHARE), target


def _compactable(head: Head, least: int, target: int) -> list[list[int]]:
    """Groups of chunks that `compact` would write anew."""
    if head.keyed is None:
        return list(groups(head, least=least, target=target))
    return [list(group.chunks) for group in keyed_groups(head, head.keyed, least=least, target=target)]


def _left_columns(head: Head) -> tuple[str, ...]:
    """Columns that no copy of rows has."""
    copied = copy_columns(head)
    return tuple(column.name for column in head.columns.all if column not in copied)


def _left(head: Head) -> int:
    simple = Simple(head)
    return sum(not simple.is_entry(entry) for entry in head.live.tolist())


def _rows(head: Head, group: list[int]) -> int:
    return int(head.rows.live_rows(np.array(group)).sum())


def _read_overlays(head: Head) -> Array:
    """Chunks of newer values that a read of the table looks into."""
    if head.rows.is_plain:
        return np.empty(0, np.int64)
    sources = np.unique(head.rows.patches.source)
    found: Array = sources[head.log.kind[sources] == OVERLAY]
    return found


def _past_bytes(log: Log, read: Array) -> int:
    """Bytes of segments that hold nothing the table is read from now."""
    used = np.zeros(len(log.segment_name), bool)
    used[log.place_segment[read[log.place_chunk]]] = True
    return int(log.segment_size[~used].sum())


@dataclass(frozen=True, slots=True)
class CatalogStats:
    """What the tables of a catalog hold and take.

    Attributes:
        tables: the figures of each, by name.
    """

    tables: tuple[TableStats, ...]

    @property
    def rows(self) -> int:
        """Rows in all tables; at most so many where one has a key."""
        return sum(table.rows for table in self.tables)

    @property
    def logical_bytes(self) -> int:
        """Arrow content of all tables as they are now."""
        return sum(table.logical_bytes for table in self.tables)

    @property
    def stored_bytes(self) -> int:
        """Stored bytes that the tables refer to."""
        return sum(table.stored_bytes for table in self.tables)

    def __str__(self) -> str:
        width = max((len(table.table) for table in self.tables), default=0)
        keyed = any(table.is_keyed for table in self.tables)
        lines = [
            f"{table.table:<{width}}  {'up to ' if table.is_keyed else ' ' * 6 * keyed}"
            f"{table.rows:>15,} rows  {table.stored_bytes:>15,} bytes stored  "
            f"{table.chunks:>9,} chunks" + (f"; to gain: {'; '.join(table.gains)}" if table.gains else "")
            for table in self.tables
        ]
        rows = f"{'up to ' if keyed else ''}{self.rows:,} rows"
        total = f"{len(self.tables):,} tables: {rows}, {self.stored_bytes:,} bytes stored"
        return "\n".join([*lines, total])

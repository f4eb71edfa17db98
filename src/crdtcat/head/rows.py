"""The rows of a head: where each is read from, which are gone, and what has to be put over them.

A pure function of a log's row ops. A table that nobody changed row by row is *plain*: every entry is one
piece, nothing is missing from it and nothing lies over it. For the others three lists are worked out, as
arrays, from the intervals in ops; no data is read.

- *pieces*: runs of rows in row order;
- *holes*: deleted rows, by entry;
- *patches*: runs of rows over which newer cells lie, by entry, with the chunk that holds those: an overlay,
  or another copy of the same rows that has folded overlays this one has not (a *spare*).

A cell has the value of its greatest age (theorem: `cell_greatest_stamp`). Ages are version ids, and versions
stand in id order in a log, so an age here is a version's index.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crdtcat.format.kinds import COPY, GONE, OVERLAY
from crdtcat.format.row_ops import Copy, Insertion, RowOps
from crdtcat.format.sections import Array
from crdtcat.head.compactions import Compactions
from crdtcat.head.patches import Overlaid, Patches, Sheet, Sheets, Strips, find_patches, let_go, sheets
from crdtcat.head.pieces import Pieces, find_pieces, split
from crdtcat.head.places import Places
from crdtcat.head.positions import Forest, in_row_order
from crdtcat.head.tags import TagIndex
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, Runs, expand, touched
from crdtcat.log.log import Log
from crdtcat.support.cached import cached_property


class Rows:
    """Where rows are. Made by the fold. Theorem: `cell_greatest_stamp`.

    Args:
        log: the log.
        judged: what compactions did.
        gone: per chunk, whether rows born there are gone as a whole.
        changes: row ops of standing versions, by version.
        tags: resolves tags.
        inserted: per chunk of inserted rows, what is said of it.
        removers: versions that removed whole chunks or overwrote partitions.
    """

    def __init__(
        self,
        log: Log,
        judged: Compactions,
        *,
        gone: Array,
        changes: Mapping[int, RowOps],
        tags: TagIndex,
        inserted: Mapping[int, Insertion],
        removers: Array,
    ) -> None:
        self._log, self._judged, self._gone = log, judged, gone
        self._changes, self.tags, self._inserted = changes, tags, inserted
        self._removers = removers

    @property
    def is_plain(self) -> bool:
        """Whether every entry is read whole, as it is, in the order of the log."""
        return not self._changes

    @property
    def copies(self) -> Mapping[int, Copy]:
        """Per chunk that a compaction wrote, what is said of it."""
        return self._judged.copies

    @cached_property
    def _by_birth(self) -> tuple[Pieces, Pieces]:
        entries = np.flatnonzero(self._judged.is_entry)
        return find_pieces(self._log, entries, self.copies, self._gone, self.tags)

    @cached_property
    def pieces(self) -> Pieces:
        """All pieces, in row order. O(pieces log pieces), and O(insertions) in Python."""
        born = self._by_birth[0]
        filled = born.take(self._counts[born.entry] > 0)
        forest = Forest(self._log, self._inserted, self.tags, self._places)
        return in_row_order(filled, forest, self._places)

    @cached_property
    def _places(self) -> Places:
        alone = not self._by_birth[1].size  # no row in two entries
        return Places(self._log, self._changes, self.tags, self._judged if alone else None)

    @property
    def hanging(self) -> Integers:
        """Entries with rows that follow others wherever those stand: they were inserted, and no clustering
        has placed them."""
        placed = self._places.of_pieces(self._by_birth[0])
        return np.unique(placed.pieces.entry[np.isin(placed.chunk, list(self._inserted))])

    @cached_property
    def strips(self) -> Strips:
        """What is read of entries, in row order: pieces, joined where they lie in a row in one entry."""
        pieces = self.pieces
        return Strips(pieces.entry, pieces.at, pieces.at + pieces.stop - pieces.start).joined()

    @cached_property
    def entries(self) -> Integers:
        """The chunks rows are read from, in order of the first row read from each.

        One all of whose rows are gone is left out.
        """
        if self.is_plain:
            return np.flatnonzero(self._judged.is_entry & ~self._gone)
        _, first = np.unique(self.pieces.entry, return_index=True)
        return self.pieces.entry[np.sort(first)]

    @property
    def chunks_read(self) -> Array:
        """Per chunk, whether a read of the whole table reads it: as an entry, or because it lies over one."""
        read = np.zeros(self._log.chunk_count, bool)
        read[self.entries] = True
        if not self.is_plain:
            read[self.patches.source] = True
        return read

    @property
    def chunks_to_keep(self) -> Array:
        """Per chunk, whether anybody may read it who has these versions and later ones.

        What was removed, replaced or deleted as a whole stays so. An overlay that is in every copy of its
        rows is not read again; where racing compactions left copies that differ in that, all overlays stay,
        but for those that an earlier base let go: what read those is here, too.
        """
        kind = self._log.kind
        keep = self.chunks_read | (kind == GONE) | ((kind == COPY) & self._judged.is_entry)
        if not self.is_plain and self._by_birth[1].size:
            keep |= (kind == OVERLAY) & ~let_go(self._log)
        kept: Array = keep
        return kept

    @cached_property
    def deleted(self) -> RowSet:
        """Rows deleted one by one, by the chunk they were born in."""
        found = [self.tags.rows(done.deletes) for done in self._changes.values() if done.deletes]
        return RowSet(*(np.concatenate(column) for column in zip(*found, strict=True))) if found else RowSet()

    @cached_property
    def alive(self) -> RowSet:
        """Rows that are there, by the chunk they were born in. O(n log n) in pieces and deleted runs."""
        pieces = self._by_birth[0]
        return RowSet(pieces.birth, pieces.start, pieces.stop) - self.deleted

    @property
    def shared(self) -> set[tuple[int, int]]:
        """Pairs of entries with copies of the same row, after compactions that did not know each other."""
        pieces, spares = self._by_birth
        first, last = touched(spares.runs, pieces.runs)
        owner, offset = expand(last - first)
        pairs = zip(spares.entry[owner].tolist(), pieces.entry[first[owner] + offset].tolist(), strict=True)
        return set(pairs)

    def authors(self, entries: Array) -> Array:
        """The versions whose effect is in what is read of some entries, or left out of it, rising.

        Those that added or compacted them, rewrote cells of them, deleted rows from them. O(entries), and
        O(versions that delete) set operations.
        """
        mine = np.isin(self._by_birth[0].entry, entries)
        pieces = self._by_birth[0].take(mine)
        found = [self._log.chunk_version[entries].astype(np.int64)]
        found.append(self.patches.age[np.isin(self.patches.entry, entries) & (self.patches.age >= 0)])
        if any(int(entry) in self.copies for entry in entries):
            found.append(self._removers)  # some of a copy's rows may be gone because of one of them
        rows = RowSet(pieces.birth, pieces.start, pieces.stop)
        for version, done in self._changes.items():
            if done.deletes and RowSet(*self.tags.rows(done.deletes)).overlaps(rows):
                found.append(np.array([version]))
        return np.unique(np.concatenate(found))

    @cached_property
    def holes(self) -> Strips:
        """Deleted rows, sorted by entry and start."""
        deleted = Runs(self.deleted.groups, self.deleted.starts, self.deleted.stops)
        inside, _ = split(self._by_birth[0], deleted)
        order = np.lexsort((inside.at, inside.entry))
        start = inside.at[order]
        return Strips(inside.entry[order], start, start + (inside.stop - inside.start)[order])

    @cached_property
    def overlaid(self) -> Overlaid:
        """All cells that standing versions rewrote."""
        found = [
            (version, overlay.ordinal, overlay.rows)
            for version in sorted(self._changes)
            for overlay in self._changes[version].overlays
        ]
        log = self._log
        versions, ordinals = np.array([each[:2] for each in found], np.int64).reshape(-1, 2).T
        chunks = log.chunk_start[versions].astype(np.int64) + ordinals
        stored = np.flatnonzero(chunks < log.chunk_start[versions + 1])
        stored = stored[log.kind[chunks[stored]] == OVERLAY]
        which, birth, start, stop, at = self.tags.rows_of_many([found[each][2] for each in stored.tolist()])
        which = stored[which]
        return Overlaid(birth, start, stop, chunks[which], at, versions[which])

    @cached_property
    def patches(self) -> Patches:
        """What lies over the entries. O(k log n) for k intervals over n pieces."""
        return find_patches(self._log, self._judged, self.overlaid, *self._by_birth)

    def live_rows(self, entries: Array) -> Integers:
        """Per entry, how many rows of the table are read from it. O(pieces + holes)."""
        if self.is_plain:
            return self._log.rows[entries].view(np.int64)  # of a copy: far below 2**63, and not copied again
        live: Integers = self._counts[entries]
        return live

    def spare_rows(self, entries: Array) -> int:
        """How many rows that some entries hold are read from others. O(spares)."""
        if self.is_plain:
            return 0
        spares = self._by_birth[1]
        return int((spares.stop - spares.start)[np.isin(spares.entry, entries)].sum())

    @cached_property
    def _counts(self) -> Integers:
        """Per chunk, how many rows are read from it as an entry."""
        pieces, holes = self._by_birth[0], self.holes
        count = np.zeros(self._log.chunk_count, np.int64)
        np.add.at(count, pieces.entry, pieces.stop - pieces.start)
        np.subtract.at(count, holes.entry, holes.stop - holes.start)
        return count

    def untouched(self, entries: Array) -> Array:
        """Per entry, whether it is read whole, in one piece, with nothing missing and nothing over it."""
        if self.is_plain:
            return np.ones(len(entries), bool)
        strips = self.strips
        found = np.zeros(self._log.chunk_count, bool)
        whole = (strips.start == 0) & (strips.stop == self._log.rows[strips.entry].astype(np.int64))
        found[strips.entry[whole]] = True
        found[self.holes.entry] = False
        found[self.patches.entry] = False
        untouched: Array = found[entries]
        return untouched

    def strips_of(self, entry: int) -> Strips:
        """What is read of one entry, in row order. O(strips)."""
        mine = self.strips.entry == entry
        return Strips(*(column[mine] for column in self.strips))

    def patches_of(self, entry: int) -> Patches:
        """What lies over one entry, by rising age. O(log n)."""
        first, last = np.searchsorted(self.patches.entry, (entry, entry + 1))
        return Patches(*(column[first:last] for column in self.patches))

    @cached_property
    def bytes_read(self) -> Integers:
        """Per entry, the Arrow content of its rows and of all that lies over them. O(chunks + patches)."""
        if self.is_plain:
            return self._log.nbytes.view(np.int64)
        log, patches = self._log, self.patches
        of_row = log.nbytes / np.maximum(log.rows, 1)
        over = np.bincount(patches.entry, patches.length * of_row[patches.source], minlength=log.chunk_count)
        over = np.minimum(over, 2.0**62)  # as a log may claim
        found: Integers = log.nbytes.astype(np.int64) + over.astype(np.int64)
        return found

    @cached_property
    def _sheets(self) -> Sheets:
        return sheets(self.patches)

    def sheets_of(self, entry: int) -> list[Sheet]:
        """What lies over one entry, by rising age, chunk by chunk. O(log n) and their number."""
        first, last = np.searchsorted(self._sheets.entry, (entry, entry + 1))
        return list(map(Sheet, *(column[first:last].tolist() for column in self._sheets[1:])))

    def is_overlaid(self, entry: int) -> bool:
        """Whether anything lies over an entry. O(log n)."""
        return bool(np.diff(np.searchsorted(self._sheets.entry, (entry, entry + 1)))[0])

    def holes_of(self, entry: int) -> Strips:
        """What is gone from one entry. O(log n)."""
        first, last = np.searchsorted(self.holes.entry, (entry, entry + 1))
        return Strips(*(column[first:last] for column in self.holes))

    def live_offsets(self, entry: int, start: int, stop: int) -> Integers:
        """Offsets of the rows of a strip that are not deleted. O(rows of the strip)."""
        offsets = np.arange(start, stop)
        if self.is_plain:
            return offsets
        holes = self.holes_of(entry)
        inside = (holes.stop > start) & (holes.start < stop)
        if not inside.any():
            return offsets
        gone = np.zeros(stop - start + 1, np.int64)
        np.add.at(gone, np.maximum(holes.start[inside], start) - start, 1)
        np.subtract.at(gone, np.minimum(holes.stop[inside], stop) - start, 1)
        left: Integers = offsets[np.cumsum(gone)[:-1] == 0]
        return left

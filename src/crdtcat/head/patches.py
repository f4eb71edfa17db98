"""Runs of rows in entries, and the newer cells that lie over them, as plain arrays."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.head.compactions import Compactions
from crdtcat.head.pieces import Pieces
from crdtcat.intervals.runs import Integers, Runs, expand, touched
from crdtcat.log.log import Log

BY_STAMPS: Final = -1
"""Age of a patch from a spare: each of its cells has its own."""


class Strips(NamedTuple):
    """Runs of rows of entries: parallel arrays."""

    entry: Integers
    start: Integers
    stop: Integers

    def joined(self) -> Strips:
        """Neighbours that follow one another in one entry, as one."""
        follows = (self.entry[1:] == self.entry[:-1]) & (self.start[1:] == self.stop[:-1])
        first = np.flatnonzero(np.concatenate(([True], ~follows))[: len(self.entry)])
        last = np.append(first[1:], len(self.entry))[: len(first)] - 1
        return Strips(self.entry[first], self.start[first], self.stop[last])


class Patches(NamedTuple):
    """Newer cells: parallel arrays, sorted by entry, age and source: what one chunk holds is together.

    Attributes:
        entry: the entry whose rows they lie over.
        at: the first of those rows.
        length: how many.
        source: the chunk that holds the cells.
        source_at: where in it they begin.
        age: the version they are from, or BY_STAMPS.
    """

    entry: Integers
    at: Integers
    length: Integers
    source: Integers
    source_at: Integers
    age: Integers


class Sheet(NamedTuple):
    """What one chunk lays over one entry: its age, the chunk, and its patches, from the first to the last."""

    age: int
    source: int
    first: int
    last: int


class Sheets(NamedTuple):
    """All of them: parallel arrays, sorted by entry, age and source."""

    entry: Integers
    age: Integers
    source: Integers
    first: Integers
    last: Integers


class Overlaid(NamedTuple):
    """Cells that versions rewrote: parallel arrays, by rising version.

    Attributes:
        birth, start, stop: which rows.
        chunk: the overlay.
        at: where in it they begin.
        version: whose.
    """

    birth: Integers
    start: Integers
    stop: Integers
    chunk: Integers
    at: Integers
    version: Integers


def find_patches(
    log: Log, judged: Compactions, overlaid: Overlaid, pieces: Pieces, spares: Pieces
) -> Patches:
    """What lies over entries: overlays that they have not folded, and spares that have folded some.

    O(k log n) for k intervals over n pieces.
    """
    parts = [_lay_over(overlaid[:3], (overlaid.chunk, overlaid.at, overlaid.version), pieces)]
    stamped = np.array([bool(judged.copies[entry].stamps) for entry in spares.entry.tolist()], bool)
    if stamped.any():
        found = spares.take(stamped)
        age = np.full(found.size, BY_STAMPS)
        parts.append(_lay_over(found[:3], (found.entry, found.at, age), pieces))
    patches = Patches(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    patches = Patches(*(column[_not_folded(log, judged, patches)] for column in patches))
    there = ~let_go(log)[patches.source]
    patches = Patches(*(column[there] for column in patches))
    order = np.lexsort((patches.at, patches.source, patches.age, patches.entry))
    return Patches(*(column[order] for column in patches))


def _not_folded(log: Log, judged: Compactions, patches: Patches) -> Array:
    kept = np.ones(len(patches.entry), bool)
    if not judged.copies:
        return kept
    author = log.chunk_version[patches.entry].astype(np.int64)
    for version in np.unique(author).tolist():
        if version in judged.folded:
            mine = author == version
            kept[mine] = ~np.isin(patches.age[mine], judged.folded[version])
    return kept


def _lay_over(rows: tuple[Integers, ...], cells: tuple[Integers, ...], pieces: Pieces) -> Patches:
    """Rows by birth, with the chunk, offset and age of their cells, as patches over their entries."""
    runs = Runs(*rows)
    first, last = touched(runs, pieces.runs)
    owner, offset = expand(last - first)
    piece = first[owner] + offset
    start = np.maximum(runs.start[owner], pieces.start[piece])
    stop = np.minimum(runs.stop[owner], pieces.stop[piece])
    source, source_at, age = (column[owner] for column in cells)
    at = pieces.at[piece] + start - pieces.start[piece]
    return Patches(pieces.entry[piece], at, stop - start, source, source_at + start - runs.start[owner], age)


def sheets(patches: Patches) -> Sheets:
    """Patches grouped by what they lie over and where they are from. O(patches)."""
    others = (
        (patches.entry[1:] != patches.entry[:-1])
        | (patches.source[1:] != patches.source[:-1])
        | (patches.age[1:] != patches.age[:-1])
    )
    first = np.flatnonzero(np.concatenate((np.ones(min(len(patches.entry), 1), bool), others)))
    last = np.append(first[1:], len(patches.entry))[: len(first)]
    return Sheets(patches.entry[first], patches.age[first], patches.source[first], first, last)


def let_go(log: Log) -> Array:
    """Per chunk, whether an expiry let its bytes go, here or where it was synced from. O(chunks).

    Such an overlay lies over nothing that is shown: each of its rows had been deleted, or every copy of it
    had that cell. A compaction that read before all this, and commits after it, brings back both: a deleted
    row stays deleted, and of the others the copy below the horizon comes first.
    """
    found: Array = ~log.is_placed
    return found

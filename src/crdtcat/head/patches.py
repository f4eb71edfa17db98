"""Runs of rows in entries, and the newer cells that lie over them: plain arrays, without behaviour."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from crdtcat.format.sections import Array
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


def lay_over(rows: tuple[Integers, ...], cells: tuple[Integers, ...], pieces: Pieces) -> Patches:
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


def let_go(log: Log) -> Array:
    """Per chunk, whether an expiry let its bytes go. O(chunks).

    Such an overlay lies over nothing that is shown: each of its rows had been deleted, or every copy of it
    had that cell. A compaction that read before all this, and commits after it, brings back both: a deleted
    row stays deleted, and of the others the copy below the horizon comes first.
    """
    found: Array = log.is_folded[log.chunk_version]
    if found.any():
        found[log.place_chunk] = False
    return found

"""Chunks that are stored already: found by hash, so that nobody encodes or uploads them again.

A writer knows the chunks of the head it has loaded. It may refer to their places as long as that head is
younger than what the collector spares, which holds for a head loaded for the commit at hand; a blind append
knows no head and re-uses nothing but its own chunks. Names of segments are never guessed from content: that
would race the collector.

No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.log.log import Log


class StoredSegment(NamedTuple):
    """A segment as version files name it.

    Attributes:
        title: its name's 24 bytes.
        size: of the file.
        digest: of its footer.
        footer_length: in bytes.
    """

    title: bytes
    size: int
    digest: bytes
    footer_length: int


class Place(NamedTuple):
    """Where a chunk lies: a row group of a segment."""

    segment: StoredSegment
    group: int


Lookup = Callable[[bytes], Place | None]
"""From a chunk's hash to where it lies; None if it is not known to lie anywhere."""


def nowhere(_: bytes) -> Place | None:
    """The lookup of a writer that knows no head."""
    return None


def places_in(log: Log, chunks: Array) -> Lookup:
    """A lookup of the given chunks of a log, as far as they lie in segments.

    Cost: a sort of the chunks' hashes, then O(log chunks) for each question.
    """
    wanted = np.zeros(log.chunk_count, bool)
    wanted[chunks] = True
    rows = np.flatnonzero(wanted[log.place_chunk])
    start = (
        np.ascontiguousarray(log.hash[log.place_chunk[rows], :8]).view(">u8").reshape(-1).astype(np.uint64)
    )
    order = np.argsort(start, kind="stable")
    rows, start = rows[order], start[order]

    def lookup(hash: bytes) -> Place | None:
        prefix = np.uint64(int.from_bytes(hash[:8], "big"))
        at = int(np.searchsorted(start, prefix))
        while at < len(rows) and start[at] == prefix:
            row = int(rows[at])
            if log.hash[log.place_chunk[row]].tobytes() == hash:
                return Place(_segment(log, int(log.place_segment[row])), int(log.place_group[row]))
            at += 1
        return None

    return lookup


def _segment(log: Log, at: int) -> StoredSegment:
    title = log.segment_name[at : at + 1].tobytes()
    return StoredSegment(
        title, int(log.segment_size[at]), log.segment_digest[at].tobytes(), int(log.segment_footer[at])
    )

"""Leaves of a head's Merkle tree: one hash for each entry, over everything that decides what is read from it.

An entry that is read whole and as it is has its chunk's hash: equal rows, equal leaf, whatever the history.
For others the leaf also covers which rows are read, in which order, and what lies over them. In a keyed table
the first leaf also covers what takes cells away from any of them: keys deleted, chunks overwritten.
"""

from __future__ import annotations

import numpy as np
from blake3 import blake3

from crdtcat.format.sections import Array
from crdtcat.head.keyed import KeyedRows
from crdtcat.head.rows import Rows
from crdtcat.log.log import Log
from crdtcat.merkle import leaf_digest


def leaf_hashes(log: Log, rows: Rows) -> Array:
    """Per entry in row order, 32 bytes. O(entries) in arrays, O(changed entries) in Python."""
    entries = rows.entries
    leaves: Array = log.hash[entries]
    changed = np.flatnonzero(~read_as_stored(rows, entries))
    if not len(changed):
        return leaves
    leaves = leaves.copy()
    for place in changed.tolist():
        leaves[place] = np.frombuffer(_changed(log, rows, int(entries[place])), np.uint8)
    return leaves


def _changed(log: Log, rows: Rows, entry: int) -> bytes:
    return leaf_digest(log.hash[entry].tobytes(), changes_digest(log, rows, entry))


def read_as_stored(rows: Rows, entries: Array) -> Array:
    """Per entry, whether its leaf is its chunk's hash."""
    if not isinstance(rows, KeyedRows):
        return rows.untouched(entries)
    takes_away = bool(len(rows.tombstones) or len(rows.overwritten))
    as_stored: Array = ~((entries == rows.entries[:1]) & takes_away)  # the first speaks for all
    return as_stored


def changes_digest(log: Log, rows: Rows, entry: int) -> bytes:
    """Which rows are read of an entry, in which order, and what lies over them, as 32 bytes.

    In a keyed table, what takes cells away from entries, and from how many: those that are older.
    """
    if isinstance(rows, KeyedRows):
        return _taken_away(log, rows)
    strips, holes, patches = rows.strips_of(entry), rows.holes_of(entry), rows.patches_of(entry)
    hasher = blake3(b"crdtcat changes 1\0")
    for column in (strips.start, strips.stop, holes.start, holes.stop, patches.at, patches.length):
        hasher.update(len(column).to_bytes(8, "big"))
        hasher.update(column.astype(">i8").tobytes())
    hasher.update(patches.source_at.astype(">i8").tobytes())
    hasher.update(log.hash[patches.source].tobytes())
    return hasher.digest()


def _taken_away(log: Log, rows: KeyedRows) -> bytes:
    hasher = blake3(b"crdtcat taken 1\0")
    begins = log.chunk_start[rows.deleters]
    for chunks, bounds in ((rows.tombstones, begins), (rows.overwritten, rows.overwritten)):
        order = np.lexsort((chunks, bounds))
        older = np.searchsorted(rows.entries, bounds[order])
        hasher.update(len(chunks).to_bytes(8, "big"))
        hasher.update(older.astype(">i8").tobytes())
        hasher.update(log.hash[chunks[order]].tobytes())
    return hasher.digest()

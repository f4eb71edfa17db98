"""A Merkle tree over the ordered leaves of a head, with content-defined nodes.

Each leaf is a chunk's hash and how many of its rows are alive. Leaves are grouped where the content says so:
a node ends after a leaf whose hash begins with a certain bit pattern (one in `FANOUT`), or at `NODE_MAX`
leaves. A leaf inserted in the middle therefore changes the nodes on its own path and leaves all others as
they were. Equal leaves in equal order give an equal root, whatever the history.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
from blake3 import blake3

from crdtcat.format.sections import Array

FANOUT: Final = 64
NODE_MAX: Final = 1024


def root_hash(hashes: Array, rows: Array) -> str:
    """The root over leaves `(hashes[i], rows[i])`. O(n) hashing of n / FANOUT nodes.

    Args:
        hashes: n x 32 bytes.
        rows: live rows per leaf.
    """
    counts = np.ascontiguousarray(rows.astype(">u8")).view(np.uint8).reshape(-1, 8)
    leaves = np.ascontiguousarray(np.concatenate((hashes, counts), axis=1))
    total = int(rows.sum())
    level, height = leaves, 0
    while len(level) > 1 or height == 0:
        level, height = _parents(level, height), height + 1
    return blake3(b"crdtcat root 1\0" + total.to_bytes(8, "big") + level.tobytes()).hexdigest()


def _parents(level: Array, height: int) -> Array:
    edges = _edges(level)
    prefix = b"crdtcat node 1\0" + height.to_bytes(1, "big")
    data = level.tobytes()
    width = level.shape[1] if level.ndim == 2 else 0
    nodes = [blake3(prefix + data[a * width : b * width]).digest() for a, b in pairwise(edges)]
    return np.frombuffer(b"".join(nodes), np.uint8).reshape(-1, 32)


def _edges(level: Array) -> list[int]:
    """Where nodes begin and end: after a boundary leaf, and at least every NODE_MAX leaves."""
    if not len(level):
        return [0, 0]
    cuts: Any = np.flatnonzero(level[:, 0] % FANOUT == 0) + 1
    edges = [0]
    for cut in [*cuts.tolist(), len(level)]:
        while cut - edges[-1] > NODE_MAX:
            edges.append(edges[-1] + NODE_MAX)
        if cut > edges[-1]:
            edges.append(cut)
    return edges

"""Nodes of the Merkle tree: what they hold, where they end, how they hash.

A *member* is 40 bytes: a 32-byte digest and how many live rows are below it, u64 big-endian. The members of
a lowest node are leaves; those of any other are nodes one level down. So a node's digest covers the rows of
everything below it, and a path from leaf to root proves not only that the leaf is there but where its rows
begin.

Where nodes end is decided by the content: after a member whose digest begins with a certain bit pattern
(one in `FANOUT`), though never with fewer than `NODE_MIN` members and never with more than `NODE_MAX`. The
rule looks at nothing before the node's own start, so a change disturbs the nodes on its path and leaves all
others as they were. The least size makes every level at most half as long as the one below, whatever the
leaves are: the height is bounded. The greatest size bounds nodes and proofs where leaves were made to hold
no boundary; such a run is cut by count, so that an insertion shifts the cuts after it up to the next
boundary: that costs time, never a wrong root.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from blake3 import blake3

from crdtcat.format.sections import Array

FANOUT: Final = 16
NODE_MIN: Final = 2
NODE_MAX: Final = 256
DIGEST_BYTES: Final = 32
MEMBER_BYTES: Final = 40
_ROWS_MASK: Final = 2**64 - 1


class Node:
    """One node. Immutable; shared by every tree that has the same members there.

    Attributes:
        height: 0 where the members are leaves.
        members: 40 bytes for each.
        children: the nodes behind the members; empty at height 0.
        digest: 32 bytes.
        leaves: how many leaves are below.
        rows: how many rows are below.
    """

    __slots__ = ("children", "digest", "height", "leaves", "members", "rows")

    def __init__(self, height: int, members: bytes, children: Sequence[Node], leaves: int, rows: int) -> None:
        self.height, self.members, self.children = height, members, children
        self.leaves, self.rows = leaves, rows & _ROWS_MASK
        self.digest = node_digest(height, members)

    @property
    def member(self) -> bytes:
        """This node as its parent holds it."""
        return self.digest + self.rows.to_bytes(8, "big")

    def __len__(self) -> int:
        return len(self.members) // MEMBER_BYTES

    def split(self) -> list[bytes]:
        """The members, one by one."""
        data = self.members
        return [data[at : at + MEMBER_BYTES] for at in range(0, len(data), MEMBER_BYTES)]


def node_digest(height: int, members: bytes) -> bytes:
    """The hash of a node."""
    return blake3(b"crdtcat node 2\0" + bytes((height,)) + members).digest()


def root_digest(member: bytes) -> bytes:
    """The hash of a tree, from its topmost node as a member."""
    return blake3(b"crdtcat root 2\0" + member).digest()


def rows_of(members: bytes) -> int:
    """The live rows of members, together. O(members)."""
    if not members:
        return 0
    counts = np.frombuffer(members, np.uint8).reshape(-1, MEMBER_BYTES)[:, DIGEST_BYTES:]
    return int(np.ascontiguousarray(counts).view(">u8").sum(dtype=np.uint64))


def ends_node(member: bytes) -> bool:
    """Whether a node ends after this member, if it is large enough."""
    return member[0] % FANOUT == 0


def lowest(members: bytes) -> Node:
    """A node over leaves."""
    return Node(0, members, (), len(members) // MEMBER_BYTES, rows_of(members))


def above(children: Sequence[Node]) -> Node:
    """A node over nodes."""
    members = b"".join(child.member for child in children)
    leaves, rows = sum(child.leaves for child in children), sum(child.rows for child in children)
    return Node(children[0].height + 1, members, tuple(children), leaves, rows)


def cut_leaves(members: Array) -> list[Node]:
    """All lowest nodes over n leaves, an array of n x 40 bytes; one empty node for none. O(n)."""
    data, edges = members.tobytes(), _edges(members[:, 0])
    if len(edges) < 2:
        return [lowest(b"")]
    counts = np.ascontiguousarray(members[:, DIGEST_BYTES:]).view(">u8").reshape(-1).astype(np.uint64)
    rows = np.add.reduceat(counts, np.array(edges[:-1])).tolist()
    return [
        Node(0, data[a * MEMBER_BYTES : b * MEMBER_BYTES], (), b - a, count)
        for (a, b), count in zip(pairwise(edges), rows, strict=True)
    ]


def cut_nodes(nodes: Sequence[Node]) -> list[Node]:
    """All nodes one level above a level's nodes. O(n)."""
    first = np.frombuffer(bytes(node.digest[0] for node in nodes), np.uint8)
    return [above(nodes[a:b]) for a, b in pairwise(_edges(first))]


def _edges(first: Array) -> list[int]:
    """Where nodes begin and end, given the first byte of each member of a level."""
    edges, last = [0], 0
    for cut in (np.flatnonzero(first % FANOUT == 0) + 1).tolist():
        while cut - last > NODE_MAX:
            last += NODE_MAX
            edges.append(last)
        if cut - last >= NODE_MIN:
            last = cut
            edges.append(last)
    while len(first) - last > 0:
        last = min(last + NODE_MAX, len(first))
        edges.append(last)
    return edges

"""A persistent Merkle tree over ordered leaves.

A leaf is an opaque 32-byte digest and a count of live rows. Equal leaves in equal order give an equal root,
whatever the history: a tree that was built at once and one that came about by splices are the same, node by
node. A tree never changes; `splice` makes a new one that shares every node a change did not touch.

What a leaf's digest stands for is the caller's business; `leaf_digest` is how heads make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from blake3 import blake3

from crdtcat.format.sections import Array
from crdtcat.merkle.alignment import changes
from crdtcat.merkle.node import (
    DIGEST_BYTES,
    MEMBER_BYTES,
    NODE_MAX,
    NODE_MIN,
    Node,
    above,
    cut_leaves,
    cut_nodes,
    ends_node,
    lowest,
    root_digest,
)

_SPLICE: Final = 512  # leaves that are built in the time that one splice takes
LEAF_PREFIX: Final = b"crdtcat leaf 1\0"


def leaf_digest(chunk: bytes, changes: bytes = b"") -> bytes:
    """A leaf's digest: the chunk's hash, or, where rows of it were changed or deleted, a hash of both.

    Args:
        chunk: the chunk's 32-byte hash.
        changes: 32 bytes that stand for what changed of its rows; empty where nothing did.
    """
    return blake3(LEAF_PREFIX + chunk + changes).digest() if changes else chunk


def make_leaves(digests: Array, rows: Array) -> Array:
    """Leaves as the tree takes them: n x 40 bytes, from n x 32 bytes and n counts."""
    counts = np.ascontiguousarray(rows.astype(">u8")).view(np.uint8).reshape(-1, MEMBER_BYTES - DIGEST_BYTES)
    return np.ascontiguousarray(np.concatenate((digests.reshape(-1, DIGEST_BYTES), counts), axis=1))


class Tree:
    """A tree; get one from `build`, or from another one by `splice` or `following`."""

    __slots__ = ("root",)

    def __init__(self, root: Node) -> None:
        self.root = root

    @classmethod
    def build(cls, leaves: Array) -> Tree:
        """The tree over n x 40 bytes, see `make_leaves`. O(n): a quarter of a second for a million."""
        return cls(_topped(cut_leaves(leaves)))

    @property
    def root_hash(self) -> str:
        """64 hexadecimal digits that stand for all leaves and their order."""
        return root_digest(self.root.member).hex()

    def __len__(self) -> int:
        return self.root.leaves

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.root.digest == other.root.digest

    def __hash__(self) -> int:
        return hash(self.root.digest)

    def __repr__(self) -> str:
        return f"Tree({len(self):,} leaves, {self.root.rows:,} rows, root {self.root_hash[:12]})"

    def leaves(self) -> Array:
        """All leaves, n x 40 bytes. O(n)."""
        data = b"".join(node.members for node, _ in self.nodes_from(0, 0))
        return np.frombuffer(data, np.uint8).reshape(-1, MEMBER_BYTES)

    def path(self, leaf: int) -> list[tuple[Node, int]]:
        """From the root down to a leaf: each node, and which of its members leads on. O(log n)."""
        if not 0 <= leaf < len(self):
            raise IndexError(f"no leaf {leaf} among {len(self)}")
        path: list[tuple[Node, int]] = []
        node = self.root
        while node.height:
            at = 0
            while leaf >= node.children[at].leaves:
                leaf -= node.children[at].leaves
                at += 1
            path.append((node, at))
            node = node.children[at]
        return [*path, (node, leaf)]

    def nodes_from(self, height: int, leaf: int) -> Iterator[tuple[Node, int]]:
        """Nodes of one height, from the one that holds a leaf to the last, each with its first leaf's number.

        O(log n) before the first, O(1) for each after it.
        """
        if leaf >= len(self) > 0:
            return
        stack, begin = [iter((self.root,))], 0
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
            elif node.height == height or begin + node.leaves <= leaf:
                if begin + node.leaves > leaf or not len(self):
                    yield node, begin
                begin += node.leaves
            else:
                stack.append(iter(node.children))

    def splice(self, start: int, stop: int, leaves: Array) -> Tree:
        """This tree with the leaves from `start` up to `stop` replaced. O((new leaves + 1) * log n).

        Raises:
            IndexError: there are no such leaves.
        """
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"no leaves {start} to {stop} among {len(self)}")
        data = np.ascontiguousarray(leaves).tobytes()
        items: list[_Item] = [
            (data[at : at + MEMBER_BYTES], None) for at in range(0, len(data), MEMBER_BYTES)
        ]
        level: list[Node] = []
        for height in range(self.root.height + 1):
            level, start, stop = _respliced(self, height, start, stop, items)
            if stop - start == len(self):  # this level is new from end to end
                break
            items = [(node.member, node) for node in level]
        root = _topped(level or [lowest(b"")])
        while root.height and len(root) == 1:  # the rest of its level was removed
            root = root.children[0]
        return Tree(root)

    def following(self, leaves: Array) -> Tree:
        """The tree over `leaves`, sharing every node with this one that no change is below.

        Compares all leaves, at the speed of memory, and hashes O(changes * log n) nodes: made for a head
        that follows another.
        """
        found = changes(self.leaves(), leaves, most=1 + len(leaves) // _SPLICE)
        if found is None or 2 * sum(change.new_stop - change.new_start for change in found) > len(leaves):
            return Tree.build(leaves)  # much is new: at once is faster
        tree = self
        for start, stop, new_start, new_stop in reversed(found):  # so that places before them stay
            tree = tree.splice(start, stop, leaves[new_start:new_stop])
        return tree


_Item = tuple[bytes, Node | None]
"""A member, and the node behind it where it is no leaf."""


def _topped(level: list[Node]) -> Node:
    while len(level) > 1:
        level = cut_nodes(level)
    return level[0]


def _respliced(
    tree: Tree, height: int, start: int, stop: int, fresh: Sequence[_Item]
) -> tuple[list[Node], int, int]:
    """New nodes of one height after the members over some leaves were replaced, and the range of old leaves
    under the nodes they stand in for: from the node the change begins in, up to where old and new cuts meet.
    """
    first, begin = next(tree.nodes_from(height, max(0, min(start, len(tree) - 1))))
    made: list[Node] = []
    waiting: list[_Item] = []

    def take(items: Iterable[_Item]) -> None:
        for item in items:
            waiting.append(item)
            if len(waiting) == NODE_MAX or (len(waiting) >= NODE_MIN and ends_node(item[0])):
                made.append(_node(waiting))
                waiting.clear()

    take(_items(first, 0, start - begin))
    take(fresh)
    end = stop
    for node, at in tree.nodes_from(height, stop):
        if at >= stop and not waiting and height < tree.root.height:  # the root is always made anew
            break
        take(_items(node, stop - at, node.leaves))
        end = at + node.leaves
        if not waiting:
            break
    if waiting:
        made.append(_node(waiting))
    return made, begin, end


def _items(node: Node, start: int, stop: int) -> list[_Item]:
    """The members of a node over its leaves from `start` to `stop`, which lie between members."""
    if not node.height:
        return [(member, None) for member in node.split()[max(start, 0) : max(stop, 0)]]
    found: list[_Item] = []
    at = 0
    for member, child in zip(node.split(), node.children, strict=True):
        if start <= at and at + child.leaves <= stop:
            found.append((member, child))
        at += child.leaves
    return found


def _node(items: Sequence[_Item]) -> Node:
    children = [child for _, child in items if child is not None]
    return above(children) if children else lowest(b"".join(member for member, _ in items))

"""A plain Merkle tree, a list at a time, and a strategy of leaves that makes small trees tall."""

from __future__ import annotations

from typing import Any

import numpy as np
from blake3 import blake3
from hypothesis import strategies as st

from crdtcat.merkle import FANOUT, NODE_MAX, NODE_MIN, Tree, make_leaves

Leaf = tuple[bytes, int]

# Few different leaves, so that equal ones meet; one in a few ends a node, so that trees are tall.
digests = st.builds(
    lambda first, rest: bytes([first]) + bytes([rest]) * 31,
    st.sampled_from([0, 1, 2, 3, FANOUT, FANOUT + 1]),
    st.integers(0, 5),
)
leaf = st.tuples(digests | st.binary(min_size=32, max_size=32), st.integers(0, 3) | st.integers(0, 2**40))
leaves = st.lists(leaf, max_size=60)


def array(items: list[Leaf]) -> Any:
    joined = np.frombuffer(b"".join(hash for hash, _ in items), np.uint8).reshape(-1, 32)
    return make_leaves(joined, np.array([rows for _, rows in items], np.uint64))


def build(items: list[Leaf]) -> Tree:
    return Tree.build(array(items))


def listed(tree: Tree) -> list[Leaf]:
    rows = [leaf.tobytes() for leaf in tree.leaves()]
    return [(row[:32], int.from_bytes(row[32:], "big")) for row in rows]


def plain_root(items: list[Leaf]) -> str:
    """The root of a tree that keeps nothing but lists."""
    level, height = items, 0
    while height == 0 or len(level) > 1:
        nodes: list[list[Leaf]] = [[]]
        for item in level:
            nodes[-1].append(item)
            ends = item[0][0] % FANOUT == 0 and len(nodes[-1]) >= NODE_MIN
            if ends or len(nodes[-1]) == NODE_MAX:
                nodes.append([])
        if not nodes[-1] and len(nodes) > 1:
            nodes.pop()
        prefix = b"crdtcat node 2\0" + bytes([height])
        level = [(blake3(prefix + packed(node)).digest(), sum(rows for _, rows in node)) for node in nodes]
        height += 1
    return blake3(b"crdtcat root 2\0" + packed(level)).hexdigest()


def packed(items: list[Leaf]) -> bytes:
    return b"".join(hash + rows.to_bytes(8, "big") for hash, rows in items)


def random_leaves(count: int, seed: int = 0) -> list[Leaf]:
    chance = np.random.default_rng(seed)
    return [(chance.bytes(32), int(chance.integers(1, 1000))) for _ in range(count)]


def random_array(count: int, seed: int = 0) -> Any:
    chance = np.random.default_rng(seed)
    rows = chance.integers(1, 1000, count).astype(np.uint64)
    return make_leaves(chance.integers(0, 256, (count, 32), dtype=np.uint8), rows)

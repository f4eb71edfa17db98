"""The Merkle root: a function of the ordered leaves, equal to a plain tree, disturbed only near a change."""

from __future__ import annotations

from typing import Any

import numpy as np
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.merkle import FANOUT, NODE_MAX, _parents, root_hash

Leaf = tuple[bytes, int]
hashes = st.binary(min_size=32, max_size=32)
# First bytes that end a node are one in 64: drawn often, so that small trees have several levels.
leaves = st.lists(
    st.tuples(hashes | hashes.map(lambda value: b"\x40" + value[1:]), st.integers(0, 2**40)), max_size=40
)


def root(items: list[Leaf]) -> str:
    joined = b"".join(hash for hash, _ in items)
    return root_hash(
        np.frombuffer(joined, np.uint8).reshape(-1, 32), np.array([rows for _, rows in items], np.uint64)
    )


def plain(items: list[Leaf]) -> str:
    """The same tree, a list at a time."""
    level = [hash + rows.to_bytes(8, "big") for hash, rows in items]
    height = 0
    while len(level) > 1 or height == 0:
        nodes: list[list[bytes]] = [[]]
        for item in level:
            if len(nodes[-1]) == NODE_MAX:
                nodes.append([])
            nodes[-1].append(item)
            if item[0] % FANOUT == 0:
                nodes.append([])
        if not nodes[-1] and len(nodes) > 1:
            nodes.pop()
        prefix = b"crdtcat node 1\0" + bytes([height])
        level = [blake3(prefix + b"".join(node)).digest() for node in nodes]
        height += 1
    total = sum(rows for _, rows in items).to_bytes(8, "big")
    return blake3(b"crdtcat root 1\0" + total + level[0]).hexdigest()


@given(leaves)
@settings(max_examples=100, deadline=None)
def test_the_root_is_that_of_a_plain_tree(items: list[Leaf]) -> None:
    assert root(items) == plain(items)


def random_leaves(count: int, seed: int = 0) -> list[Leaf]:
    chance = np.random.default_rng(seed)
    return [(chance.bytes(32), int(chance.integers(1, 1000))) for _ in range(count)]


def test_the_root_is_that_of_a_plain_tree_where_nodes_are_cut_by_size() -> None:
    many = [(b"\x01" * 32, 1)] * (2 * NODE_MAX + 3)
    for items in (many, many[:NODE_MAX], many[: NODE_MAX + 1], random_leaves(5000)):
        assert root(items) == plain(items)


@given(leaves, leaves)
@settings(max_examples=100, deadline=None)
def test_equal_roots_mean_equal_leaves(a: list[Leaf], b: list[Leaf]) -> None:
    assert (root(a) == root(b)) == (a == b)


@given(leaves.filter(len), st.data())
@settings(max_examples=100, deadline=None)
def test_any_change_changes_the_root(items: list[Leaf], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(items) - 1))
    hash, rows = items[at]
    changed: list[Any] = [
        [*items[:at], (hash, rows + 1), *items[at + 1 :]],
        [*items[:at], (blake3(hash).digest(), rows), *items[at + 1 :]],
        [*items[:at], *items[at + 1 :]],
        [*items[:at], items[at], *items[at:]],
    ]
    if items[::-1] != items:
        changed.append(items[::-1])
    assert all(root(other) != root(items) for other in changed)


def nodes(items: list[Leaf]) -> set[bytes]:
    raw = b"".join(hash + rows.to_bytes(8, "big") for hash, rows in items)
    level = _parents(np.frombuffer(raw, np.uint8).reshape(-1, 40), 0)
    return {node.tobytes() for node in level}


def test_an_inserted_leaf_disturbs_its_own_neighbourhood_only() -> None:
    items = random_leaves(6000)
    before = nodes(items)
    for at in (0, 1500, 2999, 6000):
        after = nodes([*items[:at], *random_leaves(1, seed=9), *items[at:]])
        assert len(before - after) <= 1
        assert len(after - before) <= 2

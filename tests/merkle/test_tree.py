"""The tree: a function of the ordered leaves, equal to a plain one, disturbed only near a change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.merkle import FANOUT, NODE_MAX, Tree
from crdtcat.merkle.alignment import changes
from crdtcat.merkle.node import Node, node_digest
from tests.bounds import bounded
from tests.merkle.model import Leaf, array, build, leaves, listed, plain_root, random_array, random_leaves


def nodes(tree: Tree) -> list[Node]:
    return [node for height in range(tree.root.height + 1) for node, _ in tree.nodes_from(height, 0)]


def check_shape(tree: Tree) -> None:
    """What every node says of itself is so."""
    for node in nodes(tree):
        assert len(node) <= NODE_MAX
        if node.height:
            assert node.members == b"".join(child.member for child in node.children)
            assert node.leaves == sum(child.leaves for child in node.children)
            assert node.rows == sum(child.rows for child in node.children) % 2**64
    assert tree.root.height == 0 or len(tree.root) > 1
    assert 2 ** (tree.root.height - 1) < max(len(tree), 2)


@given(leaves)
@settings(max_examples=200, deadline=None)
def test_the_root_is_that_of_a_plain_tree(items: list[Leaf]) -> None:
    tree = build(items)
    assert tree.root_hash == plain_root(items)
    assert listed(tree) == items
    check_shape(tree)


def runs_without_a_boundary(count: int) -> list[Leaf]:
    """Leaves made so that the content never ends a node."""
    return [(bytes([1 + n % (FANOUT - 1)]) + n.to_bytes(31, "big"), 1) for n in range(count)]


def boundaries_only(count: int) -> list[Leaf]:
    """Leaves each of which would end a node."""
    return [(bytes([FANOUT]) + n.to_bytes(31, "big"), 1) for n in range(count)]


ADVERSE = {
    "none": [],
    "one": random_leaves(1),
    "one that ends": boundaries_only(1),
    "equal": [(b"\x01" * 32, 1)] * (2 * NODE_MAX + 3),
    "equal that end": [(b"\x00" * 32, 1)] * 1000,
    "a node just full": runs_without_a_boundary(NODE_MAX),
    "one more than a node": runs_without_a_boundary(NODE_MAX + 1),
    "no boundary": runs_without_a_boundary(3 * NODE_MAX + 5),
    "boundaries only": boundaries_only(1000),
    "random": random_leaves(5000),
}


@pytest.mark.parametrize("kind", ADVERSE)
def test_leaves_made_to_break_it(kind: str) -> None:
    items = ADVERSE[kind]
    tree = build(items)
    assert tree.root_hash == plain_root(items)
    check_shape(tree)
    fresh = random_leaves(3, seed=5)
    for start in {0, len(items) // 2, len(items)}:
        for stop in {start, min(start + 2, len(items)), len(items)}:
            changed = [*items[:start], *fresh, *items[stop:]]
            spliced = tree.splice(start, stop, array(fresh))
            assert spliced.root_hash == plain_root(changed)
            check_shape(spliced)


def test_more_rows_than_64_bits_hold_wrap_instead_of_failing() -> None:
    items = [(b"\x01" * 32, 2**64 - 1), (b"\x02" * 32, 5)]
    tree = build(items)
    assert tree.root.rows == 4
    assert tree.splice(0, 0, array([])).root_hash == tree.root_hash


@given(leaves, leaves)
@settings(max_examples=100, deadline=None)
def test_equal_roots_mean_equal_leaves(a: list[Leaf], b: list[Leaf]) -> None:
    assert (build(a).root_hash == build(b).root_hash) == (a == b)
    assert (build(a) == build(b)) == (a == b)


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
    root = build(items).root_hash
    assert all(build(other).root_hash != root for other in changed)


@given(leaves, st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80), leaves), max_size=6))
@settings(max_examples=bounded(300, 2), deadline=None)
def test_any_history_of_splices_gives_the_tree_built_at_once(items: list[Leaf], edits: list[Any]) -> None:
    tree = build(items)
    for one, other, fresh in edits:
        start, stop = sorted((min(one, len(items)), min(other, len(items))))
        items = [*items[:start], *fresh, *items[stop:]]
        tree = tree.splice(start, stop, array(fresh))
        assert listed(tree) == items
        assert tree == build(items)
        check_shape(tree)


@given(leaves, leaves, leaves, leaves)
@settings(max_examples=200, deadline=None)
def test_following_gives_the_tree_built_at_once(
    before: list[Leaf], gone: list[Leaf], come: list[Leaf], after: list[Leaf]
) -> None:
    tree = build([*before, *gone, *after])
    assert tree.following(array([*before, *come, *after])) == build([*before, *come, *after])


edits = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 3), leaves.map(lambda some: some[:3])), max_size=8
)


@given(leaves.map(lambda some: some * 3), edits)
@settings(max_examples=bounded(300, 2), deadline=None)
def test_following_past_changes_in_many_places(items: list[Leaf], places: list[Any]) -> None:
    changed = list(items)
    for at, gone, come in places:
        changed[at : at + gone] = come
    assert build(items).following(array(changed)) == build(changed)
    found = changes(array(items), array(changed), most=100)
    assert found is not None
    again, at = [], 0
    for change in found:  # what is not called changed is the same, and in its place
        again += [*items[at : change.start], *changed[change.new_start : change.new_stop]]
        at = change.stop
    assert [*again, *items[at:]] == changed


@pytest.mark.parametrize("kind", ["replaced", "inserted", "removed"])
@pytest.mark.parametrize("count", [1, 2, 20])
def test_following_hashes_the_paths_of_changes_and_nothing_else(
    kind: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 50_000
    items = random_leaves(size)
    tree, height = build(items), 6
    changed = list(items)
    for at in sorted(np.random.default_rng(count).choice(size, count, replace=False).tolist(), reverse=True):
        fresh = random_leaves(1, seed=at) if kind != "removed" else []
        changed[at : at + (kind != "inserted")] = fresh
    hashed: list[bytes] = []

    def counted(level: int, members: bytes) -> bytes:
        hashed.append(members)
        return node_digest(level, members)

    monkeypatch.setattr("crdtcat.merkle.node.node_digest", counted)
    followed = tree.following(array(changed))
    assert len(hashed) <= 4 * count * height
    monkeypatch.undo()
    assert followed == build(changed)


def test_a_splice_shares_what_it_does_not_touch() -> None:
    tree = build(random_leaves(20_000))
    before = {id(node) for node in nodes(tree)}
    for start, stop in ((0, 0), (10_000, 10_000), (10_000, 10_001), (19_999, 20_000), (20_000, 20_000)):
        spliced = tree.splice(start, stop, array(random_leaves(1, seed=9)))
        fresh = [node for node in nodes(spliced) if id(node) not in before]
        assert len(fresh) <= 4 * (spliced.root.height + 1)


def test_following_an_append_shares_all_but_the_end() -> None:
    old = random_array(20_000)
    tree = Tree.build(old)
    before = {id(node) for node in nodes(tree)}
    followed = tree.following(np.concatenate((old, random_array(5, seed=1))))
    assert sum(id(node) not in before for node in nodes(followed)) <= 3 * (followed.root.height + 1)


def test_leaves_that_are_not_there() -> None:
    tree = build(random_leaves(3))
    for start, stop in ((-1, 0), (2, 1), (0, 4), (4, 4)):
        with pytest.raises(IndexError):
            tree.splice(start, stop, array([]))
    for at in (-1, 3):
        with pytest.raises(IndexError):
            tree.path(at)

"""Diffs: the runs turn one tree into the other, touch nothing that is the same, and cost what changed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.merkle import Difference, Tree, diff
from tests.bounds import bounded
from tests.merkle.model import Leaf, array, build, leaves, random_array, random_leaves


def check(old: list[Leaf], new: list[Leaf], found: Difference) -> None:
    """Everything a difference claims, against the plain lists."""
    rebuilt: list[Leaf] = []
    at = 0
    for run in found.runs:
        same = run.old_start - at
        rebuilt += old[at : run.old_start]
        assert same > 0 or run is found.runs[0]  # runs never touch
        assert run.new_start == len(rebuilt)
        rebuilt += new[run.new_start : run.new_stop]
        assert run.new_stop == len(rebuilt)
        at = run.old_stop
        gone, come = old[run.old_start : run.old_stop], new[run.new_start : run.new_stop]
        assert (run.old_rows, run.new_rows) == (sum(r for _, r in gone), sum(r for _, r in come))
        assert run.kind == ("changed" if gone and come else "removed" if gone else "inserted")
        assert gone or come
        if gone and come:  # trimmed: what is the same at either end is no part of a run
            assert gone[0] != come[0]
            assert gone[-1] != come[-1]
    assert rebuilt + old[at:] == new
    assert bool(found) == (old != new)


@given(leaves, leaves)
@settings(max_examples=300, deadline=None)
def test_unrelated_trees(old: list[Leaf], new: list[Leaf]) -> None:
    check(old, new, diff(build(old), build(new)))


@given(leaves, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), leaves.map(lambda x: x[:3]))))
@settings(max_examples=bounded(300, 2), deadline=None)
def test_edited_trees(old: list[Leaf], edits: list[Any]) -> None:
    new = list(old)
    for start, count, fresh in edits:
        new[start : start + count] = fresh
    check(old, new, diff(build(old), build(new)))
    check(new, old, diff(build(new), build(old)))


@pytest.mark.parametrize("seed", range(5))
def test_one_leaf_changed_inserted_removed_is_exactly_that_run(seed: int) -> None:
    old = random_leaves(3000, seed)
    fresh = random_leaves(1, seed + 100)
    at = random.Random(seed).randrange(len(old))
    for kind, new in (
        ("changed", [*old[:at], *fresh, *old[at + 1 :]]),
        ("inserted", [*old[:at], *fresh, *old[at:]]),
        ("removed", [*old[:at], *old[at + 1 :]]),
    ):
        found = diff(build(old), build(new))
        check(old, new, found)
        (run,) = found.runs
        assert (run.kind, run.old_start) == (kind, at)


def edited(old: Any, changes: int, seed: int) -> Any:
    """Leaves with so many scattered ones replaced, inserted and removed."""
    chance = np.random.default_rng(seed)
    places = np.sort(chance.choice(len(old), changes, replace=False)).tolist()
    fresh = random_array(changes, seed=seed + 1)
    parts, last = [], 0
    for number, at in enumerate(places):
        kind = number % 3
        parts += [old[last:at], fresh[number : number + 1]] if kind < 2 else [old[last:at]]
        last = at + (kind != 1)
    return np.concatenate([*parts, old[last:]])


def test_a_million_leaves_with_a_hundred_changes_cost_a_hundred_changes() -> None:
    """Nodes looked into: a few per change and level, whatever the size of the trees."""
    visited = {}
    for size in (10_000, 100_000, 1_000_000):
        old = random_array(size)
        new = edited(old, 100, seed=7)
        trees = Tree.build(old), Tree.build(new)
        found = diff(*trees)
        visited[size] = found.visited
        height = trees[0].root.height + 1
        total = sum(1 for level in range(height) for _ in trees[0].nodes_from(level, 0))
        assert 90 <= len(found.runs) <= 100
        assert sum(run.new_stop - run.new_start for run in found.runs) == 67  # nothing but the fresh ones
        assert found.visited <= 100 * 2 * 1.5 * height  # both trees, sometimes a neighbour too
        if size == 1_000_000:
            assert found.visited < total / 50
    assert visited[1_000_000] < 3 * visited[10_000]  # grows with log n: 100 times the leaves, 5/3 the levels
    few = diff(Tree.build(old), Tree.build(edited(old, 10, seed=3)))
    assert few.visited < found.visited / 5  # and with the changes


def test_equal_trees_are_not_looked_into() -> None:
    old = random_array(10_000)
    assert diff(Tree.build(old), Tree.build(old)) == Difference((), 0)


def test_many_equal_leaves_with_a_few_changes_stay_few_changes() -> None:
    """The same batch appended again and again: no leaf is unique, and the alignment holds all the same."""
    for first in (1, 0):  # of which the content ends no node, or every one
        old = [(bytes([first]) * 32, 1)] * 20_000
        new = list(old)
        for number, at in enumerate((50, 7_000, 15_000)):
            new.insert(at, random_leaves(1, seed=number)[0])
        found = diff(build(old), build(new))
        check(old, new, found)
        assert sum(run.new_stop - run.new_start + run.old_stop - run.old_start for run in found.runs) < 20
        assert found.visited < 200


def test_moved_leaves_are_removed_and_inserted() -> None:
    old = random_leaves(5000)
    new = [*old[2000:], *old[:2000]]
    found = diff(build(old), build(new))
    check(old, new, found)
    assert sum(run.old_stop - run.old_start for run in found.runs) <= 2100


def test_trees_of_very_different_height() -> None:
    many = random_leaves(5000)
    for few in ([], many[:1], many[2500:2503]):
        for old, new in ((many, few), (few, many)):
            check(old, new, diff(build(old), build(new)))


def test_an_update_and_a_diff_of_it_do_not_read_the_leaves() -> None:
    tree = Tree.build(random_array(100_000))
    changed = tree.splice(50_000, 50_001, array(random_leaves(1, seed=4)))
    (run,) = diff(tree, changed).runs
    assert (run.old_start, run.new_stop) == (50_000, 50_001)

"""Merkle trees of heads: what differs between two of them, and what it costs to build, follow and prove."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.job import Job
from benchmarks.report import Results, best, progress
from crdtcat.merkle import Tree, diff, make_leaves, prove

PURPOSE = (
    "Diff of two trees of up to a million chunks (aim: proportional to the changes, not to the table), "
    "beside comparing all leaves; and what it costs to build a tree, to make the next one from it, and to "
    "prove a chunk."
)


def leaves(count: int, seed: int) -> Any:
    chance = np.random.default_rng(seed)
    rows = chance.integers(1, 100_000, count).astype(np.uint64)
    return make_leaves(chance.integers(0, 256, (count, 32), dtype=np.uint8), rows)


def changed(old: Any, changes: int) -> Any:
    """The leaves with some, scattered, replaced."""
    new = old.copy()
    new[np.random.default_rng(7).choice(len(old), changes, replace=False)] = leaves(changes, 9)
    return new


def run(job: Job) -> Results:
    """All measurements."""
    results = Results()
    compared, made = [], []
    for count in job.pick((1_000,), (10_000, 100_000, 1_000_000), (10_000, 100_000, 1_000_000)):
        old = leaves(count, 1)
        progress(f"a tree of {count:,} leaves")
        tree = Tree.build(old)
        for changes in (1, 10, 100):
            new = changed(old, changes)
            other = Tree.build(new)
            found = diff(tree, other)
            assert sum(run.new_stop - run.new_start for run in found.runs) == changes

            def plain(old: Any = old, new: Any = new) -> Any:
                return np.flatnonzero((old != new).any(axis=1))

            seconds = best(lambda other=other: diff(tree, other))  # type: ignore[misc]  # noqa: B023
            compared.append([count, changes, found.visited, seconds * 1e3, best(plain) * 1e3])
        appended = np.concatenate((old, leaves(100, 3)))
        proof = prove(tree, count // 2, old[count // 2, :32].tobytes())
        made.append(
            [
                count,
                best(lambda old=old: Tree.build(old)) * 1e3,  # type: ignore[misc]
                best(lambda: tree.following(appended)) * 1e3,  # noqa: B023
                best(lambda: tree.splice(5, 6, old[:1])) * 1e6,  # noqa: B023
                len(proof.to_bytes()),
                best(lambda: proof.check(tree.root_hash, proof.chunk)) * 1e6,  # noqa: B023
            ]
        )
    header = ["leaves", "changes", "nodes opened", "diff, ms", "comparing all leaves, ms"]
    results.add("Diff of two trees, scattered changes", header, compared)
    header = [
        "leaves",
        "build, ms",
        "follow 100 appended, ms",
        "one changed, us",
        "proof, bytes",
        "check, us",
    ]
    results.add("Making trees and proofs", header, made)
    return results

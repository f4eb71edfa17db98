"""Recorded histories of random concurrent transactions, held against the dependency graph.

Each transaction reads some cells and writes others, in several tables; every value is written once. Under the
scheduler exactly one thread runs at a time and stops before every request, so a seed is a history.
"""

from __future__ import annotations

import itertools
import multiprocessing
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitConflict, CommitContended
from tests.bounds import bounded
from tests.cas.scenes import BARRIER_SECONDS
from tests.transactions.dependencies import Cell, Done, Value, check, cycle, edges
from tests.transactions.histories import check_histories, drawn, orders, played, start, transact

SEEDS = range(bounded(10_000, 400))


def test_serializable_histories_have_no_cycle() -> None:
    assert check_histories("serializable", SEEDS) > len(SEEDS)


def test_snapshot_histories_have_no_lost_update_and_no_read_skew() -> None:
    assert check_histories("snapshot", SEEDS) > len(SEEDS)


@pytest.mark.parametrize(
    ("wrong", "judged"), [(None, "serializable"), ("ours", "snapshot")], ids=["write skew", "lost updates"]
)
def test_the_same_seeds_find_what_is_wrong(wrong: str | None, judged: str) -> None:
    """A library that gave snapshot isolation for serializable, or let the later of two prevail for snapshot,
    would not pass the tests above."""
    with pytest.raises(AssertionError, match=rf"seed \d+: {judged}"):
        check_histories("snapshot", SEEDS, on_conflict=wrong, judged=judged)


def test_snapshot_lets_write_skew_through_and_serializable_does_not() -> None:
    """The histories can tell the two apart, so the tests above say something."""
    skewed = [[(("a0", "b0"), ("a0",))], [(("a0", "b0"), ("b0",))]]
    cycles = {"snapshot": 0, "serializable": 0}
    for seed in range(20):
        for isolation in cycles:
            history = played(seed, isolation, skewed)
            cycles[isolation] += cycle(list(edges(*history))) is not None
    assert cycles["snapshot"] > 0
    assert cycles["serializable"] == 0


FIRST = {"x": [0], "y": [0]}
WRONG: dict[str, tuple[list[Done], dict[Cell, list[Value]], str]] = {
    "lost update": (
        [Done(1, {"x": 0}, {"x": 1}), Done(2, {"x": 0}, {"x": 2})],
        {"x": [0, 1, 2]},
        "snapshot",
    ),
    "read skew": (
        [Done(1, {}, {"x": 1, "y": 2}), Done(2, {"x": 1, "y": 0})],
        {"x": [0, 1], "y": [0, 2]},
        "snapshot",
    ),
    "write skew": (
        [Done(1, {"x": 0, "y": 0}, {"x": 1}), Done(2, {"x": 0, "y": 0}, {"y": 2})],
        {"x": [0, 1], "y": [0, 2]},
        "serializable",
    ),
    "a commit that is gone": ([Done(1, {}, {"x": 1})], {"x": [0]}, "snapshot"),
    "a commit nobody made": ([], {"x": [0, 1]}, "snapshot"),
    "a value nobody committed": ([Done(1, {"x": 7})], {"x": [0]}, "snapshot"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_checker_finds_what_is_wrong(name: str) -> None:
    done, orders, isolation = WRONG[name]
    with pytest.raises(AssertionError):
        check(done, orders, isolation)


def test_the_checker_lets_pass_what_is_right() -> None:
    done, orders, _ = WRONG["write skew"]
    check(done, orders, "snapshot")
    check([Done(1, {"x": 0}, {"x": 1}), Done(2, {"x": 1}, {"x": 2})], {"x": [0, 1, 2]}, "serializable")


PROCESSES, ROUNDS = 3, 25
"""Histories that follow each other in one catalog: each begins with what the one before it left."""
_barrier: list[Barrier] = []


def _begin(barrier: Barrier) -> None:
    _barrier.append(barrier)


def work(root: str, isolation: str, me: int, seeds: range) -> list[tuple[list[Done], int]]:
    """One process's part in many histories: what it committed, and how often it was refused. All have read
    and staged their first transaction before any of them commits it, and are done before the next begins."""
    (barrier,) = _barrier
    parts, values = [], itertools.count(1_000_000 * (me + 1))
    for seed in seeds:
        url = f"{root}/{seed // ROUNDS}"
        if me == 0 and seed % ROUNDS == 0:
            start(Catalog(url, upkeep=False))
        barrier.wait(BARRIER_SECONDS)
        if seed % ROUNDS == 0:
            catalog = Catalog(url, upkeep=False)
        done: list[Done] = []
        refused = 0
        for turn, program in enumerate(drawn(seed, PROCESSES)[me]):
            meet = None if turn else partial(barrier.wait, BARRIER_SECONDS)
            id = 100 * (seed + 1) + 10 * me + turn
            try:
                done.append(transact(catalog, isolation, program, id, values, meet))
            except (CommitConflict, CommitContended):
                refused += 1
        parts.append((done, refused))
    return parts


def test_histories_of_processes_on_local_disk(tmp_path: Path) -> None:
    """Nobody's turn is chosen. That they meet is seen by who was refused, and by those that committed past
    each other."""
    seeds, context = range(bounded(2_000, 80)), multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # what takes long to import is imported once
    with context.Pool(PROCESSES, _begin, (context.Barrier(PROCESSES),)) as pool:
        for isolation in ("snapshot", "serializable"):
            root = f"{tmp_path}/{isolation}"
            calls = [(root, isolation, me, seeds) for me in range(PROCESSES)]
            check_parts(root, isolation, pool.starmap(work, calls, chunksize=1))


def check_parts(root: str, isolation: str, parts: list[list[tuple[list[Done], int]]]) -> None:
    """What all processes did, history by history, against the graph; and that they met in every one."""
    histories = list(zip(*parts, strict=True))
    for first in range(0, len(histories), ROUNDS):
        done = [item for each in histories[first : first + ROUNDS] for items, _ in each for item in items]
        check(done, orders(Catalog(f"{root}/{first // ROUNDS}", upkeep=False)), isolation)
    for each in histories:  # the first transaction of each was under way before any of them was committed
        stood = sum(item.id % 10 == 0 for items, _ in each for item in items)
        assert stood > 1 or any(refused for _, refused in each), "nobody met anybody: this says nothing"
    assert sum(refused for each in histories for _, refused in each) > len(histories) // 2
    assert sum(len(items) for each in histories for items, _ in each) > len(histories)

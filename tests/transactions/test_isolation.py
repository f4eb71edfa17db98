"""Recorded histories of random concurrent transactions, held against the dependency graph.

Each transaction reads some cells and writes others, in several tables; every value is written once. Under the
scheduler exactly one thread runs at a time and stops before every request, so a seed is a history.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
from contextlib import suppress
from pathlib import Path

import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitConflict, CommitContended
from tests.bounds import bounded
from tests.transactions.dependencies import Cell, Done, Value, check, cycle, edges
from tests.transactions.histories import CELLS, check_histories, orders, played, start, transact

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


def work(url: str, isolation: str, me: int, count: int) -> list[Done]:
    """Random transactions of one process."""
    draw, catalog = random.Random(me), Catalog(url, upkeep=False, lease_seconds=1)
    values, done = itertools.count(1_000_000 * (me + 1)), []
    for turn in range(count):
        program = tuple(tuple(draw.sample(CELLS, draw.randint(least, 3))) for least in (0, 1))
        with suppress(CommitConflict, CommitContended):
            done.append(transact(catalog, isolation, program, 1000 * (me + 1) + turn, values))  # type: ignore[arg-type]
    return done


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_processes_on_local_disk(tmp_path: Path, isolation: str) -> None:
    url, count = str(tmp_path), bounded(200, 20)
    start(Catalog(url))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        parts = pool.starmap(work, [(url, isolation, me, count) for me in range(3)])
    done = [item for part in parts for item in part]
    assert len(done) > count // 2, "most of it must have been committed for this to say anything"
    check(done, orders(Catalog(url)), isolation)

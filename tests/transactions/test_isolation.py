"""Recorded histories of random concurrent transactions, held against the dependency graph.

Each transaction reads some cells and writes others, in several tables; every value is written once. Under the
scheduler exactly one thread runs at a time and stops before every request, so a seed is a history.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.errors import CommitConflict, CommitContended
from crdtcat.store.memory import MemoryStore
from tests.bounds import bounded
from tests.catalog.test_races import Stage, StagedStore
from tests.transactions.dependencies import Cell, Done, Value, check, cycle, edges

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
TABLES = ("a", "b")
CELLS = [f"{table}{n}" for table in TABLES for n in range(2)]
Program = tuple[tuple[Cell, ...], tuple[Cell, ...]]
"""Cells to read, cells to write."""


def start(catalog: Catalog) -> None:
    for table in TABLES:
        catalog.create_table(table, SCHEMA, mode="cas").append([{"n": n, "x": -1 - n} for n in range(2)])


def transact(catalog: Catalog, isolation: str, program: Program, id: int, values: Iterator[int]) -> Done:
    reads: dict[Cell, Value] = {}
    writes: dict[Cell, Value] = {}
    tables = sorted({cell[0] for part in program for cell in part})
    with catalog.transaction(tables, isolation=isolation) as tx:
        for cell in program[0]:
            reads[cell] = tx.read(cell[0], ["x"], f"n = {cell[1]}")["x"][0].as_py()
        for cell in program[1]:
            writes[cell] = next(values)
            tx.update(cell[0], f"n = {cell[1]}", {"x": writes[cell]})
    return Done(id, reads, writes)


def orders(catalog: Catalog) -> Mapping[Cell, Sequence[Value]]:
    """All values that each cell ever had, in the order of the numbers that their writers took."""
    found: dict[Cell, list[Value]] = {cell: [] for cell in CELLS}
    for table in TABLES:
        handle = catalog.table(table)
        for version in handle.history():
            for row in handle.read(at=version.id).to_pylist():
                values = found[f"{table}{row['n']}"]
                if row["x"] not in values:
                    values.append(row["x"])
    return found


def played(seed: int, isolation: str, programs: Sequence[Sequence[Program]]) -> tuple[list[Done], Any]:
    """One history: each program's transactions one after the other, all programs side by side."""
    stage, url = Stage(seed), f"memory://isolation-{secrets.token_hex(6)}"
    catalog = Catalog(MemoryStore(url), upkeep=False)
    start(catalog)
    done: list[Done] = []
    values, ids = itertools.count(1), itertools.count(1)

    def actor(program: Sequence[Program]) -> Callable[[], None]:
        store = StagedStore(url)
        store.stage = stage
        mine = Catalog(store, upkeep=False, base_delay=0, lease_seconds=0)

        def run() -> None:
            for item in program:
                with suppress(CommitConflict, CommitContended):
                    done.append(transact(mine, isolation, item, next(ids), values))

        return run

    stage.run([actor(program) for program in programs])
    return done, orders(catalog)


some_cells = st.lists(st.sampled_from(CELLS), max_size=3, unique=True).map(tuple)
programs = st.lists(
    st.lists(st.tuples(some_cells, some_cells), min_size=1, max_size=2), min_size=2, max_size=4
)


@given(st.integers(0, 2**32), programs)
@settings(max_examples=bounded(10_000, 400), deadline=None)
def test_serializable_histories_have_no_cycle(seed: int, programs: list[list[Program]]) -> None:
    check(*played(seed, "serializable", programs), "serializable")


@given(st.integers(0, 2**32), programs)
@settings(max_examples=bounded(10_000, 400), deadline=None)
def test_snapshot_histories_have_no_lost_update_and_no_read_skew(
    seed: int, programs: list[list[Program]]
) -> None:
    check(*played(seed, "snapshot", programs), "snapshot")


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

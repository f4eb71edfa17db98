"""Histories of random concurrent transactions, recorded to be held against the dependency graph.

Each transaction reads some cells and writes others, in several tables; every value is written once. Under the
scheduler exactly one thread runs at a time and stops before every request, so a seed is a history. They are
dense: every transaction reads and writes, and is interrupted every few requests, so that most meet others
(test_isolation.py shows that the same seeds find what is wrong). Many of them, in pieces:
`python -m tests.transactions.histories serializable 0 10000`.
"""

from __future__ import annotations

import itertools
import random
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.errors import CommitConflict, CommitContended
from crdtcat.store.memory import MemoryStore
from tests.catalog.test_races import Stage, StagedStore
from tests.transactions.dependencies import Cell, Done, Value, check

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
TABLES = ("a", "b")
CELLS = [f"{table}{n}" for table in TABLES for n in range(2)]
Program = tuple[tuple[Cell, ...], tuple[Cell, ...]]
"""Cells to read, cells to write."""
History = tuple[list[Done], Mapping[Cell, Sequence[Value]]]
"""What was committed, and every value of every cell in order."""


def start(catalog: Catalog) -> None:
    for table in TABLES:
        catalog.create_table(table, SCHEMA, mode="cas").append([{"n": n, "x": -1 - n} for n in range(2)])


def transact(
    catalog: Catalog,
    isolation: str,
    program: Program,
    id: int,
    values: Iterator[int],
    meet: Callable[[], object] | None = None,
) -> Done:
    """One transaction, committed. `meet`: what to wait for once all is read and staged."""
    reads: dict[Cell, Value] = {}
    writes: dict[Cell, Value] = {}
    tables = sorted({cell[0] for part in program for cell in part})
    with catalog.transaction(tables, isolation=isolation) as tx:
        for cell in program[0]:
            reads[cell] = tx.read(cell[0], ["x"], f"n = {cell[1]}")["x"][0].as_py()
        for cell in program[1]:
            writes[cell] = next(values)
            tx.update(cell[0], f"n = {cell[1]}", {"x": writes[cell]})
        if meet is not None:
            meet()
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


BURSTS = (1, 1, 2, 4)
"""How many requests one makes before it is another's turn: less than a transaction has."""


def played(
    seed: int, isolation: str, programs: Sequence[Sequence[Program]], on_conflict: str | None = None
) -> History:
    """One history: each program's transactions one after the other, all programs side by side."""
    stage, url = Stage(seed, BURSTS), f"memory://isolation-{secrets.token_hex(6)}"
    catalog = Catalog(MemoryStore(url), upkeep=False)
    start(catalog)
    done: list[Done] = []
    values, ids = itertools.count(1), itertools.count(1)

    def actor(program: Sequence[Program]) -> Callable[[], None]:
        store = StagedStore(url)
        store.stage = stage
        mine = Catalog(store, upkeep=False, base_delay=0, lease_seconds=0, on_conflict=on_conflict)

        def run() -> None:
            for item in program:
                with suppress(CommitConflict, CommitContended):
                    done.append(transact(mine, isolation, item, next(ids), values))

        return run

    stage.run([actor(program) for program in programs])
    return done, orders(catalog)


def drawn(seed: int, programs: int | None = None) -> list[list[Program]]:
    """Two to four programs of one or two transactions, which read one to three cells and write one or two."""
    chance = random.Random(seed)
    programs = chance.randint(2, 4) if programs is None else programs

    def cells(most: int) -> tuple[Cell, ...]:
        return tuple(chance.sample(CELLS, chance.randint(1, most)))

    return [[(cells(3), cells(2)) for _ in range(chance.randint(1, 2))] for _ in range(programs)]


def check_histories(
    isolation: str, seeds: Sequence[int], *, on_conflict: str | None = None, judged: str | None = None
) -> int:
    """Play and check one history for each seed; how many transactions were committed in all.

    Raises `AssertionError` with the first seed whose history is not what `judged` promises, which is
    `isolation` by default.
    """
    committed = 0
    for seed in seeds:
        history = played(seed, isolation, drawn(seed), on_conflict)
        committed += len(history[0])
        try:
            check(*history, judged or isolation)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return committed


if __name__ == "__main__":
    found = check_histories(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3])))
    print(f"{sys.argv[1]}: seeds {sys.argv[2]} to {sys.argv[3]}: {found:,} transactions, nothing wrong")  # noqa: T201

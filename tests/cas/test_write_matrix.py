"""The write contract's concurrency matrix, row by row, with real processes on local disk: who writes how, and
that history is one line each time. The fourth row is what that contract has not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.table import Table
from crdtcat.testing.invariants import check_claims
from crdtcat.transaction import Transaction
from tests.apart import processes_apart
from tests.cas.scenes import in_processes, meet

SCHEMA = pa.schema([("writer", pa.int64()), ("n", pa.int64())])
WRITERS, TURNS = 3, 4


def created(folder: Path) -> Table:
    return Catalog(folder, upkeep=False).create_table("t", SCHEMA, mode="cas")


def write(folder: Path, writer: int, turns: int = 1) -> list[int]:
    """The numbers that a process of its own took."""
    table = Catalog(folder, upkeep=False).table("t")
    meet(table)
    return [table.append([{"writer": writer, "n": n}]).number for n in range(turns)]


def require_one_line(table: Table, versions: int) -> None:
    """One version for each number, each with the one before it as its parent."""
    head = table.head()
    assert [version.number for version in table.history()] == list(range(1, versions + 1))
    check_claims(head.log, "a reader")


def test_row_1_a_single_writer_makes_one_version_per_write(tmp_path: Path) -> None:
    table = created(tmp_path)
    assert write(tmp_path, 0, TURNS) == [1, 2, 3, 4]
    require_one_line(table, TURNS)


def test_row_2_processes_one_after_the_other_need_no_coordination_of_their_own(tmp_path: Path) -> None:
    table = created(tmp_path)
    with processes_apart().Pool(1, maxtasksperchild=1) as pool:
        taken = [pool.apply(write, (tmp_path, writer)) for writer in range(WRITERS)]
    assert taken == [[1], [2], [3]]
    require_one_line(table, WRITERS)


def test_row_3_processes_that_know_nothing_of_each_other_all_commit(tmp_path: Path) -> None:
    table = created(tmp_path)
    taken = in_processes(write, [(tmp_path, writer, TURNS) for writer in range(WRITERS)])
    assert sorted(number for numbers in taken for number in numbers) == list(range(1, WRITERS * TURNS + 1))
    require_one_line(table, WRITERS * TURNS)
    assert sorted((row["writer"], row["n"]) for row in table.read().to_pylist()) == [
        (writer, n) for writer in range(WRITERS) for n in range(TURNS)
    ]


def stage(fork: Transaction, writer: int) -> Transaction:
    for n in range(TURNS):
        fork.append("t", [{"writer": writer, "n": n}])
    return fork


def test_row_4_threads_and_processes_stage_and_one_commit_has_all_of_it(tmp_path: Path) -> None:
    table = created(tmp_path)
    catalog = Catalog(tmp_path, upkeep=False)
    with (
        catalog.transaction(["t"]) as tx,
        ThreadPoolExecutor(WRITERS) as threads,
        processes_apart().Pool(WRITERS) as pool,
    ):
        list(threads.map(lambda writer: stage(tx, writer), range(WRITERS)))
        tx.join(*pool.starmap(stage, [(tx.fork(), WRITERS + writer) for writer in range(WRITERS)]))
        assert table.read().num_rows == 0, "staged is not visible"
    assert [version.number for version in tx.versions["t"] if version.number] == [1], "one for all of them"
    assert table.read().num_rows == 2 * WRITERS * TURNS
    check_claims(table.head().log, "a reader")

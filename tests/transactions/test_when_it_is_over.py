"""What comes too late for a transaction is told, and not lost: in handles that are kept, and by threads."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import CrdtcatError, InvalidArgument
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.faulty import FaultyStore
from crdtcat.transaction import Transaction
from tests.cas.scenes import in_threads, lake, meanwhile

SCHEMA = pa.schema([("n", pa.int64())])
MODES = pytest.mark.parametrize("mode", ["merge", "cas"])


def opened(mode: str, *tables: str, **options: Any) -> Catalog:
    catalog, _ = lake(**options)
    for name in tables or ("t",):
        catalog.create_table(name, SCHEMA, mode=mode).append([{"n": 0}])
    return catalog


ENDS: dict[str, Callable[[Transaction], Any]] = {
    "commit": lambda tx: tx.commit(),
    "abort": lambda tx: tx.abort(),
}


@MODES
@pytest.mark.parametrize("end", ENDS)
def test_a_handle_that_is_kept_takes_nothing_more(mode: str, end: str) -> None:
    catalog = opened(mode)
    tx = catalog.transaction()
    table = tx.table("t")
    table.append([{"n": 1}])
    ENDS[end](tx)
    late: list[Callable[[], Any]] = [
        lambda: table.append([{"n": 2}]),
        lambda: table.update("n = 0", {"n": 5}),
        lambda: table.delete("n = 0"),
        lambda: table.set_properties(p=1),
    ]
    for verb in late:
        with pytest.raises(InvalidArgument, match="committed" if end == "commit" else "aborted"):
            verb()
    assert table.read()["n"].to_pylist() == [0, 1], "what was read can be read"


@MODES
def test_nor_does_that_of_a_fork_that_was_joined(mode: str) -> None:
    catalog = opened(mode)
    with catalog.transaction(["t"]) as tx:
        fork = tx.fork()
        table = fork.table("t")
        table.append([{"n": 1}])
        tx.join(fork)
        with pytest.raises(InvalidArgument, match="joined"):
            table.append([{"n": 2}])
    assert catalog.read("t")["n"].to_pylist() == [0, 1]


def test_one_whose_commit_found_no_store_takes_more_in_merge_mode() -> None:
    store = FaultyStore(MemoryStore(f"{lake()[1]}-over"))
    catalog = Catalog(store, upkeep=False)
    catalog.create_table("t", SCHEMA).append([{"n": 0}])
    tx = catalog.transaction()
    table = tx.table("t")
    table.append([{"n": 1}])
    store.plan = lambda call: "error" if call.kind == "put" else None
    with pytest.raises(CrdtcatError):
        tx.commit()
    store.plan = None
    table.append([{"n": 2}])
    tx.commit()
    assert catalog.read("t")["n"].to_pylist() == [0, 1, 2]


def test_a_function_that_answers_a_conflict_adds_nothing_to_what_is_being_committed() -> None:
    def answer(_: Any) -> str:
        with pytest.raises(InvalidArgument, match="being committed"):
            table.append([{"n": 9}])
        with pytest.raises(InvalidArgument, match="being committed"):
            tx.fork()
        return "ours"

    catalog = opened("cas", on_conflict={"update-update": answer})
    tx = catalog.transaction()
    table = tx.table("t")
    table.update("n = 0", {"n": 1})
    catalog.table("t").update("n = 0", {"n": 2})
    tx.commit()
    assert catalog.read("t")["n"].to_pylist() == [1]


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@MODES
@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("ends", ["commit", "join"])
def test_what_a_thread_was_told_is_staged_is_committed(mode: str, ends: str) -> None:
    """Threads go on staging while another one commits, or joins: whatever did not fail is there."""
    catalog = opened(mode, "t", "u")
    tx = catalog.transaction(["t", "u"])
    stage = tx if ends == "commit" else tx.fork()
    tables = [stage.table(name) for name in ("t", "u")]
    done: list[int] = []
    begun = threading.Event()

    def work(me: int) -> None:
        if me == 2:
            begun.wait(10)
            tx.commit() if stage is tx else tx.join(stage)
            return
        with suppress(InvalidArgument):
            for n in range(1, 200):
                tables[me].append([{"n": 1000 * me + n}])
                done.append(1000 * me + n)
                begun.set()

    in_threads(work, 3)
    if stage is not tx:
        tx.commit()
    found = [n for name in ("t", "u") for n in catalog.read(name)["n"].to_pylist() if n]
    assert sorted(found) == sorted(done)


@pytest.mark.usefixtures("hasty")
def test_forks_and_copies_are_made_while_others_use_new_tables() -> None:
    names = [f"t{number}" for number in range(12)]
    catalog = opened("cas", *names)
    tx = catalog.transaction()

    def work(me: int) -> None:
        if me:
            for name in names:
                tx.append(name, [{"n": me}])
            return
        for _ in range(40):
            pickle.dumps(tx.fork())
            assert "open" in repr(tx)
            with tx.savepoint():
                pass

    in_threads(work, 2)
    tx.commit()
    assert [catalog.read(name).num_rows for name in names] == [2] * len(names)


@MODES
def test_what_a_handle_writes_while_its_transaction_is_open_is_as_what_others_write(mode: str) -> None:
    """It had been read in one table and not in the other: a snapshot with an effect and without its cause."""
    catalog = opened(mode, "a", "b")
    tx = catalog.transaction(["a"])
    catalog.table("a").append([{"n": 1}])
    catalog.table("b").append([{"n": catalog.read("a").num_rows}])
    fork = tx.fork()
    assert [fork.read(name).num_rows for name in "ab"] == [1, 1]
    assert [tx.read(name).num_rows for name in "ab"] == [1, 1]


def test_a_function_that_commits_by_the_same_handle_uses_no_number_of_its_caller() -> None:
    """One writer and sequence number for two versions: clocks could not tell them apart."""
    made = []

    def answer(_: Any) -> str:
        made.append(table.append([{"n": 7}]))
        return "ours"

    catalog = opened("cas", on_conflict={"update-update": answer})
    table, other = catalog.table("t"), Catalog(catalog.url, upkeep=False).table("t")
    meanwhile(table, lambda: other.update("n = 0", {"n": 2}))
    made.append(table.update("n = 0", {"n": 1}))
    made += [table.append([{"n": 8}]), table.append([{"n": 9}])]
    assert len({(version.id.writer, version.id.seq) for version in made}) == 4
    assert other.verify().ok
    assert sorted(other.read()["n"].to_pylist()) == [1, 7, 8, 9]

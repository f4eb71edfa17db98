"""Forks, savepoints and threads of one transaction: what may not come back, and what is never lost."""

from __future__ import annotations

import pickle
import secrets
import threading
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitConflict, InvalidArgument
from crdtcat.transaction import Transaction

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
MODES = pytest.mark.parametrize("mode", ["merge", "cas"])


def lake(mode: str, **options: Any) -> tuple[Catalog, str]:
    url = f"memory://forks-{secrets.token_hex(6)}"
    catalog = Catalog(url, upkeep=False, **options)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode=mode).append(rows(0, 1, 2))
    return catalog, url


def rows(*numbers: int, x: int = 0) -> list[dict[str, int]]:
    return [{"n": n, "x": x} for n in numbers]


def values(reader: Catalog | Transaction, table: str) -> list[tuple[int, int]]:
    return sorted((row["n"], row["x"]) for row in reader.read(table).to_pylist())


@MODES
def test_a_fork_of_another_transaction_is_refused(mode: str) -> None:
    """It names what was staged there: committed here, the table could not be read any more."""
    catalog, _ = lake(mode)
    mine, other = catalog.transaction(), catalog.transaction()
    other.append("a", rows(10))
    fork = other.fork()
    fork.update("a", "n = 10", {"x": 5})
    assert repr(pickle.loads(pickle.dumps(fork))) == repr(fork) == "Transaction(forked; a: 2)"
    for given in (fork, pickle.loads(pickle.dumps(fork)), other, None, "fork"):
        with pytest.raises(InvalidArgument, match="not an open fork of this transaction"):
            mine.join(given)  # type: ignore[arg-type]
    other.join(fork)
    other.commit()
    assert values(catalog, "a")[-1] == (10, 5)


@MODES
def test_a_fork_of_a_fork_is_joined_where_it_comes_from(mode: str) -> None:
    catalog, _ = lake(mode)
    tx = catalog.transaction()
    child = tx.fork()
    child.append("a", rows(10))
    grandchild = child.fork()
    grandchild.update("a", "n = 10", {"x": 7})
    with pytest.raises(InvalidArgument, match="not an open fork of this"):
        tx.join(grandchild)
    child.join(pickle.loads(pickle.dumps(grandchild)))
    tx.join(pickle.loads(pickle.dumps(child)))
    tx.commit()
    assert values(catalog, "a")[-1] == (10, 7)


@MODES
def test_a_fork_that_rests_on_a_forgotten_savepoint_is_refused(mode: str) -> None:
    catalog, _ = lake(mode)
    tx = catalog.transaction(["a"])
    forks = [tx.fork()]

    def inside() -> None:
        tx.append("a", rows(10))
        forks.append(tx.fork())
        forks[1].update("a", "n = 10", {"x": 1})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), tx.savepoint():
        inside()
    with pytest.raises(InvalidArgument, match="forgotten"):
        tx.join(forks[1])
    forks[0].append("a", rows(11))
    tx.join(forks[0])
    tx.commit()
    assert [n for n, _ in values(catalog, "a")] == [0, 1, 2, 11]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize("inside", ["wrote", "read"])
@pytest.mark.parametrize("fails", [True, False])
def test_what_a_failed_savepoint_wrote_is_no_conflict_and_what_was_read_there_is(
    isolation: str, inside: str, fails: bool
) -> None:
    """What was written is forgotten; whoever read may have gone on as it did because of it."""
    catalog, url = lake("cas")
    tx = catalog.transaction(["a"], isolation=isolation)

    def stage() -> None:
        with tx.savepoint():
            if inside == "wrote":
                tx.update("a", "n = 0", {"x": 5})
            else:
                tx.read("a", filter="n = 0")
            if fails:
                raise ZeroDivisionError

    with suppress(ZeroDivisionError):
        stage()
    tx.update("a", "n = 1", {"x": 6})
    Catalog(url, upkeep=False).table("a").update("n = 0", {"x": 7})
    reads = {"read-write"} if inside == "read" and isolation == "serializable" else set()
    wrote = {"update-update"} if inside == "wrote" and not fails else set()
    try:
        tx.commit()
        met = set()
    except CommitConflict as error:
        met = {item.kind.value for item in error.conflicts}
    assert met == reads | wrote
    assert values(catalog, "a") == [(0, 7), (1, 0 if met else 6), (2, 0)]


@MODES
def test_copies_of_one_fork_bring_their_own_work_and_none_twice(mode: str) -> None:
    catalog, _ = lake(mode)
    tx = catalog.transaction(["a"])
    copies = [pickle.loads(pickle.dumps(tx.fork())) for _ in range(2)]
    for at, copy in enumerate(copies):
        copy.append("a", rows(10 + at))
    answers = [pickle.dumps(copy) for copy in copies]
    tx.join(*map(pickle.loads, answers))
    with pytest.raises(InvalidArgument, match="joined before"):
        tx.join(pickle.loads(answers[0]))  # the task's answer came twice
    tx.commit()
    assert [n for n, _ in values(catalog, "a")] == [0, 1, 2, 10, 11]


def test_forks_that_pinned_a_table_at_two_moments_lose_no_update() -> None:
    catalog, url = lake("cas")
    tx = catalog.transaction()
    early, late = tx.fork(), tx.fork()
    assert early.read("a", filter="n = 1")["x"].to_pylist() == [0]
    Catalog(url).table("a").update("n = 1", {"x": 100})
    late.append("a", rows(9))
    early.update("a", "n = 1", {"x": 1})  # of what was there before
    tx.join(late)
    with pytest.raises(InvalidArgument, match="different moments: 'a'"):
        tx.join(early)
    named = catalog.transaction(["a"])
    forks = [named.fork(), named.fork()]
    Catalog(url).table("a").update("n = 1", {"x": 101})
    for at, fork in enumerate(forks):
        fork.update("a", f"n = {1 + at}", {"x": 1})
    named.join(*forks)
    with pytest.raises(CommitConflict):
        named.commit()


def test_tables_that_two_forks_used_first_are_of_one_moment() -> None:
    """What was read of one table in one fork and of another in another would be two snapshots."""
    catalog, _ = lake("cas")
    tx = catalog.transaction()
    one, other = tx.fork(), tx.fork()
    one.read("a")
    other.read("b")
    other.read("a")
    tx.join(one)
    with pytest.raises(InvalidArgument, match="not an open fork"):
        tx.join(one)
    tx.join(other)  # it has all tables that are here, as they are here
    third = tx.fork()
    assert values(third, "b") == values(catalog, "b")
    fourth = catalog.transaction()
    first, second = fourth.fork(), fourth.fork()
    first.append("a", rows(5))
    second.append("b", rows(5))
    fourth.join(first)
    with pytest.raises(InvalidArgument, match="different moments: 'a', 'b'"):
        fourth.join(second)


def test_in_merge_mode_forks_use_tables_when_they_like() -> None:
    catalog, url = lake("merge")
    with catalog.transaction() as tx:
        early, late = tx.fork(), tx.fork()
        early.update("a", "n = 1", {"x": 1})
        Catalog(url).table("a").append(rows(8))
        late.update("a", "n = 8", {"x": 8})
        tx.join(late, early)
    assert values(catalog, "a") == [(0, 0), (1, 1), (2, 0), (8, 8)]


@MODES
def test_a_savepoint_that_fails_does_not_swallow_what_other_threads_staged(mode: str) -> None:
    catalog, _ = lake(mode)
    tx = catalog.transaction(["a"])

    def inside() -> None:
        tx.append("a", rows(10))
        thread = threading.Thread(target=lambda: tx.append("a", rows(11)))
        thread.start()
        thread.join()
        raise ZeroDivisionError

    with pytest.raises(InvalidArgument, match="several threads") as caught, tx.savepoint():
        inside()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert tx.status == "aborted"
    with pytest.raises(InvalidArgument, match="aborted"):
        tx.commit()
    assert [n for n, _ in values(catalog, "a")] == [0, 1, 2]


@MODES
def test_verbs_by_name_and_versions_by_branch(mode: str) -> None:
    catalog, _ = lake(mode)
    catalog.create_table("k", SCHEMA, mode=mode, key=["n"]).upsert(rows(1))
    catalog.create_table("c", SCHEMA, mode=mode).branch("side")
    with catalog.transaction() as tx:
        tx.upsert("k", rows(1, 2, x=3))
        tx.write("b", rows(1, x=4))
        tx.append("a", rows(3))
        tx.table("c", "side").append(rows(4, 5))
    assert {name: sum(each.rows for each in made) for name, made in tx.versions.items()} == {
        "k": 2, "b": 1, "a": 1, "c@side": 2,
    }  # fmt: skip
    assert values(catalog, "k") == [(1, 3), (2, 3)]
    assert values(catalog, "b") == [(1, 4)]


def test_names_of_tables_are_a_list() -> None:
    catalog, _ = lake("cas")
    with pytest.raises(InvalidArgument, match="list of names"):
        catalog.transaction("a")
    with pytest.raises(InvalidArgument, match="once it was prepared"):
        catalog.transaction_status(catalog.transaction().id)  # type: ignore[arg-type]

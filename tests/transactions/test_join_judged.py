"""What of a fork is compared when it is joined: keys, exactly, and what it read; what copies bring back."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.conflicts import Kind
from crdtcat.errors import CommitConflict, InvalidArgument
from tests.transactions.test_joins import MODES, SCHEMA, cells, kinds, lake, raised


def failing(work: Callable[[], object]) -> None:
    work()
    raise ZeroDivisionError


def test_write_skew_between_two_forks_is_caught() -> None:
    for isolation, told in (("snapshot", False), ("serializable", True)):
        catalog = lake()
        tx = catalog.transaction(["a", "b"], isolation=isolation)
        one, other = tx.fork(), pickle.loads(pickle.dumps(tx.fork()))
        one.update("a", "n = 0", {"x": one.read("b", ["x"], "n = 1")["x"][0].as_py() + 1})
        other.update("b", "n = 1", {"x": other.read("a", ["x"], "n = 0")["x"][0].as_py() + 1})
        tx.join(one)
        if told:
            with pytest.raises(CommitConflict) as caught:
                tx.join(other)
            assert kinds(caught.value) == {Kind.READ_WRITE}
            with pytest.raises(CommitConflict):
                caught.value.retry("ours")
        else:
            tx.join(other)
        tx.commit()
        assert (cells(catalog)[0], cells(catalog, "b")[1]) == (1, 0 if told else 1)


@pytest.mark.parametrize("asked", ["a", "b"], ids=["the table it changes", "one it only reads"])
@pytest.mark.parametrize("copied", [False, True])
def test_what_a_fork_had_read_counts_when_its_transaction_is_committed(asked: str, *, copied: bool) -> None:
    catalog = lake()
    tx = catalog.transaction(["a", "b"], isolation="serializable")
    fork = pickle.loads(pickle.dumps(tx.fork())) if copied else tx.fork()
    fork.update("a", "n = 0", {"x": fork.read(asked, ["x"], "n = 1")["x"][0].as_py() + 1})
    tx.join(pickle.loads(pickle.dumps(fork)) if copied else fork)
    Catalog(catalog.store.url, upkeep=False).table(asked).update("n = 1", {"x": 5})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    assert kinds(caught.value) == {Kind.READ_WRITE}


def test_reads_that_still_hold_are_no_conflict() -> None:
    catalog = lake()
    with catalog.transaction(["a"], isolation="serializable") as tx:
        one, other, third = tx.fork(), tx.fork(), tx.fork()
        one.update("a", "n = 0", {"x": 1})
        other.update("a", "n = 1", {"x": 1})
        assert cells(other)[:2] == [0, 1], "everything: also what the first has changed"
        assert third.read("a", ["x"], "n >= 2 and n < 5")["x"].to_pylist() == [0, 0, 0]
        third.append("a", [{"n": 6, "x": 1, "y": 1}])
        assert third.read("a", ["x"], "n > 5")["x"].to_pylist() == [1]
        tx.join(one, third)
        with pytest.raises(CommitConflict, match="read-write"):
            tx.join(other)
    assert cells(catalog) == [1, 0, 0, 0, 0, 0, 1]


def test_rows_by_number_are_read_as_they_will_be_joined() -> None:
    """Rows that two forks append follow each other as they are joined, whenever they were staged."""
    catalog = lake()
    tx = catalog.transaction(["a"], isolation="serializable")
    one, other = tx.fork(), tx.fork()
    other.append("a", [{"n": 7, "x": 7, "y": 7}])
    other.update_rows("a", 6, 7, {"x": [8]})  # the seventh row is its own
    one.append("a", [{"n": 6, "x": 6, "y": 6}])
    tx.join(one)
    with pytest.raises(CommitConflict, match="read-write"):
        tx.join(other)


def keyed(mode: str, **options: Any) -> Catalog:
    catalog = Catalog(f"memory://joins-{secrets.token_hex(6)}", upkeep=False, **options)
    catalog.create_table("a", SCHEMA, mode=mode, key=["n"]).upsert([{"n": 0, "x": 0, "y": 0}])
    return catalog


def numbers(*found: int) -> pa.Table:
    return pa.table({"n": found, "x": [1] * len(found), "y": [1] * len(found)}, schema=SCHEMA)


@pytest.mark.parametrize("inline_bytes", [0, 1 << 16])
@MODES
def test_keys_are_compared_exactly(mode: str, inline_bytes: int) -> None:
    catalog = keyed(mode, inline_bytes=inline_bytes)
    tx = catalog.transaction(["a"])
    even, odd, twice, gone, none = (tx.fork() for _ in range(5))
    even.upsert("a", numbers(*range(0, 1000, 2)))
    odd.upsert("a", numbers(*range(1, 1000, 2)))
    twice.upsert("a", numbers(*range(501, 2000, 500)))
    gone.table("a").delete(keys=numbers(*range(-1, 1200, 3)).select(["n"]))
    none.table("a").delete(keys=numbers(-5, 1001, 5000).select(["n"]))
    tx.join(even, odd)  # ranges overlap, keys do not
    with pytest.raises(CommitConflict) as caught:
        tx.join(twice)
    assert kinds(caught.value) == {Kind.UPSERT_UPSERT}
    assert [item.key_values for item in caught.value.conflicts] == [((501,),)]
    with pytest.raises(CommitConflict) as caught:
        tx.join(gone)
    assert kinds(caught.value) == {Kind.DELETE_UPSERT}
    assert len({key for item in caught.value.conflicts for key in item.key_values}) > 100
    tx.join(none)
    tx.join(twice, on_conflict="ours")
    tx.commit()
    assert catalog.read("a").num_rows == 1000 + 2
    assert catalog.table("a").verify("content").ok


@MODES
def test_copies_bring_nothing_twice_by_whatever_way(mode: str) -> None:
    catalog = lake(mode)
    tx = catalog.transaction(["a"])
    child = tx.fork()
    grandchild = child.fork()
    grandchild.append("a", [{"n": 7, "x": 7, "y": 7}])
    copies = [pickle.loads(pickle.dumps(child)) for _ in range(2)]
    for copy in copies:
        copy.join(pickle.loads(pickle.dumps(grandchild)))
    with pytest.raises(InvalidArgument, match="joined before"):
        copies[0].join(grandchild)
    tx.join(pickle.loads(pickle.dumps(copies[0])))
    with pytest.raises(InvalidArgument, match="joined before"):
        tx.join(copies[1])
    for again in (copies[0], child):
        with pytest.raises(InvalidArgument):
            tx.join(again, again)
    tx.join(child)
    tx.commit()
    assert cells(catalog) == [0] * 6 + [7]


@MODES
def test_what_a_savepoint_forgot_can_be_joined_again(mode: str) -> None:
    catalog = lake(mode)
    tx = catalog.transaction(["a"])
    fork = tx.fork()
    raised(fork, 5)
    sent = pickle.dumps(fork)
    with pytest.raises(ZeroDivisionError), tx.savepoint():
        failing(lambda: tx.join(pickle.loads(sent)))
    tx.join(pickle.loads(sent))
    tx.commit()
    assert cells(catalog)[0] == 5


@MODES
def test_and_so_can_the_fork_itself(mode: str) -> None:
    """Savepoints in savepoints, too; one that was joined before stays joined."""
    catalog = lake(mode)
    tx = catalog.transaction(["a"])
    first, second = tx.fork(), tx.fork()
    first.append("a", [{"n": 8, "x": 8, "y": 8}])
    raised(second, 5)
    tx.join(first)

    def inner() -> None:
        with tx.savepoint():
            tx.join(second)

    with pytest.raises(ZeroDivisionError), tx.savepoint():
        failing(inner)
    assert 5 not in tx.read("a")["x"].to_pylist()
    tx.join(second)
    for fork in (first, second):
        with pytest.raises(InvalidArgument, match="not an open fork"):
            tx.join(fork)
    tx.commit()
    assert cells(catalog)[0] == 5


@MODES
def test_a_copy_forgets_in_a_savepoint_only_what_was_staged_there(mode: str) -> None:
    catalog = lake(mode)
    tx = catalog.transaction(["a"])
    tx.append("a", [{"n": 7, "x": 7, "y": 7}])
    fork = tx.fork()
    fork.append("a", [{"n": 8, "x": 8, "y": 8}])
    copy = pickle.loads(pickle.dumps(fork))
    with pytest.raises(ZeroDivisionError), copy.savepoint():
        failing(lambda: copy.append("a", [{"n": 9, "x": 9, "y": 9}]))
    tx.join(copy)
    tx.commit()
    assert cells(catalog)[6:] == [7, 8]


@MODES
def test_a_fork_of_a_copy_sees_what_the_copy_has(mode: str) -> None:
    catalog = lake(mode)
    tx = catalog.transaction(["a"])
    raised(tx, 1)
    copy = pickle.loads(pickle.dumps(tx.fork()))
    grandchild = copy.fork()
    raised(grandchild, 1)
    copy.join(pickle.loads(pickle.dumps(grandchild)))
    tx.join(copy)
    tx.commit()
    assert cells(catalog)[0] == 2

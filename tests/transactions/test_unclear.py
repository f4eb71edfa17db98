"""A commit in merge mode to which the store gave no clear answer: committed again, it counts once."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import AccessDenied, CommitUnknown, InvalidArgument
from crdtcat.protocol import is_version
from crdtcat.protocol.names import TRANSACTIONS
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.faulty import Call, Fault, FaultyStore
from crdtcat.transaction import Transaction

QUICK: dict[str, Any] = {"upkeep": False, "max_commit_delay_seconds": 0, "grace_seconds": 0}
FAULTS = pytest.mark.parametrize("fault", ["error", "lost_answer"])  # it is not there, or it is


def is_its_put(call: Call) -> bool:
    return call.kind == "put" and call.name.startswith(TRANSACTIONS)


def opened() -> tuple[Catalog, FaultyStore]:
    store = FaultyStore(MemoryStore(f"memory://unclear-{secrets.token_hex(6)}"))
    catalog = Catalog(store, **QUICK)
    for name in ("a", "b"):
        catalog.create_table(name).append([{"n": 0}])
    return catalog, store


def unclear(fault: Fault) -> tuple[Transaction, FaultyStore]:
    """A transaction whose commit met a fault, which is over."""
    catalog, store = opened()
    tx = catalog.transaction(["a", "b"])
    for name in ("a", "b"):
        tx.append(name, [{"n": 7}])
    store.plan = lambda call: fault if is_its_put(call) else None
    with pytest.raises(CommitUnknown, match=r"commit\(\) again: it counts once"):
        tx.commit()
    store.plan = None
    return tx, store


def numbers(store: FaultyStore) -> list[list[int]]:
    cold = Catalog(store.inner, **QUICK)
    return [sorted(cold.read(name)["n"].to_pylist()) for name in ("a", "b")]


def files(store: FaultyStore) -> int:
    return sum(is_version(item.name) for item in store.inner.list(TRANSACTIONS))


@FAULTS
def test_committed_again_it_counts_once(fault: Fault) -> None:
    tx, store = unclear(fault)
    found = [[0], [0, 7]][fault == "lost_answer"]
    assert (tx.status, numbers(store)) == ("open", [found, found])
    made = tx.commit()
    assert tx.committed
    assert numbers(store) == [[0, 7]] * 2
    assert files(store) == 1
    history = Catalog(store.inner).table("a").history()
    assert [version.id for version in made["a"]] == [history[-1].id]


@FAULTS
def test_also_where_it_is_unclear_again(fault: Fault) -> None:
    tx, store = unclear(fault)
    store.plan = lambda call: "lost_answer" if is_its_put(call) or call.kind == "list" else None
    with pytest.raises(CommitUnknown):
        tx.commit()
    store.plan = None
    tx.commit()
    assert (numbers(store), files(store)) == ([[0, 7]] * 2, 1)


@FAULTS
@pytest.mark.parametrize("name", ["a", "b"])
def test_also_where_it_was_folded_collected_or_passed_by_meanwhile(fault: Fault, name: str) -> None:
    tx, store = unclear(fault)
    other = Catalog(store.inner, **QUICK)
    for table in ("a", "b"):
        other.table(table).append([{"n": 1}])
        other.table(table).checkpoint()
    other.table(name).expire(older_than=timedelta(0))
    for _ in range(2):
        other.collect_transactions()
    tx.commit()
    assert numbers(store) == [[0, 1, 7]] * 2
    assert all(other.table(table).verify().ok for table in ("a", "b"))


def test_nothing_is_added_to_it_and_it_can_be_let_go() -> None:
    tx, store = unclear("error")
    with pytest.raises(InvalidArgument, match="may be there"):
        tx.append("a", [{"n": 8}])
    with pytest.raises(InvalidArgument, match="may be there"):
        tx.fork()
    tx.abort()
    assert tx.status == "aborted"
    with pytest.raises(InvalidArgument, match="aborted"):
        tx.commit()
    assert numbers(store) == [[0], [0]]


@FAULTS
def test_an_error_that_leaves_the_block_lets_go_of_nothing(fault: Fault) -> None:
    catalog, store = opened()

    def commit_inside() -> None:
        with tx:
            for name in ("a", "b"):
                tx.append(name, [{"n": 7}])
            tx.commit()

    tx = catalog.transaction()
    store.plan = lambda call: fault if is_its_put(call) else None
    with pytest.raises(CommitUnknown):
        commit_inside()
    store.plan = None
    tx.commit()
    assert numbers(store) == [[0, 7]] * 2


@pytest.mark.parametrize("lost", [False, True])
def test_also_where_the_store_refused_it(lost: bool) -> None:
    """At once, or after an answer that was lost."""
    catalog, store = opened()
    tx = catalog.transaction()
    tx.append("a", [{"n": 7}])
    tried: list[Call] = []

    def plan(call: Call) -> Fault | None:
        if not is_its_put(call):
            return None
        tried.append(call)
        if lost and len(tried) == 1:
            return "lost_answer"
        raise AccessDenied("not any more")

    store.plan = plan
    with pytest.raises(CommitUnknown if lost else AccessDenied):
        tx.commit()
    store.plan = None
    tx.commit()
    assert (numbers(store), files(store)) == ([[0, 7], [0]], 1)

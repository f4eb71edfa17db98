"""A transaction whose commit failed: what it says of itself, and how it is tried again."""

from __future__ import annotations

import pickle
import secrets
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import (
    AccessDenied,
    CommitConflict,
    CommitContended,
    CommitUnknown,
    InvalidArgument,
    StoreUnavailable,
)
from crdtcat.store import Store
from crdtcat.testing.faulty import Call, Fault, FaultyStore
from crdtcat.transaction import Transaction

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def lake(**options: Any) -> tuple[Catalog, Catalog]:
    """Mine and theirs, on tables a and b of rows 0 to 2."""
    url = f"memory://retry-{secrets.token_hex(6)}"
    mine = Catalog(url, upkeep=False, base_delay=0, **options)
    for name in ("a", "b"):
        mine.create_table(name, SCHEMA, mode="cas").append([{"n": n, "x": 0} for n in range(3)])
    return mine, Catalog(url, upkeep=False)


def staged(catalog: Catalog, *, isolation: str = "snapshot") -> Transaction:
    tx = catalog.transaction(["a", "b"], isolation=isolation)
    for name in ("a", "b"):
        tx.update(name, "n = 1", {"x": 5})
    return tx


def values(catalog: Catalog, table: str) -> list[int]:
    rows = catalog.read(table).to_pylist()
    return [row["x"] for row in sorted(rows, key=lambda row: row["n"])]


def decisions(catalog: Catalog) -> list[str]:
    names = [item.name for item in catalog.store.list("transactions/")]
    return [name.removeprefix("transactions/").removesuffix(".decision") for name in names]


def test_after_a_conflict_it_says_that_it_is_aborted() -> None:
    mine, theirs = lake()
    tx = staged(mine)
    theirs.table("b").update("n = 1", {"x": 1})
    with pytest.raises(CommitConflict), tx:
        pass
    assert (tx.status, tx.committed) == ("aborted", False)
    assert decisions(mine) == [tx.id]
    assert theirs.transaction_status(str(tx.id)) == "aborted"


def test_a_conflict_in_the_first_table_leaves_nothing_that_has_an_id() -> None:
    mine, theirs = lake()
    tx = staged(mine)
    theirs.table("a").update("n = 1", {"x": 1})
    with pytest.raises(CommitConflict):
        tx.commit()
    assert (tx.status, tx.id, decisions(mine)) == ("aborted", None, [])


def test_it_is_tried_again_with_other_answers_under_another_id() -> None:
    mine, theirs = lake()
    tx = staged(mine)
    for name in ("a", "b"):
        theirs.table(name).update("n = 1", {"x": 1})
        theirs.table(name).update("n = 2", {"x": 2})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    with pytest.raises(CommitConflict) as again:
        caught.value.retry()  # nobody answered anything else
    assert (values(theirs, "a"), values(theirs, "b")) == ([0, 1, 2], [0, 1, 2])
    with pytest.raises(CommitConflict) as halfway:
        again.value.retry({"update-update": lambda sides: "ours" if sides.session.table == "a" else "fail"})
    first = tx.id
    assert (tx.status, theirs.transaction_status(str(first))) == ("aborted", "aborted")
    assert halfway.value.retry("ours") == tx.versions
    assert (tx.status, tx.committed, list(tx.versions)) == ("committed", True, ["a", "b"])
    assert tx.id != first
    assert theirs.transaction_status(str(tx.id)) == "committed"
    assert (values(theirs, "a"), values(theirs, "b")) == ([0, 5, 2], [0, 5, 2])
    with pytest.raises(InvalidArgument, match="committed"):
        halfway.value.retry("ours")
    assert theirs.table("a").verify("content").ok


def test_no_row_is_stored_again() -> None:
    mine, theirs = lake(inline_bytes=0)
    tx = mine.transaction(["a", "b"])
    tx.append("a", {"n": np.arange(3, 1000), "x": np.arange(3, 1000)})
    tx.update("b", "n = 1", {"x": 5})
    theirs.table("b").update("n = 1", {"x": 1})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    before = [item.name for item in mine.store.list("data/")]
    caught.value.retry("ours")
    assert [item.name for item in mine.store.list("data/")] == before
    assert (len(values(theirs, "a")), values(theirs, "b")) == (1000, [0, 5, 0])


def test_what_was_read_for_it_counts_at_every_try() -> None:
    mine, theirs = lake()
    tx = mine.transaction(["a", "b"], isolation="serializable")
    assert tx.read("a", ["x"], "n = 0")["x"].to_pylist() == [0]
    tx.update("b", "n = 1", {"x": 5})
    theirs.table("a").update("n = 0", {"x": 1})
    for _ in range(2):
        with pytest.raises(CommitConflict, match="read-write") as caught:
            tx.commit()
        with pytest.raises(CommitConflict, match="read-write"):
            caught.value.retry("ours")
    assert values(theirs, "b") == [0, 0, 0]


def test_one_that_only_read_is_over() -> None:
    mine, theirs = lake()
    tx = mine.transaction(["a", "b"], isolation="serializable")
    tx.read("a")
    tx.read("b")
    theirs.table("a").update("n = 0", {"x": 1})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    assert (tx.status, tx.id) == ("aborted", None)
    with pytest.raises(InvalidArgument, match="no change"):
        caught.value.retry("ours")


def test_nothing_is_added_to_one_that_failed_and_abort_lets_it_go() -> None:
    mine, theirs = lake()
    tx = staged(mine)
    theirs.table("a").update("n = 1", {"x": 1})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    for attempt in (lambda: tx.append("a", []), tx.fork, lambda: tx.read("a"), tx.savepoint().__enter__):
        with pytest.raises(InvalidArgument, match="commit of this transaction failed"):
            attempt()
    with pytest.raises(InvalidArgument, match="no change"):
        pickle.loads(pickle.dumps(caught.value)).retry("ours")
    tx.abort()
    for end in (tx.commit, tx.abort, lambda: caught.value.retry("ours")):
        with pytest.raises(InvalidArgument, match="is aborted"):
            end()
    assert values(theirs, "a") == [0, 1, 0]


def test_one_that_somebody_waited_for_too_long_is_committed_again() -> None:
    mine, theirs = lake()
    create = mine.store.put_if_absent

    def late(name: str, data: Any) -> bool:
        if name.endswith(".decision"):
            mine.store.put_if_absent = create  # type: ignore[method-assign]
            Catalog(theirs.url, upkeep=False, lease_seconds=0, base_delay=0).table("a").update(
                "n = 2", {"x": 2}
            )
        return create(name, data)

    mine.store.put_if_absent = late  # type: ignore[method-assign]
    tx = staged(mine)
    with pytest.raises(CommitContended, match="lease"):
        tx.commit()
    first = str(tx.id)
    assert (tx.status, theirs.transaction_status(first)) == ("aborted", "aborted")
    tx.commit()
    assert (tx.status, theirs.transaction_status(first)) == ("committed", "aborted")
    assert (values(theirs, "a"), values(theirs, "b")) == ([0, 5, 2], [0, 5, 0])


def test_one_whose_store_failed_is_committed_again() -> None:
    mine, theirs = lake()
    tx, create = staged(mine), mine.store.create

    def failing(name: str, data: Any) -> bool:
        if "/b/" in name:
            raise StoreUnavailable("not now")
        return create(name, data)

    mine.store.create = failing  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="nothing was committed"):
        tx.commit()
    mine.store.create = create  # type: ignore[method-assign]
    assert (tx.status, theirs.transaction_status(str(tx.id))) == ("aborted", "aborted")
    tx.commit()
    assert (values(theirs, "a"), values(theirs, "b")) == ([0, 5, 0], [0, 5, 0])


def refusing(store: Store, number: int) -> FaultyStore:
    """A store that refuses the n-th request for a decision."""
    asked: list[Call] = []

    def plan(call: Call) -> Fault | None:
        if call.name.endswith(".decision"):
            asked.append(call)
        return "refused" if asked and asked[-1] == call and len(asked) == number else None

    return FaultyStore(store, plan)


def test_one_whose_decision_was_refused_is_aborted_and_committed_again() -> None:
    """Nobody has to wait for a lease: it says so itself."""
    _, theirs = lake()
    mine = Catalog(refusing(theirs.store, 1), upkeep=False, base_delay=0)
    tx = staged(mine)
    with pytest.raises(AccessDenied):
        tx.commit()
    assert (tx.status, theirs.transaction_status(str(tx.id))) == ("aborted", "aborted")
    theirs.table("a").update("n = 2", {"x": 2})
    tx.commit()
    assert (values(theirs, "a"), values(theirs, "b")) == ([0, 5, 2], [0, 5, 0])


def test_one_of_which_nobody_knows_says_where_to_ask() -> None:
    """The answer to its decision was lost, and it may not look: that is no refusal."""
    _, theirs = lake()
    store = refusing(theirs.store, 2)
    first, mine = store.plan, Catalog(store, upkeep=False, base_delay=0)
    tx = staged(mine)

    def plan(call: Call) -> Fault | None:
        assert first is not None
        found = first(call)
        return "lost_answer" if found is None and call.name.endswith(".decision") else found

    store.plan = plan
    with pytest.raises(CommitUnknown, match="transaction_status"):
        tx.commit()
    store.plan = None
    assert (tx.status, mine.transaction_status(str(tx.id))) == ("prepared", "committed")
    with pytest.raises(InvalidArgument, match="is not known: ask transaction_status"):
        tx.commit()
    assert (values(theirs, "a"), values(theirs, "b")) == ([0, 5, 0], [0, 5, 0])

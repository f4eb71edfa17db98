"""Isolation: what snapshot lets through and serializable catches, and histories checked by their graphs."""

from __future__ import annotations

import random
import secrets
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.conflicts import Kind
from crdtcat.errors import CommitConflict, CommitContended, InvalidArgument
from crdtcat.transaction import Transaction
from tests.cas.scenes import Turn, in_threads, replayed

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def lake(*tables: str, rows: int = 4) -> tuple[Catalog, str]:
    url = f"memory://serializable-{secrets.token_hex(6)}"
    catalog = Catalog(url, upkeep=False, base_delay=0.001)
    for name in tables:
        catalog.create_table(name, SCHEMA, mode="cas").append([{"n": n, "x": 0} for n in range(rows)])
    return catalog, url


def begin(url: str, isolation: str) -> Transaction:
    return Catalog(url, upkeep=False, base_delay=0.001).transaction(isolation=isolation)


def kinds(tx: Transaction) -> set[Kind] | None:
    """What stood in its way; `None` if it was committed."""
    try:
        tx.commit()
    except CommitConflict as conflict:
        return {item.kind for item in conflict.conflicts}
    return None


@pytest.mark.parametrize(("isolation", "second"), [("snapshot", None), ("serializable", {Kind.READ_WRITE})])
def test_write_skew(isolation: str, second: Any) -> None:
    """Two doctors on call; each leaves because the other is there. Disjoint rows, and both were wrong."""
    _, url = lake("calls")
    first, other = begin(url, isolation), begin(url, isolation)
    for tx, n in ((first, 0), (other, 1)):
        assert tx.read("calls", filter="n < 2 and x = 0").num_rows == 2
        tx.update("calls", f"n = {n}", {"x": 1})
    assert kinds(first) is None
    assert kinds(other) == second


def test_a_row_moved_into_another_writers_filter_is_caught() -> None:
    """Trap: disjoint row ids are not enough (delta#7356)."""
    _, url = lake("t")
    tx, other = begin(url, "serializable"), begin(url, "snapshot")
    tx.update("t", "x = 1", {"x": 5})  # matches no row
    other.update("t", "n = 0", {"x": 1})  # now it would
    assert kinds(other) is None
    assert kinds(tx) == {Kind.READ_WRITE}


@pytest.mark.parametrize(
    ("change", "caught"),
    [
        (lambda t: t.append([{"n": 10, "x": 0}]), False),
        (lambda t: t.append([{"n": 1, "x": 7}]), True),
        (lambda t: t.delete("n = 1"), True),
        (lambda t: t.delete("n = 3"), False),
        (lambda t: t.update("n = 3", {"x": 9}), False),
        (lambda t: t.update("n = 3", {"n": 1}), True),
        (lambda t: t.drop_column("x"), True),
        (lambda t: t.set_properties(p=1), False),
        (lambda t: t.add_column("y", pa.int64()), False),
    ],
)
def test_only_what_changes_the_answer_is_a_conflict(change: Any, caught: bool) -> None:
    catalog, url = lake("t", "other")
    tx = begin(url, "serializable")
    tx.read("t", ["n", "x"], filter="n = 1")
    tx.append("other", [{"n": 100, "x": 0}])
    change(catalog.table("t"))
    found = kinds(tx)
    assert found == ({Kind.READ_WRITE} if caught else None)


def test_write_skew_over_two_tables_of_which_each_only_reads_one() -> None:
    _, url = lake("a", "b")
    first, second = begin(url, "serializable"), begin(url, "serializable")
    first.read("a")
    first.update("b", "n = 0", {"x": 1})
    second.read("b")
    second.update("a", "n = 0", {"x": 1})
    assert kinds(first) is None
    assert kinds(second) == {Kind.READ_WRITE}
    catalog = Catalog(url)
    for name in ("a", "b"):
        assert catalog.table(name).verify().ok
        catalog.table(name).append([{"n": 9, "x": 9}])


def test_tables_that_were_only_read_are_read_together_with_the_others_later() -> None:
    """Found by random histories: the claim of a table that was only read named it as changed, and whoever
    pinned both looked there for the transaction in vain."""
    catalog, url = lake("a", "b")
    with catalog.transaction(["a", "b"], isolation="serializable") as tx:
        tx.read("b", filter="n = 1")
        tx.update("a", "n = 1", {"x": 5})
    with Catalog(url, upkeep=False).transaction(["a", "b"]) as later:
        assert later.read("a", filter="n = 1")["x"].to_pylist() == [5]
        assert later.read("b").num_rows == catalog.table("b").scan().count()


def test_a_claim_that_holds_nothing_does_not_hide_one_that_was_left_out() -> None:
    """Found by random histories: a commit was left out of the snapshot, the claim of one who only read the
    table stayed, and what was judged began above both."""
    catalog, url = lake("a", "b")
    tx = begin(url, "serializable")
    tx.read("a", filter="n = 0")
    with catalog.transaction(["a", "b"]) as first:
        for name in ("a", "b"):
            first.update(name, "n = 1", {"x": 1})
    with Catalog(url).transaction(["a", "b"], isolation="serializable") as second:
        second.read("b")
        second.update("a", "n = 2", {"x": 2})
    assert tx.read("b", filter="n = 1")["x"].to_pylist() == [0]
    tx.update("b", "n = 3", {"x": 3})
    assert kinds(tx) == {Kind.READ_WRITE}


def test_several_tables_that_were_only_read_were_so_at_one_moment() -> None:
    """It changes nothing, so it takes no claim: what it read is held against what came meanwhile."""
    catalog, url = lake("a", "b")
    tx = begin(url, "serializable")
    tx.read("a", filter="n = 0")
    catalog.table("a").update("n = 1", {"x": 1})
    tx.read("b")
    assert kinds(tx) is None
    tx = begin(url, "serializable")
    tx.read("a", filter="n = 0")
    catalog.table("a").update("n = 0", {"x": 2})
    tx.read("b")
    assert kinds(tx) == {Kind.READ_WRITE}


def test_forks_bring_back_what_they_read() -> None:
    catalog, url = lake("t", "other")
    tx = begin(url, "serializable")
    fork = tx.fork()
    fork.read("t", filter="n = 1")
    fork.append("other", [{"n": 100, "x": 0}])
    catalog.table("t").update("n = 1", {"x": 5})
    tx.join(fork)
    assert kinds(tx) == {Kind.READ_WRITE}


def test_a_transaction_that_only_read_commits_without_a_request() -> None:
    catalog, url = lake("t")
    with catalog.transaction(isolation="serializable") as tx:
        tx.read("t")
        Catalog(url).table("t").delete("n = 0")
    assert tx.committed


def test_serializable_is_for_cas_tables_and_isolations_are_named() -> None:
    catalog, _ = lake("t")
    catalog.create_table("merged", SCHEMA)
    with pytest.raises(InvalidArgument, match="merge mode"):
        catalog.transaction(["merged"], isolation="serializable")
    with pytest.raises(InvalidArgument, match="isolation"):
        catalog.transaction(isolation="repeatable")


def test_random_concurrent_transactions_are_serial_in_the_order_of_their_numbers() -> None:
    """Values are written once, so who read what from whom is known, and every read can be replayed."""
    cells = 6
    _, url = lake("t", rows=cells)
    history: list[Turn] = []

    def work(worker: int) -> None:
        chance, done, turn = random.Random(worker), 0, 0
        catalog = Catalog(url, upkeep=False, base_delay=0.001)
        while done < 10:
            turn += 1
            tx = catalog.transaction(isolation="serializable")
            looked = chance.sample(range(cells), 2)
            listed = ", ".join(map(str, looked))
            found = tx.read("t", ["n", "x"], filter=f"n in ({listed})")
            reads = dict(zip(found["n"].to_pylist(), found["x"].to_pylist(), strict=True))
            target, value = chance.choice(looked), 1000 * (worker + 1) + turn
            tx.update("t", f"n = {target}", {"x": value})
            try:
                tx.commit()
            except (CommitConflict, CommitContended):
                continue
            done += 1
            history.append((tx.versions["t"][-1].number, reads, {target: value}))

    in_threads(work, 4)
    assert len(history) == 40
    final = Catalog(url).read("t")
    assert dict(zip(final["n"].to_pylist(), final["x"].to_pylist(), strict=True)) == replayed(history, cells)

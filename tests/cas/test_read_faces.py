"""Reads of more than some rows count, too, where they are serializable: queries, proofs, heads, the history,
the conflicts, the schema and the properties."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.cas.reading import Asked, Read
from crdtcat.clock import VersionId
from crdtcat.conflicts import Kind
from crdtcat.log import select
from tests.cas.scenes import meanwhile
from tests.cas.test_serializable import SCHEMA, kinds, lake, strict

CHANGES: dict[str, Callable[[Table], Any]] = {
    "rows": lambda t: t.append([{"n": 9, "x": 1}]),
    "nothing": lambda t: t.update("n = 0", {"x": 0}),
    "schema": lambda t: t.add_column("y", pa.int64()),
    "properties": lambda t: t.set_properties(p=1),
}
LOOKS: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "history": (lambda t: t.history(), set(CHANGES)),
    "head": (lambda t: t.head(), set(CHANGES)),
    "schema": (lambda t: t.schema, {"schema"}),
    "properties": (lambda t: t.properties, {"properties"}),
    "conflicts": (lambda t: t.conflicts(), set()),
    "read": (lambda t: t.read(), {"rows", "schema"}),
    "count": (lambda t: t.scan().count(), {"rows", "schema"}),
    "explain": (lambda t: t.scan(["n"], "n > 5").explain(), {"rows"}),
    "changes": (lambda t: t.changes(None), {"rows", "schema"}),
    "diff": (lambda t: t.diff(None), {"rows", "schema"}),
}
"""What is looked at, and which changes of others change it."""


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("inside", [False, True], ids=["handle", "transaction"])
def test_what_changes_what_was_looked_at_is_told(look: str, change: str, inside: bool) -> None:
    t, url = lake()
    looked, changed = LOOKS[look]
    if inside:
        tx = Catalog(url, upkeep=False).transaction(isolation="serializable")
        looked(tx.table("t"))
        tx.append("t", [{"n": 100, "x": 0}])
        CHANGES[change](t)
        found = kinds(tx.commit)
    else:
        mine = strict(url)
        looked(mine)
        CHANGES[change](t)
        found = kinds(lambda: mine.append([{"n": 100, "x": 0}]))
    assert found == ({Kind.READ_WRITE} if change in changed else None)


@pytest.mark.parametrize("change", CHANGES)
def test_figures_of_a_table_are_told_by_any_commit(change: str) -> None:
    t, url = lake()
    mine = strict(url)
    mine.stats()
    CHANGES[change](t)
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) == {Kind.READ_WRITE}
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) is None


@pytest.mark.parametrize("look", ["history", "head", "conflicts"])
def test_the_past_is_looked_at_for_nothing(look: str) -> None:
    t, url = lake()
    mine, old = strict(url), t.history()[0].id
    getattr(mine, look)(at=old)
    t.append([{"n": 9, "x": 1}])
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) is None


def test_conflicts_that_are_new_are_told() -> None:
    """Commits of a strict table have seen all before them, so one of merge mode is held against the read."""
    t = Catalog(f"memory://strict-{secrets.token_hex(6)}", upkeep=False).create_table("t", SCHEMA)
    t.append([{"n": 0, "x": 0}])
    late = Catalog(t._session.store, upkeep=False).table("t")
    meanwhile(late, lambda: t.update("n = 0", {"x": 1}))
    late.update("n = 0", {"x": 2})
    log = t.head().log
    seen = select(log, np.arange(len(log)) < 2)
    for read, found in ((Read(of="conflicts"), ("the conflicts",)), (Read(of="schema"), None)):
        told = Asked(t._session, [(seen, [read])]).judged(log, 2)
        assert [item.keys for item in told] == ([] if found is None else [found])


def test_a_repetition_that_counts_for_nothing_changes_no_history() -> None:
    t, url = lake()
    t.append([{"n": 9, "x": 1}], key="k")
    mine = strict(url)
    mine.history()
    t.append([{"n": 9, "x": 1}], key="k")
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) is None


def test_two_transactions_that_go_by_the_history_are_serial() -> None:
    """Each adds a row if nobody has added one: the history tells, and no row that either asked for does."""
    _, url = lake()
    both = [Catalog(url, upkeep=False).transaction(isolation="serializable") for _ in range(2)]
    for at, tx in enumerate(both):
        assert len(tx.table("t").history()) == 1
        tx.append("t", [{"n": 10 + at, "x": 0}])
    told = [kinds(tx.commit) for tx in both]
    assert told == [None, {Kind.READ_WRITE}]


def test_the_keyed_and_the_lost_are_looked_at() -> None:
    t, url = lake(key=("n",))
    mine = strict(url)
    assert mine.lost_cells() == []
    t.upsert([{"n": 7, "x": 7}])
    assert kinds(lambda: mine.upsert([{"n": 8, "x": 8}])) == {Kind.READ_WRITE}


def test_more_reads_than_are_remembered_are_one_of_the_history() -> None:
    t, url = lake()
    mine = strict(url)
    for n in range(300):
        mine.scan(filter=f"n = {n + 1000}")
    t.set_properties(p=1)
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) == {Kind.READ_WRITE}


def test_of_more_reads_than_are_remembered_the_oldest_counts() -> None:
    """What came after the first of them, and before all others, changed what it had found."""
    t, url = lake()
    mine = strict(url)
    assert mine.read(filter="n = 5").num_rows == 0
    t.append([{"n": 5, "x": 5}])
    for n in range(300):
        mine.scan(filter=f"n = {n + 1000}")
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) == {Kind.READ_WRITE}


def test_forks_that_asked_different_questions_are_told_of_each() -> None:
    _, url = lake()
    for asked in (["x"], ["n"]), (["n"], ["x"]):
        tx = Catalog(url, upkeep=False).transaction(["t"], isolation="serializable")
        fork = tx.fork()
        for columns in asked:
            fork.read("t", columns)
        assert fork.table("t").properties == {}
        tx.update("t", "n = 1", {"x": 5})
        assert kinds(lambda tx=tx, fork=fork: tx.join(fork)) == {Kind.READ_WRITE}


def first(catalog: Catalog) -> VersionId:
    """The first version of the table, as another handle finds it."""
    return Catalog(catalog.url, upkeep=False).table("t").history()[0].id


@pytest.mark.parametrize(
    ("look", "caught"),
    [
        (lambda catalog: catalog.sql("select count(*) from t where x = 1"), True),
        (lambda catalog: catalog.sql("select 1 from T as a join t as b using (n)").fetchall(), True),
        (lambda catalog: catalog.sql("select * from t", at=first(catalog)), False),
        (lambda catalog: catalog.sql("select 1"), False),
        (lambda catalog: catalog.sql("show tables"), False),
        (lambda catalog: catalog.table("t").proof(0), True),
        (lambda catalog: catalog.table("t").proof(0, at=first(catalog)), False),
        (lambda catalog: catalog.read("t", filter="x = 1"), True),
    ],
)
def test_queries_and_proofs_are_reads_of_everything(look: Any, caught: bool) -> None:
    t, url = lake()
    catalog = Catalog(url, upkeep=False, isolation="serializable")
    look(catalog)
    t.append([{"n": 9, "x": 1}])
    found = kinds(lambda: catalog.commit("t", [{"n": 10, "x": 0}]))
    assert found == ({Kind.READ_WRITE} if caught else None)
    assert kinds(lambda: catalog.commit("t", [{"n": 11, "x": 0}])) is None  # told once


def test_a_proof_in_a_transaction_is_a_read() -> None:
    t, url = lake()
    tx = Catalog(url, upkeep=False).transaction(isolation="serializable")
    tx.table("t").proof(0)
    tx.append("t", [{"n": 10, "x": 0}])
    t.append([{"n": 9, "x": 1}])
    assert kinds(tx.commit) == {Kind.READ_WRITE}

"""Branches of one table in a transaction: in merge mode it changes one of them, and reads all."""

from __future__ import annotations

import secrets

import pytest

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument
from crdtcat.transaction import commit, transaction


def branched(mode: str = "merge") -> Catalog:
    catalog = Catalog(f"memory://branches-{secrets.token_hex(6)}", upkeep=False, grace_seconds=0)
    for name in ("t", "u"):
        catalog.create_table(name, mode=mode).append([{"n": 1}])
    catalog.table("t").branch("side")
    return catalog


def numbers(catalog: Catalog, table: str = "t", **where: str) -> list[int]:
    cold = Catalog(catalog.store, upkeep=False)
    found: list[int] = cold.table(table, where.pop("branch", "main")).read(**where)["n"].to_pylist()
    return sorted(found)


def test_one_branch_of_a_table_is_changed_and_all_are_read() -> None:
    catalog = branched()
    catalog.table("t", "side").append([{"n": 2}])
    with catalog.transaction() as tx:
        found = tx.table("t", "side").read()["n"].to_pylist()
        tx.table("t").append([{"n": sum(found)}])
        with pytest.raises(InvalidArgument, match="'main' and 'side'"):
            tx.table("t", "side").append([{"n": 9}])
        tx.append("u", [{"n": 2}])
    assert numbers(catalog) == [1, 3]
    assert numbers(catalog, branch="side") == [1, 2]
    assert numbers(catalog, "u") == [1, 2]


def test_nor_are_two_changed_by_forks() -> None:
    catalog = branched()
    tx = catalog.transaction()
    one, two = tx.fork(), tx.fork()
    one.table("t").append([{"n": 8}])
    two.table("t", "side").append([{"n": 9}])
    tx.join(one, two)
    with pytest.raises(InvalidArgument, match="'main' and 'side'"):
        tx.commit()
    assert numbers(catalog) == numbers(catalog, branch="side") == [1]


def test_what_a_savepoint_forgot_is_no_change() -> None:
    catalog = branched()

    def fail() -> None:
        tx.table("t").append([{"n": 2}])
        raise ZeroDivisionError

    with catalog.transaction() as tx:
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            fail()
        tx.table("t", "side").append([{"n": 2}])
    assert (numbers(catalog), numbers(catalog, branch="side")) == ([1], [1, 2])


def test_in_cas_mode_both_are_changed_and_merged() -> None:
    catalog = branched("cas")
    with catalog.transaction() as tx:
        tx.table("t").append([{"n": 2}])
        tx.table("t", "side").append([{"n": 3}])
    catalog.table("t").tag("before")
    catalog.table("t").merge("side")
    assert numbers(catalog) == [1, 2, 3]
    assert numbers(catalog, at="before") == [1, 2]


def test_an_older_transaction_that_changed_both_is_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its versions have one number in both logs: a reader of both would take either for the other."""
    catalog = branched()
    for module in (commit, transaction):
        monkeypatch.setattr(module, "require_one_branch", lambda sessions: None)
    with catalog.transaction() as tx:
        tx.table("t").append([{"n": 2}])
        tx.table("t", "side").append([{"n": 3}])
        tx.append("u", [{"n": 2}])
    table = catalog.table("t")
    table.tag("before")
    table.branch("later")
    with pytest.raises(InvalidArgument, match="changed both"):
        table.merge("side")
    with pytest.raises(InvalidArgument, match="changed both"):
        catalog.table("t", "side").merge("main")
    assert table.read()["n"].to_pylist() == numbers(catalog) == numbers(catalog, at="before") == [1, 2]
    assert numbers(catalog, branch="side") == [1, 3]
    assert numbers(catalog, branch="later") == [1, 2]
    assert table.verify().ok

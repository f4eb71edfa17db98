"""Branches and expiry, as their docstrings say."""

from __future__ import annotations

import pickle

import pytest

from crdtcat import Catalog
from crdtcat.errors import NotFound
from crdtcat.table import Table
from tests.catalog.lakes import objects
from tests.cost.places import SCHEMA, Place, asked, few, many


def _started(place: Place) -> tuple[Catalog, Table]:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for at in range(5):
        table.append(few(start=at * 10))
    table.head()
    return catalog, table


def _refresh(catalog: Catalog, table: Table) -> dict[str, int]:
    """What a refresh costs when nothing is new."""
    table.head()
    return asked(catalog, table.head)


def _sum(*costs: dict[str, int]) -> dict[str, int]:
    kinds = {kind for cost in costs for kind in cost}
    return {kind: sum(cost.get(kind, 0) for cost in costs) for kind in kinds}


def test_branch(place: Place) -> None:
    catalog, table = _started(place)
    refresh = _refresh(catalog, table)
    assert asked(catalog, lambda: table.branch("b")) == _sum(refresh, {"get": 2, "put": 1, "list": 1})
    branch = catalog.table("t", "b")
    branch.head()
    assert asked(catalog, lambda: branch.branch("c")) == _sum(refresh, {"get": 3, "put": 1, "list": 1})
    table.delete_branch("b")
    assert asked(catalog, lambda: table.branch("b")) == _sum(refresh, {"get": 4, "put": 1, "list": 1})


def test_a_branch_costs_the_same_whatever_the_table_holds(place: Place) -> None:
    """A table a hundred times as large, of several commits, in bundles: as many requests, and below 1 KB."""
    costs = []
    for name, commits in (("small", 1), ("large", 20)):
        catalog = place.open()
        table = catalog.create_table(name, SCHEMA)
        for _ in range(commits):
            table.append(many())
        table.checkpoint()
        refresh = _refresh(catalog, table)
        before = sum(objects(catalog).values())
        made = asked(catalog, lambda table=table: table.branch("b"))  # type: ignore[misc]
        assert sum(objects(catalog).values()) - before < 1024
        costs.append({kind: count - refresh.get(kind, 0) for kind, count in made.items()})
    assert costs[0] == costs[1]
    assert sum(costs[0].values()) <= 4


def test_opening_a_branch(place: Place) -> None:
    _, table = _started(place)
    table.branch("b").branch("c")
    catalog = place.open()
    catalog.table("t")
    assert asked(catalog, lambda: catalog.table("t", "b")) == {"get": 2}
    assert asked(catalog, lambda: catalog.table("t", "b")) == {}
    assert asked(catalog, lambda: catalog.table("t", "c")) == {"get": 2 + 1}


def test_a_pickled_handle_knows_its_branches(place: Place) -> None:
    """Each task of Spark has a copy: it would open the branch anew."""
    catalog, table = _started(place)
    table.branch("b").branch("c")
    catalog.table("t", "c")

    def version_of(branch: str) -> int:
        copied: Catalog = pickle.loads(pickle.dumps(catalog))
        assert asked(copied, lambda: copied.commit("t", few(), branch=branch)) == {"put": 1}
        return copied.table("t", branch).head().version

    assert [version_of("b"), version_of("c")] == [6, 6]
    table.delete_branch("c")
    with pytest.raises(NotFound):
        pickle.loads(pickle.dumps(catalog)).commit("t", few(), branch="c")


def test_reading_a_branch(place: Place) -> None:
    catalog, table = _started(place)
    refresh = _refresh(catalog, table)
    branch = table.branch("b")
    assert asked(catalog, lambda: branch.append(few())) == {"put": 1}
    assert asked(catalog, lambda: branch.append(many())) == {"put": 2}
    fresh = place.open()
    cold = fresh.table("t", "b")
    assert asked(fresh, cold.head) == _sum(refresh, refresh, {"get": 5 + 2 + 1})  # and the mark
    assert asked(fresh, cold.head) == refresh


def test_listing_and_deleting(place: Place) -> None:
    catalog, table = _started(place)
    table.branch("b").append(few())
    table.branch("c")
    assert asked(catalog, table.branches) == {"list": 1, "get": 2}
    refresh = _refresh(catalog, table)
    cost = asked(catalog, lambda: table.delete_branch("b"))
    # The branch is opened and read, its mark first, to say what it lets go: nothing, its rows were inlined.
    read = _sum(refresh, refresh, {"get": 1 + 1 + 1})
    assert cost == _sum({"get": 2 + 1, "put": 2, "list": 2, "delete": 1}, read)
    table.branch("d").append(many())
    cost = asked(catalog, lambda: table.delete_branch("d"))
    assert cost == _sum({"get": 2 + 1, "put": 2 + 1, "list": 2, "delete": 1}, read)
    assert asked(catalog, table.branches) == {"list": 1, "get": 1}


def test_merge(place: Place) -> None:
    catalog, table = _started(place)
    refresh = _refresh(catalog, table)
    branch = table.branch("b")
    branch.append(many())
    # The branch's start is a refresh of this branch; then its own log, and its mark before the first time;
    # this log before and after.
    cost = asked(catalog, lambda: table.merge("b"))
    assert cost == _sum(refresh, refresh, refresh, refresh, {"get": 2 + 1 + 1 + 1, "put": 1, "list": 1})
    branch.append(few())
    cost = asked(catalog, lambda: table.merge("b"))
    assert cost == _sum(refresh, refresh, refresh, refresh, {"get": 2 + 2 + 1 + 1, "put": 2, "list": 1})


def test_expire(place: Place) -> None:
    place.open().create_table("t", SCHEMA)
    catalog = place.open(max_commit_delay_seconds=0)
    table = catalog.table("t")
    for at in range(5):
        table.append(few(start=at * 10))
    table.checkpoint()
    table.append(few())
    assert catalog.store.can_create_exclusively  # found out once, by a probe
    refresh = _refresh(catalog, table)
    named = _sum(asked(catalog, table.tags), asked(catalog, table.branches))
    dry = asked(catalog, lambda: table.expire(keep_last=1, dry_run=True))
    assert dry == _sum(refresh, named, {"get": 1})  # a bundle not seen before
    cost = asked(catalog, lambda: table.expire(keep_last=1))
    # A proposal and the base; the base is read back by the refresh at the end.
    assert cost == _sum(refresh, named, refresh, named, {"put": 2, "list": 1}, refresh, {"get": 1})


def test_a_slow_commit_costs_one_list(place: Place) -> None:
    place.open().create_table("t", SCHEMA)
    catalog = place.open(max_commit_delay_seconds=0)
    table = catalog.table("t")
    real = table._session.writer._clock.tick
    table._session.writer._clock.tick = lambda: real() - (10_000 << 16)  # type: ignore[method-assign]
    assert asked(catalog, lambda: table.append(few())) == {"put": 1, "list": 1}
    assert asked(catalog, lambda: table.append(few())) == {"put": 1, "list": 1}

"""Branches, as their docstrings say."""

from __future__ import annotations

from crdtcat import Catalog
from crdtcat.table import Table
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
    assert asked(catalog, lambda: table.branch("b")) == _sum(refresh, {"get": 2, "put": 1})
    branch = catalog.table("t", "b")
    branch.head()
    assert asked(catalog, lambda: branch.branch("c")) == _sum(refresh, {"get": 3, "put": 1})
    table.delete_branch("b")
    assert asked(catalog, lambda: table.branch("b")) == _sum(refresh, {"get": 4, "put": 1})


def test_opening_a_branch(place: Place) -> None:
    _, table = _started(place)
    table.branch("b").branch("c")
    catalog = place.open()
    catalog.table("t")
    assert asked(catalog, lambda: catalog.table("t", "b")) == {"get": 2}
    assert asked(catalog, lambda: catalog.table("t", "b")) == {}
    assert asked(catalog, lambda: catalog.table("t", "c")) == {"get": 2 + 1}


def test_reading_a_branch(place: Place) -> None:
    catalog, table = _started(place)
    refresh = _refresh(catalog, table)
    branch = table.branch("b")
    assert asked(catalog, lambda: branch.append(few())) == {"put": 1}
    assert asked(catalog, lambda: branch.append(many())) == {"put": 2}
    fresh = place.open()
    cold = fresh.table("t", "b")
    assert asked(fresh, cold.head) == _sum(refresh, refresh, {"get": 5 + 2})
    assert asked(fresh, cold.head) == refresh


def test_listing_and_deleting(place: Place) -> None:
    catalog, table = _started(place)
    table.branch("b").append(few())
    table.branch("c")
    assert asked(catalog, table.branches) == {"list": 1, "get": 2}
    cost = asked(catalog, lambda: table.delete_branch("b"))
    assert cost == {"get": 2 + 1, "put": 2, "list": 2, "delete": 1}
    assert asked(catalog, table.branches) == {"list": 1, "get": 1}


def test_merge(place: Place) -> None:
    catalog, table = _started(place)
    refresh = _refresh(catalog, table)
    branch = table.branch("b")
    branch.append(many())
    # The branch's start is a refresh of this branch; then its own log; this log before and after.
    cost = asked(catalog, lambda: table.merge("b"))
    assert cost == _sum(refresh, refresh, refresh, refresh, {"get": 2 + 1 + 1, "put": 1})
    branch.append(few())
    cost = asked(catalog, lambda: table.merge("b"))
    assert cost == _sum(refresh, refresh, refresh, refresh, {"get": 2 + 2 + 1, "put": 2})

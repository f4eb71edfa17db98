"""A table that took part in transactions is listed twice, `transactions/` first, by every handle."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import AccessDenied
from crdtcat.protocol import mark_name
from crdtcat.store.memory import MemoryStore
from tests.cost.places import SCHEMA, Place, asked, few, fresh
from tests.cost.test_round_trips import Far


def transacted(catalog: Catalog, *branches: str) -> None:
    """Tables `t` and `u`, both with a mark in each of these branches."""
    for name in ("t", "u"):
        table = catalog.create_table(name, SCHEMA)
        for branch in branches:
            table.branch(branch)
    for branch in ("main", *branches):
        with catalog.transaction() as both:
            for name in ("t", "u"):
                both.table(name, branch).append(few())


def by_table(catalog: Catalog) -> Table:
    return catalog.table("t")


def by_commit(catalog: Catalog) -> Table:
    assert asked(catalog, lambda: catalog.commit("t", few())) == {"get": 2, "put": 1}
    return catalog.table("t")


def by_create(catalog: Catalog) -> Table:
    return catalog.create_table("t", SCHEMA, exist_ok=True)


def by_copy(catalog: Catalog) -> Table:
    table: Table = pickle.loads(pickle.dumps(catalog.table("t")))
    assert table._session.marked
    return table


def by_branch(catalog: Catalog) -> Table:
    catalog.table("t").head()  # what the branch starts from
    return catalog.table("t", "b")


@pytest.mark.parametrize("opened", [by_table, by_commit, by_create, by_copy])
def test_no_cold_head_lists_more_than_twice(place: Place, opened: Callable[[Catalog], Table]) -> None:
    transacted(place.open())
    catalog = place.open()
    table = opened(catalog)
    lists = table._session.store.requests.snapshot().list
    assert table.head().row_count >= 3
    assert table._session.store.requests.snapshot().list - lists == 2
    assert asked(catalog, lambda: catalog.commit("t", few())).get("put") == 1


def test_nor_that_of_a_branch_more_than_twice_for_itself_and_its_source(place: Place) -> None:
    transacted(place.open(), "b")
    catalog = place.open()
    table = by_branch(catalog)
    assert asked(catalog, table.head)["list"] == 2 + 2


def test_nor_that_of_a_table_that_was_created_again(place: Place) -> None:
    first = place.open()
    transacted(first)
    first.drop_table("t")
    first.drop_table("u")
    transacted(first)
    catalog = place.open()
    assert asked(catalog, lambda: catalog.table("t").head())["list"] == 2


def test_appends_ask_for_no_mark(place: Place) -> None:
    transacted(place.open(), "b")
    catalog = place.open()
    assert asked(catalog, lambda: catalog.commit("t", few())) == {"get": 2, "put": 1}  # the marker, settings
    assert asked(catalog, lambda: catalog.commit("t", few())) == {"put": 1}
    assert asked(catalog, lambda: catalog.commit("u", few(), branch="b")) == {"get": 1 + 2, "put": 1}
    table = pickle.loads(pickle.dumps(catalog.table("t")))
    assert asked(table._session, lambda: table.append(few())) == {"put": 1}


def test_that_there_was_no_mark_says_nothing(place: Place) -> None:
    """One that was stored after it was asked for is found by listing."""
    first = place.open()
    for name in ("t", "u"):
        first.create_table(name, SCHEMA)
    catalog = place.open()
    table = catalog.table("t")
    with first.transaction() as both:
        both.append("t", few())
        both.append("u", few())
    assert asked(catalog, table.head) == {"list": 3, "get": 1}
    assert table.head().row_count == 3


class Refusing(MemoryStore):
    """What is not there is forbidden, as on S3 for those who may not list."""

    def get_many(self, ranges: Any) -> Any:
        found = super().get_many(ranges)
        missing = [name for (name, *_), data in zip(ranges, found, strict=True) if data is None]
        if any(name.endswith("/transacted") for name in missing):
            raise AccessDenied("403")
        return found


def test_a_store_that_refuses_to_say_is_taken_not_to_know() -> None:
    url = f"memory://{fresh('refusing')}"
    Catalog(url, upkeep=False).commit("t", few())
    catalog = Catalog(Refusing(url), upkeep=False)
    catalog.table("t").append(few())
    assert catalog.read("t").num_rows == 6
    other = Catalog(Refusing(url), upkeep=False)
    other.commit("t", few())
    assert other.read("t").num_rows == 9


def test_what_is_listed_ahead_of_a_marked_table_costs_no_round_trip() -> None:
    url = f"memory://{fresh('ahead')}"
    transacted(Catalog(url, upkeep=False))
    rounds: list[list[set[str]]] = []
    ways: list[Callable[[Catalog], Any]] = [lambda lake: lake.read("t"), lambda lake: lake.table("t").read()]
    for read in ways:
        store = Far(url)
        assert read(Catalog(store, upkeep=False)).num_rows == 3
        rounds.append(store.rounds)
    assert rounds == [[{"get", "list"}, {"list"}, {"list"}, {"get"}], [{"get"}, {"list"}, {"list"}, {"get"}]]


@pytest.mark.parametrize("marked", [False, True])
def test_of_a_long_log_one_page_is_listed_in_vain(marked: bool) -> None:
    url = f"memory://{fresh('long')}"
    first = Catalog(url, upkeep=False)
    for name in ("t", "u"):
        first.create_table(name, SCHEMA)
    if marked:
        with first.transaction() as both:
            for name in ("t", "u"):
                both.append(name, few())
    for start in range(25):
        first.commit("t", few(1, start))
    store = Far(url)
    store.page_limit = 10
    lake = Catalog(store, upkeep=False)
    files = [item.name for item in first.store.list("tables/t/main/")]
    pages = -(-len(files) // 10)
    # The marker, the settings, the mark, since more pages follow the first; then what the table is made of.
    expected = {"list": pages + 2 * marked, "get": 3 + 25 + marked}
    assert asked(lake, lambda: lake.read("t")) == expected


def test_a_mark_is_where_it_is_asked_for(place: Place) -> None:
    catalog = place.open()
    transacted(catalog)
    assert catalog.store.get(mark_name(catalog.table("t")._session.folder)) == b""

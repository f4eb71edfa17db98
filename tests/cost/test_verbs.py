"""The other verbs, as their docstrings say."""

from __future__ import annotations

import pyarrow as pa

from tests.cost.places import SCHEMA, Place, asked, few, many


def test_create(place: Place) -> None:
    catalog = place.open()
    assert asked(catalog, lambda: catalog.create_table("a", SCHEMA)) == {"get": 2, "list": 1, "put": 2}
    assert asked(catalog, lambda: catalog.create_table("b", SCHEMA)) == {"get": 1, "list": 1, "put": 1}
    assert asked(catalog, lambda: catalog.create_table("b", SCHEMA, exist_ok=True)) == {"get": 1}


def test_a_table_created_again(place: Place) -> None:
    catalog = place.open()
    for _ in range(3):
        catalog.create_table("t", SCHEMA)
        catalog.drop_table("t")
    made = asked(catalog, lambda: catalog.create_table("t", SCHEMA))
    assert made == {"get": 5, "list": 1, "put": 1}
    catalog = place.open()
    assert asked(catalog, lambda: catalog.table("t")) == {"get": 1 + 1 + 3}
    assert asked(catalog, lambda: catalog.table("t")) == {}
    assert asked(catalog, catalog.tables) == {"list": 1, "get": 3}
    assert asked(catalog, lambda: catalog.drop_table("t")) == {"get": 3, "put": 2, "list": 2}


def test_opening_costs_nothing_and_a_table_two_gets(place: Place) -> None:
    place.open().create_table("t", SCHEMA)
    catalog = place.open()
    assert catalog.store.requests.snapshot().total == 0
    assert asked(catalog, lambda: catalog.table("t")) == {"get": 3}  # the marker, once in a catalog
    assert asked(catalog, lambda: catalog.table("t")) == {}


def test_looking_for_a_table_that_is_not_there(place: Place) -> None:
    catalog = place.open()
    catalog.create_table("t", SCHEMA)
    assert asked(catalog, lambda: "u" in catalog) == {"get": 2, "list": 1}
    for _ in range(3):
        catalog.create_table("u", SCHEMA)
        catalog.drop_table("u")
    assert asked(catalog, lambda: "u" in catalog) == {"get": 2 + 2, "list": 2}
    assert asked(catalog, catalog.tables) == {"list": 1, "get": 2 + 2}


def test_tables_lists_once_and_looks_at_each(place: Place) -> None:
    catalog = place.open()
    for name in "abc":
        catalog.create_table(name, SCHEMA)
    assert asked(catalog, catalog.tables) == {"list": 1, "get": 3}


def test_drop(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for _ in range(3):
        table.append(few())
    cost = asked(catalog, lambda: catalog.drop_table("t"))
    assert cost == {"get": 1, "put": 2, "list": 2, "delete": 1}  # settings, a mark in the log; its branches


def test_overwrite_is_a_refresh_and_one_or_two_puts(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    table.head()
    assert asked(catalog, lambda: table.overwrite(few())) == {"list": 1, "put": 1}
    table.head()
    assert asked(catalog, lambda: table.overwrite(many())) == {"list": 1, "put": 2}


def test_schema_changes_are_a_refresh_a_put_and_a_look_at_the_result(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    table.head()
    assert asked(catalog, lambda: table.add_column("more", pa.int32())) == {"list": 2, "put": 1}
    assert asked(catalog, lambda: table.set_properties(owner="me")) == {"list": 1, "put": 1}


def test_tags(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    table.head()
    assert asked(catalog, lambda: table.tag("one")) == {"list": 2, "put": 1}
    assert asked(catalog, lambda: table.tag("two")) == {"list": 2, "put": 1}
    assert asked(catalog, lambda: table.tag("two", replace=True)) == {"list": 2, "get": 1, "put": 2}
    assert asked(catalog, table.tags) == {"list": 1, "get": 2}
    assert asked(catalog, lambda: table.head("one")) == {"list": 1, "get": 1}
    assert asked(catalog, lambda: table.delete_tag("two")) == {"get": 1, "delete": 1}


def test_restore_copies_no_data(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    first = table.append(many())
    table.overwrite(few())
    table.head()
    assert asked(catalog, lambda: table.restore(first.id)) == {"list": 1, "put": 1}
    assert table.read().equals(many())


def test_diffs_and_proofs_read_no_data(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    first = table.append(many())
    table.append(many())
    table.head()
    assert asked(catalog, lambda: table.diff(first)) == {"list": 2}
    assert asked(catalog, lambda: table.proof(0)) == {"list": 1}

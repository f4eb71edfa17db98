"""Requests of the verbs of keyed tables."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from tests.cost.places import SCHEMA, Place, asked, few, many


def test_upserts_and_deletes_by_key_are_one_put_or_two_and_read_nothing(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA, key=["n"])
    for start in range(3):
        assert asked(catalog, partial(table.upsert, few(start=start))) == {"put": 1}
        assert asked(catalog, lambda: table.upsert(few().select(["n", "x"]))) == {"put": 1}
        assert asked(catalog, partial(table.delete, keys=[start])) == {"put": 1}
    assert asked(catalog, lambda: table.upsert(many())) == {"put": 2}
    assert asked(catalog, lambda: table.delete(keys=pa.array(range(0, 10**6, 3)))) == {"put": 2}


def test_a_delete_by_filter_reads_what_the_filter_looks_at(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA, key=["n"])
    table.upsert(many())
    table.head()
    cost = asked(catalog, lambda: table.delete("x < 3"))
    assert cost["put"] == 1
    assert cost["get"] == 3  # the footer, and two columns that do not touch
    assert table.scan().count() == len([n for n in range(20_000) if n * 0.7310585786 >= 3])

"""What verification and collection ask of a store, counted."""

from __future__ import annotations

from tests.cost.places import SCHEMA, Place, asked, few, many


def test_verification_of_metadata_reads_the_log_and_lists_the_segments(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    table.append(many())
    table.tag("one")
    reads = {"list": 3 + 1, "get": 2 + 2 + 1}  # transactions, log, tags, a folder; marker, settings, ...
    assert asked(catalog, lambda: table.verify("metadata")) == reads


def test_verification_of_bytes_is_one_get_per_segment(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for _ in range(3):
        table.append(many())
    folders = len(catalog.store.folders("data/"))
    for depth in ("bytes", "content"):
        counted = asked(catalog, lambda depth=depth: table.verify(depth))  # type: ignore[misc]
        assert counted == {"list": 3 + folders, "get": 2 + 3 + 3}

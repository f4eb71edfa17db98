"""What verification and collection ask of a store, counted."""

from __future__ import annotations

import time

import pytest

from crdtcat.maintenance.upkeep import bundle_blocks
from crdtcat.verbs.parts import plan_parts
from tests.cost.places import SCHEMA, Place, asked, few, many


def test_verification_of_metadata_reads_the_log_and_lists_the_segments(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    table.append(many())
    table.tag("one")
    # tags, branches, proposals and transactions, then transactions, log, garbage, a folder; marker, hint, ...
    reads = {"list": 4 + 3 + 1, "get": 2 + 1 + 2 + 1}
    assert asked(catalog, lambda: table.verify("metadata")) == reads


def test_verification_of_bytes_is_one_get_per_segment(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for _ in range(3):
        table.append(many())
    folders = len(catalog.store.folders("data/"))
    for depth in ("bytes", "content"):
        counted = asked(catalog, lambda depth=depth: table.verify(depth))  # type: ignore[misc]
        assert counted == {"list": 4 + 3 + folders, "get": 2 + 1 + 3 + 3}


def test_collecting_garbage_lists_the_segments_and_reads_every_log(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(many())
    table.branch("b").append(few())
    catalog.create_table("u", SCHEMA).append(few())
    folders = len(catalog.store.folders("data/"))
    # garbage/, data/ and its folders; transactions/, tables/; per table its folders, twice its branch starts,
    # its log; the branch's log, and once more the one it starts from.
    lists = 2 + folders + 2 + 2 * 4 + 2
    # Settings; the branch's start, for what it needs and to open it; the mark and a version of each log.
    gets = 2 + 2 + 3 * 2
    assert asked(catalog, lambda: catalog.collect(grace=0)) == {"list": lists, "get": gets}


def test_deleting_garbage_reads_everything_twice(place: Place) -> None:
    catalog = place.open(inline_bytes=0)
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    staging = plan_parts(table._session, SCHEMA)
    for start in range(3):
        staging.stage(few(start=start).to_batches())
    folders = len(catalog.store.folders("data/"))
    reading = {"list": 2 + 4, "get": 1 + 1 + 1}  # as above, for one table
    found = asked(catalog, lambda: catalog.collect(grace=0))
    assert found == {"list": 2 + folders + 2 * reading["list"], "get": 2 * reading["get"], "delete": 1}


def test_condemning_is_one_put(place: Place) -> None:
    catalog = place.open(inline_bytes=0)
    table = catalog.create_table("t", SCHEMA)
    staging = plan_parts(table._session, SCHEMA)
    for start in range(3):
        staging.stage(few(start=start).to_batches())
    time.sleep(1.2)
    found = asked(catalog, lambda: catalog.collect(grace=1e-3))
    assert found["put"] == 1
    assert "delete" not in found


def test_stats_are_a_refresh(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(many())
    table.append(few())
    assert asked(catalog, table.stats) == {"list": 1, "get": 1}  # the mark, as before any first refresh
    other = place.open()
    assert asked(other, other.table("t").stats) == {"list": 1, "get": 2}
    assert asked(catalog, table.stats) == {"list": 1}
    assert asked(catalog, catalog.stats) == {"list": 1 + 1, "get": 1}


def test_who_bundles_asks_for_what_others_committed_only(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(bundle_blocks.__globals__, "_chosen", lambda *_: False)  # one block, whatever the ids
    catalog, other = place.open(), place.open()
    table = catalog.create_table("t", SCHEMA)
    theirs = other.table("t")
    for number in range(10):
        table.append(few(start=number))
        theirs.append(few(start=number))
    time.sleep(0.01)  # so that it is the last by their ids, too: handles' clocks need not agree
    last = table.append(few())
    puts = {"put": 1 + 1}  # the rows, and the bundle
    assert asked(catalog, lambda: bundle_blocks(table._session, [last.id])) == {"list": 1, "get": 10, **puts}
    third = place.open()
    session = third.table("t")._session
    last = table.append(few())
    found = asked(third, lambda: bundle_blocks(session, [last.id]))
    assert found == {"list": 1, "get": 1 + 1 + 22, **puts}  # the bundle's beginning, all of it, each version
    assert third.read("t").num_rows == 22 * few().num_rows

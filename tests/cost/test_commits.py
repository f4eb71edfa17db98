"""Writing: a blind commit is one PUT, or two, and nothing else."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from crdtcat import Catalog
from tests.cost.places import SCHEMA, Place, asked, few, many


def test_inlined_append_is_one_put(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for n in range(5):
        assert asked(catalog, partial(table.append, few(start=n))) == {"put": 1}


def test_larger_append_is_two_puts(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for _ in range(2):
        assert asked(catalog, lambda: table.append(many())) == {"put": 2}


def test_first_append_of_a_cold_handle_reads_marker_and_settings_once(place: Place) -> None:
    place.open().create_table("t", SCHEMA)
    catalog = place.open()
    assert asked(catalog, lambda: catalog.commit("t", few())) == {"get": 2, "put": 1}
    assert asked(catalog, lambda: catalog.commit("t", few())) == {"put": 1}


def test_commit_to_a_new_table_of_a_new_catalog(place: Place) -> None:
    catalog = place.open()
    # Not there (two GETs), created (marker and settings looked for and put, one LIST), appended to.
    assert asked(catalog, lambda: catalog.commit("t", few())) == {"get": 4, "list": 1, "put": 3}
    assert asked(catalog, lambda: catalog.commit("t", few())) == {"put": 1}


def test_append_without_declared_columns_reads_nothing_either(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t")
    assert asked(catalog, lambda: table.append([{"a": 1}])) == {"put": 1}
    assert asked(catalog, lambda: table.append([{"a": 2}])) == {"put": 1}


def test_partitioned_append_is_one_segment_however_many_partitions(place: Place) -> None:
    catalog = place.open(inline_bytes=0)
    table = catalog.create_table("t", SCHEMA, partition_by=["bucket(16, n)"])
    assert asked(catalog, lambda: table.append(few(200))) == {"put": 2}


def test_stream_costs_one_put_per_segment_and_one_to_commit(place: Place) -> None:
    catalog = place.open(segment_bytes=2**20, inline_bytes=0)
    table = catalog.create_table("t", SCHEMA)

    def stream() -> None:
        with table.stream() as writer:
            for at in range(4):
                writer.write(many(40_000, at * 40_000))  # more than a megabyte each

    cost = asked(catalog, stream)
    segments = len(_segments(catalog))
    assert cost == {"put": segments + 1}
    assert segments == 4


def test_aborted_stream_and_refused_rows_cost_no_put(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)

    def abort() -> None:
        writer = table.stream()
        writer.write(few())
        writer.abort()

    assert asked(catalog, abort) == {}
    with pytest.raises(ValueError, match="column"):
        table.append([{"unknown": 1}])
    assert not [name for name in _log(catalog) if name.endswith(".v")]


def test_pickled_handle_knows_settings(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    copy = pickle.loads(pickle.dumps(table))
    copy.append(few())
    assert copy._session.store.requests.snapshot().put == 1
    assert copy._session.store.requests.snapshot().total == 1
    copied: Catalog = pickle.loads(pickle.dumps(catalog))
    assert asked(copied, lambda: copied.commit("t", few())) == {"put": 1}


def _append_elsewhere(pickled: bytes) -> Mapping[str, Any]:
    table = pickle.loads(pickled)
    table.append(few())
    counts = table._session.store.requests.snapshot()
    return {kind: getattr(counts, kind) for kind in ("put", "get", "list", "head", "delete")}


def test_pickled_handle_in_a_fresh_process_makes_one_put(place: Place) -> None:
    if place.url.startswith("memory"):
        pytest.skip("memory is not shared between processes")
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        cost = pool.apply(_append_elsewhere, (pickle.dumps(table),))
    assert cost == {"put": 1, "get": 0, "list": 0, "head": 0, "delete": 0}
    assert table.read().num_rows == 3


def test_appends_beside_other_writers_cost_the_same(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    table = ours.create_table("t", SCHEMA)
    for n in range(3):
        theirs.commit("t", few(start=n))
        assert asked(ours, lambda: table.append(few())) == {"put": 1}
    assert table.head().version == 6


def _log(catalog: Catalog) -> list[str]:
    return [item.name for item in catalog.store.list("tables/t/main/")]


def _segments(catalog: Catalog) -> list[str]:
    return [
        item.name
        for folder in catalog.store.folders("data/")
        for item in catalog.store.list(f"data/{folder}/")
    ]

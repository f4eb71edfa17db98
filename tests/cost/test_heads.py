"""Reading the log: pages of listings, and as few GETs as bundles allow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.protocol.names import is_version
from crdtcat.store.values import Answers, Range
from crdtcat.writing.recent import RECENT_FILES_MAX
from tests.cost.places import SCHEMA, Place, asked, few, measured


def test_warm_refresh_with_nothing_new_is_one_page(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for n in range(4):
        table.append(few(start=n))
    table.head()
    assert asked(catalog, table.head) == {"list": 1}
    table.checkpoint()
    table.head()
    assert asked(catalog, table.head) == {"list": 1}


def test_warm_refresh_fetches_only_what_is_new(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    table = ours.create_table("t", SCHEMA)
    table.append(few())
    table.head()
    for n in range(3):
        theirs.commit("t", few(start=n))
    assert asked(ours, table.head) == {"list": 1, "get": 3}


def test_own_commits_are_not_asked_for_again(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    table = ours.create_table("t", SCHEMA)
    table.append(few())
    table.update("n = 0", {"n": 100})
    assert asked(ours, table.head) == {"list": 1}
    table.append(few(start=10))
    theirs.commit("t", few(start=20))
    table.append(few(start=30))
    assert asked(ours, table.head) == {"list": 1, "get": 1}  # what the other one did
    assert table.head().root_hash == theirs.table("t").head().root_hash


def test_of_many_own_commits_only_the_latest_are_at_hand(place: Place) -> None:
    """So that whoever commits on and on without looking needs no more memory for it."""
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for n in range(RECENT_FILES_MAX + 3):
        table.append(few(start=n))
    assert asked(catalog, table.head) == {"list": 1, "get": 1 + 3}  # whether there is a mark, the first time


def test_own_checkpoint_is_read_back_once(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for n in range(4):
        table.append(few(start=n))
    table.head()
    assert asked(catalog, table.checkpoint) == {
        "list": 1,
        "put": 2,
    }  # rows move to a segment, then the bundle
    assert asked(catalog, table.head) == {"list": 1, "get": 1}
    assert asked(catalog, table.checkpoint) == {"list": 1, "get": 1}  # nothing waits: only coverage is read


def test_a_checkpoint_stores_a_segment_for_each_set_of_columns(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    table.add_column("more", pa.int32())
    rows = few(start=10)
    table.append(rows.append_column("more", pa.nulls(rows.num_rows, pa.int32())))
    table.update("n = 1", {"more": 7})
    table.head()
    # Rows with and without the new column, the new value of an update, and the bundle.
    assert asked(catalog, table.checkpoint)["put"] == 4


def test_collection_reads_back_what_it_deletes(place: Place) -> None:
    catalog = place.open(grace_seconds=0)
    table = catalog.create_table("t", SCHEMA)
    for n in range(4):
        table.append(few(start=n))
    table.checkpoint()
    table.head()
    # The beginning of the bundle, the bundle, the four versions it covers, and one DELETE for all of them.
    assert asked(catalog, table.collect) == {"list": 1, "get": 6, "delete": 1}
    assert asked(place.open(), lambda: None) == {}
    cold = place.open()
    # The marker, the settings, the mark, the bundle.
    assert asked(cold, lambda: cold.table("t").head()) == {"list": 1, "get": 4}


@pytest.mark.parametrize(("commits", "bundle_every", "writers"), [(10, 2, 1), (100, 4, 3), (1000, 8, 2)])
def test_cold_head_after_many_commits_with_upkeep(
    place: Place, commits: int, bundle_every: int, writers: int
) -> None:
    if commits > 100 and not place.url.startswith("memory"):
        pytest.skip("the count of requests does not depend on the store; forcing files to disk takes long")
    place.open().create_table("t", SCHEMA)
    handles = [place.open(upkeep="synchronous", bundle_every=bundle_every) for _ in range(writers)]
    for n in range(commits):
        handles[n % writers].commit("t", few(1, n))
    cold = place.open()
    with measured(cold) as cost:
        head = cold.table("t").head()
    assert head.version == commits
    files = [item.name for item in cold.store.list("tables/t/main/")]
    assert cost.list == place.pages(len(files))
    uncovered = _uncovered(cold, files)
    # One commit in `bundle_every` bundles, by chance: this many without one come once in 10 million runs.
    assert uncovered <= 16 * bundle_every
    assert cost.get <= 8 + 2 * math.log(commits, 8) + uncovered
    assert cost.put == cost.delete == cost.head == 0


def test_cold_head_after_upkeep_that_collects(place: Place) -> None:
    if not place.url.startswith("memory"):
        pytest.skip("as above")
    place.open().create_table("t", SCHEMA)
    catalog = place.open(upkeep="synchronous", bundle_every=2, grace_seconds=0)
    for n in range(300):
        catalog.commit("t", few(1, n))
    assert catalog.store.requests.snapshot().delete > 0  # it collected as it went
    catalog.table("t").collect()  # how long ago it last did so is chance: bring it up to date
    files = [item.name for item in catalog.store.list("tables/t/main/")]
    assert len(files) < 100
    cold = place.open()
    with measured(cold) as cost:
        assert cold.table("t").head().row_count == 300
    assert cost.get <= 8 + 2 * math.log(300, 8) + _uncovered(cold, files)


def test_a_table_that_took_part_in_a_transaction_is_one_page_more(place: Place) -> None:
    catalog = place.open()
    for name in ("t", "u", "alone"):
        catalog.create_table(name, SCHEMA).append(few())
    with catalog.transaction() as both:
        both.append("t", few(start=10))
        both.append("u", few(start=10))
    table = catalog.table("t")
    table.head()
    assert asked(catalog, table.head) == {"list": 2}
    alone = catalog.table("alone").head
    assert asked(catalog, alone) == {"list": 1, "get": 1}  # there might be a mark: asked for once
    assert asked(catalog, alone) == {"list": 1}
    cold = place.open()
    # The marker, the settings, the mark, a version, the transaction.
    assert asked(cold, lambda: cold.table("t").head()) == {"list": 2, "get": 5}
    assert asked(cold, cold.table("t").head) == {"list": 2}
    table.checkpoint()
    bundled = place.open()
    assert asked(bundled, lambda: bundled.table("t").head()) == {"list": 2, "get": 4}


def test_a_page_for_every_page_limit_files(place: Place) -> None:
    """With small pages; `tests/s3` shows it with S3's own thousand."""
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    for n in range(25):
        table.append(few(1, n))
    catalog.store.page_limit = 10
    assert asked(catalog, table.head) == {"list": 3, "get": 1}  # its own are at hand; the mark is asked for
    assert asked(catalog, table.head) == {"list": 3}
    table.checkpoint()
    cold = place.open()
    cold.store.page_limit = 10
    assert asked(cold, lambda: cold.table("t").head()) == {"list": 3, "get": 4}


def test_schema_properties_history_conflicts_cost_a_refresh(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    table.head()
    for look in (
        lambda: table.schema,
        lambda: table.properties,
        lambda: list(table.history()),
        table.conflicts,
    ):
        assert asked(catalog, look) == {"list": 1}


def _uncovered(catalog: Catalog, files: list[str]) -> int:
    """Version files that no bundle in the log covers."""
    state = catalog.table("t")._session.state
    versions = [name for name in files if is_version(name)]
    covered: set[str] = set()
    for name in files:
        if name.endswith(".b"):
            covered.update(state.covered((name, catalog.store.get(name)), versions))
    return len(versions) - len(covered)


def test_a_table_is_opened_with_three_gets_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog's marker, the table's settings, and whether its log has the mark of transactions, in one
    round trip; the next table is two GETs."""
    made = place.open()
    for name in ("t", "u"):
        made.create_table(name, SCHEMA)
    catalog = place.open()
    rounds: list[int] = []
    get_many = catalog.store.get_many

    def counted(ranges: Sequence[Range]) -> Answers:
        rounds.append(len(ranges))
        return get_many(ranges)

    monkeypatch.setattr(catalog.store, "get_many", counted)
    assert asked(catalog, lambda: catalog.table("t")) == {"get": 3}
    assert rounds == [3]
    assert asked(catalog, lambda: catalog.table("u")) == {"get": 2}
    assert rounds == [3, 2]
    assert asked(place.open(), lambda: None) == {}
    other = place.open()
    assert asked(other, lambda: "nothing" in other) == {"get": 3, "list": 1}

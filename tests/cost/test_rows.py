"""Changing rows: requests, counted."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, Table
from tests.catalog.lakes import lake, objects
from tests.cost.places import SCHEMA, Place, asked, few, many, measured


def stored(place: Place, chunks: int = 2) -> tuple[Catalog, Table]:
    """Chunks of 20,000 rows in segments of their own, n rising."""
    catalog = place.open(chunk_rows=65_536)
    table = catalog.create_table("t", SCHEMA)
    for number in range(chunks):
        table.append(many(start=20_000 * number))
    table.head()
    return catalog, table


def test_update(place: Place) -> None:
    catalog, table = stored(place)
    with measured(catalog) as cost:
        table.update("n < 3", {"x": 0.5})
    # The second chunk is ruled out; of the first, the footer and column n.
    assert cost.requests == {"list": 1, "get": 2, "put": 1}
    # Once per handle: the next one has that footer, in a transaction and for a delete, too.
    assert asked(catalog, lambda: table.update("n = 5", {"x": 0.5})) == {"list": 1, "get": 1, "put": 1}
    assert asked(catalog, lambda: table.delete("n = 9")) == {"list": 1, "get": 1, "put": 1}
    with catalog.transaction(["t"]) as tx:
        assert asked(catalog, lambda: tx.update("t", "n = 5", {"x": 0.5})) == {"get": 1}
    with measured(catalog) as cost:
        table.update("n < 15000", {"text": "changed", "x": 0.25})
    assert cost.requests["put"] in (1, 2)


def test_update_rows_reads_no_row(place: Place) -> None:
    catalog, table = stored(place)
    assert asked(catalog, lambda: table.update_rows(5, 7, {"x": [1.0, 2.0]})) == {"list": 1, "put": 1}


def test_delete(place: Place) -> None:
    catalog, table = stored(place)
    assert asked(catalog, lambda: table.delete("n >= 20000")) == {"list": 1, "put": 1}  # statistics decide
    table.head()
    assert asked(catalog, lambda: table.delete("n = 7")) == {"list": 1, "get": 2, "put": 1}


def test_write(place: Place) -> None:
    catalog, table = stored(place, chunks=1)
    rows = many()
    assert asked(catalog, lambda: table.write(rows)) == {"list": 1, "put": 1}  # equal hashes: nothing is read
    table.head()
    changed = rows.set_column(2, "x", pa.chunked_array([[-1.0], rows["x"].combine_chunks()[1:]]))
    # The footer tells that one column differs; it is read; one cell is stored.
    assert asked(catalog, lambda: table.write(changed)) == {"list": 1, "get": 2, "put": 1}


def test_compact(place: Place) -> None:
    catalog = place.open(chunk_rows=65_536)
    table = catalog.create_table("t", SCHEMA)
    for number in range(4):
        table.append(few(start=3 * number))
    table.head()
    assert asked(catalog, table.compact) == {"list": 1, "put": 1}  # few enough to be inlined again
    table.head()
    table.append(many())
    table.append(many(start=20_000))
    table.head()
    # Both are small for chunks of 64k rows, and are read whole; a segment and a version.
    assert asked(catalog, lambda: table.compact(rows=200_000)) == {"list": 1, "get": 2, "put": 2}


def test_cluster(place: Place) -> None:
    catalog = place.open(chunk_rows=20_000)
    table = catalog.create_table("t", SCHEMA)
    for number in range(2):
        table.append(many().take(pa.array(range(number, 20_000, 2))))
    table.head()
    # Bounds overlap, so column n is looked at, as far as it is in order: the first chunk's footer and column,
    # and those of the second. Then both are read, written as one segment and a version, which is looked at.
    assert asked(catalog, lambda: table.compact(cluster_by=["n"])) == {"list": 2, "get": 4 + 2, "put": 2}
    assert asked(catalog, lambda: table.compact(cluster_by=["n"])) == {"list": 1}


def test_changes(place: Place) -> None:
    catalog, table = stored(place)
    start = table.head().snapshot
    table.update("n = 20001", {"x": 0.5})
    table.head()
    with measured(catalog) as cost:
        changes = table.changes(start)
        assert changes.touched == 1
    assert cost.requests == {"list": 2}
    with measured(catalog) as cost:
        assert changes.to_table().num_rows == 2
    # The segment with the changed row, once for each side.
    assert cost.requests == {"get": 2}


def _updated(table: Table) -> None:
    table.update(None, {"x": pc.field("x") * 2})


def _updated_by_number(table: Table) -> None:
    table.update_rows(0, table.head().row_count, {"x": [0.5] * table.head().row_count})


def _deleted(table: Table) -> None:
    table.delete("n >= 0 and text = 'a'")


def _compacted(table: Table) -> None:
    table.update("n >= 0 and text = 'a'", {"x": 1.0})
    table.compact()


def _restored(table: Table) -> None:
    start = table.head().snapshot
    table.update(None, {"x": 1.0})
    table.restore(start)


ROWS_OF_A_CHUNK = 16


def bytes_of_versions(chunks: int, change: Callable[[Table], None], *, keyed: bool) -> int:
    """What a change of rows in so many chunks puts into version files."""
    catalog = lake(chunk_rows=ROWS_OF_A_CHUNK, inline_bytes=0)
    table = catalog.create_table("t", SCHEMA, key=["n"] if keyed else ())
    count = ROWS_OF_A_CHUNK * chunks
    table.append(pa.table({"n": range(count), "text": ["a", "b"] * (count // 2), "x": [0.0] * count}))
    before = objects(catalog)
    change(table)
    return sum(size for name, size in objects(catalog).items() if name not in before and name.endswith(".v"))


@pytest.mark.parametrize(
    ("change", "keyed"),
    [
        *(
            (change, keyed)
            for change in (_updated, _deleted, _compacted, _restored)
            for keyed in (False, True)
        ),
        (_updated_by_number, False),
    ],
)
def test_bytes_of_a_version_per_chunk_it_touches_do_not_grow(
    change: Callable[[Table], None], keyed: bool
) -> None:
    few, many = (bytes_of_versions(chunks, change, keyed=keyed) / chunks for chunks in (32, 256))
    assert many < 1.1 * few

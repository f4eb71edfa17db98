"""`stats`: figures that can be counted by hand, and what they advise is what upkeep then does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, Table
from tests.catalog.lakes import another, lake, objects
from tests.cost.places import asked

SCHEMA = pa.schema([("n", pa.int64())])


def numbers(start: int, count: int) -> pa.Table:
    return pa.table({"n": range(start, start + count)}, schema=SCHEMA)


def stored(**options: Any) -> tuple[Catalog, Table]:
    catalog = lake(inline_bytes=0, chunk_rows=100, grace_seconds=0, **options)
    return catalog, catalog.create_table("t", SCHEMA)


def size(catalog: Catalog) -> int:
    return sum(size for name, size in objects(catalog).items() if name.endswith(".parquet"))


def test_an_empty_table() -> None:
    _, table = stored()
    found = table.stats()
    assert (found.rows, found.chunks, found.stored_bytes, found.dedup_ratio) == (0, 0, 0, 1.0)
    assert found.gains == []
    assert str(found).startswith("t: 0 rows in 0 chunks, 0 versions\n")


def test_bytes_and_sharing() -> None:
    catalog, table = stored()
    table.append(numbers(0, 1000))
    first = table.stats()
    assert (first.rows, first.chunks, first.versions, first.segments) == (1000, 10, 1, 1)
    assert first.logical_bytes == first.history_bytes == 8000
    assert first.stored_bytes == size(catalog)
    assert (first.past_bytes, first.dedup_ratio, first.overlay_share) == (0, 1.0, 0.0)
    table.overwrite(pa.concat_tables([numbers(0, 900), numbers(5000, 100)]))
    again = table.stats()
    assert again.history_bytes == 16_000
    assert again.dedup_ratio == 20 / 11  # twice ten chunks, of which nine are the same
    assert again.past_bytes == 0  # the old segment still holds nine of ten
    assert again.stored_bytes == size(catalog)
    table.overwrite(numbers(9000, 100))
    assert table.stats().past_bytes == again.stored_bytes
    assert any("expiring history" in gain for gain in table.stats().gains)


def test_small_chunks_and_loose_files_are_what_upkeep_mends() -> None:
    _, table = stored()
    table.append(numbers(0, 500))
    for start in range(6):
        table.append(numbers(1000 + start, 10))
    found = table.stats()
    assert (found.small_chunks, found.chunks) == (6, 11)
    assert found.small_chunk_share == 6 / 11
    assert (found.log_files, found.loose_files) == (7, 7)
    assert (found.compactable, found.compacted) == (6, 1)
    assert len(found.gains) == 2
    assert "compact(): 6 chunks become about 1" in str(found)
    result = table.compact()
    assert (result.chunks_before, result.chunks_after) == (6, 1)
    table.checkpoint()
    table.collect()
    after = table.stats()
    assert (after.small_chunks, after.compactable, after.log_files, after.loose_files) == (0, 0, 1, 0)
    assert after.rows == found.rows


def test_overlays_are_counted_until_they_are_folded() -> None:
    _, table = stored()
    table.append(pa.table({"n": np.arange(1000), "x": np.zeros(1000)}), evolve=True)
    table.update("n >= 500", {"x": 1.0})
    found = table.stats()
    assert 0.1 < found.overlay_share < 0.4
    assert found.compactable >= 5
    table.compact()
    assert table.stats().overlay_share == 0.0


def test_a_catalog() -> None:
    catalog, table = stored()
    table.append(numbers(0, 100))
    catalog.create_table("empty", SCHEMA)
    found = catalog.stats()
    assert [each.table for each in found.tables] == ["empty", "t"]
    assert (found.rows, found.stored_bytes, found.logical_bytes) == (100, size(catalog), 800)
    assert str(found).splitlines()[-1] == f"2 tables: 100 rows, {size(catalog):,} bytes stored"
    keyed = catalog.create_table("u", SCHEMA, key=["n"])
    for _ in range(2):
        keyed.upsert([{"n": 1}])
    *_, last, total = str(catalog.stats()).splitlines()
    assert last.split()[:5] == ["u", "up", "to", "2", "rows"]
    assert total.startswith("3 tables: up to 102 rows, ")


def test_a_keyed_table_says_that_rows_may_share_a_key() -> None:
    table = lake().create_table("t", pa.schema([("n", pa.int64())]), key=["n"])
    for _ in range(2):
        table.upsert([{"n": 1}])
    assert str(table.stats()).startswith("t: up to 2 rows in 2 chunks")
    assert "up to 2 rows" in repr(table.head())
    assert table.scan().count() == 1


@pytest.mark.parametrize("grace", [0, 3600])
@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_right_after_upkeep_there_is_none_to_advise(grace: float, mode: str) -> None:
    """What a bundle has stays for a grace period, about which nothing can be done."""
    catalog = lake(inline_bytes=0, chunk_rows=100, grace_seconds=grace)
    table = catalog.create_table("t", SCHEMA, mode=mode)
    for start in range(6):
        table.append(numbers(1000 + start, 10))
    table.compact()
    waiting = table.stats()
    assert waiting.waiting_files == waiting.loose_files == 7
    assert f"checkpoint() and collect(): {waiting.waiting_files} files" in waiting.gains[0]
    table.checkpoint()
    bundled = table.stats()
    assert (bundled.log_files, bundled.loose_files, bundled.waiting_files) == (8, 7, 0)
    assert bundled.collectable_files == (0 if grace else 7)
    assert any("collect(): 7 files go" in gain for gain in bundled.gains) == (not grace)
    result = table.collect()
    assert result.versions + result.bundles == bundled.collectable_files
    after = another(catalog, grace_seconds=grace).table("t").stats()
    assert not any("collect" in gain or "compact" in gain for gain in after.gains)
    assert asked(catalog, table.stats).get("get", 0) == (0 if after.log_files == 1 else 1)
    table.append(numbers(0, 1))
    table.append(numbers(1, 1))
    assert table.stats().waiting_files == 2


def test_bundles_that_another_stands_for_are_collectable() -> None:
    _, table = stored()
    for start in range(4):
        table.append(numbers(start, 1))
        table.checkpoint()
    found = table.stats()
    result = table.collect()
    assert result.bundles
    assert found.collectable_files == result.versions + result.bundles
    assert table.stats().gains == [gain for gain in table.stats().gains if "collect" not in gain]


def test_a_keyed_table_is_compacted_in_one_call() -> None:
    """What overlapped is small once it is merged, and lies beside what did not."""
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t", pa.schema([("n", pa.int64()), ("s", pa.string())]), key=["n"])
    for start in range(0, 100, 10):
        table.append([{"n": start + each, "s": "x"} for each in range(10)])
    table.upsert([{"n": 1, "s": "new"}])
    table.delete(keys=[{"n": 2}])
    before = table.read()
    assert table.stats().compactable == 11
    table.compact()
    found = table.stats()
    assert (found.chunks, found.compactable) == (1, 0)
    assert table.compact().versions == 0
    assert table.read().equals(before)


def test_bytes_of_the_past_are_what_expiry_and_collection_free() -> None:
    """To the byte: what `stats` says an expiry would free is what is gone after it and two collections."""
    catalog = lake(inline_bytes=0, chunk_rows=100, grace_seconds=0, max_commit_delay_seconds=0)
    table = catalog.create_table("t", SCHEMA)
    table.append(numbers(0, 1000))
    table.append(numbers(1000, 1000))
    table.overwrite(numbers(5000, 300))
    before, past = size(catalog), table.stats().past_bytes
    assert 0 < past < before
    table.expire(older_than=timedelta(0))
    deleted = 0
    for _ in range(2):
        planned, done = catalog.collect(dry_run=True, grace=0), catalog.collect(grace=0)
        assert [(item.name, item.fate) for item in planned.garbage] == [
            (item.name, item.fate) for item in done.garbage
        ]
        gone = [item for item in done.garbage if item.fate == "deleted" and item.name.endswith(".parquet")]
        deleted += sum(item.size for item in gone)
    assert deleted == before - size(catalog) == past
    assert table.stats().past_bytes == 0
    assert table.stats().stored_bytes == size(catalog)


@pytest.mark.parametrize("key", [[], ["n"]])
def test_chunks_that_compaction_leaves_are_told_with_the_way_out(key: list[str]) -> None:
    """One append by somebody who did not know of a drop, and nothing that has the column is written anew."""
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("n", pa.int64()), ("x", pa.int64())]), key=key)
    late = another(catalog).table("t")
    table.append([{"n": 0, "x": 0}])
    late.read()
    table.drop_column("x")
    late.append([{"n": 1, "x": 1}])
    table.append([{"n": 2, "x": 2}])
    found = table.stats()
    assert (found.left_chunks, found.left_columns, found.compactable) == (3, ("x",), 0)
    assert "3 chunks by compact(), for others wrote to 'x' while it was added or dropped" in str(found)
    assert table.compact().chunks_before == 0
    rows = table.read().to_pylist()
    table.add_column("y", pa.int64())
    table.update("true", {"y": pc.field("x")})
    table.drop_column("x")
    assert table.stats().left_chunks == 0
    table.compact()
    table.rename_column("y", "x")
    assert table.read().to_pylist() == rows == [{"n": n, "x": n or None} for n in range(3)]
    assert len(table.head().chunks) == 1

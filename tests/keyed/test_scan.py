"""What a scan of a keyed table reads, merges, skips and holds in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.scan import merge_read
from crdtcat.scan.merge import Part
from tests.cost.places import asked, measured

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("w", pa.int64())])


def numbers(start: int, stop: int, v: int = 0, step: int = 1) -> pa.Table:
    ids = range(start, stop, step)
    return pa.table({"id": ids, "v": [v] * len(ids)}, schema=pa.schema(list(SCHEMA)[:2]))


def keyed(folder: Path, **options: Any) -> tuple[Catalog, Table]:
    catalog = Catalog(folder, **{"upkeep": False, "inline_bytes": 0, "chunk_rows": 100, **options})
    return catalog, catalog.create_table("t", SCHEMA, key=["id"])


def merged(table: Table, **how: Any) -> tuple[int, int, int]:
    """Chunks that pass straight through, chunks that are merged, and in how many groups."""
    plan = table.scan(**how).plan.merge
    assert plan is not None
    return int(plan.straight.sum()), sum(len(group.chunks) for group in plan.groups), len(plan.groups)


def test_chunks_whose_keys_do_not_overlap_are_not_merged(tmp_path: Path) -> None:
    _, table = keyed(tmp_path)
    table.upsert(numbers(0, 1000))
    table.upsert(numbers(2000, 3000))
    assert merged(table) == (20, 0, 0)
    assert "20 chunks pass straight through, 0 are merged by key in 0 groups" in table.scan().explain()
    table.upsert(numbers(150, 160, v=1))
    table.upsert(numbers(2990, 3050, v=1))
    assert merged(table) == (18, 4, 2)
    assert "18 chunks pass straight through, 4 are merged by key in 2 groups" in table.scan().explain()
    assert "columns: id, v, w (3 of 3 read)" in table.scan().explain()
    assert "columns: v, and id to merge by (2 of 3 read)" in table.scan(["v"]).explain()
    assert "columns: v, and id for the filter (2 of 3 read)" in table.scan(["v"], "id < 999").explain()
    assert "columns: w, and v for the filter, and id to merge by (3" in table.scan(["w"], "v = 1").explain()
    found = table.read()
    assert found["id"].to_pylist() == [*range(1000), *range(2000, 3050)]
    assert [at for at, v in zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True) if v] == [
        *range(150, 160),
        *range(2990, 3050),
    ]


def test_deletes_touch_only_what_is_older_and_near(tmp_path: Path) -> None:
    _, table = keyed(tmp_path)
    table.delete(keys=range(0, 1000, 7))
    table.upsert(numbers(0, 1000))
    assert merged(table) == (10, 0, 0)
    table.delete(keys=[250, 255])
    assert merged(table) == (9, 1, 1)
    assert table.scan().count() == 998


def test_overwritten_chunks_are_read_only_where_something_older_survived(tmp_path: Path) -> None:
    catalog, table = keyed(tmp_path)
    table.upsert(numbers(0, 1000))
    late = Catalog(tmp_path, upkeep=False, inline_bytes=0).table("t")
    table.overwrite(numbers(0, 500, v=1))
    assert merged(table) == (5, 0, 0)
    late.upsert(numbers(300, 310, v=2))
    assert merged(table) == (4, 2, 1)
    with measured(catalog) as cost:
        assert table.read(filter="id < 300").num_rows == 300
    assert cost.get <= 1 + 1 + 3  # what was committed, a footer, three chunks


def test_a_count_reads_only_keys_of_chunks_that_overlap(tmp_path: Path) -> None:
    catalog, table = keyed(tmp_path)
    table.upsert(numbers(0, 1000))
    table.head()
    assert asked(catalog, table.scan().count) == {}
    table.upsert(numbers(90, 110))
    table.head()
    scan = table.scan()
    assert scan.count() == 1000
    assert asked(catalog, scan.count)["get"] == 3  # the key columns of two chunks and of the new one


def test_pruning_by_key_is_free_and_by_other_columns_is_for_whole_groups(tmp_path: Path) -> None:
    _, table = keyed(tmp_path)
    for start in range(0, 1000, 100):
        table.upsert(numbers(start, start + 100, v=start))
    assert table.scan(filter="id between 310 and 320").plan.pruned == 9
    assert table.scan(filter="v = 300").plan.pruned == 9
    table.upsert(numbers(380, 420, v=7))
    assert table.scan(filter="id between 310 and 320").plan.pruned == 10
    assert table.scan(filter="id between 390 and 395").plan.pruned == 9
    # What was 300 in one chunk may be 7 by another: the three stand or fall together.
    assert table.scan(filter="v = 300").plan.pruned == 8
    assert table.read(filter="v = 300").num_rows == 80
    assert table.read(filter="v = 400 or v = 7").num_rows == 120
    assert table.read(filter="w is null and v < 100").num_rows == 100 + 40


def test_a_wide_chunk_over_many_is_merged_in_bounded_memory(tmp_path: Path) -> None:
    _, table = keyed(tmp_path, chunk_rows=1000)
    table.upsert(numbers(0, 50_000))
    table.upsert(numbers(0, 50_000, v=1, step=100))
    table.delete(keys=range(50, 50_000, 100))
    held: list[int] = []
    real = merge_read._given_out

    def watched(parts: list[Part], limit: bytes | None) -> Any:
        held.append(sum(map(len, parts)))
        return real(parts, limit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_read, "STEP_ROWS", 2000)
        patch.setattr(merge_read, "LEAST_STEP", 100)
        patch.setattr(merge_read, "_given_out", watched)
        sizes = [batch.num_rows for batch in table.scan().to_reader()]
    assert sum(sizes) == 49_500
    assert max(sizes) <= 4000
    assert max(held) <= 500 + 500 + 5000  # both wide chunks, and a few of the others


def test_a_scan_is_pinned_and_batches_rise_by_key(tmp_path: Path) -> None:
    _, table = keyed(tmp_path)
    table.upsert(numbers(0, 300))
    table.upsert(numbers(50, 250, v=1))
    scan = table.scan(["id"])
    table.delete(keys=range(300))
    ids = [at for batch in scan for at in batch.column(0).to_pylist()]
    assert ids == list(range(300))
    assert table.read().num_rows == 0

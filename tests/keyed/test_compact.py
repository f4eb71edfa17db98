"""Compaction of keyed tables, by real verbs: nothing that can be read changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.maintenance.compact_keyed import KeyedCompactor, keyed_groups

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.list_(pa.string()))])


def lake(folder: Path, **options: Any) -> Catalog:
    return Catalog(folder, **{"upkeep": False, "inline_bytes": 0, **options})


def changed(folder: Path) -> Table:
    """Upserts that overlap, in whole and in part, and deletes."""
    table = lake(folder).create_table("t", SCHEMA, key=["id"])
    for start in range(0, 60, 5):
        table.upsert([{"id": at, "a": start, "b": [str(at)]} for at in range(start, start + 8)])
        table.upsert([{"id": at, "a": -at} for at in range(start, start + 3)])
    table.delete(keys=[4, 5, 6, 33])
    table.upsert([{"id": 5, "b": None}])
    return table


def merged_chunks(table: Table) -> int:
    plan = table.scan().plan.merge
    assert plan is not None
    return int((~plan.straight).sum())


def test_after_a_compaction_the_same_rows_pass_straight_through(tmp_path: Path) -> None:
    table = changed(tmp_path)
    rows, history, snapshot = table.read(), list(table.history()), table.head().snapshot.id
    assert merged_chunks(table) > 10
    done = table.compact()
    assert (done.chunks_after, done.rows) == (1, rows.num_rows)
    assert merged_chunks(table) == 0
    assert table.read().equals(rows)
    assert table.scan().count() == table.head().row_count == rows.num_rows
    assert list(table.history()) == history
    assert table.head().snapshot.id == snapshot
    assert table.compact().versions == 0


def test_late_upserts_and_deletes_meet_folded_cells_as_they_would_have_met_the_originals(
    tmp_path: Path,
) -> None:
    # Two tables with the same commits, of which one is compacted in between.
    found = []
    for name in ("left", "right"):
        table = changed(tmp_path / name)
        before = lake(tmp_path / name).table("t")
        before.upsert([{"id": 12, "a": 7}])
        if name == "right":
            assert table.compact().versions
        before.delete(keys=[40])
        before.upsert([{"id": 12, "b": ["late"]}, {"id": 4, "a": 1}, {"id": 40, "a": 2}])
        table.upsert([{"id": 100}])
        found.append(table.read().to_pylist())
    assert found[0] == found[1]


def test_an_overwrite_after_a_compaction_deletes_what_was_compacted(tmp_path: Path) -> None:
    table = changed(tmp_path)
    table.compact()
    table.upsert([{"id": 3, "a": 3}])
    table.overwrite([{"id": 2, "a": 2}])
    assert table.read().to_pylist() == [{"id": 2, "a": 2, "b": None}]
    assert table.compact().versions == 0
    table.upsert([{"id": 1, "a": 1}])
    assert table.read(["id"])["id"].to_pylist() == [1, 2]


def test_compactions_that_knew_nothing_of_each_other(tmp_path: Path) -> None:
    table = changed(tmp_path)
    rows, head = table.read().to_pylist(), table.head()
    assert head.keyed is not None
    for size in (100, 7):  # both from the same head
        work = KeyedCompactor(lake(tmp_path).table("t")._session, head, head.keyed, size)
        for group in keyed_groups(head, head.keyed, least=size, target=size):
            work.write(group)
    assert merged_chunks(table) > 1
    assert table.read().to_pylist() == rows
    assert table.compact().versions == 1
    assert table.read().to_pylist() == rows
    assert merged_chunks(table) == 0


def test_small_chunks_become_one_and_partitions_stay_apart(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.string()), ("id", pa.int64()), ("a", pa.int64())])
    table = lake(tmp_path).create_table("t", schema, key=["p", "id"], partition_by=["p"])
    for at in range(10):
        table.upsert([{"p": part, "id": at, "a": at} for part in ("x", "y")])
    rows = table.read().to_pylist()
    done = table.compact()
    assert (done.chunks_before, done.chunks_after) == (20, 2)
    assert table.read().to_pylist() == rows
    table.overwrite([], where="p = 'x'")
    assert table.read().to_pylist() == [row for row in rows if row["p"] == "y"]


def test_what_was_compacted_is_bundled_verified_and_read_by_newcomers(tmp_path: Path) -> None:
    table = changed(tmp_path)
    rows = table.read().to_pylist()
    table.compact()
    table.checkpoint()
    fresh = lake(tmp_path).table("t")
    assert fresh.read().to_pylist() == rows
    matching = [row for row in rows if row["a"] is not None and row["a"] < 0 and row["id"] > 20]
    assert fresh.read(filter="a < 0 and id > 20").to_pylist() == matching
    assert fresh.verify("content").ok


@pytest.mark.parametrize(
    ("names", "key", "partition_by", "parts"),
    [("pnx", ["n", "p"], ["p"], 2), ("nx", ["n"], ["bucket(4, n)"], 4)],
    ids=["turns", "buckets"],
)
def test_partitions_that_take_turns_are_compacted_each_by_itself(
    tmp_path: Path, names: str, key: list[str], partition_by: list[str], parts: int
) -> None:
    """Keys rise from commit to commit, and each has some of every partition: as many chunks are left."""
    schema = pa.schema([(name, pa.int64()) for name in names])
    table = lake(tmp_path).create_table("t", schema, key=key, partition_by=partition_by)
    for number in range(20):
        made = [{"p": at % 2, "n": 8 * number + at, "x": number} for at in range(8)]
        table.upsert([{name: row[name] for name in names} for row in made])
    before, chunks = table.read(), len(table.head().chunks)
    assert chunks > 30
    assert f"compact(): {chunks} chunks become about {parts}" in str(table.stats())
    assert table.compact().chunks_after == parts
    assert table.read().equals(before)
    assert table.compact().versions == 0
    table.delete(keys=[tuple(before.slice(3, 1).to_pylist()[0][name] for name in key)])
    table.upsert([{name: 9 if name == "x" else before[name][5].as_py() for name in names}])
    expected = table.read()
    while table.compact().versions:
        assert table.read().equals(expected)
    assert len(table.head().chunks) == parts
    assert table.read(filter="n = 3").num_rows == 0
    assert table.verify("content").ok


@pytest.mark.parametrize("chunk_rows", [4, 10])
def test_chunks_that_overlap_those_of_other_partitions_only_are_left_alone(
    tmp_path: Path, chunk_rows: int
) -> None:
    """Each partition has keys from all over, in full chunks that share no key."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())])
    catalog = lake(tmp_path, chunk_rows=chunk_rows)
    table = catalog.create_table("t", schema, key=["id"], partition_by=["bucket(4, id)"])
    table.append({"id": range(160), "x": [0] * 160})
    assert table.compact().versions == 0
    assert "compact()" not in str(table.stats())
    table.upsert([{"id": 77, "x": 1}])
    table.delete(keys=[33])
    expected = table.read()
    done = table.compact()
    assert done.chunks_before == 3, "a chunk and what lies over it, and the one that a key is gone from"
    assert done.rows <= 2 * chunk_rows
    assert table.read().equals(expected)
    assert table.compact().versions == 0

"""The change feed of keyed tables: exact between any two snapshots, and reads what may have changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from tests.catalog.lakes import another, lake

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int64())])


def life(rng: random.Random, catalog: Catalog) -> Iterator[Table]:
    """A table whose keys are written, deleted, overwritten, compacted and restored by two handles."""
    handles = catalog.table("t"), another(catalog, inline_bytes=0, chunk_rows=8).table("t")
    first = handles[0].head()
    for step in range(10):
        table, at = rng.choice(handles), rng.randrange(60)
        names = table.schema.names
        some = [{"id": n, "part": rng.choice("ab"), "n": step} for n in range(at, at + 5)]
        some = [{name: row[name] for name in names} for row in some]
        keys = [{"id": row["id"], "part": row["part"]} for row in some]
        match rng.choice(
            ["upsert", "upsert", "some", "where", "keys", "overwrite", "compact", "back", "column"]
        ):
            case "upsert":
                table.upsert(some, key=rng.choice([None, f"key-{rng.randrange(2)}"]))
            case "some":
                table.upsert(keys)
            case "where":
                table.delete(f"id between {at} and {at + 3}")
            case "keys":
                table.delete(keys=keys)
            case "overwrite":
                table.overwrite([{**row, "part": "a"} for row in some], where="part = 'a'")
            case "compact":
                table.compact()
            case "back":
                table.restore(first)
            case "column" if "n" in table.schema.names:
                table.drop_column("n")
            case "column":
                table.add_column("n", pa.int64())
        yield table


def rows_of(table: pa.Table) -> dict[Any, dict[str, Any]]:
    return {(row["id"], row["part"]): row for row in table.to_pylist()}


@pytest.mark.parametrize("seed", range(6))
def test_any_two_snapshots(seed: int) -> None:
    rng = random.Random(seed)
    catalog = lake(chunk_rows=8, inline_bytes=rng.choice([0, 65_536]), upkeep=False)
    start = catalog.create_table("t", SCHEMA, key=["id", "part"], partition_by=["part"])
    start.upsert([{"id": n, "part": "a", "n": n} for n in range(60)])
    snapshots = [start.head().snapshot, *(table.head().snapshot for table in life(rng, catalog))]
    for _ in range(12):
        old, new = rng.choice(snapshots), rng.choice(snapshots)
        feed = start.changes(old, new)
        names = feed.schema.names[1:]
        there = {at: {n: row.get(n) for n in names} for at, row in rows_of(start.read(at=old)).items()}
        for row in feed.to_table().to_pylist():
            kind, at = row.pop("_change"), (row["id"], row["part"])
            if kind in ("delete", "update_before"):
                assert there.pop(at) == row
            else:
                assert there.setdefault(at, row) is row
        assert there == rows_of(start.read(at=new))


def test_only_keys_beside_new_ones_are_read() -> None:
    catalog = lake(chunk_rows=100, inline_bytes=0, upkeep=False)
    table = catalog.create_table("t", SCHEMA, key=["id"])
    table.upsert(pa.table({"id": range(10_000), "part": ["p"] * 10_000, "n": range(10_000)}))
    seen = table.head().snapshot
    table.upsert([{"id": 150, "part": "q", "n": 0}])
    table.delete(keys=[9_950])
    table.read()  # footers, and the log
    before = catalog.store.requests.snapshot()
    feed = table.changes(seen)
    assert (feed.inserted, feed.touched, feed.deleted) == (0, 1, 1)
    assert [row["id"] for row in feed.to_table().to_pylist()] == [9_950, 150, 150]
    assert catalog.store.requests.since(before).bytes_in < table.stats().stored_bytes / 10

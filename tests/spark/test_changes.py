"""The change feed: applied to the earlier snapshot it gives the later one, whatever happened in between."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Head, Table
from crdtcat.clock import HybridClock
from crdtcat.clock.hlc import wall_ms
from crdtcat.spark.changes import Changes, changes_between
from tests.rows.late import held_back

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


def between(lake: Catalog, before: Head, after: Head) -> Changes:
    found = changes_between(lake, before, after, branch="main", columns=None, filter=None, with_columns=True)
    assert isinstance(found, Changes)
    return found


def rows(changes: Changes) -> list[dict[str, Any]]:
    return [
        row for share in changes.shares(None) for batch in changes.batches(share) for row in batch.to_pylist()
    ]


def kinds(changes: Changes) -> list[tuple[str, int]]:
    return sorted((row["_change_type"], row["id"]) for row in rows(changes))


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("seed", range(25))
def test_applied_to_the_earlier_snapshot_it_gives_the_later(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lake = Catalog(tmp_path, chunk_rows=16, inline_bytes=rng.choice([0, 64 * 1024]), upkeep=False)
    one = lake.create_table("t", SCHEMA)
    two = Catalog(tmp_path, chunk_rows=16, upkeep=False).table("t")
    one.append([{"id": n, "k": n % 5} for n in range(40)])
    heads = [one.head()]
    for step in range(14):
        table: Table = rng.choice([one, two])
        where = f"k = {rng.randrange(5)}"
        action = rng.choice(
            ["append", "append", "update", "delete", "compact", "checkpoint", "overwrite", "restore"]
        )
        if action == "append":
            key = rng.choice([None, f"key-{rng.randrange(3)}"])
            table.append([{"id": 1000 + step, "k": n} for n in range(5)], key=key)
        elif action == "update":
            table.update(where, {"id": -step})
        elif action == "delete":
            table.delete(where)
        elif action == "compact":
            table.compact(rows=30)
        elif action == "checkpoint":
            table.checkpoint()
        elif rng.random() < 0.3:
            table.overwrite([{"id": 5, "k": 5}])
        elif rng.random() < 0.3:
            table.restore(rng.choice(heads).snapshot)
        heads.append(one.head())
    authors = {str(version.id) for version in heads[-1].history} | {str(v.id) for v in heads[-1].void}
    for _ in range(6):
        first, last = sorted(rng.sample(range(len(heads)), 2))
        before, after = one.read(at=heads[first].snapshot), one.read(at=heads[last].snapshot)
        have = counted(before)
        for row in rows(between(lake, heads[first], heads[last])):
            kind, values = row["_change_type"], (row["id"], row["k"])
            have[values] += 1 if kind in ("insert", "update_after") else -1
            assert row["_version"] in authors
        assert +have == counted(after)
        assert not -have


def test_who_did_what(tmp_path: Path) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    table = lake.create_table("t", SCHEMA)
    table.append([{"id": n, "k": n} for n in range(6)])
    start = table.head()
    updated = table.update("k = 1", {"id": 100})
    deleted = table.delete("k = 2")
    added = table.append([{"id": 7, "k": 7}])
    found = {
        (row["_change_type"], row["id"]): row["_version"] for row in rows(between(lake, start, table.head()))
    }
    assert found == {
        ("update_before", 1): str(updated.id),
        ("update_after", 100): str(updated.id),
        ("delete", 2): str(deleted.id),
        ("insert", 7): str(added.id),
    }
    settled = table.head()
    table.compact(rows=1000)
    assert rows(between(lake, settled, table.head())) == []  # nobody notices a compaction
    replaced = table.overwrite([{"id": 9, "k": 9}])
    changes = rows(between(lake, settled, table.head()))
    assert {row["_version"] for row in changes} == {str(replaced.id)}
    assert [row["_change_type"] for row in changes].count("delete") == 6


def test_a_drop_that_an_update_had_not_seen(tmp_path: Path) -> None:
    """The column stays for what the update wrote, and other rows become null there: they changed, too."""
    lake = Catalog(tmp_path, upkeep=False)
    table = lake.create_table("t", SCHEMA)
    table.append([{"id": 1, "k": 1}, {"id": 2, "k": 2}])
    start, other = table.head(), Catalog(tmp_path, upkeep=False).table("t")
    arrive = held_back(other, lambda: other.update("id = 1", {"k": 7}))
    table.drop_column("k")
    arrive()
    found = rows(between(lake, start, table.head()))
    assert [(row["_change_type"], row["id"], row["k"]) for row in found] == [
        ("update_before", 1, 1),
        ("update_before", 2, 2),
        ("update_after", 1, 7),
        ("update_after", 2, None),
    ]


def test_a_twin_that_takes_over_is_no_change(tmp_path: Path) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    table = lake.create_table("t", SCHEMA)
    table.append([{"id": 1, "k": 1}], key="task-1")
    start = table.head()
    twin = Catalog(tmp_path, upkeep=False).table("t")
    twin._session.writer._clock = HybridClock(lambda: wall_ms() - 60_000)
    twin.append([{"id": 1, "k": 1}], key="task-1")
    assert len(table.head().void) == 1
    assert rows(between(lake, start, table.head())) == []

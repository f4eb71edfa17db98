"""The change feed of keyed tables: applied to the earlier snapshot it gives the later one, and says who."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Head
from crdtcat.clock import HybridClock
from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import InvalidArgument
from crdtcat.spark.changes import changes_between
from crdtcat.spark.keyed_changes import KeyedFeed
from tests.spark.test_streams import Gathered

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int64())])


def between(lake: Catalog, before: Head, after: Head, **options: Any) -> KeyedFeed:
    given = {"branch": "main", "columns": None, "filter": None, "with_columns": True, **options}
    found = changes_between(lake, before, after, **given)
    assert isinstance(found, KeyedFeed)
    return found


def rows(feed: KeyedFeed) -> list[dict[str, Any]]:
    return [row for share in feed.shares(None) for batch in feed.batches(share) for row in batch.to_pylist()]


def keyed(table: pa.Table) -> dict[Any, dict[str, Any]]:
    return {(row["id"], row["part"]): row for row in table.to_pylist()}


@pytest.mark.parametrize("seed", range(12))
def test_applied_to_the_earlier_snapshot_it_gives_the_later(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lake = Catalog(tmp_path, chunk_rows=8, inline_bytes=rng.choice([0, 64 * 1024]), upkeep=False)
    one = lake.create_table("t", SCHEMA, key=["id", "part"])
    two = Catalog(tmp_path, chunk_rows=8, upkeep=False).table("t")
    one.upsert([{"id": n, "part": "a", "n": n} for n in range(60)])
    heads = [one.head()]
    for step in range(12):
        table = rng.choice([one, two])
        first = rng.randrange(60)
        some = [{"id": n, "part": rng.choice("ab"), "n": step} for n in range(first, first + 5)]
        action = rng.choice(["upsert", "upsert", "some", "delete", "keys", "overwrite", "compact", "restore"])
        if action == "upsert":
            table.upsert(some, key=rng.choice([None, f"key-{rng.randrange(2)}"]))
        elif action == "some":
            table.upsert([{"id": row["id"], "part": row["part"]} for row in some])
        elif action == "delete":
            table.delete(f"id between {first} and {first + 3}")
        elif action == "keys":
            table.delete(keys=[{"id": row["id"], "part": row["part"]} for row in some])
        elif action == "compact":
            table.compact(rows=20)
        elif action == "overwrite" and rng.random() < 0.4:
            table.overwrite(some)
        elif action == "restore" and rng.random() < 0.4:
            table.restore(rng.choice(heads).snapshot)
        heads.append(one.head())
    authors = {str(version.id) for version in heads[-1].history}
    for _ in range(5):
        first, last = sorted(rng.sample(range(len(heads)), 2))
        before, after = (keyed(one.read(at=heads[at].snapshot)) for at in (first, last))
        have = dict(before)
        for row in rows(between(lake, heads[first], heads[last])):
            key, kind = (row["id"], row["part"]), row["_change_type"]
            values = {name: row[name] for name in SCHEMA.names}
            if kind in ("delete", "update_before"):
                assert have.pop(key) == values
            else:
                assert key not in have
                have[key] = values
            assert row["_version"] in authors
        assert have == after
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        assert {(row["id"], row["part"]) for row in rows(between(lake, heads[first], heads[last]))} == changed


def test_who_did_what_and_only_what_is_near_is_read(tmp_path: Path) -> None:
    lake = Catalog(tmp_path, chunk_rows=10, inline_bytes=0, upkeep=False)
    table = lake.create_table("t", SCHEMA, key=["id", "part"])
    table.upsert([{"id": n, "part": "a", "n": 0} for n in range(100)])
    start = table.head()
    first = table.upsert([{"id": 15, "part": "a", "n": 1}, {"id": 16, "part": "a", "n": 1}])
    second = table.upsert([{"id": 16, "part": "a", "n": 2}, {"id": 200, "part": "b", "n": 2}])
    third = table.delete(keys=[{"id": 77, "part": "a"}])
    feed = between(lake, start, table.head())
    held = sorted(len(part.before) for part in feed.parts)
    assert held == [0, 1, 1] or sum(held) < 10  # of ten chunks, those whose keys were touched
    found = {(row["_change_type"], row["id"], row["n"]): row["_version"] for row in rows(feed)}
    assert found == {
        ("update_before", 15, 0): str(first.id), ("update_after", 15, 1): str(first.id),
        ("update_before", 16, 0): str(second.id), ("update_after", 16, 2): str(second.id),
        ("insert", 200, 2): str(second.id), ("delete", 77, 0): str(third.id),
    }  # fmt: skip
    settled = table.head()
    table.compact(rows=1000)
    assert rows(between(lake, settled, table.head())) == []
    replaced = table.overwrite([{"id": 1, "part": "a", "n": 9}])
    assert {row["_version"] for row in rows(between(lake, settled, table.head()))} == {str(replaced.id)}
    some = rows(between(lake, start, table.head(), columns=("n",)))
    assert set(some[0]) == {"n", "_change_type", "_version", "_committed_at"}
    for wrong in ({"with_columns": False}, {"filter": "n = 1"}, {"columns": ("nothing",)}):
        with pytest.raises(InvalidArgument):
            between(lake, start, table.head(), **wrong)


def test_a_twin_that_takes_over_with_other_rows_is_a_change(tmp_path: Path) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    table = lake.create_table("t", SCHEMA, key=["id", "part"])
    table.upsert([{"id": 1, "part": "a", "n": 1}], key="task-1")
    start = table.head()
    twin = Catalog(tmp_path, upkeep=False).table("t")
    twin._session.writer._clock = HybridClock(lambda: wall_ms() - 60_000)
    twin.upsert([{"id": 2, "part": "a", "n": 1}], key="task-1")
    found = {(row["_change_type"], row["id"]) for row in rows(between(lake, start, table.head()))}
    assert found == {("delete", 1), ("insert", 2)}


@pytest.mark.parametrize(
    ("key", "other"),
    [("~author", "~place"), ("author", "place"), ("k", "_change"), ("_change", "change"), ("a.b", "`")],
)
def test_columns_of_any_name(tmp_path: Path, key: str, other: str) -> None:
    """Those that changes are told by on the way are nobody's."""
    lake = Catalog(tmp_path, upkeep=False)
    table = lake.create_table("t", pa.schema([(key, pa.int64()), (other, pa.int64())]), key=[key])
    table.upsert([{key: n, other: n} for n in range(3)])
    start = table.head()
    changed = table.upsert([{key: 1, other: 5}])
    deleted = table.delete(keys=[{key: 2}])
    found = [
        (row["_change_type"], row[key], row[other], row["_version"])
        for row in rows(between(lake, start, table.head()))
    ]
    assert sorted(found) == [
        ("delete", 2, 2, str(deleted.id)),
        ("update_after", 1, 5, str(changed.id)),
        ("update_before", 1, 1, str(changed.id)),
    ]


@pytest.mark.parametrize(
    "type",
    [pa.run_end_encoded(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())],
    ids=str,
)
def test_keys_that_are_encoded(tmp_path: Path, type: pa.DataType) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    table = lake.create_table("t", pa.schema([("k", type), ("n", pa.int64())]), key=["k"])
    for n, keys in enumerate((["a", "b"], ["b", "c"])):
        table.upsert(pa.table({"k": pa.array(keys, type), "n": [n] * 2}))
    first, second = table.history()
    found = rows(between(lake, table.head(at=first.id), table.head()))
    assert {(row["_change_type"], row["k"], row["_version"]) for row in found} == {
        ("update_before", "b", str(second.id)),
        ("update_after", "b", str(second.id)),
        ("insert", "c", str(second.id)),
    }


def test_as_a_stream(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake", upkeep=False)
    table = lake.create_table("t", SCHEMA, key=["id", "part"])
    where = {"catalog": lake.url, "table": "t"}
    stream = Gathered(spark, tmp_path / "check", **where, changes="true", max_versions="1")
    table.upsert([{"id": n, "part": "a", "n": 0} for n in range(5)])
    table.upsert([{"id": 3, "part": "a", "n": 7}])
    stream.run()
    table.delete(keys=[{"id": 4, "part": "a"}])
    stream.run()
    stream.run()
    shown = [
        sorted((row._change_type, row.id, row.n) for row in batch)
        for batch in stream.batches.values()
        if batch
    ]
    assert shown == [
        [("insert", n, 0) for n in range(5)],
        [("update_after", 3, 7), ("update_before", 3, 0)],
        [("delete", 4, 0)],
    ]
    feed = spark.read.format("crdtcat").options(**where, changes="true").load()
    assert sorted((row._change_type, row.id, row.n) for row in feed.collect()) == [
        ("insert", 0, 0), ("insert", 1, 0), ("insert", 2, 0), ("insert", 3, 7),
    ]  # fmt: skip

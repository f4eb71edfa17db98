"""Changes are shown in the columns of the query, whichever snapshot they are read from: as the local feed
does, over random histories with changes of columns; in streams with and without limits."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import CrdtcatError, SchemaMismatch
from crdtcat.spark import CrdtcatSource
from crdtcat.spark.changes import changes_between
from tests.spark.streaming import Query

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("b", pa.int32())])


def table_of(tmp_path: Path, schema: pa.Schema = SCHEMA, **options: Any) -> Table:
    return Catalog(tmp_path, upkeep=False).create_table("t", schema, **options)


def without(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    labels = ("_version", "_committed_at")
    return [{name: value for name, value in row.items() if name not in labels} for row in rows]


def changed(rng: random.Random, table: Table, step: int, *, keyed: bool) -> None:
    """One random thing that can happen to rows or columns."""
    names = [name for name in table.schema.names if name != "id"] or ["none"]
    one, some = rng.choice(names), [{"id": rng.randrange(30), names[0]: step} for _ in range(3)]
    action = rng.choice(
        ["rows", "rows", "update", "delete", "add", "drop", "rename", "swap", "widen", "compact"]
    )
    try:
        if action == "rows":
            (table.upsert if keyed else table.append)(some)
        elif action == "update" and not keyed:
            table.update(f"id % 4 = {rng.randrange(4)}", {one: step})
        elif action == "delete":
            table.delete(f"id % 5 = {rng.randrange(5)}")
        elif action == "add":
            table.add_column(rng.choice("abcd"), rng.choice([pa.int32(), pa.string()]))
        elif action == "drop":
            table.drop_column(one)
        elif action == "rename":
            table.rename_column(one, rng.choice("abcd"))
        elif action == "swap" and len(names) > 1:
            table.rename_column(names[0], "x")
            table.rename_column(names[1], names[0])
            table.rename_column("x", names[1])
        elif action == "widen":
            table.widen_column(one, pa.int64())
        elif action == "compact":
            table.compact(rows=20)
    except CrdtcatError:
        return  # what is refused leaves the table as it was


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_same_as_the_local_feed(tmp_path: Path, seed: int, keyed: bool) -> None:
    rng = random.Random(seed)
    lake = Catalog(tmp_path, chunk_rows=8, inline_bytes=rng.choice([0, 64 * 1024]), upkeep=False)
    one = lake.create_table("t", SCHEMA, key=["id"] if keyed else [])
    two = Catalog(tmp_path, chunk_rows=8, upkeep=False).table("t")
    (one.upsert if keyed else one.append)([{"id": n, "a": n, "b": -n} for n in range(30)])
    heads = [one.head()]
    for step in range(16):
        changed(rng, rng.choice([one, two]), step, keyed=keyed)
        heads.append(one.head())
    for _ in range(5):
        first, last = sorted(rng.sample(range(len(heads)), 2))
        before, after = heads[first], heads[last]
        found: Any = changes_between(
            lake, before, after, branch="main", columns=None, filter=None, with_columns=True
        )
        rows = [
            row for share in found.shares(None) for batch in found.batches(share) for row in batch.to_pylist()
        ]
        local = [
            {"_change_type": row.pop("_change"), **row}
            for row in one.changes(before.snapshot, after.snapshot).to_table().to_pylist()
        ]
        assert net(without(rows)) == net(local)


def net(rows: list[dict[str, Any]]) -> tuple[Counter[Any], Counter[Any]]:
    """Deleted and inserted rows, updates as one of each: those that changed nothing are gone."""
    went, came = Counter[Any](), Counter[Any]()
    for row in rows:
        values = tuple(sorted((name, value) for name, value in row.items() if name != "_change_type"))
        (went if row["_change_type"] in ("delete", "update_before") else came)[values] += 1
    return went - came, came - went


def test_names_that_were_swapped(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    start = table.append([{"a": 1, "b": 2}, {"a": 10, "b": 20}])
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        table.rename_column(old, new)
    table.delete("b = 1")
    for more in ({}, {"columns": "a,b"}, {"columns": "a,b", "filter": "a = 2"}):
        assert batch(tmp_path, start=str(start.id), **more) == [{"a": 2, "b": 1, "_change_type": "delete"}]
    assert batch(tmp_path, start=str(start.id), filter="a = 1") == []


def batch(tmp_path: Path, **options: str) -> list[dict[str, Any]]:
    """A batch of changes, as Spark would read it."""
    source = CrdtcatSource({"catalog": str(tmp_path), "table": "t", "changes": "true", **options})
    reader = source.reader(source.schema())
    return without(
        [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    )


@pytest.mark.parametrize("key", [[], ["id"]])
def test_a_stream_whose_table_gets_columns(tmp_path: Path, key: list[str]) -> None:
    table = table_of(tmp_path, pa.schema([("id", pa.int32() if not key else pa.int64())]), key=key)
    add = table.upsert if key else table.append
    place = {"catalog": str(tmp_path), "table": "t", "changes": "true"}
    query = Query(**place)
    add([{"id": 1}, {"id": 2}])
    query.run()
    table.add_column("x", pa.string())
    add([{"id": 3, "x": "q"}])
    table.delete("id = 1")
    if not key:
        table.widen_column("id", pa.int64())
    assert sorted(row["id"] for row in query.run()) == [1, 3]
    assert {row["id"]: row["x"] for row in query.batches[-1]} == {1: None, 3: "q"}
    fresh = Query(**place, max_versions="1").run()
    assert [(row["_change_type"], row["id"], row["x"]) for row in fresh if row["id"] != 2] == [
        ("insert", 1, None),
        ("insert", 3, "q"),
        ("delete", 1, None),
    ]


def test_a_stream_whose_columns_are_dropped_renamed_and_widened_while_it_runs(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    query = Query(catalog=str(tmp_path), table="t")
    table.append([{"id": 1, "a": 1, "b": 1}])
    query.run()
    table.drop_column("a")
    table.rename_column("b", "a")
    table.append([{"id": 2, "a": 2}])
    query.go_on()
    assert query.batches[-1] == [{"id": 2, "a": None, "b": 2}]
    table.widen_column("a", pa.int64())
    table.append([{"id": 3, "a": 2**40}])
    with pytest.raises(SchemaMismatch, match=r"'b'.*int64 now.*start the query again"):
        query.go_on()
    assert query.run() == [{"id": 3, "a": 2**40}]

"""The local reader and both Spark readers return equal rows, whatever was done to a table before."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)

from crdtcat import Catalog, Table
from crdtcat.errors import CrdtcatError
from crdtcat.spark import load
from tests.catalog.lakes import another
from tests.keyed import histories as keyed_histories
from tests.rows.late import held_back
from tests.scan import test_partitioned_histories as histories
from tests.spark.rows import values

SCHEMA = pa.schema([("id", pa.int64()), ("shop", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us"))])


def rows(rng: random.Random, table: Table) -> list[dict[str, Any]]:
    """Rows for a table as it is now: some columns left out, some values null."""
    columns = [field for field in table.schema if field.name == "shop" or rng.random() < 0.8]
    return [
        {
            field.name: None if field.name != "shop" and rng.random() < 0.2 else _value(rng, field.type)
            for field in columns
        }
        for _ in range(rng.randrange(1, 60))
    ]


def _value(rng: random.Random, t: pa.DataType) -> Any:
    if pa.types.is_string(t):
        return f"s{rng.randrange(3)}"
    if pa.types.is_timestamp(t):
        return datetime(2026, 1, 1) + timedelta(microseconds=rng.randrange(10**12))  # noqa: DTZ001
    return float(rng.randrange(100)) if pa.types.is_floating(t) else rng.randrange(100)


def step(rng: random.Random, table: Table) -> None:
    """One random thing that can happen to a table."""
    names = [name for name in table.schema.names if name != "shop"]
    action = rng.choice(
        ["append"] * 6
        + ["update", "update", "delete", "delete", "compact", "cluster"]
        + ["overwrite", "part", "part", "restore", "add", "drop", "rename", "widen", "checkpoint"]
    )
    some = f"shop = 's{rng.randrange(3)}'" if rng.random() < 0.3 else None
    try:
        if action == "update":
            table.update(some or "shop = 's1'", {rng.choice(names): None})
        elif action == "delete":
            table.delete(some or "shop = 's2'")
        elif action == "compact":
            table.compact(rows=50)
        elif action == "cluster":
            table.compact(rows=30, cluster_by=[rng.choice(names), "shop"])
        elif action == "append":
            table.append(rows(rng, table))
        elif action == "overwrite":
            table.overwrite(rows(rng, table))
        elif action == "part":
            table.overwrite([], where=f"shop = 's{rng.randrange(3)}'")
        elif action == "restore":
            table.restore(rng.choice(list(table.history())).id)
        elif action == "add":
            table.add_column(f"c{rng.randrange(1000)}", rng.choice([pa.int16(), pa.string(), pa.float32()]))
        elif action == "drop":
            table.drop_column(rng.choice(names))
        elif action == "rename":
            table.rename_column(rng.choice(names), f"r{rng.randrange(1000)}")
        elif action == "widen":
            table.widen_column(rng.choice(names), rng.choice([pa.int64(), pa.float64()]))
        else:
            table.checkpoint()
    except CrdtcatError:
        return  # what is refused leaves the table as it was


@pytest.mark.parametrize("seed", range(6))
def test_local_and_spark_agree(spark: Any, registered: Any, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    inline = rng.choice([0, 1500, 64 * 1024])
    lake = Catalog(tmp_path, inline_bytes=inline, chunk_rows=20, upkeep=False)
    mode = "cas" if seed >= 4 else "merge"
    table = lake.create_table("t", SCHEMA, partition_by=["shop"] if seed % 2 else [], mode=mode)
    other = Catalog(tmp_path, inline_bytes=inline, chunk_rows=20, upkeep=False).table("t")
    table.append(rows(rng, table))
    tokens = []
    for _ in range(25):
        step(rng, rng.choice([table, other]))
        tokens.append(str(table.head().snapshot))
    branch = table.branch("b")
    for _ in range(5):
        step(rng, branch)
        step(rng, table)
    frames = []
    for at in (None, rng.choice(tokens)):
        local = table.read(at=at)
        frames.append((local, load(spark, lake, "t", at=at)))
        for session in (spark, registered):
            source = session.read.format("crdtcat").options(**({"at": at} if at else {"not_null": "true"}))
            frames.append((local, source.load(f"{lake.url}/t")))
    filter = rng.choice(["shop = 's1'", "shop = 's2' or shop is null", "shop > 's0' and shop != 's2'"])
    frames.append((table.read(filter=filter), load(spark, lake, "t", filter=filter)))
    some = table.schema.names[::-1][:2]
    frames.append((table.read(some), load(spark, lake, "t", columns=some)))
    source = spark.read.format("crdtcat").option("branch", "b")
    on_branch = (load(spark, lake, "t", branch="b"), source.load(f"{lake.url}/t"))
    frames += [(branch.read(), frame) for frame in on_branch]
    for local, frame in frames:
        assert frame.columns == local.column_names
        assert values(frame) == values(local)


@pytest.mark.parametrize("seed", range(3))
def test_local_and_spark_agree_on_keyed_tables(
    spark: Any, registered: Any, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    lake = Catalog(tmp_path, inline_bytes=rng.choice([0, 64 * 1024]), chunk_rows=10, upkeep=False)
    schema = pa.schema([("id", pa.int64()), ("shop", pa.string()), ("n", pa.int32())])
    table = lake.create_table("t", schema, key=["id"], partition_by=["bucket(2, id)"] if seed % 2 else [])
    other = Catalog(tmp_path, inline_bytes=0, chunk_rows=10, upkeep=False).table("t")
    table.upsert([{"id": id, "shop": "s0", "n": -1} for id in range(30)])
    tokens = []
    for step in range(16):
        chosen, first = rng.choice([table, other]), rng.randrange(60)
        names = rng.choice([["shop", "n"], ["n"], ["shop"]])
        rows = [
            {"id": id, **{name: step if name == "n" else f"s{id % 3}" for name in names}}
            for id in range(first, first + rng.randrange(1, 25))
        ]
        action = rng.choice(["upsert"] * 5 + ["where", "keys", "compact", "overwrite", "checkpoint"])
        if action == "upsert":
            chosen.upsert(rows)
        elif action == "where":
            chosen.delete(f"n = {rng.randrange(16)}")
        elif action == "keys":
            chosen.delete(keys=[{"id": row["id"]} for row in rows])
        elif action == "compact":
            chosen.compact(rows=20)
        elif action == "overwrite":
            chosen.overwrite(rows)
        else:
            chosen.checkpoint()
        tokens.append(str(table.head().snapshot))
    for at in (None, rng.choice(tokens)):
        local = values(table.read(at=at))
        assert values(load(spark, lake, "t", at=at)) == local
        for session in (spark, registered):
            source = session.read.format("crdtcat").options(**({"at": at} if at else {}))
            assert values(source.load(f"{lake.url}/t")) == local


def test_states_of_the_property_tests(spark: Any, registered: Any, tmp_path: Path) -> None:
    """Histories as `tests/scan` and `tests/keyed` make them, late versions and all; read by one query of each
    reader."""
    plain = Catalog(tmp_path / "plain", chunk_rows=4, inline_bytes=0, upkeep=False)
    states = [
        [(plain, partitioned_state(plain, seed)) for seed in range(12)],
        [(keyed_state(tmp_path / f"keyed-{seed}", seed), "t") for seed in range(6)],
    ]
    for group in states:
        local = [lake.read(name) for lake, name in group]
        columns = {column for rows in local for column in rows.column_names}
        expected = [
            {"at": at, **{column: row.get(column) for column in columns}}
            for at, rows in enumerate(local)
            for row in rows.to_pylist()
        ]
        for session, read in ((spark, load), (spark, by_format), (registered, by_format)):
            frames = [read(session, *state).withColumn("at", F.lit(at)) for at, state in enumerate(group)]
            found = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
            assert values(found) == sorted(repr(sorted(row.items())) for row in expected)


def by_format(spark: Any, lake: Catalog, name: str) -> Any:
    return spark.read.format("crdtcat").option("not_null", "true").load(f"{lake.url}/{name}")


def partitioned_state(lake: Catalog, seed: int) -> str:
    """A table with a history of two writers, some of whose versions arrive late."""
    rng = random.Random(seed)
    schema = histories.SCHEMA.append(pa.field("ts_day", pa.date32()))
    name = f"t{seed}"
    by = rng.choice(histories.PARTITIONINGS) if seed % 2 else []
    tables = [lake.create_table(name, schema, partition_by=by), another(lake, chunk_rows=4).table(name)]
    tables[0].append(histories.some_rows(0) + histories.some_rows(3))
    waiting = []
    for _ in range(8):
        table, verb, number = rng.choice(tables), rng.choice(histories.verbs), rng.randrange(30)

        def act(table: Table = table, verb: str = verb, number: int = number) -> None:
            histories.changed(table, verb, number)

        if rng.random() < 0.3 and verb != "checkpoint":
            waiting.append(held_back(table, act))
        else:
            act()
    for arrive in waiting:
        arrive()
    return name


def keyed_state(folder: Path, seed: int) -> Catalog:
    """A keyed table with version files by several authors."""
    lake = Catalog(folder, upkeep=False)
    key = ("p", "k") if seed % 2 else ("k",)
    columns = keyed_histories.settings_for(key).columns or ()
    schema = pa.schema([(column.name, keyed_histories.ARROW[str(column.type)]) for column in columns])
    lake.create_table("t", schema, key=list(key), partition_by=["p"] if seed % 2 else [])
    for made in keyed_histories.history(seed, key):
        lake.store.put(made.name, made.data)
    return lake


def test_rows_that_count_twice_and_row_groups_that_are_dead(spark: Any, tmp_path: Path) -> None:
    """After a restore beside a concurrent one, a chunk may be alive under two tags: its rows come twice."""
    lake = Catalog(tmp_path, inline_bytes=0, chunk_rows=10, upkeep=False)
    table = lake.create_table("t", pa.schema([("k", pa.int64()), ("n", pa.int64())]), partition_by=["k"])
    table.append([{"k": n % 4, "n": n} for n in range(100)])
    kept = table.head().snapshot
    table.overwrite([], where="k = 1 or k = 3")  # row groups in the middle and at the end die
    frame = load(spark, lake, "t")
    assert "MapInArrow" not in frame._jdf.queryExecution().toString()
    assert values(frame) == values(table.read())
    one, two = (Catalog(tmp_path, upkeep=False).table("t") for _ in range(2))
    one.head(), two.head()
    table.overwrite([])
    one.restore(kept)
    copy = Catalog(tmp_path, upkeep=False).table("t")
    copy.append(table.read(at=kept))
    for at in (None, kept):
        assert values(load(spark, lake, "t", at=at)) == values(lake.table("t").read(at=at))


def test_a_compaction_between_plan_and_tasks_changes_nothing(
    spark: Any, registered: Any, tmp_path: Path
) -> None:
    """The same snapshot is read from other chunks then: shares dealt out before still mean the same rows."""
    lake = Catalog(tmp_path, upkeep=False)
    for n in range(30):
        lake.commit("t", [{"id": n}])
    sources = [session.read.format("crdtcat").load(f"{lake.url}/t") for session in (spark, registered)]
    frames = [load(spark, lake, "t", native=False), *sources]
    wanted = values(frames[0])
    lake.table("t").compact()
    frames.append(load(spark, lake, "t", native=False))
    lake.commit("t", [{"id": 99}])
    assert [values(frame) == wanted for frame in frames] == [True] * 4


def test_many_small_commits_are_read_in_large_batches(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    for n in range(60):
        lake.commit("t", [{"id": n}])
    frame = load(spark, lake, "t")
    assert frame.rdd.getNumPartitions() == 1
    sizes = frame.mapInArrow(lambda batches: (_size(batch) for batch in batches), "rows long").collect()
    assert [row.rows for row in sizes] == [60]


def _size(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"rows": pa.array([batch.num_rows], pa.int64())})


def test_row_groups_whose_chunks_were_expired_are_not_read(spark: Any, tmp_path: Path) -> None:
    """The log no longer knows of them, and the file still has them, behind those that are alive."""
    url = str(tmp_path / "lake")
    catalog = Catalog(url, inline_bytes=0, grace_seconds=0.0, max_commit_delay_seconds=0.0, upkeep=False)
    table = catalog.create_table("t", pa.schema([("p", pa.string()), ("n", pa.int64())]), partition_by=["p"])
    table.append([{"p": part, "n": at} for part in "abc" for at in range(3)])
    table.overwrite([{"p": "c", "n": 7}], where="p = 'c'")
    table.append([{"p": "a", "n": 8}])
    expected = values(table.read())
    table.expire(keep_last=1)
    assert values(table.read()) == expected
    assert values(load(spark, url, "t")) == expected

"""Upkeep on Spark gives what the local engine gives."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import Corrupt, InvalidArgument
from crdtcat.head.naming import row_ids
from crdtcat.maintenance import rewrite
from crdtcat.maintenance.progress import Progress
from crdtcat.scan.located import all_rows_of
from crdtcat.spark import checkpoint, collect, compact, load, verify
from crdtcat.spark.tasks import in_tasks
from tests.spark.rows import values

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("text", pa.string())])


def test_verify_finds_what_the_local_one_finds(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, inline_bytes=0, upkeep=False)
    for n in range(6):
        lake.commit("t", {"id": list(range(n * 100, n * 100 + 100)), "text": ["x" * 20] * 100})
    told: list[Progress] = []
    assert verify(spark, lake, "t", "content", progress=told.append).ok
    assert seen_through(told) == {"verifying"}
    segments = sorted(tmp_path.glob("data/*/*.parquet"))
    segments[0].unlink()
    damaged = bytearray(segments[1].read_bytes())
    damaged[50] ^= 1
    segments[1].write_bytes(damaged)
    for depth in ("metadata", "bytes", "content"):
        there, here = verify(spark, lake, "t", depth), lake.table("t").verify(depth)
        assert there.problems == here.problems
        assert (there.rows, there.bytes, there.segments) == (here.rows, here.bytes, here.segments)
    assert len(there.problems) == 2


def seen_through(told: Sequence[Progress]) -> set[str]:
    """What the driver was told of, each to its end and never beyond."""
    assert all(progress.done <= progress.total for progress in told)
    last = {progress.what: progress for progress in told}
    assert all(progress.done == progress.total for progress in last.values())
    return set(last)


def test_compact_changes_nothing_but_the_chunks(spark: Any, tmp_path: Path) -> None:
    """As the local one, of a copy: the same chunks, with the same rows, which have the ids they had."""
    options: dict[str, Any] = {"inline_bytes": 0, "chunk_rows": 100, "upkeep": False}
    lake = Catalog(tmp_path / "there", **options)
    for n in range(40):
        lake.commit("t", {"id": list(range(n * 10, n * 10 + 10))})
    table = lake.table("t")
    table.delete("id % 7 = 0")
    table.update("id > 300", {"id": 1})
    before, ids = table.read(), _row_ids(table)
    shutil.copytree(tmp_path / "there", tmp_path / "here")
    copy = Catalog(tmp_path / "here", **options).table("t")
    told: list[Progress] = []
    done, local = compact(spark, lake, "t", progress=told.append), copy.compact()
    assert seen_through(told) == {"compacting"}
    unlike: dict[str, Any] = {"seconds": 0.0, "bytes": 0, "versions": 1}  # each task publishes its own
    assert replace(done, **unlike) == replace(local, **unlike)
    assert done.versions > local.versions == 1
    assert done.chunks_after < done.chunks_before == 40
    assert done.rows == before.num_rows
    for one in (table, copy):
        assert one.read().equals(before)  # rows and their order
        assert _row_ids(one) == ids
    hashes = [sorted(chunk.hash for chunk in one.head().chunks) for one in (table, copy)]
    assert hashes[0] == hashes[1]
    assert values(load(spark, lake, "t")) == values(before)
    assert compact(spark, lake, "t").versions == copy.compact().versions == 0


def _row_ids(table: Table) -> dict[str, Any]:
    """The ids of all rows, in row order."""
    head = table.head()
    return row_ids(head, *all_rows_of(head, head.live)).packed()


def test_no_unit_of_work_grows_with_the_table(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a task holds at a time is one unit, and a commit: the same for a table three times as large."""
    monkeypatch.setattr(rewrite, "COMMIT_BYTES", 4_000)
    monkeypatch.setattr(importlib.import_module("crdtcat.maintenance.checkpoint"), "BLOCK_VERSIONS", 8)
    sizes: dict[str, int] = {}

    def measured(*arguments: Any, what: str, **options: Any) -> Any:
        sizes[what] = max([sizes.get(what, 0), *arguments[3]])
        return in_tasks(*arguments, what=what, **options)

    for module in ("upkeep", "log_upkeep", "clustering"):
        monkeypatch.setattr(f"crdtcat.spark.{module}.in_tasks", measured)
    found = []
    for commits in (20, 60):
        lake = Catalog(tmp_path / f"{commits}", inline_bytes=0, chunk_rows=50, upkeep=False)
        plain, keyed = lake.create_table("plain", SCHEMA), lake.create_table("keyed", SCHEMA, key=["id"])
        for n in range(commits):
            for table in (plain, keyed):
                table.append(
                    [{"id": 10 * n + at, "n": at * 7919 % 401, "text": "x" * 20} for at in range(10)]
                )
        sizes.clear()
        verify(spark, lake, "plain")
        checkpoint(spark, lake, "plain")
        for name in ("keyed", "plain"):
            compact(spark, lake, name)
        compact(spark, lake, "plain", cluster_by=["n"])
        found.append(dict(sizes))
    for sizes in found:  # lots that are no larger than a commit, until they are one together
        assert rewrite.COMMIT_BYTES < sizes.pop("clustering") < 2 * rewrite.COMMIT_BYTES
    assert found[0] == found[1]
    assert found[0].keys() == {"verifying", "bundling", "compacting", "sampling"}


def test_compact_of_a_keyed_table_changes_nothing_but_the_chunks(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, inline_bytes=0, chunk_rows=50, upkeep=False)
    tables = [lake.create_table(name, SCHEMA, key=["id"]) for name in ("here", "there")]
    for table in tables:
        for n in range(12):
            rows = [{"id": 10 * n + at, "n": n} for at in range(25)]
            table.upsert(rows if n % 3 else [{**row, "text": f"t{n}"} for row in rows])
        table.delete(keys=[{"id": 5}, {"id": 77}])
    before = tables[0].read()
    local, done = tables[0].compact(), compact(spark, lake, "there")
    assert replace(done, seconds=0.0, bytes=0) == replace(local, seconds=0.0, bytes=0)
    assert done.versions >= 1
    assert done.chunks_after < done.chunks_before
    assert tables[1].read().equals(before)
    assert tables[0].read().equals(before)
    late = Catalog(tmp_path, upkeep=False).table("there")
    late.upsert([{"id": 12, "n": -1}])
    assert values(load(spark, lake, "there", filter="id = 12")) == values(late.read(filter="id = 12"))
    with pytest.raises(InvalidArgument, match="rows=0"):
        compact(spark, lake, "there", rows=0)


def test_clustering_gives_the_chunks_that_the_local_one_gives(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where lots are larger than a commit and have to be spread first, and in partitions."""
    monkeypatch.setattr(rewrite, "COMMIT_BYTES", 3_000)
    lake = Catalog(tmp_path, inline_bytes=0, chunk_rows=20, upkeep=False)
    for partition_by in ([], ["text"]):
        tables = [
            lake.create_table(f"{name}{len(partition_by)}", SCHEMA, partition_by=partition_by)
            for name in ("here", "there")
        ]
        for table in tables:
            for n in range(12):
                rows = [
                    {"id": at * 7919 % 401, "n": at, "text": f"p{at % 2}"}
                    for at in range(n * 25, n * 25 + 25)
                ]
                table.append(rows)
            table.delete("n % 10 = 0")
            table.update("n % 9 = 0", {"id": 5})
        before = tables[0].read()
        local = tables[0].compact(cluster_by=["id", "n"])
        told: list[Progress] = []
        done = compact(spark, lake, tables[1].name, cluster_by=["id", "n"], progress=told.append)
        assert replace(done, seconds=0.0, bytes=0) == replace(local, seconds=0.0, bytes=0)
        assert done.versions > 3
        heads = [table.head() for table in tables]
        assert [chunk.hash for chunk in heads[0].chunks] == [chunk.hash for chunk in heads[1].chunks]
        after = tables[1].read()
        assert after.equals(tables[0].read())
        assert values(after) == values(before)
        order = [("text", "ascending")] if partition_by else []
        assert after.equals(before.sort_by([*order, ("id", "ascending"), ("n", "ascending")]))
        assert {progress.what for progress in told} >= {"sampling", "clustering"}
        assert all(progress.done <= progress.total for progress in told)
        assert compact(spark, lake, tables[1].name, cluster_by=["id", "n"]).versions == 0
        tables[1].update("n = 1", {"text": "p1"})  # ids are as they were
        assert tables[1].read(filter="n = 1").column("text").to_pylist() == ["p1"]
    with pytest.raises(InvalidArgument, match="no column 'x'"):
        compact(spark, lake, "there0", cluster_by=["x"])


def test_collection_finds_what_the_local_one_finds(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, inline_bytes=0, upkeep=False)
    for name in ("kept", "dropped"):
        for n in range(3):
            lake.commit(name, {"id": [n]})
    lake.table("kept").branch("b").append({"id": [7]})
    stream = lake.table("kept").stream()
    stream.write({"id": [1]})
    stream.abort()
    lake.drop_table("dropped")
    assert collect(spark, lake, dry_run=True).of("condemned") == []  # too young, all of it
    there, here = (collect(spark, lake, grace=0, dry_run=True), lake.collect(grace=0, dry_run=True))
    assert [(item.name, item.fate) for item in there.garbage] == [
        (item.name, item.fate) for item in here.garbage
    ]
    assert replace(there, seconds=0, garbage=()) == replace(here, seconds=0, garbage=())
    told: list[Progress] = []
    deleted = [collect(spark, lake, grace=0, progress=told.append) for _ in range(2)]
    assert sum(len(one.deleted) for one in deleted) >= 3
    assert {"listing segments", "reading logs"} <= {progress.what for progress in told}
    assert lake.collect(grace=0).garbage == ()
    assert sorted(lake.read("kept", branch="b").column("id").to_pylist()) == [0, 1, 2, 7]
    assert lake.table("kept").verify("content").ok
    log = next(iter((tmp_path / "tables" / "kept" / "main").glob("*.v")))
    log.write_bytes(log.read_bytes()[:-3])
    with pytest.raises(Corrupt, match=log.name):  # by name, as it is, on the driver
        collect(spark, lake, grace=0)


def test_a_large_log_is_bundled_block_by_block(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("crdtcat.maintenance.checkpoint")
    monkeypatch.setattr(module, "BLOCK_VERSIONS", 16)
    lake = Catalog(tmp_path, upkeep=False)
    for name in ("here", "there"):
        table = lake.create_table(name, SCHEMA)
        for n in range(70):
            table.append([{"id": n, "n": n, "text": "x"}])
        table.update("id < 5", {"text": "y"})
    before = lake.read("there")
    told: list[Progress] = []
    local, done = lake.table("here").checkpoint(), checkpoint(spark, lake, "there", progress=told.append)
    assert seen_through(told) == {"bundling"}
    assert (done.versions, done.newly_covered) == (local.versions, local.newly_covered) == (71, 71)
    assert done.replaced == 5  # what tasks made
    fresh = Catalog(tmp_path, upkeep=False).table("there")
    assert fresh.read().equals(before)
    assert fresh.verify("content").ok
    (reader,) = (Catalog(tmp_path, upkeep=False),)
    counts = reader.store.requests.snapshot()
    reader.table("there").head()
    assert reader.store.requests.since(counts).get < 71  # the bundle is read, not the versions
    assert checkpoint(spark, lake, "there").versions == 0
    fresh.append([{"id": 99}])
    assert checkpoint(spark, lake, "there").newly_covered == 1  # one block: here
    strict = lake.create_table("strict", SCHEMA, mode="cas")
    for n in range(3):
        strict.append([{"id": n}])
    assert checkpoint(spark, lake, "strict").newly_covered == 3

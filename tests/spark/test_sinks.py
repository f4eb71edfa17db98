"""The streaming sink counts every batch once, in both ways to commit, appended and upserted, by the native
writer and by `foreachBatch`; whatever fails before or after a commit, and whenever it is stopped."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument
from crdtcat.spark import foreach_batch
from tests.spark.rows import FAILURES, TRIES, FailingSinkSource, plan_half
from tests.spark.test_streams import feed, files, finish


def read_back(table: Any) -> list[tuple[int, int]]:
    return sorted((row["id"], row["n"]) for row in table.read().to_pylist())


@pytest.mark.parametrize("commit", ["job", "task"])
@pytest.mark.parametrize("key", ["", "id"])
def test_the_sink_counts_every_batch_once(spark: Any, tmp_path: Path, commit: str, key: str) -> None:
    """Two batches of two tasks. One task, then the driver fail before they commit, then the driver fails once
    it has; the query is restarted until it is through. In a table with a key rows are upserted: the second
    batch has every key of the first."""
    spark.dataSource.register(FailingSinkSource)
    for number in range(4):
        feed(tmp_path / "in", number)
    said = []
    for _ in range(len(FAILURES) + 1):
        rows = files(spark, tmp_path / "in", 2).selectExpr("id % 20 as id" if key else "id", "id as n")
        writer = rows.writeStream.format("crdtcat_failing_sink").options(commit=commit, key=key)
        writer = writer.options(path=f"{tmp_path}/t", metadata=json.dumps({"marks": str(tmp_path)}))
        try:
            finish(writer, tmp_path / "check")
        except PySparkException as error:
            said.append(str(error))
    assert len(said) == len(FAILURES)
    assert all(failure in text for failure, text in zip(FAILURES, said, strict=True))
    table = Catalog(tmp_path).table("t")
    assert table.key == ((key,) if key else ())
    assert read_back(table) == [(n % 20, n) if key else (n, n) for n in range(20 if key else 0, 40)]
    # Of the job, the second batch came twice. Of tasks, too; of the first batch one twice, the other thrice.
    assert (table.head().version, len(table.head().void)) == ((2, 1) if commit == "job" else (4, 5))


@pytest.fixture
def half_offsets(spark: Any) -> Iterator[None]:
    """Spark refuses to go on where it was stopped while it wrote its first offset, unless told not to."""
    name = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
    spark.conf.set(name, "false")
    yield
    spark.conf.unset(name)


@pytest.mark.usefixtures("half_offsets")
@pytest.mark.parametrize(
    ("how", "commit", "key"), [("format", "task", ""), ("format", "job", "id"), ("batches", "task", "id")]
)
def test_a_query_that_is_stopped_again_and_again_counts_every_row_once(
    spark: Any, tmp_path: Path, how: str, commit: str, key: str
) -> None:
    """Stopped in the middle of whatever it does, by the clock; in a table with a key rows are upserted."""
    files_in = 8
    for number in range(files_in):
        feed(tmp_path / "in", number)

    def writer() -> Any:
        stream = files(spark, tmp_path / "in").writeStream
        if how == "batches":
            return stream.foreachBatch(foreach_batch(tmp_path, "t", commit=commit, key=[key]))
        return stream.format("crdtcat").options(catalog=str(tmp_path), table="t", commit=commit, key=key)

    for wait in (0.05, 0.2, 0.4, 0.1, 0.3, 0.6):
        query = writer().option("checkpointLocation", str(tmp_path / "check")).start()
        time.sleep(wait)
        query.stop()
    finish(writer(), tmp_path / "check")
    table = Catalog(tmp_path).table("t")
    assert sorted(table.read().column("id").to_pylist()) == list(range(10 * files_in))
    standing = [version for version in table.history() if version.stands]
    assert sum(version.rows for version in standing) == 10 * files_in  # what was committed twice is void
    assert (how, commit) != ("format", "task") or len(standing) == files_in  # a batch may have two files


def _breaking(lake: Catalog, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first of two tasks does what it should; the other fails. Where tasks commit the rows they have, it
    does so once the first has."""
    yield from batches
    if TaskContext.get().partitionId() == 1:
        until = time.monotonic() + 30
        while name == "task" and not lake.table(name).head().version and time.monotonic() < until:
            time.sleep(0.02)
        raise RuntimeError("a task failed")


def test_foreach_batch_counts_every_batch_once(spark: Any, tmp_path: Path) -> None:
    """Appended and upserted, both committed by tasks and by jobs. All fail before the first batch is saved as
    a whole; then the function does, when it is. Its jobs have a group that the function gives them, the same
    in every run."""
    for number in range(4):
        feed(tmp_path / "in", number)
    lake = Catalog(tmp_path / "lake")
    failed: list[str] = []
    ways = {f"{commit}{''.join(key)}": (commit, key) for commit in ("job", "task") for key in ((), ("id",))}
    saving = {name: foreach_batch(lake, name, commit=way, key=key) for name, (way, key) in ways.items()}
    halves = [foreach_batch(lake, "halves", commit="task", part=f"{half}") for half in range(2)]

    def batch_and_fail(df: Any, batch: int) -> None:
        df.sparkSession.sparkContext.setJobGroup("mine", "of the function's own")
        shown = {name: df.selectExpr(f"id % {20 if key else 100} as id", "id as n") for name, (_, key) in
                 ways.items()}  # fmt: skip
        if not failed:
            for name, save_batch in saving.items():
                broken = shown[name].mapInArrow(partial(_breaking, lake, name), shown[name].schema)
                with pytest.raises(PySparkException, match="a task failed"):
                    save_batch(broken, batch)
            failed.append("before")
            raise RuntimeError("stopped before it was saved")
        for half, save_batch in enumerate(halves):
            save_batch(df.where(f"id % 2 = {half}"), batch)
        for name, save_batch in saving.items():
            save_batch(shown[name], batch)
        with pytest.raises(InvalidArgument, match=f"batch {batch} was saved to 'jobid' already.*part="):
            saving["jobid"](df, batch)
        if len(failed) == 1:
            failed.append("after")
            raise RuntimeError("stopped after it was saved")

    for _ in range(3):
        stream = files(spark, tmp_path / "in", 2)
        try:
            finish(stream.writeStream.foreachBatch(batch_and_fail), tmp_path / "check")
        except PySparkException as error:
            assert f"stopped {failed[-1]} it was saved" in str(error)  # noqa: PT017
    assert failed == ["before", "after"]
    assert sorted(lake.read("halves").column("id").to_pylist()) == list(range(40))
    for name, (_, key) in ways.items():
        wanted = [(n % 20, n) if key else (n, n) for n in range(20 if key else 0, 40)]
        assert read_back(lake.table(name)) == wanted
    heads = {name: lake.table(name).head() for name in ("halves", *ways)}
    counts = {name: (head.version, len(head.void)) for name, head in heads.items()}
    # The first batch came twice, and one of its tasks thrice. Keys are dealt out anew, after what failed.
    assert counts == {"halves": (8, 4), "job": (2, 1), "task": (4, 3), "jobid": (2, 1), "taskid": (4, 2)}


@pytest.mark.parametrize("committed", [False, True])
def test_upserts_of_a_batch_that_is_half_committed_count_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    """By `foreachBatch`, tasks that commit by themselves. Of the first batch's two, one commits, the other
    fails for good, before its commit or after; somebody writes every key of the batch; the query starts
    again. What had been committed lies below the other's writes, and stays there when it comes again; what
    had not comes above them."""
    for number in range(4):
        feed(tmp_path / "in", number)
    lake = Catalog(tmp_path / "lake", upkeep=False)
    saving = foreach_batch(lake, "t", commit="task", key=["id"], metadata={"committed": committed})

    def run() -> None:
        rows = files(spark, tmp_path / "in", 2).selectExpr("id % 30 as id", "id as n")
        finish(rows.writeStream.foreachBatch(saving), tmp_path / "check")

    with monkeypatch.context() as patched:
        patched.setattr("crdtcat.spark.saving.plan_write", plan_half)
        with pytest.raises(PySparkException, match="the second task failed"):
            run()
    table = lake.table("t")
    first = {id for id, _ in read_back(table)}
    assert 0 < len(first) < 20 or (committed and len(first) == 20)
    table.upsert([{"id": id, "n": -1} for id in range(20)])
    run()
    # The first batch holds 0 to 19; the second 0 to 9 again, and 20 to 29.
    left = [(id, -1 if id in first else id) for id in range(10, 20)]
    assert read_back(table) == [
        *((id, id + 30) for id in range(10)),
        *left,
        *((id, id) for id in range(20, 30)),
    ]
    assert table.head().version == 5  # two tasks, twice, and somebody
    assert len(table.head().void) == (TRIES + 1 if committed else 1)  # the first try stands


def test_results_that_are_complete_or_updated(spark: Any, tmp_path: Path) -> None:
    """Spark lets a Python sink append only; by batches a table is overwritten, or rows of it are."""
    ways: dict[str, dict[str, Any]] = {"complete": {"mode": "overwrite"}, "update": {"key": ["id"]}}
    for number in range(2):
        feed(tmp_path / "in", number)
        for output, options in ways.items():
            counted = files(spark, tmp_path / "in").groupBy((F.col("id") % 3).alias("id")).count()
            save_batch = foreach_batch(tmp_path / "lake", output, **options)
            writer = counted.writeStream.outputMode(output).foreachBatch(save_batch)
            finish(writer, tmp_path / output)
            rows = Catalog(tmp_path / "lake").read(output).to_pylist()
            ids = range(10 * number + 10)
            assert {row["id"]: row["count"] for row in rows} == dict(Counter(n % 3 for n in ids))
            assert len(rows) == 3

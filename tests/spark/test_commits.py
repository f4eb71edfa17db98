"""Tasks that fail, die, run twice; drivers that die: acknowledged rows are there once, others not at all."""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import InheritableThread, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

from crdtcat import Catalog
from crdtcat.spark import load, save
from crdtcat.spark.writing import Report, WritePlan, plan_write
from tests.faults.lines import Lines
from tests.spark.rows import FAILING, values

ID = StructType([StructField("id", LongType())])


@pytest.mark.parametrize("commit", ["job", "task"])
@pytest.mark.parametrize("how", ["raise", "before", "kill"])
def test_tasks_that_run_again_count_once(spark: Any, tmp_path: Path, how: str, commit: str) -> None:
    """Every second task fails after its rows were staged or committed, before, or is killed with SIGKILL."""
    spark.dataSource.register(FAILING[how])
    df = spark.range(0, 400, 1, 4)
    options = {"catalog": str(tmp_path), "table": "t", "commit": commit}
    df.write.format(f"crdtcat_{how}").options(**options).mode("append").save()
    table = Catalog(tmp_path).table("t")
    assert values(table.read()) == values(df)
    again = 0 if how == "before" or commit == "job" else 2
    assert len(table.head().void) == again
    assert table.head().version == (4 if commit == "task" else 1)
    assert values(load(spark, tmp_path, "t")) == values(df)


@pytest.mark.parametrize("commit", ["job", "task"])
def test_a_stage_that_runs_again_counts_once(spark: Any, tmp_path: Path, commit: str) -> None:
    """The shuffle's files are lost when one task of four is done: the stage that made them runs again, and so
    does the one that writes."""
    spark.dataSource.register(FAILING["lost"])
    df = spark.range(0, 400, 1, 2).repartition(4, "id")
    metadata = json.dumps({"folder": spark.conf.get("spark.local.dir"), "mark": str(tmp_path / "mark")})
    spark.sparkContext.setJobGroup(f"lost {commit}", "a stage that runs again")
    writer = df.write.format("crdtcat_lost").options(commit=commit, metadata=metadata)
    writer.mode("append").save(f"{tmp_path}/lake/t")
    tracker = spark.sparkContext.statusTracker()
    stages = {
        stage
        for job in tracker.getJobIdsForGroup(f"lost {commit}")
        for stage in tracker.getJobInfo(job).stageIds
    }
    assert len(stages) == 2
    assert min(tracker.getStageInfo(stage).currentAttemptId for stage in stages) > 0
    table = Catalog(tmp_path / "lake").table("t")
    assert values(table.read()) == values(df)
    assert table.head().version == (4 if commit == "task" else 1)
    assert len(table.head().void) == (1 if commit == "task" else 0)  # what was done before, done again


@pytest.mark.parametrize("commit", ["job", "task"])
@pytest.mark.parametrize("told", [0, 1])
def test_two_attempts_of_a_task_that_both_end_count_once(tmp_path: Path, commit: str, told: int) -> None:
    """What speculation makes of a slow task; whichever attempt Spark tells the driver of."""
    lake = Catalog(tmp_path, inline_bytes=0, upkeep=False)
    plan = plan_write(lake, "t", ID, commit=commit)
    rows = [[pa.record_batch({"id": pa.array(range(at, at + 5))})] for at in (0, 5)]
    both = threading.Barrier(2)

    def attempt(_: int) -> Report:
        own: WritePlan = pickle.loads(pickle.dumps(plan))
        both.wait(60)
        return own.run(iter(rows[0]), 0)

    with ThreadPoolExecutor(2) as pool:
        attempts = list(pool.map(attempt, range(2)))
    plan.finish([plan.run(iter(rows[1]), 1), attempts[told]])
    table = lake.table("t")
    assert sorted(table.read().column("id").to_pylist()) == list(range(10))
    assert table.head().version == (2 if commit == "task" else 1)
    assert len(table.head().void) == (1 if commit == "task" else 0)


@pytest.mark.parametrize(("mode", "branch"), [("merge", "b"), ("cas", "main")])
def test_tasks_of_one_process_open_the_table_once(tmp_path: Path, mode: str, branch: str) -> None:
    """Each task is sent the plan. Opened anew by every task, a branch is looked up each time, and a log in
    CAS mode is read from its beginning: as often as there are tasks, whatever they have committed by then."""
    lake = Catalog(tmp_path, upkeep=False)
    table = lake.create_table("t", pa.schema([("id", pa.int64())]), mode=mode)
    for n in range(10):
        table.append([{"id": n}])
    if branch != "main":
        table.branch(branch)
    plan = plan_write(Catalog(tmp_path, upkeep=False), "t", ID, commit="task", branch=branch)
    sent, costs = pickle.dumps(plan), []
    for task in range(6):
        with mock.patch("pyspark.TaskContext.get"):
            own: WritePlan = pickle.loads(sent)
        before = own.catalog.store.requests.snapshot()
        own.run(iter(pa.table({"id": [100 + task]}).to_batches()), task)
        after = own.catalog.store.requests.snapshot()
        costs.append((after.put - before.put, after.total - before.total))
    assert costs[1:] == [(1, 1)] * 5
    assert pickle.loads(sent) is not pickle.loads(sent)  # the driver's are its own
    assert lake.table("t", branch).head().version == 16


def test_a_job_that_fails_leaves_nothing_visible(spark: Any, tmp_path: Path) -> None:
    for how in ("always", "driver"):
        spark.dataSource.register(FAILING[how])
        with pytest.raises(PySparkException, match="failed"):
            spark.range(0, 10, 1, 2).write.format(f"crdtcat_{how}").mode("append").save(f"{tmp_path}/t")
        assert Catalog(tmp_path).tables() == []  # not even an empty table
    save(spark.range(3), tmp_path, "t")
    with pytest.raises(PySparkException, match="failed"):
        spark.range(5).write.format("crdtcat_driver").mode("overwrite").save(f"{tmp_path}/t")
    assert values(Catalog(tmp_path).read("t")) == values(spark.range(3))


def test_a_job_that_is_cancelled_leaves_nothing_but_garbage(spark: Any, tmp_path: Path) -> None:
    """One task has staged its rows, the other is under way: nothing is visible, and the file is collected."""
    lake = Catalog(tmp_path, inline_bytes=0, upkeep=False)

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if TaskContext.get().partitionId() == 1:
            time.sleep(600)  # until it is killed

    df = spark.range(0, 100, 1, 2).mapInArrow(held, "id long")
    failed: list[BaseException] = []

    def job() -> None:
        spark.sparkContext.setJobGroup("cancelled", "to be cancelled", interruptOnCancel=True)
        try:
            save(df, lake, "t")
        except Exception as error:  # noqa: BLE001 (whatever Spark makes of it)
            failed.append(error)

    running = InheritableThread(target=job)
    running.start()
    until = time.monotonic() + 120
    while not (staged := list(tmp_path.glob("data/*/*.parquet"))) and time.monotonic() < until:
        time.sleep(0.05)
    spark.sparkContext.cancelJobGroup("cancelled")
    running.join(120)
    assert len(staged) == len(failed) == 1
    assert "cancel" in str(failed[0]).lower()
    assert lake.tables() == []
    for _ in range(2):  # condemned, then deleted
        lake.collect(grace=0)
    assert not list(tmp_path.glob("data/*/*.parquet"))
    save(spark.range(3), lake, "t")
    assert lake.read("t").num_rows == 3


def test_a_query_that_was_cut_off_goes_on_under_its_name(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(FAILING["half"])
    options = {"catalog": str(tmp_path), "table": "t", "commit": "task", "query": "load-7"}
    df = spark.range(0, 40, 1, 4)
    with pytest.raises(PySparkException, match="failed"):
        df.write.format("crdtcat_half").options(**options).mode("append").save()
    half = Catalog(tmp_path).read("t").num_rows
    assert 10 <= half < 40  # tasks that were done by themselves are there
    df.write.format("crdtcat").options(**options).mode("append").save()
    assert values(Catalog(tmp_path).read("t")) == values(df)


def test_tasks_do_no_upkeep(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(FAILING["driver"])  # whose driver does none, either
    options = {"catalog": str(tmp_path), "table": "t", "commit": "task"}
    with pytest.raises(PySparkException, match="driver"):
        spark.range(0, 400, 1, 36).write.format("crdtcat_driver").options(**options).mode("append").save()
    table = Catalog(tmp_path).table("t")
    names = [item.name for item in Catalog(tmp_path).store.list("tables/t/main/")]
    assert len([name for name in names if name.endswith(".v")]) == table.head().version == 36
    assert not [name for name in names if name.endswith(".b")]


def test_catalogs_commit_from_plain_spark_code(spark: Any, tmp_path: Path) -> None:
    """mapInArrow, foreachPartition and RDDs: one writer for each worker process, however many tasks it
    takes; and no upkeep, though the handle says so."""
    lake = Catalog(tmp_path, upkeep="synchronous", bundle_every=2)
    lake.create_table("t", pa.schema([("id", pa.int64()), ("by", pa.string())]))

    def in_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(batches).append_column("by", pa.array(["arrow"] * 5))
        version = lake.commit("t", rows, key=f"arrow/{rows.column(0)[0]}")
        yield pa.record_batch(
            {"pid": [os.getpid()], "writer": [str(version.id.writer)], "seq": [version.id.seq]}
        )

    def in_rows(rows: Iterator[Any]) -> None:
        lake.commit("t", [{"id": row.id, "by": "rows"} for row in rows])

    def in_numbers(numbers: Iterator[int]) -> None:
        lake.commit("t", [{"id": number, "by": "rdd"} for number in numbers])

    found = spark.range(0, 40, 1, 8).mapInArrow(in_arrow, "pid long, writer string, seq long").collect()
    spark.range(0, 40, 1, 4).foreachPartition(in_rows)
    spark.sparkContext.parallelize(range(40), 4).foreachPartition(in_numbers)
    read = lake.read("t").to_pylist()
    for by in ("arrow", "rows", "rdd"):
        assert sorted(row["id"] for row in read if row["by"] == by) == list(range(40))
    pairs = {(row.pid, row.writer) for row in found}
    assert len(pairs) == len({pid for pid, _ in pairs})
    for pid, _ in pairs:
        seqs = sorted(row.seq for row in found if row.pid == pid)
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert len(lake.table("t").head().clock) < 16
    assert not any(item.name.endswith(".b") for item in lake.store.list("tables/t/main/"))
    for _ in range(20):  # the driver's commits are as any other's
        lake.commit("t", [{"id": -1}])
    assert any(item.name.endswith(".b") for item in lake.store.list("tables/t/main/"))


def test_handles_and_plans_pickle_without_showing_secrets(tmp_path: Path) -> None:
    from pyspark.sql.types import StructType  # noqa: PLC0415

    from crdtcat.spark.writing import plan_write  # noqa: PLC0415

    lake = Catalog(tmp_path, {"auto_mkdir": True, "secret": "hush-hush"})
    plan = plan_write(lake, "t", StructType().add("id", "long"))
    copy = pickle.loads(pickle.dumps(plan))
    assert copy.name == plan.name
    assert "hush" not in repr(plan) + repr(copy) + repr(plan.staging)


def test_an_interrupted_driver_leaves_no_empty_table(tmp_path: Path) -> None:
    from pyspark.sql.types import StructType  # noqa: PLC0415

    from crdtcat.spark.writing import plan_write  # noqa: PLC0415

    lake = Catalog(tmp_path, upkeep=False)
    rows = pa.table({"id": [1, 2, 3]})

    def finishing(name: str) -> Callable[[], object]:
        plan = plan_write(lake, name, StructType().add("id", "long"))
        report = plan.run(iter(rows.to_batches()), 0)
        return lambda: plan.finish([report])

    counter = Lines()
    counter.run(finishing("counted"))
    seen = set()
    for point in range(1, counter.seen + 1):
        interrupted = Lines(point).run(finishing(f"t{point}"))
        there = f"t{point}" in lake
        assert not there or lake.read(f"t{point}") == rows, point
        assert interrupted or there
        seen.add(there)
    assert seen == {True, False}

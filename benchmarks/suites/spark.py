"""Spark: scans and writes beside Spark's own Parquet, tasks that commit beside one driver commit.

Every ratio is of times measured in one session, one after the other, the best of three.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.job import Job
from benchmarks.report import Results, best, progress
from crdtcat import Catalog
from crdtcat.spark import compact, load, save
from examples.spark_session import quiet_session

PURPOSE = (
    "Spark beside its own Parquet: scans by load() (aim: 0.95 of native) and by the format (0.8), writes by "
    "the format (0.6); tasks that commit by themselves beside one driver commit (0.9); compaction on Spark "
    "beside the local one (1.0)."
)


def rows(spark: Any, count: int, tasks: int) -> Any:
    """Six columns, as in most figures here: integers, floats, text, a moment."""
    return spark.range(0, count, 1, tasks).selectExpr(
        "id",
        "id % 1000 as k",
        "rand(7) as x",
        "rand(8) * 1000 as y",
        "concat('name-', id % 100000) as name",
        "timestamp_micros(1763251200000000 + id * 1000) as at",
    )


def consume(df: Any) -> None:
    """Make every value, keep none."""
    df.write.format("noop").mode("overwrite").save()


def run(job: Job) -> Results:
    """All of it in one session."""
    results = Results()
    count, tasks, times = job.pick((40_000, 4, 1), (1_000_000, 200, 3), (5_000_000, 200, 3))
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder, quiet_session("benchmark") as spark:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        lake = Catalog(Path(folder) / "lake", upkeep=False)
        df = rows(spark, count, 4).cache()
        df.count()
        _writes(df, lake, Path(folder) / "parquet", times, results)
        df.unpersist()
        _scans(spark, lake, count, times, results)
        _commits(spark, lake, count // 5, tasks, times, results)
        _compactions(spark, lake, job.pick(20, 500, 2_000), results)
    return results


def _writes(df: Any, lake: Catalog, plain: Path, times: int, results: Results) -> None:
    def native() -> None:
        df.write.mode("overwrite").parquet(str(plain))

    def ours() -> None:
        shutil.rmtree(lake.url, ignore_errors=True)
        df.write.format("crdtcat").mode("append").save(f"{lake.url}/t")

    progress("writes")
    native_seconds, our_seconds = best(native, times), best(ours, times)
    stored = sum(path.stat().st_size for path in Path(lake.url).glob("data/*/*"))
    parquet = sum(path.stat().st_size for path in plain.glob("*.parquet"))
    results.add(
        "Write",
        ["how", "s", "ratio", "bytes"],
        [
            ["df.write.parquet", native_seconds, 1.0, parquet],
            ["format crdtcat, job", our_seconds, native_seconds / our_seconds, stored],
        ],
        "ratio: native time over ours; the aim is 0.6",
    )


def _scans(spark: Any, lake: Catalog, count: int, times: int, results: Results) -> None:
    files = [str(path) for path in Path(lake.url).glob("data/*/*.parquet")]
    frames = {
        "spark.read.parquet of the same files": spark.read.parquet(*files),
        "load()": load(spark, lake, "t"),
        "format crdtcat": spark.read.format("crdtcat").load(f"{lake.url}/t"),
    }
    queries = {
        "all columns": consume,
        "sum of one": lambda df: df.agg({"k": "sum"}).collect(),
        "count": lambda df: df.count(),
    }
    found = []
    for query, action in queries.items():
        progress(f"scan: {query}")
        taken = {how: best(lambda df=df, action=action: action(df), times) for how, df in frames.items()}  # type: ignore[misc]
        first = next(iter(taken.values()))
        found += [[query, how, seconds, first / seconds] for how, seconds in taken.items()]
    results.add(
        f"Scan of {count:,} rows of 6 columns",
        ["query", "how", "s", "ratio"],
        found,
        "ratio: native time over ours; the aims are 0.95 for load() and 0.8 for the format, all columns",
    )


def _commits(spark: Any, lake: Catalog, count: int, tasks: int, times: int, results: Results) -> None:
    df = rows(spark, count, tasks)
    number = iter(range(1_000))

    def write(commit: str) -> None:
        assert save(df, lake, f"{commit}-{next(number)}", commit=commit)

    progress("commits")
    by_task, by_job = best(lambda: write("task"), times), best(lambda: write("job"), times)
    results.add(
        f"{tasks} tasks, {count:,} rows",
        ["how", "s", "ratio"],
        [["one driver commit", by_job, 1.0], ["every task commits", by_task, by_job / by_task]],
        "ratio: time of one driver commit over that of task commits; the aim is 0.9, with no failed task",
    )


def _compactions(spark: Any, lake: Catalog, count: int, results: Results) -> None:
    """Equal tables of small chunks, one compacted here, one by tasks."""
    progress("compactions")
    for name in ("here", "there"):
        table = lake.create_table(name)
        for at in range(count):
            table.append({"id": [at * 100 + n for n in range(100)], "text": ["x" * 50] * 100})
        table.checkpoint()
    began = time.perf_counter()
    lake.table("here").compact()
    local = time.perf_counter() - began
    compact(spark, lake, "there", rows=count * 10)  # workers are up after this
    began = time.perf_counter()
    compact(spark, lake, "there")
    there = time.perf_counter() - began
    results.add(
        f"Compaction of {count:,} small chunks",
        ["how", "s", "ratio"],
        [["local", local, 1.0], ["Spark", there, local / there]],
        "ratio: local time over Spark's; the aim is 1.0 past the documented threshold",
    )

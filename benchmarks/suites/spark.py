"""Spark: scans and writes beside Spark's own Parquet, tasks that commit beside one driver commit.

Every ratio is of times measured in one session. What is compared takes turns, round after round, so that a
JVM that gets warmer and a machine that gets busier do both the same good and harm; the median of each counts.
Python sources that do next to nothing are measured too, since Spark's way to and from Python workers is not
ours to shorten: one hands on what pyarrow decodes, one batches that are ready in memory, one the same and
says that no column holds a null. No source is quicker than the last.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final
from unittest import mock

import pyarrow as pa

from benchmarks.bare_sources import bare_sources
from benchmarks.job import Job
from benchmarks.report import Results, progress
from benchmarks.speculating import speculation
from crdtcat import Catalog
from crdtcat.maintenance.compact import CompactResult
from crdtcat.spark import compact, load, register, save
from crdtcat.spark.format_reader import FUNCTION, READ_BY
from examples.spark_session import quiet_session

PURPOSE = (
    "Spark beside its own Parquet: scans by load() (aim: 0.95 of native) and by the format (0.8), writes by "
    "the format (0.6); tasks that commit by themselves beside one driver commit (0.9); compaction on Spark "
    "beside the local one (1.0)."
)

NOT_NULL: Final = "format crdtcat, not_null"
BY_SOURCE: Final = "format crdtcat, not registered"
WARM_ROUNDS: Final = 2  # the JVM compiles what it runs often


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


def in_turns(actions: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of each, in seconds: one of each per round; rounds before that are not counted."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for at in range(-WARM_ROUNDS if rounds else 0, max(rounds, 1)):
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            if at >= 0:
                taken[name].append(time.perf_counter() - began)
    return {name: median(seconds) for name, seconds in taken.items()}


def run(job: Job) -> Results:
    """All of it in one session."""
    results = Results()
    count, tasks, rounds = job.pick((40_000, 4, 0), (5_000_000, 200, 3), (5_000_000, 200, 5))
    committed, dying = job.pick((8_000, 4), (200_000, 15), (1_000_000, 200))
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder, quiet_session("benchmark") as spark:
        register(spark)
        lake = Catalog(Path(folder) / "lake", upkeep=False)
        plain = Path(folder) / "parquet"
        df = rows(spark, count, 4).cache()
        df.count()
        _writes(df, lake, plain, rounds, results)
        df.unpersist()
        _scans(spark, lake, plain, count, rounds, results)
        _commits(spark, lake, committed, tasks, 3 * rounds, results)
        _retries(spark, lake, committed, dying, results)
        _compactions(spark, lake, job.pick(20, 2_000, 2_000), results)
    if job.size == "full":
        speculation(results)
    return results


def _writes(df: Any, lake: Catalog, plain: Path, rounds: int, results: Results) -> None:
    def native() -> None:
        df.write.mode("overwrite").parquet(str(plain))

    def ours() -> None:
        shutil.rmtree(lake.url, ignore_errors=True)
        df.write.format("crdtcat").mode("append").save(f"{lake.url}/t")

    progress("writes")
    taken = in_turns({"df.write.parquet": native, "format crdtcat, job": ours}, rounds)
    sizes = [
        sum(path.stat().st_size for path in plain.glob("*.parquet")),
        sum(path.stat().st_size for path in Path(lake.url).glob("data/*/*")),
    ]
    first = taken["df.write.parquet"]
    results.add(
        "Write",
        ["how", "s", "ratio", "bytes"],
        [[how, taken[how], first / taken[how], size] for how, size in zip(taken, sizes, strict=True)],
        "ratio: native time over ours; the aim is 0.6",
    )


def _scans(spark: Any, lake: Catalog, plain: Path, count: int, rounds: int, results: Results) -> None:
    frame = load(spark, lake, "t")
    files = frame.inputFiles()
    frames = {
        "spark.read.parquet, written by Spark": spark.read.parquet(str(plain)),
        "spark.read.parquet, our segments": spark.read.parquet(*files),
        "load()": frame,
        "load(native=False)": load(spark, lake, "t", native=False),
        "format crdtcat": spark.read.format("crdtcat").load(f"{lake.url}/t"),
        NOT_NULL: spark.read.format("crdtcat").option("not_null", "true").load(f"{lake.url}/t"),
        BY_SOURCE: _by_source(spark, f"{lake.url}/t"),
        **bare_sources(spark, files, frame.schema, plain.parent / "ready"),
    }
    queries: dict[str, Callable[[Any], Any]] = {
        "all columns": consume,
        "sum of one": lambda df: df.agg({"k": "sum"}).collect(),
        "count": lambda df: df.count(),
    }
    found = []
    for query, action in queries.items():
        progress(f"scan: {query}")
        compared = frames if query == "all columns" else {how: frames[how] for how in list(frames)[:5]}
        # The aims are for all columns, where a session's rounds differ more than they do elsewhere.
        more = rounds + rounds // 2 if query == "all columns" else rounds
        taken = in_turns({how: partial(action, df) for how, df in compared.items()}, more)
        written, segments, *_ = taken.values()
        found += [[query, how, took, written / took, segments / took] for how, took in taken.items()]
    results.add(
        f"Scan of {count:,} rows of 6 columns",
        ["query", "how", "s", "against Spark's own files", "against our segments"],
        found,
        "ratios: native time over that of each; the aims are 0.95 for load() against equal files, 0.8 for "
        "the format with all columns",
    )


def _by_source(spark: Any, path: str) -> Any:
    """The format as Spark's Python source, which is what a session that was not registered has."""
    spark.conf.set(READ_BY, "source")
    try:
        return spark.read.format("crdtcat").load(path)
    finally:
        spark.conf.set(READ_BY, FUNCTION)


def _commits(spark: Any, lake: Catalog, count: int, tasks: int, rounds: int, results: Results) -> None:
    df = rows(spark, count, tasks)
    number = iter(range(1_000))

    def write(commit: str) -> None:
        spark.sparkContext.setJobGroup(commit, commit)
        versions = save(df, lake, f"{commit}-{next(number)}", commit=commit)
        assert sum(version.rows for version in versions) == count

    progress("commits")
    os.sync()  # Spark forces nothing of what it wrote before, and commits would wait for that
    taken = in_turns(
        {"one driver commit": lambda: write("job"), "every task commits": lambda: write("task")}, rounds
    )
    first = taken["one driver commit"]
    results.add(
        f"{tasks} tasks, {count:,} rows",
        ["how", "s", "rows/s", "ratio", "tasks run", "that failed"],
        [
            [how, seconds, count / seconds, first / seconds, *_tasks(spark, commit)]
            for (how, seconds), commit in zip(taken.items(), ("job", "task"), strict=True)
        ],
        "ratio: time of one driver commit over that of task commits; the aim is 0.9, with no failed task. "
        "Tasks that commit wait for the disk, twice each: what was written before is on it first.",
    )


def _tasks(spark: Any, group: str) -> tuple[int, int]:
    """How many tasks of a group of jobs ended well, and how many attempts failed, by the driver's count."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # it counts behind
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    found = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in found), sum(stage.numFailedTasks for stage in found)


def _retries(spark: Any, lake: Catalog, count: int, tasks: int, results: Results) -> None:
    """Every fifth task dies once: where tasks commit, after its commit; else when all its rows are made.

    Rows go through Python twice in both, since they have to where the driver commits: there a task dies in a
    function of its own. A first round that is not counted has workers ready for that."""
    df = rows(spark, count, tasks)

    def once(how: str, *, broken: bool, name: str) -> list[Any]:
        spark.sparkContext.setJobGroup(name, name)
        began = time.perf_counter()
        if how == "one driver commit":
            save(df.mapInArrow(partial(_dying, broken=broken), df.schema), lake, name)
        else:
            lake.create_table(name)
            made = df.mapInArrow(partial(_dying, broken=False), df.schema)
            consume(made.mapInArrow(partial(_committing, lake, name, broken=broken), df.schema))
        seconds = time.perf_counter() - began
        head, ids = lake.table(name).head(), lake.read(name, ["id"]).column("id")
        twice = len(ids) - len(ids.unique())
        _, failed = _tasks(spark, name)
        figures = [seconds, count / seconds, count, len(ids), twice, head.version, len(head.void)]
        return [how, failed, *figures]

    found = []
    for at, how in enumerate(("one driver commit", "every task commits")):
        progress(f"retries: {how}")
        once(how, broken=False, name=f"warm-{at}")
        found += [once(how, broken=broken, name=f"dying-{at}-{broken}") for broken in (False, True)]
    results.add(
        f"Tasks that die: {tasks} tasks, {count:,} rows",
        [
            "how",
            "tasks that died",
            "s",
            "rows/s",
            "rows",
            "readable",
            "twice",
            "versions that count",
            "that do not",
        ],
        found,
        "A task that dies after its commit commits again under the same idempotency key, and the second "
        "version does not count. Speculation needs two hosts: in the full run.",
    )


FAILS_EVERY = 5


def _dies(*, broken: bool) -> bool:
    from pyspark import TaskContext  # noqa: PLC0415 (runs in a worker)

    task = TaskContext.get()
    return broken and task.partitionId() % FAILS_EVERY == 0 and task.attemptNumber() == 0


def _dying(batches: Iterator[pa.RecordBatch], *, broken: bool) -> Iterator[pa.RecordBatch]:
    yield from batches
    if _dies(broken=broken):
        raise RuntimeError("a task that dies")


def _committing(
    lake: Catalog, name: str, batches: Iterator[pa.RecordBatch], *, broken: bool
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # noqa: PLC0415 (runs in a worker)

    lake.commit(name, pa.Table.from_batches(list(batches)), key=f"load/{TaskContext.get().partitionId()}")
    if _dies(broken=broken):
        raise RuntimeError("a task that dies")
    yield from ()


def _compactions(spark: Any, lake: Catalog, count: int, results: Results) -> None:
    """Equal tables of small chunks, one compacted here, one by tasks."""
    progress("compactions")
    names = ("warm", "here", "there")
    with mock.patch("os.fsync"):  # thousands of waits for the disk are not what is measured
        for name in names:
            table = lake.create_table(name)
            for at in range(count if name != "warm" else count // 10):
                table.append({"id": [at * 100 + n for n in range(100)], "text": ["x" * 50] * 100})
            table.checkpoint()
    compact(spark, lake, "warm", rows=500)  # several groups: all workers are up after this
    taken = {}
    actions: dict[str, Callable[[], CompactResult]] = {
        "local": lambda: lake.table("here").compact(),
        "Spark": lambda: compact(spark, lake, "there"),
    }
    for name, action in actions.items():
        began = time.perf_counter()
        done = action()
        taken[name] = (time.perf_counter() - began, done.chunks_before, done.chunks_after)
    local = taken["local"][0]
    results.add(
        f"Compaction of {count:,} small chunks",
        ["how", "s", "ratio", "chunks before", "chunks after"],
        [[how, seconds, local / seconds, *chunks] for how, (seconds, *chunks) in taken.items()],
        "ratio: local time over Spark's; the aim is 1.0 past the documented threshold",
    )

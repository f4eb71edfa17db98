"""Speculation on a cluster: tasks that do not return, commit and are run again elsewhere.

`python -m benchmarks.speculating <master> <catalog> <on|off>` is the application, a process of its own, since
a Python process has one Spark session. It prints what it found as one JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.peers import ROOT
from benchmarks.report import Results, progress
from benchmarks.spark_cluster import cluster, environment
from crdtcat import Catalog
from crdtcat.spark import save

TASKS = 20
SLOW_EVERY = 10
SLOW_SECONDS = 20.0
ROWS = 200_000
APPLICATION_SECONDS_MAX = 900
SETTINGS = {
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def speculation(results: Results) -> None:
    """With and without: every tenth task is slow to return, after all it had to do was done."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder, cluster(Path(folder)) as master:
        for setting in ("off", "on"):
            progress(f"speculation {setting}")
            answer = subprocess.run(
                [sys.executable, "-m", "benchmarks.speculating", master, f"{folder}/{setting}", setting],
                cwd=ROOT,
                env=environment("127.0.0.1"),
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=APPLICATION_SECONDS_MAX,
            )
            rows += json.loads(answer.stdout.splitlines()[-1])
    results.add(
        f"Speculation: {TASKS} tasks on two hosts, {ROWS:,} rows, of which every {SLOW_EVERY}th task takes "
        f"{SLOW_SECONDS:g} s to return",
        [
            "how",
            "speculation",
            "s",
            "rows/s",
            "rows",
            "readable",
            "twice",
            "versions that count",
            "that do not",
        ],
        rows,
        "Where tasks commit, a slow one has committed before it does not return, so that both attempts "
        "commit under one idempotency key; the second version does not count.",
    )


def application(master: str, url: str, setting: str) -> list[list[Any]]:
    """Both ways to commit; a row of the table for each."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (slow)

    builder = SparkSession.builder.master(master).appName("speculation")
    for name, value in {**SETTINGS, "spark.speculation": str(setting == "on").lower()}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    lake = Catalog(url, upkeep=False)
    spark.range(0, TASKS, 1, TASKS).mapInArrow(_passed_on, "id bigint").collect()  # workers are up after this
    df = spark.range(0, ROWS, 1, TASKS)
    found = []
    for how, makes in (("one driver commit", _returning), ("every task commits", _committing)):
        name = makes.__name__[1:]
        made = df.mapInArrow(partial(makes, lake, name), df.schema)
        began = time.perf_counter()
        if makes is _returning:
            save(made, lake, name)
        else:
            lake.create_table(name)
            made.write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - began
        head, ids = lake.table(name).head(), lake.read(name, ["id"]).column("id")
        twice = len(ids) - len(ids.unique())
        figures = [seconds, ROWS / seconds, ROWS, len(ids), twice, head.version, len(head.void)]
        found.append([how, setting, *figures])
    spark.stop()
    return found


def _passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _returning(_: Catalog, __: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    _linger()


def _committing(lake: Catalog, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # noqa: PLC0415 (runs in a worker)

    lake.commit(name, pa.Table.from_batches(list(batches)), key=f"load/{TaskContext.get().partitionId()}")
    _linger()
    yield from ()


def _linger() -> None:
    """The first attempt of some tasks does not return for a while, or until it is killed."""
    from pyspark import TaskContext  # noqa: PLC0415 (runs in a worker)

    task = TaskContext.get()
    if task.partitionId() % SLOW_EVERY == 0 and task.attemptNumber() == 0:
        time.sleep(SLOW_SECONDS)


if __name__ == "__main__":
    print(json.dumps(application(*sys.argv[1:])))

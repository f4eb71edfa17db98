"""A Spark application on a cluster of two hosts, with speculation on: tasks that run twice, to their end.

`local[N]` never speculates, and a second attempt is only made on another host than the first; 127.0.0.2 and
127.0.0.3 are two. The first attempt of one task commits and then does not return until a second attempt of it
has committed as well; so both have done everything they do. What was seen is told on the output."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter

from crdtcat.spark import CrdtcatSource
from crdtcat.spark.source import PlannedWriter
from tests.spark.conftest import new_session

TASKS = 4
PATIENCE_SECONDS = 300  # for the other attempt; then the task returns, and the test fails


class _Slow(PlannedWriter):
    """Writes as it should; the first attempt of task 0 then waits for the second to be as far."""

    folder = ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        message = super().write(iterator)
        task = TaskContext.get()
        if task.partitionId() == 0:
            mark = Path(self.folder) / f"{self._plan.name[-1]}-{task.attemptNumber()}"
            mark.write_text(os.environ.get("SPARK_LOCAL_IP", "") or str(os.getppid()))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while task.attemptNumber() == 0 and time.monotonic() < deadline:
                time.sleep(0.05)  # until it is killed, since the other one is done
        return message


class SlowSource(CrdtcatSource):
    """`format("crdtcat")` with one slow task."""

    @classmethod
    def name(cls) -> str:
        return "crdtcat_slow"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        made = _Slow(super().writer(schema, overwrite)._plan)
        made.folder = self.options["metadata"].split('"')[3]
        return made


def main(master: str, url: str, marks: str) -> None:
    """Write the same rows in both ways to commit, with a task of each running twice."""
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.0",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
    }
    spark = new_session(master, settings)
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(SlowSource)
    for commit in ("task", "job"):
        options = {"catalog": url, "table": commit, "commit": commit, "query": commit}
        writer = spark.range(0, 400, 1, TASKS).write.format("crdtcat_slow").options(**options)
        writer.option("metadata", f'{{"marks": "{marks}"}}').mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

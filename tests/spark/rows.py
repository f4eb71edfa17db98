"""What the tests here share: rows of frames, comparable in any order; sources that fail on purpose."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter

from crdtcat.spark import CrdtcatSource
from crdtcat.spark.sink import BATCH_PROPERTY, StreamSink
from crdtcat.spark.source import PlannedWriter
from crdtcat.spark.writing import Report, WritePlan, plan_write


def values(rows: Any) -> list[str]:
    """The rows of a frame or an Arrow table, as sorted text: the same for equal rows in any order."""
    if isinstance(rows, pa.Table):
        columns = rows.to_pydict()
        listed = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    else:
        listed = [row.asDict(recursive=True) for row in rows.collect()]
    return sorted(repr(sorted(row.items())) for row in listed)


TRIES = 4
"""How often the tests' session tries a task."""
LAST = 3
"""The partition of four that is never written, if only half of a query is done."""


def wait_for_another(plan: WritePlan) -> None:
    """Until some task has committed; half a minute at most."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if plan.table in plan.catalog and len(plan.catalog.table(plan.table).history()):
            return
        time.sleep(0.05)


class HalfPlan(WritePlan):
    """A write of two tasks that commit by themselves: the first does, and then the second fails, every time
    it is tried; before it commits its rows or, if the metadata say so, after."""

    def run(self, batches: Iterator[pa.RecordBatch], partition: int) -> Report:
        if partition == 0:
            return super().run(batches, partition)
        wait_for_another(self)
        if self.metadata["committed"]:
            super().run(batches, partition)
        raise RuntimeError("the second task failed")


def plan_half(*args: Any, **options: Any) -> HalfPlan:
    """What `save` calls for a plan, where half of it is to be carried out."""
    plan = plan_write(*args, **options)
    return HalfPlan(**{item.name: getattr(plan, item.name) for item in fields(plan)})


class _Failing(PlannedWriter):
    """Writes as it should, and then fails on the first attempt of every second partition."""

    how = "raise"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        task = TaskContext.get()
        chosen = task.attemptNumber() == 0 and task.partitionId() % 2 == 0
        fails = chosen and self.how in ("raise", "before", "kill")
        if fails and self.how == "before":
            next(iterator, None)
            raise RuntimeError("failed before it was done")
        if self.how == "half" and task.partitionId() == LAST:
            wait_for_another(self._plan)
            raise RuntimeError("failed before it was done, when another was")
        message = super().write(iterator)
        if self.how == "lost" and task.partitionId() == 0:
            self._lose_shuffles()
        if fails and self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fails or self.how == "always":
            raise RuntimeError("failed after it was done")
        return message

    def _lose_shuffles(self) -> None:
        """Once, delete what the stage before this one left for the tasks of this one, and fail."""
        mark = Path(self._plan.metadata["mark"])
        if mark.exists():
            return
        mark.touch()
        for file in Path(self._plan.metadata["folder"]).rglob("shuffle_*"):
            file.unlink()
        raise RuntimeError("failed after it was done, and the files of the stage before are lost")

    def commit(self, messages: Any) -> None:
        if self.how == "driver":
            raise RuntimeError("the driver failed before it committed")
        super().commit(messages)


class FailingSource(CrdtcatSource):
    """`format("crdtcat")` whose tasks fail as the class says."""

    how = "raise"

    @classmethod
    def name(cls) -> str:
        return f"crdtcat_{cls.how}"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        made = _Failing(super().writer(schema, overwrite)._plan)
        made.how = self.how
        return made


FAILING = {how: type(f"Failing_{how}", (FailingSource,), {"how": how}) for how in
           ("raise", "before", "kill", "always", "half", "driver", "lost")}  # fmt: skip


class _FailingSink(StreamSink):
    """Fails once in each of three ways, which the query outlives one by one.

    In the first batch a task of two fails before it has staged or committed its rows, every time it is tried,
    and when the other is done; then the driver does before it commits. In the second the driver commits, and
    fails then, as if the answer was lost: Spark never learns that the batch is done."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        task = TaskContext.get()
        if int(task.getLocalProperty(BATCH_PROPERTY)) > 0 or self._mark("task").exists():
            return super().write(iterator)
        if task.partitionId() == 0:
            message = super().write(iterator)
            self._mark("other").touch()
            return message
        until = time.monotonic() + 30
        while not self._mark("other").exists() and time.monotonic() < until:
            time.sleep(0.02)
        if task.attemptNumber() == TRIES - 1:
            self._mark("task").touch()
        raise RuntimeError("a task failed before it was done, when another was")

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        if batchId == 0 and self._once("before"):
            raise RuntimeError("the driver failed before it committed")
        super().commit(messages, batchId)
        if batchId == 1 and self._once("after"):
            raise RuntimeError("the answer was lost")

    def _mark(self, name: str) -> Path:
        return Path(self._plan.metadata["marks"], name)

    def _once(self, name: str) -> bool:
        """Whether it is the first time."""
        first = not self._mark(name).exists()
        self._mark(name).touch()
        return first


FAILURES = ("failed before it was done", "failed before it committed", "the answer was lost")
"""What a query says that `crdtcat_failing_sink` fails, time after time."""


class FailingSinkSource(CrdtcatSource):
    """A sink that fails in three ways, and a folder for its marks in its metadata."""

    @classmethod
    def name(cls) -> str:
        return "crdtcat_failing_sink"

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamSink:  # noqa: N802
        return _FailingSink(super().streamWriter(schema, overwrite)._plan)

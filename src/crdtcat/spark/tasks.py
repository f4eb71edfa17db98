"""Work dealt out to Spark's tasks: what the local engine does to its units one after the other.

Each task gets its own units and nothing of the others'. What tasks return comes back in the order of the
units, whoever was done first. The driver can tell how far it is while they run."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyspark import InheritableThread

from crdtcat.errors import CrdtcatError
from crdtcat.maintenance.progress import Progress, Tell
from crdtcat.spark.reading import deal
from crdtcat.spark.worker import SentAhead, task_begins

LOOK_SECONDS: Final = 0.2  # between two looks at how far tasks are

Item = TypeVar("Item")
Found = TypeVar("Found")


def in_tasks(
    spark: Any,
    work: Callable[[Sequence[Item]], Sequence[Found]],
    items: Sequence[Item],
    sizes: Sequence[int],
    *,
    what: str = "",
    tell: Tell | None = None,
) -> list[Found]:
    """What `work` makes of all items, dealt out to tasks by size: at least two for each core, if there are.

    Args:
        spark: the session.
        work: run in tasks, with some neighbouring items; pickled with all it refers to.
        items: pickled, each to its task.
        sizes: how much work each is, in any unit.
        what: what is being done, for Spark's own pages and for progress.
        tell: told how many tasks are done. What it raises cancels the tasks and reaches the caller.

    Raises the first of our own errors that `work` raised, once all tasks are done; what Spark raises if a
    task failed for good in another way.
    """
    if not items:
        return []
    cores = spark.sparkContext.defaultParallelism
    weights = [max(1, size) for size in sizes]
    shares = deal(weights, max(1, sum(weights) // (2 * cores)))

    dealt = [[items[at] for at in share] for share in shares]
    job = spark.sparkContext.parallelize(dealt, len(dealt)).mapPartitions(_Task(work))
    found = job.collect() if tell is None else _watched(spark.sparkContext, job, len(dealt), what, tell)
    for share in found:
        if isinstance(share, CrdtcatError):
            raise share
    return [item for share in found for item in share]


@dataclass(frozen=True)
class _Task(SentAhead):
    """What a task does with its shares."""

    work: Callable[[Sequence[Any]], Sequence[Any]]

    def __call__(self, shares: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any] | CrdtcatError]:
        task_begins()
        for share in shares:
            try:
                yield self.work(share)
            except CrdtcatError as error:  # as it is, to be raised on the driver
                yield error


def _watched(context: Any, job: Any, total: int, what: str, tell: Tell) -> list[Any]:
    """What the job gives; `tell` is told how far it is, by the thread that called."""
    group = f"crdtcat-{secrets.token_hex(8)}"
    found: list[Any] = []
    failed: list[BaseException] = []

    def collect() -> None:
        context.setJobGroup(group, what)
        try:
            found.extend(job.collect())
        except BaseException as error:  # noqa: BLE001 (raised below, by the thread that asked)
            failed.append(error)

    running = InheritableThread(target=collect, daemon=True)
    running.start()
    try:
        while running.is_alive():
            running.join(LOOK_SECONDS)
            tell(Progress(what, min(total - 1, _done(context, group)), total, "tasks"))
    except BaseException:
        context.cancelJobGroup(group)
        running.join()
        raise
    if failed:
        raise failed[0]
    tell(Progress(what, total, total, "tasks"))
    return found


def _done(context: Any, group: str) -> int:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)

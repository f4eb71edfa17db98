"""Running a scan of a keyed table: straight chunks as in any table, groups merged, in the order of keys.

Reads run ahead of the consumer by a bounded number of bytes, whatever they are for.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Final

import pyarrow as pa

from crdtcat.scan.execute import AHEAD_BYTES, Execution, Wanted
from crdtcat.scan.merge_plan import Group
from crdtcat.scan.merge_read import Reading
from crdtcat.scan.plan import Plan
from crdtcat.scan.units import Unit, units
from crdtcat.support.pools import ThreadPool

Task = Unit | tuple[int, tuple[str, ...]]
"""One read: a unit of straight chunks, or stored columns of one chunk."""


MERGES_AHEAD: Final = os.cpu_count() or 1  # each holds as many rows as are merged at a time


class MergedExecution:
    """Reads a plan that merges.

    Args:
        plan: what to read.
        execution: reads chunks for it.
    """

    def __init__(self, plan: Plan, execution: Execution) -> None:
        assert plan.merge is not None
        self._plan, self._execution, self._items = plan, execution, plan.merge.items
        self.threads = execution.threads
        self._reading = Reading(plan)
        self._nbytes = plan.head.log.nbytes
        groups = [item for item in self._items if isinstance(item, Group)]
        self._last_use = {one.chunk: group for group in groups for one in group.beside}

    def tables(self) -> Iterator[pa.Table]:
        """The rows, by rising key. Raises `Corrupt`, naming what is damaged or missing."""
        with ThreadPool(self.threads, thread_name_prefix="crdtcat-scan") as pool:
            ahead = _Ahead(self, pool, (task for item in self._tasks() for task in item))
            try:
                for item, tasks in zip(self._items, self._tasks(), strict=True):
                    if isinstance(item, Group):
                        yield from self._merged(item, tasks, ahead)
                    else:
                        for _ in tasks:
                            yield from ahead.following()
            finally:
                ahead.stop()

    def _merged(self, group: Group, tasks: list[Task], ahead: _Ahead) -> Iterator[pa.Table]:
        for task in tasks[: len(tasks) - len(group.chunks)]:
            assert isinstance(task, tuple)
            (ahead.kept[task[0]],) = ahead.following()
        merging: deque[Future[pa.Table | None]] = deque()
        for merge in self._reading.rows(group, lambda: ahead.following()[0], ahead.kept):
            merging.append(ahead.pool.submit(merge))
            if len(merging) > MERGES_AHEAD:
                yield from _some(merging.popleft().result())
        while merging:
            yield from _some(merging.popleft().result())
        for one in group.beside:
            if self._last_use[one.chunk] is group:
                ahead.kept.pop(one.chunk, None)

    def _tasks(self) -> Iterator[list[Task]]:
        """What is read for each item, in order. What takes cells away from several groups is read once."""
        read: set[int] = set()
        for item in self._items:
            if isinstance(item, Group):
                beside = [one for one in item.beside if one.chunk not in read]
                read.update(one.chunk for one in beside)
                first: list[Task] = [
                    (one.chunk, self._reading.names(one.chunk, only_keys=True)) for one in beside
                ]
                yield first + [(chunk, self._reading.names(chunk)) for chunk in item.chunks]
            else:
                straight = replace(
                    self._plan, chunks=self._plan.chunks[item], whole=self._plan.whole[item], merge=None
                )
                yield list(units(straight))

    def wanted(self) -> Iterator[Wanted]:
        """Every chunk that `tables` reads, and the stored columns it reads of it. No request."""
        for number, task in enumerate(task for tasks in self._tasks() for task in tasks):
            yield from (
                self._execution.wanted_of(task, number) if isinstance(task, Unit) else ((number, *task),)
            )

    def read(self, task: Task) -> list[pa.Table]:
        """Carry out one read."""
        if isinstance(task, Unit):
            return self._execution.read(task)
        chunk, names = task
        return [self._execution.stored(chunk, names)]

    def nbytes(self, task: Task) -> int:
        """Arrow content of a read, about."""
        return task.nbytes if isinstance(task, Unit) else int(self._nbytes[task[0]])


def _some(rows: pa.Table | None) -> Iterator[pa.Table]:
    if rows is not None and rows.num_rows:
        yield rows


class _Ahead:
    """Reads in order, some of them before they are asked for; `kept` are those needed again."""

    def __init__(self, execution: MergedExecution, pool: ThreadPool, tasks: Iterator[Task]) -> None:
        self._execution, self.pool, self._tasks = execution, pool, tasks
        self._running: deque[tuple[int, Future[list[pa.Table]]]] = deque()
        self._bytes = 0
        self.kept: dict[int, pa.Table] = {}

    def following(self) -> list[pa.Table]:
        """The result of the next read."""
        most = 4 * self._execution.threads
        while not self._running or (self._bytes < AHEAD_BYTES and len(self._running) < most):
            task = next(self._tasks, None)
            if task is None:
                break
            nbytes = self._execution.nbytes(task)
            self._running.append((nbytes, self.pool.submit(self._execution.read, task)))
            self._bytes += nbytes
        nbytes, future = self._running.popleft()
        self._bytes -= nbytes
        return future.result()

    def stop(self) -> None:
        """Let go of what nobody wants any more."""
        for _, future in self._running:
            future.cancel()

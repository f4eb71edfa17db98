"""Work beside the caller: one thread for each process, started when there is first something to do.

For upkeep, which nobody waits for and which may be left out: what comes while much is waiting is not done
here, and another commit's upkeep finds it. The process ends when the work that was begun is done, so a short
program does its share like a long one; it waits for it a while, and not for a store that does not answer. A
forked child has a thread of its own.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from crdtcat.options import SECONDS_MAX
from crdtcat.support.arguments import require_seconds
from crdtcat.support.locks import ForkSafeLock

WAITING_MAX: Final = 4
"""Pieces of work under way or waiting; beyond that the log grows faster than one thread can tend it."""
EXIT_SECONDS_MAX: Final = 20.0
"""How long the end of the process waits for work that was begun."""

_lock = ForkSafeLock()
_workers: dict[int, Worker] = {}


class Worker:
    """The thread of one process, and what waits for it."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._changed = threading.Condition()
        self._waiting = 0
        self._ending = False
        threading.Thread(target=self._run, name="crdtcat-upkeep", daemon=True).start()
        # Before the pools of threads that stores need are shut down, which `atexit` is not.
        before_threads_end = getattr(threading, "_register_atexit", atexit.register)
        before_threads_end(self._end)

    def take(self, work: Callable[[], None]) -> bool:
        """Let the thread do it, unless too much is waiting or the process is ending."""
        with self._changed:
            if self._ending or self._waiting >= WAITING_MAX:
                return False
            self._waiting += 1
        self._queue.put(work)
        return True

    def settled(self, seconds: float | None) -> bool:
        """Wait until nothing is waiting, at most so long; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, seconds)

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            try:
                work()
            finally:
                with self._changed:
                    self._waiting -= 1
                    self._changed.notify_all()

    def _end(self) -> None:
        if self._process == os.getpid():
            self._ending = True
            self.settled(EXIT_SECONDS_MAX)


def do_beside(work: Callable[[], None]) -> bool:
    """Let the thread do `work`, which raises nothing.

    False, and nothing is done, where too much is waiting, or the process is about to end.
    """
    with _lock():
        worker = _workers.get(os.getpid())
        if worker is None:
            try:
                worker = _workers[os.getpid()] = Worker()
            except RuntimeError:  # the interpreter is shutting down
                return False
    return worker.take(work)


def in_task_of_spark() -> bool:
    """Whether this is a task of Spark's, which does no upkeep: many commit at once, a job waits for all."""
    task = getattr(sys.modules.get("pyspark"), "TaskContext", None)  # in a task it was imported long ago
    return task is not None and task.get() is not None


def settled(seconds: float | None = None) -> bool:
    """Wait until all that is waiting in this process is done, at most so long; whether it is.

    Raises `InvalidArgument` for what is no number of seconds.
    """
    if seconds is not None:
        require_seconds("seconds", seconds, SECONDS_MAX)
    with _lock():
        worker = _workers.get(os.getpid())
    return worker is None or worker.settled(seconds)

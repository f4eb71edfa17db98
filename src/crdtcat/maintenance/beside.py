"""Work beside the caller: one thread for each process, started when there is first something to do.

For upkeep, which nobody waits for and which may be left out. It waits for a quiet moment: a process that
commits without a break has the cores and the connections to itself for a second, and what was chosen in that
time is done together. What comes while much is waiting is not done here, and another commit's upkeep finds
it. The process ends when the work that was begun is done, so a short program does its share like a long one;
it waits for it a while, and not for a store that does not answer. That is when its main thread is over;
others may go on committing for days, and do the work themselves. A forked child has a thread of its own.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from crdtcat.clock import VersionId
from crdtcat.options import SECONDS_MAX
from crdtcat.support.arguments import require_seconds
from crdtcat.support.locks import ForkSafeLock

QUIET_SECONDS: Final = 0.1
"""So long after its last commit a process is quiet: longer than most commits take."""
PATIENCE_SECONDS: Final = 1.0
"""How long work waits for that at most: so much longer is a log than it could be."""
AT_ONCE_MAX: Final = 8
"""So many versions that ask for the same work are not kept waiting."""
MANY: Final = 4
"""Nor are so many pieces of work, of as many tables."""
WAITING_MAX: Final = 8
"""Pieces of work under way or waiting; beyond that the logs grow faster than one thread can tend them."""
EXIT_SECONDS_MAX: Final = 20.0
"""How long the end of the process waits for work that was begun."""

Work = Callable[[Sequence[VersionId]], None]

_lock = ForkSafeLock()
_workers: dict[int, Worker] = {}
_committed_at = -QUIET_SECONDS


@dataclass
class Piece:
    """Work that waits, and the versions that asked for it."""

    work: Work
    since: float
    ids: list[VersionId] = field(default_factory=list)

    def waits(self, now: float, committed_at: float) -> float:
        """For how many seconds more, unless a commit comes."""
        if len(self.ids) >= AT_ONCE_MAX:
            return 0.0
        return min(committed_at + QUIET_SECONDS, self.since + PATIENCE_SECONDS) - now


class Worker:
    """The thread of one process, and what waits for it.

    Attributes:
        ending: whether the main thread is over: what is taken now, nobody may wait for.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._pieces: dict[Hashable, Piece] = {}
        # Taken by itself: a condition is entered by code in Python, and Ctrl-C there would leave it locked.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._under_way = False
        self._awaited = 0
        self.ending = False
        # Before the pools of threads that stores need are shut down, which `atexit` is not; then refused.
        before_threads_end = getattr(threading, "_register_atexit", atexit.register)
        before_threads_end(self._end)
        threading.Thread(target=self._run, name="crdtcat-upkeep", daemon=True).start()

    def take(self, of: Hashable, work: Work, id: VersionId) -> bool:
        """Let the thread do it, unless too much is waiting or the process is ending."""
        with self._lock:
            piece = self._pieces.get(of)
            if self.ending or (piece is None and len(self._pieces) + self._under_way >= WAITING_MAX):
                return False
            if piece is None:
                piece = self._pieces[of] = Piece(work, time.monotonic())
            piece.ids.append(id)
            self._changed.notify_all()
        return True

    def settled(self, seconds: float | None) -> bool:
        """Wait until nothing is waiting, at most so long; whether that is so."""
        with self._lock:
            self._awaited += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._pieces and not self._under_way, seconds)
            finally:
                self._awaited -= 1

    def _run(self) -> None:
        while True:
            piece = self._next()
            try:
                piece.work(piece.ids)
            finally:
                with self._lock:
                    self._under_way = False
                    self._changed.notify_all()

    def _next(self) -> Piece:
        """What waits longest, at a quiet moment, or once somebody waits for it."""
        with self._lock:
            self._changed.wait_for(lambda: self._pieces)
            of, piece = next(iter(self._pieces.items()))
            while not self._hurried and (pause := piece.waits(time.monotonic(), _committed_at)) > 0:
                self._changed.wait(pause)
            self._under_way = True
            return self._pieces.pop(of)

    @property
    def _hurried(self) -> bool:
        return self._awaited > 0 or len(self._pieces) >= MANY

    def _end(self) -> None:
        if self._process == os.getpid():
            self.ending = True
            self.settled(EXIT_SECONDS_MAX)


def committed() -> None:
    """A commit was made: this process is not quiet."""
    global _committed_at  # noqa: PLW0603 (of the process, read by its thread)
    _committed_at = time.monotonic()


def do_beside(of: Hashable, work: Work, id: VersionId) -> bool:
    """Let the thread do `work`, which raises nothing, with `id` and what else asks for the same until then.

    Done here and now where there can be no thread, or it is not waited for any more. False, and nothing is
    done, where too much is waiting.
    """
    with _lock():
        worker = _workers.get(os.getpid())
        if worker is None:
            with suppress(RuntimeError):  # too many threads, or the main one is over
                worker = _workers[os.getpid()] = Worker()
    if worker is None or worker.ending:
        work([id])
        return True
    return worker.take(of, work, id)


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

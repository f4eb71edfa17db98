"""Work beside the caller: one thread for each process, started when there is first something to do.

For upkeep, which nobody waits for and which may be left out: what comes while much is waiting is not done
here, and another commit's upkeep finds it. The process ends when the work that was begun is done, so a short
program does its share like a long one. A forked child has a thread of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from crdtcat.locks import ForkSafeLock

WAITING_MAX: Final = 4
"""Pieces of work under way or waiting; beyond that the log grows faster than one thread can tend it."""

_lock = ForkSafeLock()
_threads: dict[int, tuple[ThreadPoolExecutor, set[Future[None]]]] = {}


def do_beside(work: Callable[[], None]) -> bool:
    """Let the thread do `work`, which raises nothing.

    False, and nothing is done, where too much is waiting, or the process is about to end.
    """
    with _lock():
        threads, waiting = _threads.setdefault(os.getpid(), (ThreadPoolExecutor(1, "crdtcat-upkeep"), set()))
        waiting -= {each for each in waiting if each.done()}
        if len(waiting) >= WAITING_MAX:
            return False
        try:
            waiting.add(threads.submit(work))
        except RuntimeError:  # the interpreter is shutting down
            return False
        return True


def settled() -> None:
    """Wait until all that is waiting in this process is done."""
    with _lock():
        _, waiting = _threads.get(os.getpid(), (None, set()))
        waiting = set(waiting)
    wait(waiting)

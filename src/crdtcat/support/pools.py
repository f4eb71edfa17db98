"""Pools of threads, for work that is quicker side by side.

They work at every time: when the interpreter is about to end, and no thread can be started any more (inside
functions given to `atexit`, say), what is submitted is done at once, by whoever submits it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


@cache
def cores() -> int:
    """How many processors there are. The system is asked once: it reads a file for it."""
    return os.cpu_count() or 1


def threads_can_start() -> bool:
    """Whether the interpreter still starts threads. It says that the main one is over before it refuses."""
    return threading.main_thread().is_alive()


class ThreadPool(ThreadPoolExecutor):
    """`ThreadPoolExecutor`, which also works while the interpreter ends."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Have a thread do it, or do it. What it raises is raised when the result is asked for."""
        if threads_can_start():
            return super().submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 (Ctrl-C, too, comes out where the result is wanted)
            future.set_exception(error)
        return future

"""A Python worker of Spark, which runs one task after the other, and what it would wait for at each.

**Acknowledgements.** Spark sends a worker the task, then, in a message of its own, the task's input. The JVM
leaves its sockets to Nagle's algorithm, which holds a short message back until what was sent before it is
acknowledged; the worker's kernel delays acknowledgements, in the hope of an answer they could go with. There
is none, and every task whose input is short begins with 40 ms of nobody doing anything. So the kernel is told
to acknowledge at once what came, by the first of our code that runs in a task: what unpickles the task.

**Garbage.** After every task Spark has the worker collect garbage, which walks through everything that was
ever imported: about 50 ms on a machine that reads three million rows in that time. What is there when the
second task begins has just been collected and stays for as long as the process does, so it is set apart then,
once; what tasks make is still collected.

**Memory.** Arrow's allocator gives pages back that lay unused for some hundredths of a second. A task that
hands on rows always waits that long for Spark to take them, and gets pages anew for the next, each of which
the kernel clears first: that took as long as decoding. The C library's allocator keeps them, so rows that are
passed on, or taken in to be stored, lie in its memory. It keeps as much as a task frees at once only if it is
told to: a tenth of what Python does for a write was the kernel, clearing pages that had been freed."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

SETTLED_AFTER: Final = 2  # tasks: the first imports what all need, and Spark collects once it is done
FREE_BYTES_KEPT: Final = 2**28  # what a task that stores rows holds at a time, about: two stretches, encoded
_OPEN_FILES: Final = Path("/proc/self/fd")
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # of malloc.h
_HEAP_BLOCK_BYTES: Final = 2**25  # the most that it takes; greater blocks are the kernel's, each by itself
_GROWN_BY_BYTES: Final = 2**24


class _Worker:
    """How many tasks this process has run, and whether its C library was told to keep pages."""

    tasks = 0
    keeps_pages = False


def task_begins() -> None:
    """To be called by whatever runs in tasks, as it begins. Does nothing elsewhere, and next to nothing
    here."""
    if TaskContext.get() is None:
        return
    _Worker.tasks += 1
    if _Worker.tasks == SETTLED_AFTER:
        gc.freeze()


@contextmanager
def pages_kept() -> Iterator[None]:
    """In a task, Arrow takes memory from the C library within; elsewhere nothing is different."""
    if TaskContext.get() is None:
        yield
        return
    if not _Worker.keeps_pages:
        _Worker.keeps_pages = True
        keep_free_pages()
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def keep_free_pages() -> None:
    """Have the C library keep up to `FREE_BYTES_KEPT` that are free, for as long as this process lives.

    Its own rule is to keep twice the largest block that was ever freed: a batch of Spark's, half a megabyte,
    where a stretch of them is freed. Does nothing where the C library cannot be told.
    """
    with suppress(OSError, TypeError, AttributeError):  # no such library; not GNU's
        tell = ctypes.CDLL(None).mallopt
        for what, size in (
            (_M_MMAP_THRESHOLD, _HEAP_BLOCK_BYTES),
            (_M_TRIM_THRESHOLD, FREE_BYTES_KEPT),
            (_M_TOP_PAD, _GROWN_BY_BYTES),
        ):
            tell(what, size)


class SentAhead:
    """What travels to tasks, ahead of their input: unpickled in one, it has the kernel ask for the input.

    For classes with attributes: what has none is not asked to take them up.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        arrived_in_task()


def arrived_in_task() -> bool:
    """To be called by what unpickles what travels so: whether this is a task. Its input is asked for then."""
    if TaskContext.get() is None:
        return False
    acknowledge()
    return True


def acknowledge() -> None:
    """Acknowledge at once whatever this process's connections have received. Linux only; nothing elsewhere.

    Spark does not say which connection is its own. For others it means a packet that would have come later.
    """
    option = getattr(socket, "TCP_QUICKACK", None)
    if option is None or socket.getdefaulttimeout() is not None:  # a timeout would be set on Spark's own
        return
    with suppress(OSError):  # no such folder
        for number in [int(file.name) for file in _OPEN_FILES.iterdir()]:
            with suppress(OSError):  # closed by now; no connection, or another kind of one
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    with socket.socket(fileno=os.dup(number)) as connection:
                        connection.setsockopt(socket.IPPROTO_TCP, option, 1)

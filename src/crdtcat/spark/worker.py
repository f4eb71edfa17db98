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
passed on lie in its memory."""

from __future__ import annotations

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
_OPEN_FILES: Final = Path("/proc/self/fd")


class _Worker:
    """How many tasks this process has run."""

    tasks = 0


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
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


class SentAhead:
    """What travels to tasks, ahead of their input: unpickled in one, it has the kernel ask for the input.

    For classes with attributes: what has none is not asked to take them up.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if TaskContext.get() is not None:
            acknowledge()


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

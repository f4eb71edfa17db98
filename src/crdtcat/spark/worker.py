"""A Python worker of Spark, which runs one task after the other.

After every task Spark has the worker collect garbage, which walks through everything that was ever imported:
about 50 ms on a machine that reads three million rows in that time. What is there when the second task begins
has just been collected and stays for as long as the process does, so it is set apart then, once; what tasks
make is still collected."""

from __future__ import annotations

import gc
from typing import Final

from pyspark import TaskContext

SETTLED_AFTER: Final = 2  # tasks: the first imports what all need, and Spark collects once it is done


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

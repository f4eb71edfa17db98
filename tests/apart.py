"""Processes of their own, that need not import everything anew.

A spawned one imports pyarrow, pandas and crdtcat, more than a second of a core, before it does what it was
started for. These are forked by a server that was spawned, has imported all that, and does nothing else: they
share no handle, thread or lock with the test.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext
from typing import Final

LOADED: Final = ["crdtcat", "pandas", "pytest", "hypothesis", "tests.bounds"]
"""pandas, since pyarrow imports it with the first array; the others, since files of tests do."""


def processes_apart() -> ForkServerContext:
    """In the place of `multiprocessing.get_context("spawn")`. Their environment is that of the first call."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    return context

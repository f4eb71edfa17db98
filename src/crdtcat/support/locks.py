"""A lock that a forked child finds free.

A fork copies the memory but only one thread. A lock that another thread held at that moment stays locked in
the child for ever, because nobody is there to release it. So what a handle that may be forked guards, it
guards with this: every process has a lock of its own. What is guarded must be usable in whatever state a
fork leaves it, which holds for values that are replaced by one assignment.

The lock handed out is the interpreter's own, whose `with` no signal can interrupt halfway: one written in
Python could be left locked by Ctrl-C.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager


class ForkSafeLock:
    """Call it for this process's lock, which is reentrant: `with self._lock(): ...`."""

    def __init__(self) -> None:
        self._locks: dict[int, AbstractContextManager[bool]] = {}

    def __call__(self) -> AbstractContextManager[bool]:
        """The lock of this process."""
        process = os.getpid()
        found = self._locks.get(process)
        # Threads may race here: all use the one that was stored first.
        return self._locks.setdefault(process, threading.RLock()) if found is None else found

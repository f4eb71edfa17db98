"""Reading many files at once without the garbage collector, which has nothing to find meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def paused_garbage_collection() -> Iterator[Any]:
    """Many small containers are about to be made and none of them is garbage: scanning them costs more
    than decoding them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

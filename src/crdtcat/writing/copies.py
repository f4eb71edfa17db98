"""One writer and one clock per process, however many copies of a handle arrive there.

A worker process takes many tasks, and each brings its own copy of the same handle. If every copy were a
writer of its own, a table would have as many writers as it had tasks, and every clock would name them all. So
copies of one handle share a writer wherever they are unpickled, and copies of one catalog's handles a hybrid
clock, as those handles do: one transaction stamps all its tables by it. Which handle they are copies of is
said by its origin, drawn at random when it was made: never by URL, because a catalog may be deleted and made
again under one URL while a worker lives on, and sequence numbers that start in the middle are damage.

A forked child makes its writers new by itself, see `crdtcat.writing.writer`.
"""

from __future__ import annotations

import secrets
from typing import Final
from weakref import WeakValueDictionary

from crdtcat.clock import HybridClock
from crdtcat.support.locks import ForkSafeLock
from crdtcat.writing.writer import Writer

KEPT: Final = 1024  # pairs remembered; one forgotten costs a new writer id, nothing more

_lock = ForkSafeLock()
_shared: dict[tuple[bytes, str], tuple[HybridClock, Writer]] = {}
_clocks: WeakValueDictionary[bytes, HybridClock] = WeakValueDictionary()  # of catalogs, writers and sessions


def new_origin() -> bytes:
    """A name for a handle that its copies keep."""
    return secrets.token_bytes(16)


def shared_clock(origin: bytes) -> HybridClock:
    """This process's clock for copies of one catalog's handles, on whatever tables. No request."""
    with _lock():
        found = _clocks.get(origin)
        if found is None:
            found = _clocks[origin] = HybridClock()
        return found


def shared_writer(origin: bytes, folder: str, max_skew_ms: float) -> tuple[HybridClock, Writer]:
    """This process's clock and writer for copies of one handle, in one log folder. No request."""
    with _lock():
        found = _shared.pop((origin, folder), None)
        if found is None:
            clock = shared_clock(origin)
            found = clock, Writer(folder, clock, max_skew_ms)
        _shared[origin, folder] = found
        while len(_shared) > KEPT:
            _shared.pop(next(iter(_shared)))
        return found

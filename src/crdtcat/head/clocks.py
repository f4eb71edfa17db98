"""Vector clocks of versions, put together from the differences that version files keep.

A version that read something stores what it had seen as the difference to the clock of one version it
names, so its size follows what is new. A blind commit has seen nothing but itself and stores no clock.
"""

from __future__ import annotations

import numpy as np

from crdtcat.clock import VectorClock, VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.sections import Array
from crdtcat.log.log import Log
from crdtcat.log.state import clock_of


class Clocks:
    """Clocks of the versions of one log, computed when asked for and remembered."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[int, VectorClock] = {}

    def of(self, index: int) -> VectorClock:
        """What version `index` had seen, itself included. O(length of the chain of differences), once."""
        chain: list[tuple[int, dict[int, int]]] = []
        clock = VectorClock()
        at: int | None = index
        while at is not None and at not in self._known:
            id = self._log.id_at(at)
            blob = self._log.clock[at].as_py()
            parent, beyond = (None, {}) if blob is None else clock_of(blob, str(id))
            chain.append((at, {**beyond, id.writer: max(id.seq, beyond.get(id.writer, 0))}))
            at = None if parent is None else self._parent(parent, id)
        if at is not None:
            clock = self._known[at]
        for place, beyond in reversed(chain):
            clock = self._known[place] = clock.merge(VectorClock(beyond))
        return clock

    def _parent(self, parent: bytes, child: VersionId) -> int:
        at = self._log.index_of(VersionId.from_bytes(parent))
        if at < 0:
            raise Corrupt(str(child), "the version whose clock it refers to is missing")
        return at

    def saw(self, index: int, other: int) -> bool:
        """Whether version `index` had seen version `other`."""
        id = self._log.id_at(other)
        return self.of(index).saw(id.writer, id.seq)


def log_clock(log: Log) -> VectorClock:
    """Everything in a log: per writer the greatest sequence number. O(n log n)."""
    if not len(log):
        return VectorClock()
    writers = log.id_fields["writer"].astype(np.uint64)
    order = np.argsort(writers)
    writers, seqs = writers[order], log.id_fields["seq"].astype(np.int64)[order]
    first = np.flatnonzero(np.concatenate(([True], writers[1:] != writers[:-1])))
    greatest = np.maximum.reduceat(seqs, first)
    return VectorClock(dict(zip(writers[first].tolist(), greatest.tolist(), strict=True)))


def seen_by(clock: VectorClock, log: Log) -> Array:
    """For each version of the log whether `clock` contains it. O(n log n) in arrays, O(writers) in Python."""
    writers, inverse = np.unique(log.id_fields["writer"].astype(np.uint64), return_inverse=True)
    greatest = np.array([clock[writer] for writer in writers.tolist()], np.int64)
    seen: Array = log.id_fields["seq"].astype(np.int64) <= greatest[inverse]
    return seen

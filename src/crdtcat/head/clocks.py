"""Vector clocks of versions, put together from the differences that version files keep.

A version that read something stores what it had seen as the difference to the clock of one version it
names, so its size follows what is new. A blind commit has seen nothing but itself and stores no clock.

Put together, clocks are not small: k versions that each saw the one before, by k writers, have k^2 / 2
entries between them. So only the last few asked for are kept. Asked for in rising order, each starts from one
that is still there. A handle that commits again and again asks for one clock of each of its heads: it begins
with that of the head before, else every commit would walk down to the first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np

from crdtcat.clock import VectorClock, VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.sections import Array
from crdtcat.log.gaps import clock_of
from crdtcat.log.join import select
from crdtcat.log.log import Log
from crdtcat.support.cached import cached_property

KEPT: Final = 64  # clocks remembered: memory is at most that many times the writers


class KnownClock(NamedTuple):
    """The clock of a version, as a log tells it that has this horizon."""

    id: VersionId
    clock: VectorClock
    horizon: int


class Clocks:
    """Clocks of the versions of one log, computed when asked for; the last `KEPT` are remembered.

    Args:
        log: the log.
        before: a clock that is known of a log with fewer of these versions.
    """

    def __init__(self, log: Log, before: KnownClock | None = None) -> None:
        self._log = log
        self._known: dict[int, VectorClock] = {}
        if before is not None and before.horizon == log.horizon and (at := log.index_of(before.id)) >= 0:
            self._known[at] = before.clock

    @property
    def latest(self) -> KnownClock | None:
        """The clock of the latest version of which it is known."""
        known = dict(self._known)  # a copy, as below
        at = max(known, default=-1)
        return None if at < 0 else KnownClock(self._log.id_at(at), known[at], self._log.horizon)

    def of(self, index: int) -> VectorClock:
        """What version `index` had seen, itself included.

        O(entries of the clock + length of the chain of differences down to one that is remembered).
        """
        id = self._log.id_at(index)
        if not self._log.clock[index].is_valid:
            return VectorClock({id.writer: id.seq})
        clock = self._known.pop(index, None)
        if clock is None:
            clock = self._put_together(index, id)
        self._known[index] = clock
        for old in list(self._known)[:-KEPT]:  # a copy: other threads may be adding theirs
            self._known.pop(old, None)
        return clock

    def _put_together(self, index: int, id: VersionId) -> VectorClock:
        """Everything along the chain in one map: the greatest number wins, so order does not matter."""
        seen: dict[int, int] = {}
        at = index
        while (known := self._known.get(at)) is None:
            _raise_to(seen, {id.writer: id.seq})
            blob = self._log.clock[at].as_py()
            parent, beyond = (None, {}) if blob is None else clock_of(blob, str(id))
            _raise_to(seen, beyond)
            if parent is None:
                return VectorClock(seen)
            found = self._parent(parent, id)
            if found is None:
                return self._horizon_clock.merge(VectorClock(seen))
            at = found
            id = self._log.id_at(at)
        return known.merge(VectorClock(seen))

    def _parent(self, parent: bytes, child: VersionId) -> int | None:
        """Where a version's clock continues; `None`: with one that is dead below the horizon."""
        id = VersionId.from_bytes(parent)
        at = self._log.index_of(id)
        if at >= 0:
            return at
        if id.hlc < self._log.horizon:
            return None
        raise Corrupt(str(child), "the version whose clock it refers to is missing")

    @cached_property
    def _horizon_clock(self) -> VectorClock:
        """What everybody has seen who saw a version that is dead below the horizon, as far as can be told."""
        return log_clock(select(self._log, self._log.is_folded))

    def saw(self, index: int, other: int) -> bool:
        """Whether version `index` had seen version `other`."""
        id = self._log.id_at(other)
        return self.of(index).saw(id.writer, id.seq)

    def unaware(self, versions: Array, other: int) -> Array:
        """Those of some versions, given in rising order, that had not seen version `other`.

        Blind ones in arrays, a clock for each of the rest.
        """
        id, ids = self._log.id_at(other), self._log.id_fields[versions]
        saw = (ids["writer"].astype(np.uint64) == np.uint64(id.writer)) & (
            ids["seq"].astype(np.int64) >= id.seq
        )
        observing = np.asarray(self._log.clock.is_valid())[versions]
        for place in np.flatnonzero(observing).tolist():
            saw[place] = self.of(int(versions[place])).saw(id.writer, id.seq)
        missed: Array = versions[~saw]
        return missed


class Members:
    """Some versions of a log, ready to be asked which of them a clock contains. O(n log n), memory O(n)."""

    def __init__(self, log: Log, versions: Array | None = None) -> None:
        fields = log.id_fields if versions is None else log.id_fields[versions]
        writers, self._writer = np.unique(fields["writer"].astype(np.uint64), return_inverse=True)
        self._place = {writer: place for place, writer in enumerate(writers.tolist())}
        self._seq = fields["seq"].astype(np.int64)

    def seen_by(self, clock: VectorClock) -> Array:
        """Per version whether `clock` contains it. O(n) in arrays, O(writers) in Python."""
        greatest = np.zeros(len(self._place), np.int64)
        asked: Collection[int] = clock if len(clock) < len(self._place) else self._place
        for writer in asked:
            if writer in self._place:
                greatest[self._place[writer]] = clock[writer]
        seen: Array = self._seq <= greatest[self._writer]
        return seen


def _raise_to(seen: dict[int, int], more: dict[int, int]) -> None:
    for writer, seq in more.items():
        if seq > seen.get(writer, 0):
            seen[writer] = seq


def log_clock(log: Log) -> VectorClock:
    """Every commit in a log: per writer the greatest sequence number. O(n log n)."""
    fields = log.id_fields[~log.is_upkeep] if log.is_upkeep.any() else log.id_fields
    if not len(fields):
        return VectorClock()
    writers = fields["writer"].astype(np.uint64)
    order = np.argsort(writers)
    writers, seqs = writers[order], fields["seq"].astype(np.int64)[order]
    first = np.flatnonzero(np.concatenate(([True], writers[1:] != writers[:-1])))
    greatest = np.maximum.reduceat(seqs, first)
    return VectorClock(dict(zip(writers[first].tolist(), greatest.tolist(), strict=True)))


def seen_by(clock: VectorClock, log: Log) -> Array:
    """For each version of the log whether `clock` contains it. O(n log n) in arrays, O(writers) in Python."""
    return Members(log).seen_by(clock)

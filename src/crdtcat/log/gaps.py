"""What must be in a log, by what is in it: writers count without gaps, and clocks name what was seen."""

from __future__ import annotations

from typing import Final

import numpy as np

from crdtcat.clock import VectorClock, VersionId
from crdtcat.clock.version_id import ID_BYTES
from crdtcat.errors import Corrupt
from crdtcat.format.version import unpack
from crdtcat.log.log import Log

SEQ_MAX: Final = 2**32 - 1  # of a version id; arrays of them are signed


def gaps_of(log: Log, needs: VectorClock) -> frozenset[tuple[int, int]]:
    """(writer, seq) of versions that must exist, by their writers' counts and by what others had seen, and
    are not in a log.

    With a horizon, a writer's numbers are looked at from its first version above it on: before that, one that
    is missing may be dead. O(n log n) in arrays.
    """
    if not len(log):
        return frozenset()
    horizon = log.horizon
    fields = log.id_fields[~log.is_folded] if horizon else log.id_fields
    several = bool((fields["seq"] != 1).any())  # a writer of one version leaves no gap
    if not several and not len(needs):
        return frozenset()
    writers = fields["writer"].astype(np.uint64)
    seqs = fields["seq"].astype(np.int64)
    gaps: set[tuple[int, int]] = set()
    if several:
        order = np.lexsort((seqs, writers))
        writers, seqs = writers[order], seqs[order]
        before = np.concatenate(([0], seqs[:-1]))
        first = np.concatenate(([True], writers[1:] != writers[:-1]))
        before[first] = seqs[first] - 1 if horizon else 0
        at = np.flatnonzero(seqs > before + 1)  # equal numbers: a cloned machine; not a gap
        gaps = {(int(writers[i]), int(before[i]) + 1) for i in at}
    if len(needs):
        latest: dict[int, int] = dict(zip(writers.tolist(), seqs.tolist(), strict=True))
        asked = ((w, seq) for w, seq in needs.items() if not horizon or w in latest)
        gaps |= {(w, latest.get(w, 0) + 1) for w, seq in asked if latest.get(w, 0) < seq}
    return frozenset(gaps)


def clock_of(blob: bytes, name: str) -> tuple[bytes | None, dict[int, int]]:
    """A packed clock: the version it is the difference to, and the difference."""
    try:
        parent, beyond = unpack(blob, name)
        if parent is not None and (not isinstance(parent, bytes) or len(parent) != ID_BYTES):
            raise Corrupt(name, "a clock refers to something that is no version id")
        numbers = (
            isinstance(w, int) and isinstance(seq, int) and seq <= SEQ_MAX for w, seq in beyond.items()
        )
        if not all(numbers):
            raise Corrupt(name, "a clock must be a map of numbers, none of them above 32 bits")
    except (TypeError, ValueError, AttributeError) as error:
        raise Corrupt(name, f"malformed clock: {error}") from error
    return parent, beyond


def require(needs: dict[int, int], log: Log, name: str) -> None:
    """Raise `needs` to what the clocks of a log say must exist."""
    if log.clock.null_count == len(log):
        return
    for blob in log.clock.drop_null().to_pylist():
        parent, beyond = clock_of(blob, name)
        if parent is not None:
            base = VersionId.from_bytes(parent)
            beyond = {**beyond, base.writer: max(base.seq, beyond.get(base.writer, 0))}
        for writer, seq in beyond.items():
            if seq > needs.get(writer, 0):
                needs[writer] = seq

"""The state: a grow-only set of version deltas, in columns.

Theory. A log is a set of versions keyed by version id; `join` is set union, so it is associative,
commutative and idempotent whatever the deltas mean (theorem: `state_join_semilattice`). Nothing derived is
stored here: what is void, alive, winning or in conflict is computed in the head.

Canonical form. Versions stand in rising id order, the chunks of a version in the order it added them, the
places of a chunk in rising order of segment name and row group. Fixed-width attributes are numpy arrays,
blobs are Arrow arrays: a million entries are a few dozen arrays, not a million objects.

The one attribute that is not part of a delta is `places`: where a chunk's bytes can be read. Places are
joined by union and never change a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from crdtcat.clock import VersionId
from crdtcat.clock.version_id import ID_BYTES
from crdtcat.format.sections import Array, blobs
from crdtcat.format.version import UPKEEP
from crdtcat.log.statistics import Statistics
from crdtcat.support.cached import cached_property

NONE: Final = np.uint32(2**32 - 1)
"""No schema, no partition."""

ID = np.dtype(f"S{ID_BYTES}")
ID_FIELDS = np.dtype([("hlc", ">u8"), ("writer", ">u8"), ("seq", ">u4"), ("digest", "V16")])
NO_TIME: Final = np.iinfo(np.int64).min
"""Least time of a version whose time column has no values."""


@dataclass(frozen=True, eq=False)
class Log:
    """A set of version deltas. Immutable; see `crdtcat.log.join` for union and subsets.

    Attributes:
        ids: 36-byte version ids, rising.
        operation: index into `crdtcat.format.version.OPERATIONS`.
        number: the number a claim took, 0 for versions that took none; numbers rise with ids.
        schema: the first schema of each version, as an index into `schemas`, or NONE.
        time_min, time_max: microseconds since 1970 in the time column, or NO_TIME.
        key, metadata, clock, ops: packed blobs, mostly null.
        transaction: packed, for versions of a transaction: how many of its versions are in this log, and the
            folders of all logs it touches; one writer makes one transaction.
        chunk_start: where each version's chunks begin; one longer than `ids`.
        hash: 32 bytes per chunk.
        rows, nbytes: per chunk.
        kind: per chunk, what its rows are, see `crdtcat.format.kinds`.
        partition: per chunk, index into `partitions`, or NONE.
        chunk_schema: per chunk, index into `schemas`.
        place_chunk, place_segment, place_group: where chunks are stored.
        segment_name (24 bytes), segment_size, segment_digest (32 bytes), segment_footer: per segment.
        schemas, partitions: distinct packed values.
        inline: rows that are still inside version files, by (version id, ordinal).
        statistics: bounds per column and chunk, decoded when asked for.
        horizon: versions below this time were folded into a base, see `crdtcat.log.horizon`; 0: none.
    """

    ids: Array
    operation: Array
    number: Array
    schema: Array
    time_min: Array
    time_max: Array
    key: pa.LargeBinaryArray
    metadata: pa.LargeBinaryArray
    clock: pa.LargeBinaryArray
    ops: pa.LargeBinaryArray
    transaction: pa.LargeBinaryArray
    chunk_start: Array
    hash: Array
    rows: Array
    nbytes: Array
    partition: Array
    chunk_schema: Array
    kind: Array
    place_chunk: Array
    place_segment: Array
    place_group: Array
    segment_name: Array
    segment_size: Array
    segment_digest: Array
    segment_footer: Array
    schemas: tuple[bytes, ...] = ()
    partitions: tuple[bytes, ...] = ()
    inline: Mapping[tuple[bytes, int], bytes] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=Statistics)
    horizon: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def chunk_count(self) -> int:
        """How many chunks the versions added, dead or alive."""
        return len(self.hash)

    @cached_property
    def id_fields(self) -> Array:
        """The ids as records of hlc, writer, seq, digest, without a copy."""
        return self.ids.view(ID_FIELDS)

    @cached_property
    def id_bytes(self) -> bytes:
        """All ids, concatenated in order."""
        return self.ids.tobytes()

    @cached_property
    def chunk_version(self) -> Array:
        """Per chunk, the index of the version that added it."""
        return np.repeat(np.arange(len(self), dtype=np.uint32), np.diff(self.chunk_start))

    @cached_property
    def is_upkeep(self) -> Array:
        """Per version, whether it changes only where rows are stored: no part of history or snapshots."""
        upkeep: Array = self.operation == UPKEEP
        return upkeep

    @cached_property
    def is_folded(self) -> Array:
        """Per version, whether it lies below the horizon."""
        folded: Array = self.id_fields["hlc"] < self.horizon
        return folded

    @cached_property
    def is_placed(self) -> Array:
        """Per chunk, whether its rows can be read: from a segment, or from inside a version file. What a base
        let go cannot. O(chunks), and O(k log n) for k that are inlined."""
        placed = np.zeros(self.chunk_count, bool)
        placed[self.place_chunk] = True
        if self.inline and not placed.all():
            versions = self.find(np.array([id for id, _ in self.inline], ID))
            placed[self.chunk_start[versions] + np.array([ordinal for _, ordinal in self.inline])] = True
        return placed

    def id_at(self, index: int) -> VersionId:
        """The version id at an index."""
        return VersionId.from_bytes(self.id_bytes[index * ID_BYTES : (index + 1) * ID_BYTES])

    def find(self, ids: Array) -> Array:
        """For each id its index, or -1 where the log does not have it. O(k log n)."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.int64)
        at = np.searchsorted(self.ids, ids)
        at[at == len(self.ids)] = 0
        found = self.ids[at]
        if found.tobytes() == ids.tobytes():  # all are there: nearly always
            return at
        return np.where(found == ids, at, -1)

    def index_of(self, id: VersionId) -> int:
        """The index of one id, or -1. O(log n), in Python: for one, setting out in arrays costs more."""
        wanted, ids = id.to_bytes(), self.id_bytes
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if ids[middle * ID_BYTES : (middle + 1) * ID_BYTES] < wanted:
                low = middle + 1
            else:
                high = middle
        return low if ids[low * ID_BYTES : (low + 1) * ID_BYTES] == wanted else -1

    def with_(self, **changes: Any) -> Log:
        """A copy with some columns replaced."""
        return replace(self, **changes)


@cache
def empty_log() -> Log:
    """The set of no versions: the identity of join. One for all, as logs do not change."""
    none = np.empty(0, np.uint32)
    times = np.empty(0, np.int64)
    sizes = np.empty(0, np.uint64)
    no_blobs = blobs([])
    return Log(
        ids=np.empty(0, ID),
        operation=np.empty(0, np.uint8),
        number=np.empty(0, np.uint64),
        schema=none,
        time_min=times,
        time_max=times,
        key=no_blobs,
        metadata=no_blobs,
        clock=no_blobs,
        ops=no_blobs,
        transaction=no_blobs,
        chunk_start=np.zeros(1, np.int64),
        hash=np.empty((0, 32), np.uint8),
        rows=sizes,
        nbytes=sizes,
        partition=none,
        chunk_schema=none,
        kind=np.empty(0, np.uint8),
        place_chunk=none,
        place_segment=none,
        place_group=none,
        segment_name=np.empty(0, "S24"),
        segment_size=sizes,
        segment_digest=np.empty((0, 32), np.uint8),
        segment_footer=none,
    )

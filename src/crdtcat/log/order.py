"""The canonical form of a log, as far as it is not the order of versions.

Segments, schemas and partition values are kept once each, in rising order, and only while something refers
to them; places rise by chunk, segment and row group; rows are inlined only while no segment holds them. So
the same set of version files gives the same columns, and a bundle of them the same bytes, whatever the order
in which they were merged, and a subset costs what it holds rather than what it was taken from.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.log.log import NONE, Log

SEGMENT_COLUMNS: Final = ("segment_name", "segment_size", "segment_digest", "segment_footer")


def with_places_in_order(log: Log) -> Log:
    """Segments unique and rising by name, places unique and rising by (chunk, segment, row group)."""
    names = log.segment_name
    if len(names) > 1 and not (names[:-1] < names[1:]).all():
        _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
        log = log.with_(
            **{name: getattr(log, name)[first] for name in SEGMENT_COLUMNS},
            place_segment=inverse.astype(np.uint32)[log.place_segment],
        )
    chunk, segment, group = log.place_chunk, log.place_segment, log.place_group
    if len(chunk) > 1:
        place = chunk.astype(np.uint64) << np.uint64(32) | segment
        if not (place[:-1] < place[1:]).all():
            order = np.lexsort((group, place))
            place, group_in_order = place[order], group[order]
            fresh = np.concatenate(
                ([True], (place[1:] != place[:-1]) | (group_in_order[1:] != group_in_order[:-1]))
            )
            order = order[fresh]
            log = log.with_(place_chunk=chunk[order], place_segment=segment[order], place_group=group[order])
    return _without_stored_inline(log) if log.inline else log


def _without_stored_inline(log: Log) -> Log:
    stored = np.zeros(log.chunk_count, bool)
    stored[log.place_chunk] = True
    tags = list(log.inline)
    versions = log.find(np.array([id for id, _ in tags], log.ids.dtype))
    chunks = log.chunk_start[versions] + np.array([ordinal for _, ordinal in tags])
    kept = {
        tag: log.inline[tag] for tag, chunk in zip(tags, chunks.tolist(), strict=True) if not stored[chunk]
    }
    return log if len(kept) == len(tags) else log.with_(inline=kept)


def with_values_in_order(log: Log) -> Log:
    """Schemas and partition values rising. O(1) where they do already, which is nearly always."""
    changes: dict[str, Any] = {}
    for title, users in (("schemas", ("schema", "chunk_schema")), ("partitions", ("partition",))):
        values = getattr(log, title)
        if any(a > b for a, b in pairwise(values)):
            order = sorted(range(len(values)), key=values.__getitem__)
            changes |= _kept(log, title, users, np.array(order))
    return log.with_(**changes) if changes else log


def without_unused(log: Log) -> Log:
    """The log without segments, schemas and partition values that no version refers to. O(chunks)."""
    changes: dict[str, Any] = {}
    used = _used(len(log.segment_name), log.place_segment)
    if not used.all():
        changes |= {name: getattr(log, name)[used] for name in SEGMENT_COLUMNS}
        changes["place_segment"] = (np.cumsum(used) - 1).astype(np.uint32)[log.place_segment]
    for title, users in (("schemas", ("schema", "chunk_schema")), ("partitions", ("partition",))):
        used = _used(len(getattr(log, title)), *(getattr(log, user) for user in users))
        if not used.all():
            changes |= _kept(log, title, users, np.flatnonzero(used))
    return with_places_in_order(log.with_(**changes) if changes else log)


def without_empty_values(log: Log) -> Log:
    """The log without the partition value of no bytes, which early files have for "in no partition"."""
    if b"" not in log.partitions:
        return log
    return log.with_(**_kept(log, "partitions", ("partition",), np.flatnonzero([*map(len, log.partitions)])))


def _used(count: int, *indexes: Array) -> Array:
    used = np.zeros(count, bool)
    for index in indexes:
        used[index[index != NONE]] = True
    return used


def _kept(log: Log, title: str, users: tuple[str, ...], keep: Array) -> dict[str, Any]:
    """The values at `keep`, in that order, and the columns that number them."""
    values = getattr(log, title)
    number = np.full(len(values) + 1, NONE, np.uint32)  # the last stands for "none"
    number[keep] = np.arange(len(keep), dtype=np.uint32)
    changes: dict[str, Any] = {title: tuple(values[at] for at in keep.tolist())}
    for user in users:
        index = getattr(log, user)
        changes[user] = number[np.where(index == NONE, np.uint32(len(values)), index)]
    return changes

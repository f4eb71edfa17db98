"""Union of logs, and subsets of them.

`join` is what convergence rests on. It concatenates the columns of both logs, orders the versions by id and
keeps one of each (theorem: `state_join_semilattice`); everything else here is bookkeeping of indexes. When
one log lies wholly after the other, which is what a refresh looks like, no version moves and the cost is
one concatenation. Otherwise it is one merge sort of the ids.

A version present on both sides has the same delta on both (its id carries a digest of its content); only
its places may differ, and those are united. Inlined rows are let go once a segment holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.clock.version_id import ID_BYTES
from crdtcat.errors import Corrupt
from crdtcat.format.sections import Array
from crdtcat.log.log import NONE, Log, empty_log
from crdtcat.log.order import SEGMENT_COLUMNS, with_places_in_order, with_values_in_order, without_unused

_VERSION_COLUMNS = (
    "operation", "number", "schema", "time_min", "time_max", "key", "metadata", "clock", "ops",
    "transaction",
)  # fmt: skip
_CHUNK_COLUMNS = ("hash", "rows", "nbytes", "partition", "chunk_schema", "kind")


def join(first: Log, second: Log) -> Log:
    """The union of two logs. Pure; the result is in canonical form. Theorems: `state_join_semilattice`,
    `strong_eventual_consistency`.

    Raises:
        Corrupt: one version id stands for two different deltas, which only a faulty bundle can bring about.
    """
    if not len(second) or not len(first):
        some, none = (first, second) if len(first) else (second, first)
        return some if some.horizon >= none.horizon else some.with_(horizon=none.horizon)
    return in_order(_concatenated(first, second))


def join_all(logs: Sequence[Log]) -> Log:
    """The union of many logs, put in order once: what `join` of one after the other gives, in O(n log n).

    Theorems: `join_all_same_set`, `placed_join_semilattice`.

    Raises `Corrupt` as `join` does.
    """
    horizon = max((log.horizon for log in logs), default=0)
    parts = [log for log in logs if len(log)]
    if len(parts) < 2:
        joined = parts[0] if parts else empty_log()
        return joined if joined.horizon == horizon else joined.with_(horizon=horizon)
    while len(parts) > 1:  # neighbours first, so that no column is copied more than log(k) times
        pairs = [parts[at : at + 2] for at in range(0, len(parts), 2)]
        parts = [_concatenated(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return in_order(parts[0].with_(horizon=horizon))


def in_order(log: Log) -> Log:
    """The canonical form of a log whose versions may be unordered or present twice."""
    ids = log.ids
    if len(ids) > 1 and not (ids[:-1] < ids[1:]).all():
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        fresh = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        log = _select(log, order[fresh], order, np.cumsum(fresh) - 1)
    return with_values_in_order(with_places_in_order(log))


def select(log: Log, wanted: Array) -> Log:
    """The subset of versions where `wanted` is true, and nothing that only the others used.

    O(versions + chunks).
    """
    if wanted.all():
        return log
    index = np.flatnonzero(wanted)
    return without_unused(_select(log, index, index, np.arange(len(index))))


def _concatenated(first: Log, second: Log) -> Log:
    changes: dict[str, Any] = {
        name: _joined(getattr(first, name), getattr(second, name))
        for name in ("ids", *_VERSION_COLUMNS, *_CHUNK_COLUMNS, *SEGMENT_COLUMNS, "place_group")
    }
    schemas, at = _merged_values(first.schemas, second.schemas)
    changes["schemas"] = schemas
    changes["schema"] = np.concatenate((first.schema, _mapped(second.schema, at)))
    changes["chunk_schema"] = np.concatenate((first.chunk_schema, _mapped(second.chunk_schema, at)))
    partitions, at = _merged_values(first.partitions, second.partitions)
    changes["partitions"] = partitions
    changes["partition"] = np.concatenate((first.partition, _mapped(second.partition, at)))
    chunks, segments = first.chunk_count, len(first.segment_name)
    changes["chunk_start"] = np.concatenate(
        (first.chunk_start, second.chunk_start[1:] + first.chunk_start[-1])
    )
    changes["place_chunk"] = np.concatenate((first.place_chunk, second.place_chunk + np.uint32(chunks)))
    changes["place_segment"] = np.concatenate(
        (first.place_segment, second.place_segment + np.uint32(segments))
    )
    changes["inline"] = {**first.inline, **second.inline} if second.inline else first.inline
    shifted = second.statistics.moved(np.arange(chunks, chunks + second.chunk_count, dtype=np.int64))
    changes["statistics"] = first.statistics.plus(shifted)
    changes["horizon"] = max(first.horizon, second.horizon)
    return first.with_(**changes)


def _select(log: Log, keep: Array, source: Array, target: Array) -> Log:
    """Versions `keep`, in that order; the places of version `source[i]` go to the new version `target[i]`.

    `source` may name duplicates that are not kept: their places, and nothing else, move to the kept one.
    """
    starts = log.chunk_start
    counts = np.diff(starts)
    new_counts = counts[keep]
    new_starts = np.concatenate(([0], np.cumsum(new_counts)))
    chunk_index = _ranges(starts[keep], new_counts)
    position = np.full(log.chunk_count, -1, np.int64)
    if len(source) != len(keep):
        _check_equal(log, source, keep[target])
    position[_ranges(starts[source], counts[source])] = _ranges(new_starts[target], counts[source])
    moved = position[log.place_chunk]
    alive = moved >= 0
    changes: dict[str, Any] = {name: _taken(getattr(log, name), keep) for name in ("ids", *_VERSION_COLUMNS)}
    changes |= {name: _taken(getattr(log, name), chunk_index) for name in _CHUNK_COLUMNS}
    kept = log.with_(
        **changes,
        chunk_start=new_starts.astype(np.int64),
        place_chunk=moved[alive].astype(np.uint32),
        place_segment=log.place_segment[alive],
        place_group=log.place_group[alive],
    )
    once = np.full(log.chunk_count, -1, np.int64)  # statistics of a duplicate are the same: count them once
    once[chunk_index] = np.arange(len(chunk_index))
    inline = log.inline
    if inline and len(keep) < len(log):
        present = {kept.id_bytes[at : at + ID_BYTES] for at in range(0, len(kept.id_bytes), ID_BYTES)}
        inline = {tag: data for tag, data in inline.items() if tag[0] in present}
    return kept.with_(statistics=log.statistics.moved(once), inline=inline)


def _check_equal(log: Log, source: Array, kept: Array) -> None:
    """A version id stands for one delta: copies of a version must add the same chunks."""
    starts = log.chunk_start
    counts = np.diff(starts)
    twice = source != kept
    source, kept = source[twice], kept[twice]
    if (counts[source] != counts[kept]).any() or (
        log.hash[_ranges(starts[source], counts[source])] != log.hash[_ranges(starts[kept], counts[kept])]
    ).any():
        raise Corrupt("log", "two copies of one version add different chunks; a bundle was written wrongly")


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, np.ndarray):
        return np.concatenate((first, second))
    return pa.concat_arrays([first, second])


def _taken(column: Any, index: Array) -> Any:
    return column[index] if isinstance(column, np.ndarray) else column.take(pa.array(index))


def _ranges(starts: Array, counts: Array) -> Array:
    """starts[0], starts[0]+1, ... for counts[0] numbers, then the same for the next."""
    total = int(counts.sum())
    ends = np.cumsum(counts)
    numbers: Array = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return numbers


def _merged_values(first: Sequence[bytes], second: Sequence[bytes]) -> tuple[tuple[bytes, ...], Array]:
    known = {value: index for index, value in enumerate(first)}
    at = np.array([known.setdefault(value, len(known)) for value in second], np.uint32)
    return tuple(known), at


def _mapped(index: Array, at: Array) -> Array:
    if not len(at):
        return index
    mapped: Array = np.where(index == NONE, NONE, at[np.minimum(index, len(at) - 1)])
    return mapped

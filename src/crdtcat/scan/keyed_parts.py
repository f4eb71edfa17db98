"""Where a keyed table differs between two snapshots: parts of it that share no keys with each other.

A keyed table's rows have no identity but their keys, so to know what changed both sides are read, merged and
compared. But not all of them: chunks of either snapshot whose ranges of keys overlap, directly or by way of
others, are a part; keys of one part are in no other; and a part that nothing new lies in has not changed.
Which parts have is found from the two heads alone. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.keyed import KeyedRows
from crdtcat.scan.key_ranges import KeyRanges, groups_of
from crdtcat.scan.merge_plan import Group
from crdtcat.scan.plan import Plan


@dataclass(frozen=True, eq=False)
class Part:
    """Keys that share chunks with no others.

    Attributes:
        before, after: entries of the two heads that hold them.
        fresh: versions that only the later one has, each with a chunk of keys that it wrote or deleted; by
            their numbers in the later head's log.
        nbytes: Arrow content of both sides.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    fresh: tuple[tuple[int, int], ...]
    nbytes: int


def changed_parts(before: Head, after: Head) -> tuple[Part, ...]:
    """Where something may have changed since, by rising keys; the later head has all that the earlier has."""
    fresh = before.log.find(after.log.ids) < 0
    if after.keyed is None or not fresh.any():
        return ()
    return tuple(_parts(before, after, before.keyed, after.keyed, fresh))


def _parts(before: Head, after: Head, old: KeyedRows | None, new: KeyedRows, fresh: Array) -> Iterator[Part]:
    log = after.log
    numbers = _numbers(before, after)
    held = np.empty(0, np.int64) if old is None else old.entries
    news = _news(before, after, new, fresh)
    kinds = (numbers[held], new.entries, np.array([chunk for _, chunk in news], np.int64))
    chunks = np.concatenate(kinds)
    ranges = KeyRanges(log, np.unique(chunks))
    place = np.searchsorted(np.unique(chunks), chunks)
    order = np.argsort(ranges.first[place], kind="stable")
    part = np.empty(len(chunks), np.int64)
    part[order] = groups_of(ranges.first[place][order], ranges.last[place][order])
    ends = np.cumsum([len(kind) for kind in kinds])
    mine = np.split(part, ends[:-1])
    for number in np.unique(mine[2]).tolist():
        then, now = held[mine[0] == number], new.entries[mine[1] == number]
        said = [pair for pair, at in zip(news, mine[2].tolist(), strict=True) if at == number]
        nbytes = int(before.log.nbytes[then].sum()) + int(log.nbytes[now].sum())
        yield Part(tuple(then.tolist()), tuple(now.tolist()), tuple(said), nbytes)


def _news(before: Head, after: Head, keyed: KeyedRows, fresh: Array) -> list[tuple[int, int]]:
    """Versions that only the later head has, each with a chunk of keys that it wrote, deleted or removed."""
    log = after.log
    counts = fresh & after.folded.standing
    own = np.flatnonzero(counts[log.chunk_version] & np.isin(log.kind, (ROWS, GONE)))
    pairs = [(int(log.chunk_version[chunk]), int(chunk)) for chunk in own]
    removed = [(at, chunk) for at, chunks in keyed.deletes.items() if fresh[at] for chunk in chunks]
    return sorted({*pairs, *removed, *_outdone(before, after, fresh)})


def _outdone(before: Head, after: Head, fresh: Array) -> Iterator[tuple[int, int]]:
    """Chunks of versions that counted before, and do not since a late one with their idempotency key came."""
    at = after.log.find(before.log.ids)
    for version in at[before.folded.standing & ~after.folded.standing[at]].tolist():
        by = int(np.flatnonzero(fresh)[-1])
        for chunk in range(int(after.log.chunk_start[version]), int(after.log.chunk_start[version + 1])):
            yield by, chunk


def _numbers(before: Head, after: Head) -> Array:
    """Per chunk of the earlier head, its number in the later one's log."""
    version = before.log.chunk_version.astype(np.int64)
    ordinal = np.arange(before.log.chunk_count) - before.log.chunk_start[version]
    numbers: Array = after.log.chunk_start[after.log.find(before.log.ids)[version]] + ordinal
    return numbers


def only(plan: Plan, entries: tuple[int, ...]) -> Plan:
    """A plan of all rows of a keyed table, of some entries alone, which share keys with no others."""
    assert plan.merge is not None
    items = tuple(_items(plan, np.isin(plan.chunks, entries)))
    return replace(plan, merge=replace(plan.merge, items=items))


def _items(plan: Plan, wanted: Array) -> Iterator[slice | Group]:
    assert plan.merge is not None
    chosen = set(plan.chunks[wanted].tolist())
    for item in plan.merge.items:
        if isinstance(item, Group):
            if item.chunks[0] in chosen:
                yield item
            continue
        for at in range(item.start, item.stop):
            if wanted[at]:
                yield slice(at, at + 1)

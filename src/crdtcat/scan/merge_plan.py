"""The plan of a scan over a keyed table: which chunks are merged with which, and which pass straight through.

Chunks whose ranges of keys overlap, directly or by way of others, are a group. A group of one chunk, from
which nothing takes cells away, is read like a chunk of any table. The others are merged by key. Groups have
disjoint ranges, so one after the other they give all rows by rising key. Making a plan reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.head.head import Head
from crdtcat.head.keyed import KeyedRows
from crdtcat.log.log import NONE
from crdtcat.scan.filters.prune import Shared
from crdtcat.scan.key_ranges import KeyRanges, groups_of


class Beside(NamedTuple):
    """A chunk that shows no rows, but takes cells away: a tombstone, or a shadow.

    Attributes:
        chunk: where its keys are.
        deletes: cells below this stamp do not count; negative for a shadow.
        versions: who deletes its keys, or took its cells; nobody, where some of those are outdated only.
        reach: it takes nothing from what has no cell below this stamp.
    """

    chunk: int
    deletes: int
    versions: tuple[int, ...]
    reach: int


@dataclass(frozen=True, eq=False)
class Group:
    """Chunks whose keys overlap, merged by key.

    Attributes:
        chunks: those with rows, by rising least key.
        lows: per chunk, a bound below all its keys; `None`: unknown.
        beside: what takes cells away from them.
        low, high: bounds of all keys of its chunks; `None`: unknown.
    """

    chunks: tuple[int, ...]
    lows: tuple[bytes | None, ...]
    beside: tuple[Beside, ...]
    low: bytes | None
    high: bytes | None


@dataclass(frozen=True, eq=False)
class MergePlan:
    """How the chunks of a keyed table are read.

    Attributes:
        chunks: the chunks kept, by rising key.
        straight: per chunk, whether it passes straight through.
        items: runs of such chunks, as slices of `chunks`, and groups, by rising key.
    """

    chunks: Array
    straight: Array
    items: tuple[slice | Group, ...]

    @property
    def groups(self) -> list[Group]:
        """The groups that are merged."""
        return [item for item in self.items if isinstance(item, Group)]

    def but(self, settled: Array) -> MergePlan:
        """Without the straight chunks that are settled, per chunk."""
        items: list[slice | Group] = []
        for item in self.items:
            if isinstance(item, Group):
                items.append(item)
                continue
            edges = np.diff(np.concatenate(([True], settled[item], [True])).astype(np.int8))
            starts, stops = np.flatnonzero(edges < 0), np.flatnonzero(edges > 0)
            pairs = zip((starts + item.start).tolist(), (stops + item.start).tolist(), strict=True)
            items += [slice(start, stop) for start, stop in pairs]
        return MergePlan(self.chunks, self.straight, tuple(items))


def shared_keys(head: Head, keyed: KeyedRows) -> Shared:
    """Which entries may hold cells of the same rows, for pruning."""
    ranges = KeyRanges(head.log, keyed.entries)
    order = np.lexsort((keyed.entries, ranges.first))
    group = np.empty(len(order), np.int64)
    group[order] = groups_of(ranges.first[order], ranges.last[order])
    return Shared(group, frozenset(head.settings.key))


def plan_merge(head: Head, keyed: KeyedRows, kept: Array) -> MergePlan:
    """Plan to read some entries, given as indexes into `keyed.entries`.

    O(entries log entries) in arrays; in Python, O(groups + what takes cells away).
    """
    entries, oldest = keyed.entries[kept], keyed.oldest[kept]
    beside = _beside(head, keyed, int(oldest.min(initial=head.log.chunk_count)))
    ranges = KeyRanges(head.log, np.concatenate((entries, np.array([one.chunk for one in beside], np.int64))))
    count = len(entries)
    order = np.lexsort((entries, ranges.first[:count]))
    first, last = ranges.first[order], ranges.last[order]
    group = groups_of(first, last)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    along = (first, last, oldest[order], entries[order])
    attached = _attached(keyed, beside, ranges, group, starts, along, head.log.partition)
    sizes = np.diff(np.append(starts, count))
    straight = np.repeat(sizes == 1, sizes)
    if attached:
        straight &= ~np.isin(group, list(attached))
    for chunk in keyed.copies:  # cells of several ages: those of some may be hidden, dropped, or not fit
        schema = int(head.log.chunk_schema[chunk])
        if keyed.has_hidden(chunk) or head.columns.are_read_by_row(schema):
            straight &= entries[order] != chunk
    items: list[slice | Group] = []
    for number, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        if straight[start]:
            before = items[-1] if items else None
            if isinstance(before, slice):
                items[-1] = slice(before.start, start + 1)
            else:
                items.append(slice(start, start + 1))
            continue
        members = order[start : start + size]
        items.append(_group(entries, ranges, members, attached.get(number, [])))
    return MergePlan(entries[order], straight, tuple(items))


def only_adds(head: Head) -> bool:
    """Whether the live chunks, added in their order by one version, would be the same table."""
    if head.keyed is None:
        return head.rows.is_plain
    if head.keyed.copies:
        return False
    plan = plan_merge(head, head.keyed, np.arange(len(head.keyed.entries)))
    return not any(group.beside for group in plan.groups)


def _beside(head: Head, keyed: KeyedRows, oldest: int) -> list[Beside]:
    """All that may take cells away from what has none below a stamp. Copies are few."""
    begins = head.log.chunk_start[keyed.deleters]
    near = begins > oldest
    columns = (keyed.tombstones[near].tolist(), begins[near].tolist(), keyed.deleters[near].tolist())
    found = [Beside(chunk, begin, (by,), begin) for chunk, begin, by in zip(*columns, strict=True)]
    for shadow in keyed.shadows[keyed.shadows > oldest].tolist():
        born = keyed.births(shadow)
        born = born[keyed.hidden[born]]
        taken = bool((keyed.removed_by[born] >= 0).all())
        versions = tuple(keyed.takers(shadow).tolist()) if taken else ()
        found.append(Beside(shadow, -1, versions, int(born.max())))
    return found


def _attached(  # noqa: PLR0917 (all of them describe one set of ranges)
    keyed: KeyedRows,
    beside: Sequence[Beside],
    ranges: KeyRanges,
    group: Array,
    starts: Array,
    entries: tuple[Array, Array, Array, Array],
    partition: Array,
) -> dict[int, list[Beside]]:
    """Per group, what takes cells away from it: what overlaps an entry of its partition that holds something
    older."""
    attached: dict[int, list[Beside]] = {}
    count = len(group)
    if not beside or not count:
        return attached
    first, last, oldest, chunks = entries
    reach = np.maximum.reduceat(last, starts)
    for place, one in enumerate(beside, count):
        begin = int(np.searchsorted(reach, ranges.first[place], side="left"))
        stop = int(np.searchsorted(first, ranges.last[place], side="right"))
        if begin >= len(starts):
            continue
        these = slice(int(starts[begin]), stop)
        touched = (last[these] >= ranges.first[place]) & (oldest[these] < one.reach)
        if partition[one.chunk] != NONE:
            held = partition[chunks[these]]
            touched &= (held == partition[one.chunk]) | (held == NONE)
        if keyed.copies and one.versions:
            for at in np.flatnonzero(touched).tolist():
                touched[at] = not keyed.has_folded(int(chunks[these][at]), one.versions)
        for number in np.unique(group[these][touched]).tolist():
            attached.setdefault(number, []).append(one)
    return attached


def _group(entries: Array, ranges: KeyRanges, members: Array, beside: Sequence[Beside]) -> Group:
    lows = tuple(ranges.low(at) for at in members.tolist())
    highs = [ranges.high(at) for at in members.tolist()]
    known = [high for high in highs if high is not None]
    return Group(
        chunks=tuple(entries[members].tolist()),
        lows=lows,
        beside=tuple(beside),
        low=lows[0],
        high=max(known) if len(known) == len(highs) else None,
    )

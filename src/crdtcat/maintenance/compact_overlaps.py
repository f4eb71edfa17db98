"""Which chunks of a keyed table share keys, partition by partition, and what takes cells from them.

A key is in one partition, so chunks that only those of others lie between share none. A table whose
partitions have keys from all over (`bucket`) is one group to whoever reads it in order, and many here: else
every compaction would write all of it anew, for ever. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.keyed import KeyedRows
from crdtcat.intervals.runs import Integers
from crdtcat.log.log import NONE
from crdtcat.maintenance.compact_plan import Simple
from crdtcat.scan.key_ranges import KeyRanges, groups_of
from crdtcat.scan.merge_plan import Beside, Group, MergePlan


class Overlaps:
    """Parts of the groups of a plan.

    Args:
        head: the table.
        keyed: its rows.
        plan: to read all of them.
    """

    def __init__(self, head: Head, keyed: KeyedRows, plan: MergePlan) -> None:
        self._log, self._keyed = head.log, keyed
        beside = [one.chunk for group in plan.groups for one in group.beside]
        self._chunks = np.union1d(plan.chunks, np.array(beside, np.int64))
        self._ranges = KeyRanges(head.log, self._chunks)
        self._oldest = np.zeros(len(self._chunks), np.int64)
        self._oldest[self._at(keyed.entries)] = keyed.oldest

    def parts(self, group: Group, simple: Simple) -> Iterator[Group]:
        """Chunks of one partition that overlap, each with what takes cells away from them. O(n log n), and
        for each part O(what takes cells away from the group) in arrays."""
        members: dict[int, list[int]] = {}
        for place, chunk in enumerate(group.chunks):
            if simple.is_chunk(chunk):
                members.setdefault(int(self._log.partition[chunk]), []).append(place)
        beside = folded_beside(self._keyed, group.beside)
        near = self._near(beside)
        for partition, places in members.items():
            at = self._at([group.chunks[place] for place in places])
            first, last = self._ranges.first[at], self._ranges.last[at]
            begins = np.flatnonzero(np.diff(groups_of(first, last), prepend=-1)).tolist()
            for start, stop in pairwise([*begins, len(at)]):
                oldest = int(self._oldest[at[start:stop]].min())
                touched = near.touched(int(first[start]), int(last[start:stop].max()), oldest, partition)
                chunks, lows = zip(
                    *((group.chunks[place], group.lows[place]) for place in places[start:stop]), strict=True
                )
                yield replace(group, chunks=chunks, lows=lows, beside=tuple(beside[one] for one in touched))

    def is_worth_it(self, part: Group) -> bool:
        """Whether there is more than one chunk, or cells are taken from it that it still has."""
        chunk, *more = part.chunks
        if more or len(self._keyed.takers(chunk)):
            return True
        versions = [one.versions or self._keyed.takers(one.chunk).tolist() for one in part.beside]
        wanted = sorted({at for some in versions for at in some})
        return bool(versions) and not self._keyed.has_folded(chunk, wanted)

    def _at(self, chunks: Sequence[int] | Array) -> Integers:
        return np.searchsorted(self._chunks, np.asarray(chunks, np.int64))

    def _near(self, beside: Sequence[Beside]) -> _Near:
        at = self._at([one.chunk for one in beside])
        reach = np.array([one.reach for one in beside], np.int64)
        return _Near(
            self._ranges.first[at], self._ranges.last[at], reach, self._log.partition[self._chunks[at]]
        )


class _Near(NamedTuple):
    """What takes cells away: ranges of keys, what it reaches, its partition."""

    first: Array
    last: Array
    reach: Array
    partition: Array

    def touched(self, first: int, last: int, oldest: int, partition: int) -> list[int]:
        """Which take any from chunks with keys in a range and cells from some age on."""
        overlaps = (self.first <= last) & (self.last >= first) & (self.reach > oldest)
        found: list[int] = np.flatnonzero(
            overlaps & ((self.partition == partition) | (self.partition == NONE))
        ).tolist()
        return found


def folded_beside(keyed: KeyedRows, beside: Iterable[Beside]) -> tuple[Beside, ...]:
    """What takes cells away for good, so that a compaction leaves those out: outdated ones may come back."""
    return tuple(one for one in beside if one.deletes >= 0 or len(keyed.takers(one.chunk)))

"""From tags in version files to places in a log.

A tag names a chunk by the version that added it, or by idempotency key, content and place: then it means the
chunk of whichever version of that key stands. Insertions that two writers made without knowing of each other,
equal in rows and place, are one: the tag of the second means the chunk of the first.

Everything that names rows goes through here once; from then on a row is (chunk's index in the log, offset).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from crdtcat.format.row_ids import RowIds, Tags
from crdtcat.format.sections import Array
from crdtcat.intervals.runs import Integers
from crdtcat.log.log import Log


class TagIndex:
    """Chunks of a log by tag.

    Args:
        log: the log.
        standing: per version, whether it counts.
    """

    def __init__(self, log: Log, standing: Array) -> None:
        self._log, self._standing = log, standing
        self._by_key: Mapping[str, int] | None = None
        self._first: Array | None = None

    def with_twins(self, twins: Mapping[int, int]) -> TagIndex:
        """An index in which the chunks that are keys of `twins` mean others."""
        made = TagIndex(self._log, self._standing)
        made._by_key = self._by_key
        if twins:
            made._first = np.arange(self._log.chunk_count)
            for chunk, first in twins.items():
                made._first[chunk] = first
        return made

    def chunks(self, tags: Tags) -> Integers:
        """Per tag its chunk's index, -1 where the log has no such chunk. O(tags log versions)."""
        log = self._log
        at = log.find(tags.versions)
        known = np.maximum(at, 0)
        chunk = log.chunk_start[known] + tags.ordinals.astype(np.int64)
        inside = at >= 0
        if len(log):
            inside &= chunk < log.chunk_start[known + 1]
        found = np.where(inside, chunk, -1).astype(np.int64)
        if tags.keyed:
            keyed = [self._keyed(tag.key, tag.hash, tag.ordinal) for tag in tags.keyed]
            found = np.concatenate((found, np.array(keyed, np.int64)))
        if self._first is not None and len(self._first):
            found = np.where(found >= 0, self._first[np.maximum(found, 0)], -1)
        return found

    def _keyed(self, key: str, hash: bytes, ordinal: int) -> int:
        log = self._log
        if self._by_key is None:
            chosen = np.flatnonzero(np.asarray(log.key.is_valid()) & self._standing)
            self._by_key = {log.key[int(at)].as_py().decode(): int(at) for at in chosen}
        version = self._by_key.get(key)
        if version is None:
            return -1
        chunk = int(log.chunk_start[version]) + ordinal
        inside = chunk < int(log.chunk_start[version + 1])
        return chunk if inside and log.hash[chunk].tobytes() == hash else -1

    def rows(self, rows: RowIds) -> tuple[Integers, Integers, Integers]:
        """Intervals as (chunk, start, stop), in order; those in chunks the log does not have are left out.

        An interval that runs past its chunk's end stops there.
        """
        return self.rows_with_places(rows)[:3]

    def rows_with_places(self, rows: RowIds) -> tuple[Integers, Integers, Integers, Integers]:
        """As `rows`, and for each interval how many rows of the list stand before it."""
        return self.rows_of_many([rows])[1:]

    def rows_of_many(
        self, lists: Sequence[RowIds]
    ) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        """As `rows_with_places` for several lists, one after the other; first, for each interval, the number
        of its list."""
        if not any(map(len, lists)) or not self._log.chunk_count:
            return (np.empty(0, np.int64),) * 5
        count = np.array([len(rows) for rows in lists])
        which = np.repeat(np.arange(len(lists)), count)
        chunk = self._chunks_of_many(lists)
        start = np.concatenate([rows.start for rows in lists]).astype(np.int64)
        stop = np.concatenate([rows.stop for rows in lists]).astype(np.int64)
        before = np.concatenate(([0], np.cumsum(stop - start)))  # of all lists
        place = before[:-1] - before[np.cumsum(count) - count][which]
        stop = np.minimum(stop, self._log.rows[np.maximum(chunk, 0)].astype(np.int64))
        kept = (chunk >= 0) & (start < stop)
        return which[kept], chunk[kept], start[kept], stop[kept], place[kept]

    def _chunks_of_many(self, lists: Sequence[RowIds]) -> Integers:
        """Per interval of all lists its chunk's index, or -1."""
        if any(rows.tags.keyed for rows in lists):
            return np.concatenate([self.chunks(rows.tags)[rows.tag] for rows in lists if len(rows)])
        tags = [rows.tags for rows in lists]
        every = Tags(
            np.concatenate([each.versions for each in tags]),
            np.concatenate([each.ordinals for each in tags]),
        )
        first = np.cumsum([0, *(len(each.versions) for each in tags)])
        tag = [rows.tag.astype(np.int64) + base for rows, base in zip(lists, first, strict=False)]
        found: Integers = self.chunks(every)[np.concatenate(tag)]
        return found

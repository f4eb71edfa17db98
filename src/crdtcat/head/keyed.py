"""The rows of a keyed table: which chunks hold cells, and which only take some away.

Theory. A keyed table is a register per (key, column) and a delete stamp per key: the greatest stamp of a cell
is taken first, and only then asked whether it counts. A cell's stamp is the chunk it was born in, by its
place in the log: chunks stand there by version id, then in the order they were added. So stamps are numbers,
and within one commit the later of two rows wins. A cell counts if it is not below the delete of its key and
no overwrite hides its stamp: one hides the chunks it names, which are those it saw, and those of lesser
overwrites. A delete's stamp is where its version's chunks begin: what the version itself adds is above.

- *Entries* hold the cells: chunks of rows, and the copies that a compaction wrote of some.
- *Tombstones* hold keys that are gone. They matter only where something older than the delete is left.
- *Shadows* hold hidden cells. Those do not count, but still hide older ones that an overwrite had not seen.
  A chunk that an overwrite named is one, so compactions leave its cells out. Where an expiry let it go
  before, because a compaction had replaced it, copies that have its cells are.

No data is read here: what shares a key with what is for the scan to find out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.row_ids import Tags
from crdtcat.format.row_ops import Copy, Stamps
from crdtcat.format.sections import Array
from crdtcat.head.compactions import Compactions
from crdtcat.head.rows import Rows
from crdtcat.head.tags import TagIndex
from crdtcat.intervals.runs import Integers
from crdtcat.log.log import Log
from crdtcat.support.cached import cached_property


class KeyedRows(Rows):
    """Where the cells of a keyed table are. All chunks and versions are indexes into the log.

    Theorem: `keyed_merge_semilattice`.

    Args:
        log: the log.
        judged: what compactions did.
        standing: per version, whether it counts.
        removers: per standing version that removes chunks, which.
        outdated: per chunk, whether a greater overwrite than the one it was born in contains it.
        tags: resolves tags.

    Attributes:
        removed_by: per chunk, the first overwrite that took the cells born there; negative: none did.
        hidden: per chunk, whether cells born there count no more: taken, or outdated by a greater overwrite.
        tombstones: chunks whose keys are deleted.
        deleters: per tombstone, the version that deletes.
        overwritten: chunks of rows that are hidden, but for outdated ones that a compaction replaced.
        deletes: per version that deletes keys or takes cells, the chunks that hold them.
    """

    def __init__(
        self,
        log: Log,
        judged: Compactions,
        *,
        standing: Array,
        removers: Mapping[int, Array],
        outdated: Array,
        tags: TagIndex,
    ) -> None:
        self.removed_by = np.full(log.chunk_count, -1, np.int64)
        for version in sorted(removers, reverse=True):
            older = removers[version][log.chunk_version[removers[version]] < version]
            self.removed_by[older] = version
        counts = standing[log.chunk_version] if log.chunk_count else np.empty(0, bool)
        deleted = np.flatnonzero(counts & (log.kind == GONE))
        self.removed_by[(log.kind != ROWS) | ~counts] = -1
        removed = self.removed_by >= 0
        self.hidden = removed | outdated
        self.deletes: dict[int, list[int]] = {at: chunks.tolist() for at, chunks in removers.items()}
        for chunk in deleted.tolist():
            self.deletes.setdefault(int(log.chunk_version[chunk]), []).append(chunk)
        self.tombstones = deleted
        self.deleters = log.chunk_version[deleted].astype(np.int64)
        self.overwritten = np.flatnonzero(removed | (judged.is_entry & (log.kind == ROWS) & outdated))
        self._births = {chunk: _births(copy, tags) for chunk, copy in judged.copies.items()}
        gone = (log.kind == ROWS) & self.hidden
        for chunk, born in self._births.items():
            gone[chunk] = bool(self.hidden[born].all())
        changing = np.array(sorted(removers), np.int64)
        super().__init__(log, judged, gone=gone, changes={}, tags=tags, inserted={}, removers=changing)

    @cached_property
    def shadows(self) -> Integers:
        """Chunks and copies with hidden cells that no entry has, rising. O(chunks)."""
        if not len(self.overwritten) and not self._births:
            return self.overwritten
        placed, removed = self._log.is_placed, self.removed_by >= 0
        found = self.overwritten[placed[self.overwritten]].tolist()
        for chunk, born in self._births.items():
            if self._judged.is_entry[chunk]:  # what it has and its births do not show themselves
                needed = self._gone[chunk] and bool((~(removed & placed)[born]).any())
            else:  # what replaced it has left out what was taken
                needed = bool((removed & ~placed)[born].any())
            if needed and placed[chunk]:
                found.append(chunk)
        return np.array(sorted(found), np.int64)

    @cached_property
    def oldest(self) -> Integers:
        """Per entry, the least stamp of its cells that no overwrite took."""
        births, left = self._births, self.removed_by < 0
        least = [
            births[at][left[births[at]]].min(initial=at) if at in births else at
            for at in self.entries.tolist()
        ]
        return np.array(least, np.int64)

    def births(self, entry: int) -> Integers:
        """The chunks that the cells of an entry were born in."""
        return self._births[entry] if entry in self._births else np.array([entry], np.int64)

    def born_in(self, entries: Array) -> Integers:
        """The chunks that the cells of some entries were born in."""
        found = [self.births(entry) for entry in entries.tolist()]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def seen_in(self, entries: Array, partitions: Array | None = None) -> Integers:
        """The chunks that an overwrite of some entries names: those that their cells were born in.

        And chunks that may come back, of which no cell is left: replaced by a compaction that counts for
        nothing once a version it folded turns out void under its idempotency key. With `partitions` (by
        number), only those in them.
        """
        log = self._log
        may_be_void = np.asarray(log.key.is_valid()) & ~log.is_folded
        back = [
            self._replaced(version)
            for version, folded in self._judged.folded.items()
            if may_be_void[folded].any()
        ]
        found = np.unique(np.concatenate(back)) if back else np.empty(0, np.int64)
        if partitions is not None:
            found = found[np.isin(log.partition[found], partitions)]
        return np.union1d(self.born_in(entries), found[~self.hidden[found]])

    def _replaced(self, version: int) -> Integers:
        """The chunks of rows that a compaction replaced, or that one did which it folded."""
        versions = [at for at in self._judged.folded[version].tolist() if at in self._judged.replaced]
        found = np.concatenate([self._judged.replaced[at] for at in (version, *versions)])
        rows: Integers = found[self._log.kind[found] == ROWS]
        return rows

    def has_hidden(self, entry: int) -> bool:
        """Whether cells of an entry count no more although others there do."""
        return bool(self.hidden[self.births(entry)].any())

    def takers(self, entry: int) -> Integers:
        """The overwrites that took cells which an entry, or a shadow, still has."""
        takers = self.removed_by[self.births(entry)]
        return np.unique(takers[takers >= 0])

    def has_folded(self, entry: int, versions: Sequence[int]) -> bool:
        """Whether what some versions delete or take is left out of an entry already."""
        if entry not in self._births:
            return False
        folded = self._judged.folded[int(self._log.chunk_version[entry])]
        return bool(np.isin(versions, folded).all())

    def stamps(self, stamps: Stamps) -> Integers:
        """Per number in a copy's column of stamps, the stamp it stands for; the first, -1, for "no cell"."""
        return np.concatenate((np.full(1, -1), _chunks(stamps, self.tags)))

    @property
    def chunks_read(self) -> Array:
        """Per chunk, whether a read of the whole table may read it."""
        read = super().chunks_read
        read[self.tombstones] = True
        read[self.shadows] = True
        return read


def _births(copy: Copy, tags: TagIndex) -> Integers:
    found = [_chunks(stamps, tags) for stamps in copy.stamps]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _chunks(stamps: Stamps, tags: TagIndex) -> Integers:
    ids = np.frombuffer(b"".join(stamps.ids), "S36")
    return tags.chunks(Tags(ids, np.array(stamps.ordinals, np.uint32)))

"""The rows of a keyed table: which chunks hold cells, and which only take some away.

Theory. A keyed table is a register per (key, column) and a delete stamp per key: the greatest stamp of a cell
is taken first, and counts if it is not below the delete's. A cell's stamp is the chunk it was born in, by its
place in the log: chunks stand there by version id, then in the order they were added. So stamps are numbers,
and within one commit the later of two rows wins. A delete's stamp is where its version's chunks begin: what
the version itself adds is above.

- *Entries* hold the cells: chunks of rows, and the copies that a compaction wrote of some.
- *Tombstones* hold keys that are gone: chunks of that kind; and chunks that an overwrite removed, since an
  overwrite deletes the keys it saw. They matter only where something older than the delete is left.
- *Shadows* are chunks of an overwrite that a greater one outdated. Their cells do not count, but still hide
  older ones, whether a compaction has folded those or not.

No data is read here: what shares a key with what is for the scan to find out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crdtcat.cached import cached_property
from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.row_ids import Tags
from crdtcat.format.row_ops import Copy, Stamps
from crdtcat.format.sections import Array
from crdtcat.head.compactions import Compactions
from crdtcat.head.rows import Rows
from crdtcat.head.tags import TagIndex
from crdtcat.intervals.runs import Integers
from crdtcat.log.log import Log


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
        outdated: per chunk, whether cells born there count no more because of a greater overwrite.
        tombstones: chunks whose keys are deleted.
        deleters: per tombstone, the version that deletes.
        shadows: chunks whose cells count no more and hide older ones.
        deletes: per version that deletes keys, the chunks that hold them.
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
        removed_by = np.full(log.chunk_count, -1, np.int64)
        for version in sorted(removers):
            older = removers[version][log.chunk_version[removers[version]] < version]
            removed_by[older] = version
        is_rows = log.kind == ROWS
        removed = np.flatnonzero(is_rows & (removed_by >= 0))
        counts = standing[log.chunk_version] if log.chunk_count else np.empty(0, bool)
        deleted = np.flatnonzero(counts & (log.kind == GONE))
        self.outdated = outdated
        self.deletes: dict[int, list[int]] = {at: chunks.tolist() for at, chunks in removers.items()}
        for chunk in deleted.tolist():
            self.deletes.setdefault(int(log.chunk_version[chunk]), []).append(chunk)
        self.tombstones = np.concatenate((deleted, removed))
        self.deleters = np.concatenate((log.chunk_version[deleted].astype(np.int64), removed_by[removed]))
        self.shadows = np.flatnonzero(judged.is_entry & is_rows & (removed_by < 0) & outdated)
        self._births = {chunk: _births(copy, tags) for chunk, copy in judged.copies.items()}
        gone = is_rows & ((removed_by >= 0) | outdated)
        for chunk, born in self._births.items():
            gone[chunk] = bool((removed_by[born] >= 0).all())
        changing = np.array(sorted(removers), np.int64)
        super().__init__(log, judged, gone=gone, changes={}, tags=tags, inserted={}, removers=changing)

    @cached_property
    def oldest(self) -> Integers:
        """Per entry, the least stamp of its cells."""
        births = self._births
        least = [births[at].min(initial=at) if at in births else at for at in self.entries.tolist()]
        return np.array(least, np.int64)

    def births(self, entry: int) -> Integers:
        """The chunks that the cells of an entry were born in."""
        return self._births[entry] if entry in self._births else np.array([entry], np.int64)

    def born_in(self, entries: Array) -> Integers:
        """The chunks that the cells of some entries were born in: together they hold every key of those."""
        found = [self.births(entry) for entry in entries.tolist()]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def has_outdated(self, entry: int) -> bool:
        """Whether cells of an entry count no more although others there do."""
        return bool(self.outdated[self.births(entry)].any())

    def has_folded(self, entry: int, version: int) -> bool:
        """Whether what a version deletes is left out of an entry already."""
        if entry not in self._births:
            return False
        folded = self._judged.folded[int(self._log.chunk_version[entry])]
        return bool(np.isin(version, folded))

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

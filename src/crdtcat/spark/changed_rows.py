"""Which rows differ between two snapshots, and by whom: worked out from the two heads, as sets of row ids.

A row id is the chunk a row was born in and its place there, whoever has copied it since: so a compaction
changes nothing, and where a retried task's twin takes over under its idempotency key, nothing changed either.

Pure: no request, and no row is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.errors import InvalidArgument
from crdtcat.format.ops import decode_ops
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.head.pieces import split
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Runs
from crdtcat.scan.read_otherwise import Shown, read_otherwise
from crdtcat.scan.shown import matching
from crdtcat.scan.units import UNIT_BYTES, Unit

Groups = list[tuple[VersionId, RowSet]]
"""Rows by who changed them."""


class Difference:
    """Row ids that one head has and the other has not, or has otherwise in columns that are shown; numbered
    as the later head's chunks."""

    def __init__(self, before: Head, after: Head, shown: Sequence[Column]) -> None:
        self._before, self._after, self._shown = before, after, shown
        log = after.log
        own = _standing_twins(after)
        at = log.find(before.log.ids)
        version = before.log.chunk_version.astype(np.int64)
        ordinal = np.arange(before.log.chunk_count) - before.log.chunk_start[version]
        self._numbers = {id(after): own, id(before): own[log.chunk_start[at[version]] + ordinal]}
        there = before.log.find(log.ids)
        counted = there >= 0
        counted[counted] = before.folded.standing[there[counted]]
        self._fresh = np.flatnonzero(after.folded.standing & ~counted).tolist()
        self._last = int(np.flatnonzero(there < 0)[-1]) if (there < 0).any() else max(0, len(log) - 1)
        then, now = self._live(before), self._live(after)
        self.inserted = self._by_birth(now.difference(then))
        self.removed = self._by_remover(then.difference(now))
        self.updated = self._by_updater(then.intersection(now))

    def _live(self, head: Head) -> RowSet:
        number, pieces, deleted = self._numbers[id(head)], head.rows.pieces, head.rows.deleted
        rows = RowSet(number[pieces.birth], pieces.start, pieces.stop)
        return rows.difference(RowSet(number[deleted.groups], deleted.starts, deleted.stops))

    def _by_birth(self, rows: RowSet) -> Groups:
        log = self._after.log
        versions = log.chunk_version[rows.groups]
        return [
            (log.id_at(version), rows.in_groups(np.unique(rows.groups[versions == version])))
            for version in np.unique(versions).tolist()
        ]

    def _by_remover(self, rows: RowSet) -> Groups:
        """Row by row where a version names rows, else the last version that removed chunks."""
        found: Groups = []
        log, changes = self._after.log, self._after.rows._changes
        last = self._fresh[-1] if self._fresh else self._last
        for at in self._fresh:
            if log.ops[at].is_valid:
                ops = decode_ops(log.ops[at].as_py(), log.id_at(at), str(log.id_at(at)))
                last = at if ops.is_overwrite or len(ops.removed_versions) or ops.removed_keyed else last
            named = changes[at].deletes if at in changes else None
            if named:
                birth, start, stop = self._after.rows.tags.rows(named)
                number = self._numbers[id(self._after)][birth]
                rows = self._taken(rows, RowSet(number, start, stop), at, found)
        return [*found, *([(log.id_at(last), rows)] if len(rows) else [])]

    def _by_updater(self, rows: RowSet) -> Groups:
        """Each row with the last version that wrote a cell of it; one whose cells went back to what they
        were, because a version no longer counts, or are others because a column is, with the last there is.
        """
        found: Groups = []
        cells = self._after.rows.overlaid
        for at in reversed([at for at in self._fresh if (cells.version == at).any()]):
            mine = cells.version == at
            number = self._numbers[id(self._after)][cells.birth[mine]]
            rows = self._taken(rows, RowSet(number, cells.start[mine], cells.stop[mine]), at, found)
        rows = self._taken(rows, self._undone(), self._last, found)
        self._taken(rows, self._read_otherwise(), self._last, found)
        return found

    def _read_otherwise(self) -> RowSet:
        """Rows with other values because columns are others. One that is gone reads as null: no change."""
        there = matching(self._after.columns.all, self._shown)
        wanted = [column for column, held in zip(self._shown, there, strict=True) if held is not None]
        then, now = (
            Shown(head, self._numbers[id(head)], matching(head.columns.all, wanted), wanted)
            for head in (self._before, self._after)
        )
        return read_otherwise(then, now)

    def _undone(self) -> RowSet:
        """Rows with cells of versions that counted before, and do not since a late one with their idempotency
        key came."""
        cells, log = self._before.rows.overlaid, self._before.log
        void = ~self._after.folded.standing[self._after.log.find(log.ids)] if len(log) else np.zeros(0, bool)
        mine = void[cells.version] if len(cells.version) else np.empty(0, bool)
        number = self._numbers[id(self._before)]
        return RowSet(number[cells.birth[mine]], cells.start[mine], cells.stop[mine])

    def _taken(self, rows: RowSet, mine: RowSet, at: int, found: Groups) -> RowSet:
        taken = rows.intersection(mine)
        if len(taken):
            found.append((self._after.log.id_at(at), taken))
        return rows.difference(taken)

    def units(self, head: Head, rows: RowSet) -> Iterator[Unit]:
        """Where a head has some rows, cut into units that one task can hold."""
        pieces = head.rows.pieces
        mapped = pieces._replace(birth=self._numbers[id(head)][pieces.birth])
        parts, _ = split(mapped, Runs(rows.groups, rows.starts, rows.stops))
        log = head.log
        strips: list[tuple[int, int, int]] = []
        size = 0
        for entry, start, length in zip(
            parts.entry.tolist(), parts.at.tolist(), (parts.stop - parts.start).tolist(), strict=True
        ):
            strips.append((entry, start, start + length))
            size += int(log.nbytes[entry]) * length // max(1, int(log.rows[entry]))
            if size > UNIT_BYTES:
                yield _unit(strips, size)
                strips, size = [], 0
        if strips:
            yield _unit(strips, size)


def _unit(strips: list[tuple[int, int, int]], size: int) -> Unit:
    chunks = tuple(dict.fromkeys(entry for entry, _, _ in strips))
    return Unit(chunks, (False,) * len(chunks), (), None, size, tuple(strips))


def _standing_twins(head: Head) -> Array:
    """Per chunk, itself; one under an idempotency key, its twin in the version of that key that stands."""
    log, standing = head.log, head.folded.standing
    number = np.arange(log.chunk_count)
    keyed = np.flatnonzero(np.asarray(log.key.is_valid()))
    if not len(keyed):
        return number
    firsts: dict[bytes, int] = {log.key[at].as_py(): at for at in keyed.tolist() if standing[at]}
    for at in keyed[~standing[keyed]].tolist():
        first = firsts.get(log.key[at].as_py())
        if first is None:
            continue
        for chunk in range(int(log.chunk_start[at]), int(log.chunk_start[at + 1])):
            twin = int(log.chunk_start[first]) + chunk - int(log.chunk_start[at])
            if twin < int(log.chunk_start[first + 1]) and (log.hash[twin] == log.hash[chunk]).all():
                number[chunk] = twin
    return number


def require_order(before: Head, after: Head) -> None:
    """A feed leads forward. Raises `InvalidArgument` if the earlier head holds what the later does not."""
    beyond = ~before.log.is_upkeep & (after.log.find(before.log.ids) < 0)
    if beyond.any():
        raise InvalidArgument(
            f"start is not before at: version {before.log.id_at(int(np.flatnonzero(beyond)[0]))} of "
            f"{after.table!r} is in the snapshot that changes are read from, and not in the one they lead to"
        )

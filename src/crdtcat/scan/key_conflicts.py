"""Which cells of a keyed table lost to a version that had not seen them: found by reading keys.

Of the versions that wrote one cell the greatest wins. One that no other of them had seen was lost unseen; so
was a cell below a delete of its key if no deleter had seen it, and no overwrite. Overwrites take what they
saw, and nothing is lost to them. Pairs of versions that had both read nothing are told apart: blind upserts
replace each other all the time, and whoever wants to know asks.

Only chunks whose keys overlap those of another version are read, and only their key columns. What compactions
replaced is read too: conflicts come from what versions did, and compaction changes none. Expiry does: what
met below the horizon is forgotten, and a chunk that was let go tells of no key any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.clock import VersionId
from crdtcat.format.kinds import ROWS
from crdtcat.format.ops import ColumnId
from crdtcat.head.head import Head
from crdtcat.head.keyed import KeyedRows
from crdtcat.head.patches import let_go
from crdtcat.log.log import NONE
from crdtcat.scan.key_ranges import KeyRanges, groups_of

Key = tuple[Any, ...]
ReadKeys = Callable[[int], pa.Table]


@dataclass(frozen=True, slots=True)
class LostCell:
    """A cell of one key that lost to a version which had not seen it.

    Attributes:
        key: values of the key columns.
        column: the column's name at birth.
        winner: who wrote the cell that counts, or deleted the key.
        loser: who wrote this one; its chunk still holds it.
        blind: whether both had read nothing.
        instance: the column itself: others may have been born under its name.
    """

    key: Key
    column: str
    winner: VersionId
    loser: VersionId
    blind: bool
    instance: ColumnId = field(repr=False)

    def __str__(self) -> str:
        return f"{self.column} of {self.key}: {self.loser} lost to {self.winner}"


def lost_cells(head: Head, keyed: KeyedRows, read: ReadKeys) -> Iterator[LostCell]:
    """Every such cell, by key. O(rows of chunks that overlap), in Python; memory: one group of them."""
    log = head.log
    standing, gone = head.folded.standing, let_go(log)
    written = np.flatnonzero((log.kind == ROWS) & standing[log.chunk_version] & ~gone)
    deleted = keyed.tombstones[~gone[keyed.tombstones]]
    chunks = np.concatenate((written, deleted))
    ranges = KeyRanges(log, chunks)
    order = np.argsort(ranges.first, kind="stable")
    groups = groups_of(ranges.first[order], ranges.last[order])
    is_written = np.isin(chunks, written)
    for number in range(int(groups[-1]) + 1 if len(groups) else 0):
        members = order[groups == number]
        if len(np.unique(log.chunk_version[chunks[members]])) > 1:
            found = _Group(head)
            for at in members.tolist():
                found.add(int(chunks[at]), read(int(chunks[at])), writes=bool(is_written[at]))
            yield from found.lost()


class _Group:
    """Who wrote and who deleted which keys, among chunks that overlap."""

    def __init__(self, head: Head) -> None:
        self._head, self._log, self._clocks = head, head.log, head.folded.clocks
        self._overwrites = {at: op.scope for at, op in head.folded.ops.items() if op.is_overwrite}
        self._writers: dict[Key, dict[ColumnId, set[int]]] = {}
        self._deleters: dict[Key, set[int]] = {}
        self._partition: dict[Key, int] = {}

    def add(self, chunk: int, stored: pa.Table, *, writes: bool) -> None:
        names = self._head.settings.key
        version, partition = int(self._log.chunk_version[chunk]), int(self._log.partition[chunk])
        fields = self._head.columns.fields(int(self._log.chunk_schema[chunk]))
        columns = [field.column for field in fields if field.name not in names]
        for row in stored.select(list(names)).to_pylist():
            key = tuple(row.values())
            if not writes:
                self._deleters.setdefault(key, set()).add(version)
                continue
            self._partition[key] = partition
            for column in columns:
                self._writers.setdefault(key, {}).setdefault(column, set()).add(version)

    def lost(self) -> Iterator[LostCell]:
        for key in sorted(self._writers):
            deleters = self._deleters.get(key, set())
            takers = deleters | self._overwriting(key) if deleters else deleters
            for column, authors in sorted(self._writers[key].items()):
                found = {
                    (max(authors), loser)
                    for loser in authors - {max(authors)}
                    if not self._seen(loser, authors)
                }
                if deleters:
                    below = {author for author in authors if author < max(deleters)}
                    found |= {(max(deleters), loser) for loser in below if not self._seen(loser, takers)}
                folded = self._log.is_folded
                for winner, loser in sorted(pair for pair in found if not folded[list(pair)].all()):
                    blind = self._is_blind(winner) and self._is_blind(loser)
                    ids = self._log.id_at(winner), self._log.id_at(loser)
                    yield LostCell(key, column.name, *ids, blind, column)

    def _overwriting(self, key: Key) -> set[int]:
        """The overwrites whose scope contains a key."""
        partition = self._partition[key]
        packed = None if partition == NONE else self._log.partitions[partition]
        return {at for at, scope in self._overwrites.items() if scope is None or packed in scope}

    def _seen(self, loser: int, others: set[int]) -> bool:
        return any(self._clocks.saw(other, loser) for other in others - {loser})

    def _is_blind(self, version: int) -> bool:
        return set(self._clocks.of(version)) <= {self._log.id_at(version).writer}

"""The head: what a table is, to everybody who has merged the same version files.

A head is immutable and computed once; its parts are worked out when first asked for. Two heads of the same
set of versions are equal in everything: rows, order, schema, root hash, snapshot id, conflicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, overload

import numpy as np
import pyarrow as pa

from crdtcat.clock import VectorClock, VersionId
from crdtcat.format.sections import Array
from crdtcat.format.settings import Settings
from crdtcat.head.clocks import KnownClock, log_clock
from crdtcat.head.columns import Columns
from crdtcat.head.conflicts import Conflict
from crdtcat.head.fold import Folded, fold
from crdtcat.head.keyed import KeyedRows
from crdtcat.head.leaves import leaf_hashes
from crdtcat.head.rows import Rows
from crdtcat.head.snapshot import Snapshot, data_versions, snapshot_id
from crdtcat.head.version import History
from crdtcat.lattice.gcounter import GCounter
from crdtcat.log.log import Log
from crdtcat.merkle import Tree, make_leaves
from crdtcat.support.cached import cached_property


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of rows in the table.

    Attributes:
        hash: BLAKE3 of its canonical content, 64 hexadecimal digits.
        rows: how many rows.
        version: who added it.
        ordinal: its place among the chunks that version added.
    """

    hash: str
    rows: int
    version: VersionId
    ordinal: int


class Chunks(Sequence[Chunk]):
    """The live chunks of a head, in row order, made when looked at."""

    def __init__(self, log: Log, index: Array) -> None:
        self._log, self._index = log, index

    def __len__(self) -> int:
        return len(self._index)

    @overload
    def __getitem__(self, index: int) -> Chunk: ...
    @overload
    def __getitem__(self, index: slice) -> Chunks: ...
    def __getitem__(self, index: int | slice) -> Chunk | Chunks:
        if isinstance(index, slice):
            return Chunks(self._log, self._index[index])
        at = int(self._index[index])
        version = int(self._log.chunk_version[at])
        ordinal = at - int(self._log.chunk_start[version])
        return Chunk(
            self._log.hash[at].tobytes().hex(), int(self._log.rows[at]), self._log.id_at(version), ordinal
        )

    def __iter__(self) -> Iterator[Chunk]:
        return (self[at] for at in range(len(self)))

    def __repr__(self) -> str:
        shown = [f"{chunk.hash[:12]}…  {chunk.rows:>10,} rows" for chunk in self[:20]]
        return "\n".join([*shown, *([f"... and {len(self) - 20:,} more"] if len(self) > 20 else [])])


class AtHand(NamedTuple):
    """What a head has worked out that one which follows it need not work out from the beginning."""

    tree: Tree | None = None
    clock: KnownClock | None = None


NOTHING_AT_HAND: Final = AtHand()


class Head:
    """The linearized view of a table at one snapshot.

    Args:
        table: the table's name, for messages.
        log: the versions.
        settings: the table's settings.
        before: of a head that this one follows, if there is one: what its tree shares is not hashed again.
    """

    def __init__(self, table: str, log: Log, settings: Settings, *, before: AtHand = NOTHING_AT_HAND) -> None:
        self.table = table
        self.log = log
        self.settings = settings
        self._before, self._known = before

    @cached_property
    def folded(self) -> Folded:
        """The fold behind this head."""
        return fold(self.log, self.settings, self._known)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The set of versions this head was made from. `str(head.snapshot)` is a token for `at=`."""
        return Snapshot(snapshot_id(self.log), data_versions(self.log), lambda: self.clock)

    @cached_property
    def clock(self) -> VectorClock:
        """Per writer, how many of its versions are in this head."""
        return log_clock(self.log)

    @property
    def version(self) -> int:
        """How many versions stand, those that were expired included: it never falls."""
        return int(self.folded.standing.sum())

    @cached_property
    def history(self) -> History:
        """Standing versions in id order: the linearized view. A late version may sort into the past. Those
        below the horizon count, and are not listed.

        Theorem: `standing_history_linear`.
        """
        listed = np.flatnonzero(self.folded.standing & ~self.log.is_folded)
        return History(self.log, listed, self.folded.standing)

    @cached_property
    def void(self) -> History:
        """Versions that do not count because an earlier one has their idempotency key."""
        listed = ~self.log.is_upkeep & ~self.log.is_folded
        void = np.flatnonzero(~self.folded.standing & listed)
        return History(self.log, void, self.folded.standing)

    @property
    def columns(self) -> Columns:
        """The resolved columns."""
        return self.folded.columns

    @property
    def schema(self) -> pa.Schema:
        """The columns, in order, as Arrow types."""
        return self.folded.columns.schema

    @property
    def properties(self) -> Mapping[str, Any]:
        """Table properties."""
        return dict(self.folded.properties)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Every concurrent write that lost, and to whom. What met below the horizon is forgotten, unless it
        still decides what a column shows."""
        found, horizon = self.folded.conflicts, self.log.horizon
        return tuple(item for item in found if not item.is_over(horizon)) if horizon else found

    @cached_property
    def live(self) -> Array:
        """Where the chunks that rows are read from are in the log, in the order of the first row of each.

        In a keyed table in the order of the log: rows are in the order of keys, which are not looked at here.
        """
        return self.folded.rows.entries

    @cached_property
    def row_count(self) -> int:
        """Rows in the table. Reads no data.

        In a keyed table, rows in its chunks: of those that share a key, or whose key was deleted, fewer are
        shown. `table.scan().count()` tells how many, and reads the keys of chunks that overlap.
        """
        return int(self.rows.live_rows(self.live).sum())

    @property
    def rows(self) -> Rows:
        """Where each row is read from, and what lies over it."""
        return self.folded.rows

    @property
    def keyed(self) -> KeyedRows | None:
        """Where cells are, in a keyed table."""
        return self.folded.rows if isinstance(self.folded.rows, KeyedRows) else None

    @cached_property
    def chunks(self) -> Chunks:
        """The live chunks, in row order."""
        return Chunks(self.log, self.live)

    @cached_property
    def tree(self) -> Tree:
        """The Merkle tree over the live chunks.

        O(chunks); where there is the tree of another head, leaves are compared and O(changes * log chunks)
        nodes hashed.
        """
        leaves = make_leaves(leaf_hashes(self.log, self.rows), self.rows.live_rows(self.live))
        before, self._before = self._before, None
        return Tree.build(leaves) if before is None else before.following(leaves)

    def follow(self, tree: Tree) -> None:
        """Let this head's tree, unless it is worked out already, share what it can with another's."""
        if "tree" not in self.__dict__:
            self._before = tree

    @property
    def at_hand(self) -> AtHand:
        """What has been worked out, or was of a head before."""
        folded: Folded | None = self.__dict__.get("folded")
        clock = None if folded is None else folded.clocks.latest
        return AtHand(self.__dict__.get("tree", self._before), clock or self._known)

    @property
    def root_hash(self) -> str:
        """Root of the Merkle tree over the live chunks: equal for equal rows in equal chunks."""
        return self.tree.root_hash

    @cached_property
    def commits(self) -> GCounter[int]:
        """Standing commits per writer. Theorem: `counters_sum_what_stands`."""
        writers, counts = np.unique(
            self.log.id_fields["writer"][self.folded.standing].astype(np.uint64), return_counts=True
        )
        return GCounter(dict(zip(writers.tolist(), counts.tolist(), strict=True)))

    def __repr__(self) -> str:
        most = "up to " if self.settings.key else ""
        return (
            f"Head({self.table}: version {self.version:,}, {most}{self.row_count:,} rows, "
            f"{len(self.live):,} chunks, "
            f"{len(self.columns.all)} columns, snapshot {self.snapshot.id[:12]})"
        )

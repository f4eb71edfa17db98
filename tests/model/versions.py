"""The reference model, part 1: what a version says, and what a state is.

The model is the oracle that fast code is compared with: sets, dicts and sorting, no cleverness, no I/O. It
covers the whole of section 4 of the design, features whose fast code comes later too. Where the design is
terse, the decision taken is written down in the file that takes it.

A state is a grow-only set of versions over a set of bases; join is union, so convergence needs no proof.
Everything else (`standing`, `rows`, `keyed`, `columns`, `conflicts`, `head`) is a pure function of a state.

Decisions here:
- A chunk's "hash" in the model is a digest of its rows, by columns and by what these were called: two chunks
  of equal rows have equal hashes.
- A cell's stamp is `(version id, part, offset)`: between versions the id decides; within one version a later
  part or row does (two upserts of one key in one commit).
- A row's position is a path: an append's is one step `(version id, chunk, offset)`; an insertion's is the
  path of the row it follows plus such a step. Paths stand alone, so neither expiry nor compaction of the row
  that was followed moves anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crdtcat.clock import ROOT, VectorClock, VersionId

Tag = tuple[Any, ...]  # (version id, i), or (idempotency key, chunk hash, i)
RowId = tuple[Tag, int]
Instance = tuple[str, VersionId]  # birth name, birth version (ROOT: declared at creation, or merely used)
Stamp = tuple[VersionId, int, int]
Position = tuple[tuple[VersionId, int, int], ...]
Row = tuple[tuple[Instance, Hashable], ...]
Scope = frozenset[Any]  # partition values an overwrite replaces

ALL: Scope = frozenset({"*"})
START: Position = ((ROOT, 0, 0),)  # an insertion before the first row follows this


def column(name: str) -> Instance:
    """The instance a blind writer means by `name`."""
    return (name, ROOT)


class Cell(NamedTuple):
    """A value with the stamp and type it was written under. `overwrite`: by a version that overwrote."""

    stamp: Stamp
    value: Any
    type: str
    overwrite: bool = False


class Birth(NamedTuple):
    """What a row keeps for life: who added it, in which partition, by an overwrite or not, its position."""

    version: VersionId
    partition: Any
    overwrite: bool
    position: Position


class Copy(NamedTuple):
    """A row as one entry stores it. `row` is a row id, or the key in a keyed table."""

    row: Any
    birth: Birth
    cells: tuple[tuple[Instance, Cell], ...]


@dataclass(frozen=True)
class Chunk:
    """Rows added together. `after`: for an insertion, the position it follows. `tag`: kept when re-issued.
    `names`: what its columns were called then, which is part of its hash."""

    rows: tuple[Row, ...]
    partition: Any = None
    after: Position | None = None
    tag: Tag | None = None
    names: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        return hashlib.sha256(repr((self.rows, self.partition, self.names)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Definition:
    """What a column is: shown as `name`, of `type`, in place of the definitions named."""

    instance: Instance
    name: str
    type: str
    replaces: frozenset[tuple[VersionId, int]] = frozenset()


@dataclass(frozen=True)
class Compaction:
    """The delta of a maintenance version: which entries and which (overlay, row) pairs it stands in for.

    `folded` names every version whose effect is in the entries or was left out of them (deleted rows).
    """

    entries: tuple[tuple[Copy, ...], ...]
    replaces: frozenset[Tag]
    overlays: frozenset[tuple[Tag, RowId]]
    folded: frozenset[VersionId]
    deletes: frozenset[RowId] = frozenset()


@dataclass(frozen=True)
class Version:
    """One commit as a delta. Its clock includes itself; a blind one has seen only its own writer."""

    id: VersionId
    clock: VectorClock
    adds: tuple[Chunk, ...] = ()
    deletes: frozenset[RowId] = frozenset()
    overlays: tuple[tuple[tuple[tuple[RowId, Instance], Hashable], ...], ...] = ()
    key_deletes: frozenset[Any] = frozenset()
    columns: tuple[tuple[Instance, str], ...] = ()  # (instance, type) of every column written
    properties: tuple[tuple[str, Hashable], ...] = ()  # None: property removed
    defines: tuple[Definition, ...] = ()
    drops: frozenset[Instance] = frozenset()
    order: tuple[Instance, ...] | None = None
    overwrite: Scope | None = None
    keys: frozenset[str] = frozenset()  # idempotency keys
    stream: tuple[str, int] | None = None  # (query, batch id)
    counters: tuple[tuple[str, int], ...] = ()
    cluster: tuple[RowId, ...] | None = None  # rows in their new order
    compaction: Compaction | None = None

    def saw(self, other: Version) -> bool:
        """Whether this version's writer had seen `other`."""
        return self.clock.saw(other.id.writer, other.id.seq)

    @property
    def blind(self) -> bool:
        """Whether it read nothing of anybody else's."""
        return set(self.clock) <= {self.id.writer}

    def tag(self, index: int) -> Tag:
        """The tag of the chunk at `index`: by key where there is one, so that twins share row ids."""
        chunk = self.adds[index]
        if chunk.tag is not None:
            return chunk.tag
        if self.keys:
            return (min(self.keys), chunk.hash, index)
        return (self.id, index)

    def type_of(self, instance: Instance) -> str:
        """The type this version wrote the column under."""
        return dict(self.columns)[instance]


@dataclass(frozen=True)
class Base:
    """What stands for the versions below a horizon. The model keeps them, to be obviously right."""

    horizon: int  # hybrid timestamp: versions below it are in `admitted` or dead
    admitted: frozenset[Version]
    keys_forgotten_below: int = 0


@dataclass(frozen=True)
class State:
    """Everything read. Grow-only."""

    versions: frozenset[Version] = frozenset()
    bases: frozenset[Base] = frozenset()

    def join(self, other: State) -> State:
        return State(self.versions | other.versions, self.bases | other.bases)


@dataclass(frozen=True)
class Settings:
    """What a table was created with: `(name, type)` of declared columns, and the key columns if keyed."""

    columns: tuple[tuple[str, str], ...] = ()
    key: tuple[str, ...] = ()
    lossless: Mapping[tuple[str, str], str] = field(
        default_factory=lambda: {
            ("int32", "int64"): "int64",
            ("int32", "float64"): "float64",
            ("float32", "float64"): "float64",
        }
    )

    def widen(self, a: str, b: str) -> str | None:
        """The least type that holds both without loss, or None."""
        if a == b or b == "null":
            return a
        if a == "null":
            return b
        return self.lossless.get((a, b)) or self.lossless.get((b, a))


def state_of(*versions: Version) -> State:
    return State(frozenset(versions))


def rows_of(records: Iterable[Mapping[str, Hashable]]) -> tuple[Row, ...]:
    """Rows as a blind writer writes them, from dicts by column name."""
    return tuple(tuple((column(name), value) for name, value in record.items()) for record in records)

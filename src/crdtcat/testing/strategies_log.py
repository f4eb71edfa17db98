"""Hypothesis strategies for logs: histories of real version files, made by several authors at once.

A history is drawn as a list of small, plain steps ("author 1 learns what author 0 knows, then overwrites
partition p") and then played. Playing makes real version files, sealed and named, with real inlined rows, so
that whatever reads logs can be run on them. Authors know what they have learned and nothing else: their
commits are concurrent as often as not, their clocks disagree, and ids sort into the past.

Steps shrink to few and simple ones. Equal steps give equal bytes. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from crdtcat.chunks.type_codes import encode_type
from crdtcat.format.kinds import COPY, OVERLAY
from crdtcat.format.ops import SELF, ColumnId, Definition, Ops
from crdtcat.format.row_ops import Copy, Insertion, Overlay, RowOps
from crdtcat.format.schema_code import StoredField
from crdtcat.format.settings import ColumnSetting, Settings
from crdtcat.format.version import pack
from crdtcat.head.naming import row_ids
from crdtcat.scan.located import rows_between
from crdtcat.testing.made_versions import FOLDER, TYPES, Author, Chunk, History, Made, chunk_of
from crdtcat.verbs.rows import removals

__all__ = [
    "FOLDER",
    "ROW_VERBS",
    "TYPES",
    "History",
    "Made",
    "Step",
    "histories",
    "play",
    "steps",
]

PARTITIONS: Final = tuple(pack([name]) for name in ("p", "q"))
VERBS: Final = (
    "append",
    "append",
    "append by name",
    "evolve",
    "overwrite",
    "overwrite partition",
    "remove",
    "properties",
    "define",
    "rename",
    "widen",
    "drop",
)
ROW_VERBS: Final = ("update", "update", "delete rows", "insert", "cluster")


@dataclass(frozen=True, slots=True)
class Step:
    """One move of one author. Numbers are taken modulo what there is to choose from.

    Attributes:
        author: who.
        learns: from whom, before acting; `None`: acts on what is known.
        verb: one of `VERBS`.
        pick: chooses a column, chunk, partition or type.
        more: chooses a second thing.
        key: idempotency key number, or `None`.
        ahead: how far the author's clock jumps, so that ids and time disagree between authors.
    """

    author: int
    learns: int | None
    verb: str
    pick: int = 0
    more: int = 0
    key: int | None = None
    ahead: int = 0


def steps(verbs: Sequence[str] = VERBS, *, authors: int = 3, most: int = 12) -> st.SearchStrategy[list[Step]]:
    """Lists of steps."""
    step = st.builds(
        Step,
        author=st.integers(0, authors - 1),
        learns=st.none() | st.integers(0, authors - 1),
        verb=st.sampled_from(verbs),
        pick=st.integers(0, 7),
        more=st.integers(0, 7),
        key=st.none() | st.none() | st.integers(0, 1),
        ahead=st.sampled_from((0, 0, 0, 3, 50)),
    )
    return st.lists(step, max_size=most)


def histories(
    verbs: Sequence[str] = VERBS, *, most: int = 12, declared: bool | None = None
) -> st.SearchStrategy[History]:
    """Histories of a table with (`declared`) or without columns of its own; either by default."""
    of_table = st.booleans() if declared is None else st.just(declared)
    return st.builds(play, steps(verbs, most=most), of_table)


def play(moves: Sequence[Step], declared: bool = False) -> History:
    """Carry out steps. A step that has nothing to act on is an append."""
    columns = (ColumnSetting(name="a", type=encode_type(pa.int64())),) if declared else None
    settings = Settings(columns=columns, partition_by=("p",))
    authors: dict[int, Author] = {}
    versions = []
    for at, step in enumerate(moves):
        author = authors.setdefault(step.author, Author(step.author + 1, settings))
        if step.learns is not None and step.learns in authors:
            author.learn(authors[step.learns])
        versions.append(_Move(author, step, at).made())
    return History(tuple(versions), settings)


class _Move:
    def __init__(self, author: Author, step: Step, at: int) -> None:
        self.author, self.step, self.at = author, step, at
        self.head = author.head()
        self.columns = self.head.columns.all

    def made(self) -> Made:
        verb = self.step.verb
        if verb in ("rename", "widen", "drop", "define") and (self.columns or verb == "define"):
            return self._change_column(verb)
        if verb in ("properties", "remove") and (len(self.head.live) or verb == "properties"):
            return self._small_change(verb)
        if verb in ROW_VERBS and self.head.row_count and self.columns:
            return self._change_rows(verb)
        if verb.startswith("overwrite"):
            return self._overwrite(whole=verb == "overwrite")
        if verb == "evolve":
            return self._evolve()
        fields = self._blind_fields() if verb == "append" else self._known_fields()
        return self._commit("append", chunks=self._chunks(fields), blind=True)

    def _small_change(self, verb: str) -> Made:
        if verb == "properties":
            value = None if self.step.more == 0 else self.step.more
            return self._commit("properties", ops=Ops(properties={f"p{self.step.pick % 2}": value}))
        chosen = self.head.live[[self.step.pick % len(self.head.live)]]
        return self._commit("delete", ops=Ops(**removals(self.head, chosen)))

    def _change_rows(self, verb: str) -> Made:
        """One to three rows next to each other, wherever they were born."""
        first = self.step.pick % self.head.row_count
        entry, offset = rows_between(self.head, first, first + 1 + self.step.more % 3)
        if verb == "insert":
            return self._insert(entry[:1], offset[:1])
        rows = row_ids(self.head, entry, offset)
        if verb == "delete rows":
            return self._commit("delete", ops=Ops(rows=RowOps(deletes=rows)))
        if verb == "cluster":
            return self._cluster(entry, offset)
        values = chunk_of(self._known_fields()[-2:], PARTITIONS[0], 100 * self.at + 50, len(entry))
        ops = Ops(rows=RowOps(overlays=(Overlay(0, rows),)))
        return self._commit("update", chunks=[replace(values, kind=OVERLAY)], ops=ops)

    def _cluster(self, entry: Any, offset: Any) -> Made:
        """Rows put elsewhere, the last first. What the chunk holds is not read: it replaces nothing."""
        rows = row_ids(self.head, entry[::-1], offset[::-1])
        values = chunk_of(self._known_fields(), PARTITIONS[0], 0, len(entry))
        ops = Ops(rows=RowOps(copies=(Copy(0, rows, stands=True),)))
        return self._commit("cluster", chunks=[replace(values, kind=COPY)], ops=ops)

    def _insert(self, entry: Any, offset: Any) -> Made:
        """A run behind a row; sometimes the same as another author's. Never under a key, nor behind one."""
        if self.head.log.key[int(self.head.log.chunk_version[entry[0]])].is_valid:
            return self._commit("append", chunks=self._chunks(self._known_fields()), blind=True)
        salt = 7 if self.step.more % 2 else self.at
        chunk = chunk_of(self._known_fields(), PARTITIONS[0], 1000 * salt, 1 + self.step.more % 2)
        inserted = Insertion(0, np.zeros(1, np.uint32), row_ids(self.head, entry, offset))
        ops = Ops(rows=RowOps(insertions=(inserted,)))
        return self.author.commit("write", chunks=[chunk], ops=ops, ahead=self.step.ahead)

    def _commit(self, operation: str, **what: Any) -> Made:
        key = None if self.step.key is None else f"key {self.step.key}"
        return self.author.commit(operation, key=key, ahead=self.step.ahead, **what)

    def _name(self) -> str:
        return "abc"[self.step.pick % 3]

    def _blind_fields(self) -> tuple[StoredField, ...]:
        """Columns used by name, in whatever type this writer happens to have."""
        names = ("a", "b", "c")[: 1 + self.step.more % 3]
        kinds = [TYPES[(self.step.pick + place * self.step.more) % len(TYPES)] for place in range(len(names))]
        return tuple(
            StoredField(name, ColumnId(name), encode_type(kind))
            for name, kind in zip(names, kinds, strict=True)
        )

    def _known_fields(self) -> tuple[StoredField, ...]:
        """The columns the author knows, each in the type it knows."""
        if not self.columns:
            return self._blind_fields()
        chosen = self.columns[: 1 + self.step.more % len(self.columns)]
        return tuple(
            StoredField(
                column.name,
                max(column.instances, key=lambda instance: (instance.birth, instance.name)),
                encode_type(column.type),
            )
            for column in chosen
        )

    def _chunks(self, fields: tuple[StoredField, ...]) -> tuple[Chunk, ...]:
        count = 1 + self.step.pick % 2
        parts = [PARTITIONS[(self.step.more + place) % len(PARTITIONS)] for place in range(count)]
        salt = 0 if self.step.key is not None and self.step.more % 2 else self.at  # retries: often equal
        return tuple(
            chunk_of(fields, part, 100 * salt + 10 * place, 1 + self.step.pick % 3)
            for place, part in enumerate(parts)
        )

    def _overwrite(self, *, whole: bool) -> Made:
        chunks = self._chunks(self._known_fields())
        scope, doomed = None, self.head.live
        if not whole:
            chunks = tuple(chunk for chunk in chunks if chunk.partition == PARTITIONS[self.step.more % 2])
            scope = frozenset({PARTITIONS[self.step.more % 2]})
            inside = [at for at, value in enumerate(self.head.log.partitions) if value in scope]
            doomed = doomed[np.isin(self.head.log.partition[doomed], inside)]
        ops = Ops(is_overwrite=True, scope=scope, **removals(self.head, doomed))
        return self._commit("overwrite", chunks=chunks, ops=ops)

    def _evolve(self) -> Made:
        name, type = self._name(), encode_type(TYPES[self.step.more % len(TYPES)])
        added = Definition(ColumnId(name, SELF), name, type, position=5.0)
        known = tuple(item for item in self._known_fields() if item.name != name)
        fields = (*known, StoredField(name, ColumnId(name, SELF), type))
        return self._commit("append", chunks=self._chunks(fields), ops=Ops(definitions=(added,)), blind=True)

    def _change_column(self, verb: str) -> Made:
        if verb == "define":
            type = encode_type(TYPES[self.step.more % len(TYPES)])
            added = Definition(ColumnId(self._name(), SELF), self._name(), type, position=9.0)
            return self._commit("schema", ops=Ops(definitions=(added,)))
        column = self.columns[self.step.pick % len(self.columns)]
        if verb == "drop":
            return self._commit("schema", ops=Ops(drops=tuple(sorted(column.instances))))
        name = column.name if verb == "widen" else "abcd"[self.step.more % 4]
        type = encode_type(TYPES[self.step.more % len(TYPES)] if verb == "widen" else column.type)
        definitions = [
            Definition(instance, name, type, position=column.position, replaces=column.definitions)
            for instance in sorted(column.instances)
        ]
        return self._commit("schema", ops=Ops(definitions=tuple(definitions)))

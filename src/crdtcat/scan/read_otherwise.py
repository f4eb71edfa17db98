"""Rows that two heads read otherwise though nobody rewrote them, because their columns are others.

Nearly always columns differ in ways that no stored value notices: one more, another name, a wider type. But a
drop that somebody had not seen leaves his cells and takes all others; a drop is undone; a name is taken up
again by another column; values that did not fit begin to, or cease. Then rows have other values on the two
sides, and no version names them.

What a chunk shows follows from its schema and from whose it is. So both heads' columns are applied to every
kind of chunk that the old side rests on, and the rows of those that differ are told. Some may have been given
the values they had. No request; O(schemas) where nothing was ever dropped, else O(chunks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from crdtcat.chunks.type_codes import decode_type
from crdtcat.chunks.widen import is_lossless
from crdtcat.format.ops import ColumnId
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.columns import Column, precedence
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers
from crdtcat.log.log import Log
from crdtcat.scan.shown import matching

_UNFIT: Final = ColumnId("")
"""Stands for values that cannot be read as the column's type."""


def matched(head: Head, shown: Sequence[Column]) -> list[Column | None]:
    """For each column of some head, the column of another that it is, by whatever name; where it is none, the
    one of its name, which it took the place of."""
    found = matching(head.columns.all, shown)
    taken = {held.name for held in found if held is not None}
    return [
        head.columns.by_name.get(column.name) if held is None and column.name not in taken else held
        for held, column in zip(found, shown, strict=True)
    ]


class Shown(NamedTuple):
    """One of two heads that are compared.

    Attributes:
        head: the head.
        number: per chunk of its log, a number that both heads give it.
        columns: for each of `wanted` its own column; `None` where it has none.
        wanted: the columns that are compared.
    """

    head: Head
    number: Array
    columns: Sequence[Column | None]
    wanted: Sequence[Column]


def read_otherwise(old: Shown, new: Shown) -> RowSet:
    """Rows of the old side in which the new one may read other values, numbered as both are."""
    judge = _Judge(old, new)
    if judge.is_same:
        return RowSet()
    log, theirs = old.head.log, new.head.log
    pieces, overlaid = old.head.rows.pieces, old.head.rows.overlaid
    twin = _births(new, old.number)[old.number[pieces.birth]]
    differ = (twin >= 0) & judge.differ(log, pieces.birth, theirs, np.maximum(twin, 0))
    copied = np.isin(pieces.entry, list(old.head.rows.copies))
    differ[copied] |= judge.copies_differ(log.chunk_schema[pieces.entry[copied]])
    rows = RowSet(pieces.birth[differ], pieces.start[differ], pieces.stop[differ])
    at = theirs.find(log.ids)[overlaid.version]
    known = at >= 0  # else it is rewritten
    mine = overlaid.chunk[known]
    same = theirs.chunk_start[at[known]] + mine - log.chunk_start[overlaid.version[known]]
    over = np.flatnonzero(known)[judge.differ(log, mine, theirs, same)]
    rows |= RowSet(overlaid.birth[over], overlaid.start[over], overlaid.stop[over])
    return rows.renumbered(old.number)


def _births(side: Shown, others: Array) -> Integers:
    """By number, of its own and of others, the chunk of a side that rows were born in; -1 for none."""
    births = np.unique(side.head.rows.pieces.birth)
    found = np.full(max(int(numbers.max(initial=-1)) for numbers in (side.number, others)) + 1, -1, np.int64)
    found[side.number[births]] = births
    return found


class _Judge:
    """What both sides make of stored columns."""

    def __init__(self, old: Shown, new: Shown) -> None:
        self._sides = old, new
        self._pairs = list(zip(old.columns, new.columns, new.wanted, strict=True))
        columns = [column for side in self._sides for column in side.columns if column is not None]
        ids = {id for column in columns for id in column.instances}
        dropped = old.head.columns.hidden.keys() | new.head.columns.hidden.keys()
        self._dropped = sorted(ids & dropped)

    @property
    def is_same(self) -> bool:
        """Whether no stored value can be read otherwise: the same columns, of which none was dropped."""
        return not self._dropped and all(
            before is not None
            and after is not None
            and (before.instances, before.type) == (after.instances, after.type)
            for before, after, _ in self._pairs
        )

    def differ(self, log: Log, chunks: Integers, theirs: Log, twins: Integers) -> Array:
        """Per chunk of the old side's log and the same of the new one's, whether they are read otherwise."""
        facts = [log.chunk_schema[chunks], theirs.chunk_schema[twins]]
        for id in self._dropped:
            facts.append(self._ended(0, id)[log.chunk_version[chunks]])
            facts.append(self._ended(1, id)[theirs.chunk_version[twins]])
        kinds, which = np.unique(np.stack(facts, axis=1).astype(np.int64), axis=0, return_inverse=True)
        differ = [self._differs(kind[:2], kind[2::2], kind[3::2]) for kind in kinds.tolist()]
        found: Array = np.array(differ, bool)[which.ravel()]
        return found

    def copies_differ(self, schema: Array) -> Array:
        """The same for copies of the old side, whose cells are of many versions: if those of any do."""
        kinds, which = np.unique(schema.astype(np.int64), return_inverse=True)
        found: Array = np.array([self._copy_differs(kind) for kind in kinds.tolist()], bool)[which.ravel()]
        return found

    def _copy_differs(self, schema: int) -> bool:
        old, new = self._sides
        fields, none = old.head.columns.fields(schema), [0] * len(self._dropped)
        there = new.head.log.find(old.head.log.ids)
        known = there >= 0
        seen = [
            bool((self._ended(0, id)[known] != self._ended(1, id)[there[known]]).any())
            for id in self._dropped
            if any(field.column == id for field in fields)
        ]
        return any(seen) or self._read_otherwise((fields, fields), none, none)

    def _ended(self, side: int, id: ColumnId) -> Array:
        """Per version of a side, whether a drop of a column had seen it there."""
        head = self._sides[side].head
        return head.columns.hidden.get(id, np.zeros(len(head.log), bool))

    def _differs(self, schemas: Sequence[int], before: Sequence[int], after: Sequence[int]) -> bool:
        old, new = (
            side.head.columns.fields(schema) for side, schema in zip(self._sides, schemas, strict=True)
        )
        return self._read_otherwise((old, new), before, after)

    def _read_otherwise(self, fields: _BothFields, before: Sequence[int], after: Sequence[int]) -> bool:
        gone, ended = (
            {id for id, flag in zip(self._dropped, flags, strict=True) if flag} for flags in (before, after)
        )
        return any(
            _read(old, wanted.type, fields[0], gone) != _read(new, wanted.type, fields[1], ended)
            for old, new, wanted in self._pairs
        )


_BothFields = tuple[Sequence[StoredField], Sequence[StoredField]]


def _read(
    column: Column | None, wanted: pa.DataType, fields: Sequence[StoredField], ended: set[ColumnId]
) -> ColumnId | None:
    """Which stored column is shown; `None` where none is."""
    if column is None:
        return None
    found = [field for field in fields if field.column in column.instances and field.column not in ended]
    if not found:
        return None
    field = max(found, key=precedence)
    fits = is_lossless(decode_type(field.type), column.type) and is_lossless(column.type, wanted)
    return field.column if fits else _UNFIT

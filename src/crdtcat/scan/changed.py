"""Entries with something over them: overlays, and what other copies of their rows have folded.

Every cell takes the value of its greatest age. Overlays come in rising order of age, so where the entry is as
old as its rows, which is nearly always, each is simply put over what is there. Only a copy that has folded
cells, or a row with several copies, needs ages cell by cell; those are read from the copies' stamps.

All newer values of a column are gathered first and put over the entry in one go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from crdtcat.format.row_ids import ID
from crdtcat.format.row_ops import Copy, Stamps
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.head.columns import Column
from crdtcat.head.patches import BY_STAMPS, Patches
from crdtcat.intervals.runs import Integers, expand
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.plan import Plan
from crdtcat.scan.replace import replaced
from crdtcat.scan.shown import stored_column

OLDEST = -1
"""Age of a cell that is as old as its row."""


class ChangedEntries:
    """Reads entries of one plan with everything that lies over them.

    Args:
        plan: whose head's entries.
        chunks: reads stored chunks.
    """

    def __init__(self, plan: Plan, chunks: ChunkReader) -> None:
        self._head, self._chunks = plan.head, chunks

    def read(self, entry: int, columns: Sequence[Column]) -> pa.Table:
        """All rows of an entry, deleted ones too, as storage arrays of the columns' types."""
        return self._read(entry, columns, with_ages=False)[0]

    def read_with_ages(self, entry: int, columns: Sequence[Column]) -> tuple[pa.Table, dict[str, Integers]]:
        """As `read`, and per column, where any cell is newer than its row, the age of each."""
        return self._read(entry, columns, with_ages=True)

    def _read(
        self, entry: int, columns: Sequence[Column], *, with_ages: bool
    ) -> tuple[pa.Table, dict[str, Integers]]:
        head = self._head
        sources = {column.name: self._source(column, entry) for column in columns}
        copy = head.rows.copies.get(entry)
        patches = head.rows.patches_of(entry)
        compare = with_ages or bool(len(patches.entry))
        stamps = _stamps_by_field(copy) if copy is not None and compare else {}
        fields = [field.name for field, _ in sources.values() if field is not None]
        wanted = [*fields, *(stamps[name].stored for name in fields if name in stamps)]
        stored = self._chunks.one(entry, list(dict.fromkeys(wanted)))
        layers = {column.name: _Layer(int(head.log.rows[entry])) for column in columns}
        for name, (field, _) in sources.items():
            if field is not None and field.name in stamps:
                layers[name].ages = self._ages(stamps[field.name], stored)
            elif with_ages and len(patches.entry):
                layers[name].ages = np.full(int(head.log.rows[entry]), OLDEST)
        self._gather(patches, columns, layers)
        arrays = []
        for column in columns:
            field, fits = sources[column.name]
            base = stored_column(column, field if fits else None, stored)
            arrays.append(layers[column.name].over(self._unhidden(field, entry, base)))
        ages = {name: layer.ages for name, layer in layers.items() if layer.ages is not None}
        newer = {name: found for name, found in ages.items() if (found > OLDEST).any()}
        return pa.Table.from_arrays(arrays, names=[column.name for column in columns]), newer

    def _source(self, column: Column, chunk: int) -> tuple[StoredField | None, bool]:
        """The stored field that holds a column in a chunk, and whether its values can be read as such."""
        log, columns = self._head.log, self._head.columns
        version = int(log.chunk_version[chunk])
        field = columns.source(column, int(log.chunk_schema[chunk]), version)
        return field, field is not None and columns.fits(field, column)

    def _ages(self, stamps: Stamps, stored: pa.Table) -> Integers:
        """Per row, the version that wrote its cell, or OLDEST."""
        at = self._head.log.find(np.array(stamps.ids, ID))
        ages = np.concatenate(([OLDEST], at)).astype(np.int64)
        numbers = np.asarray(stored.column(stamps.stored).combine_chunks())
        found: Integers = ages[numbers]
        return found

    def _gather(self, patches: Patches, columns: Sequence[Column], layers: Mapping[str, _Layer]) -> None:
        edges = np.flatnonzero(
            np.concatenate(([True], (np.diff(patches.source) != 0) | (np.diff(patches.age) != 0)))
        )[: len(patches.source)]
        ends = np.append(edges[1:], len(patches.source))
        for first, last in zip(edges.tolist(), ends.tolist(), strict=False):
            owner, offset = expand(patches.length[first:last])
            target = patches.at[first:last][owner] + offset
            place = patches.source_at[first:last][owner] + offset
            chunk, age = int(patches.source[first]), int(patches.age[first])
            self._lay(chunk, age, rows=(target, place), columns=columns, layers=layers)

    def _lay(
        self,
        chunk: int,
        age: int,
        *,
        rows: tuple[Integers, Integers],
        columns: Sequence[Column],
        layers: Mapping[str, _Layer],
    ) -> None:
        """Put cells of one chunk over rows of the entry: `rows` are the rows, and where their cells are."""
        target, place = rows
        held = [(column, *self._source(column, chunk)) for column in columns]
        held = [item for item in held if item[1] is not None]
        if not held:
            return
        stamps: dict[str, Stamps] = {}
        if age == BY_STAMPS:
            stamps = _stamps_by_field(self._head.rows.copies[chunk])
            held = [item for item in held if item[1] is not None and item[1].name in stamps]
        names = [field.name for _, field, _ in held if field is not None]
        stored = self._chunks.kept(chunk, list(dict.fromkeys([*names, *(s.stored for s in stamps.values())])))
        for column, field, fits in held:
            assert field is not None
            values = stored_column(column, field if fits else None, stored)
            ages: Array | int = age
            if age == BY_STAMPS:
                ages = self._ages(stamps[field.name], stored)[place]
            layers[column.name].put(target, values, place, ages)

    def _unhidden(self, field: StoredField | None, entry: int, base: pa.Array) -> pa.Array:
        """A copy's column without the values that a drop had seen: its rows are of several versions."""
        head = self._head
        if entry not in head.rows.copies or field is None or field.column not in head.columns.hidden:
            return base
        hidden = head.columns.hidden[field.column]
        pieces = head.rows.pieces
        mine = np.flatnonzero(pieces.entry == entry)
        seen = hidden[head.log.chunk_version[pieces.birth[mine]]]
        mine = mine[seen]
        owner, offset = expand(pieces.stop[mine] - pieces.start[mine])
        mask = np.zeros(len(base), bool)
        mask[pieces.at[mine][owner] + offset] = True
        index = pa.array(np.arange(len(base)), mask=mask)
        return base.take(index)


class _Layer:
    """Newer values for one column of one entry."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._parts: list[tuple[Integers, pa.Array]] = []
        self.ages: Integers | None = None

    def put(self, target: Integers, values: pa.Array, place: Integers, ages: Array | int) -> None:
        """Values over rows, where they are newer than what is there. Ages rise from call to call, but for
        those given row by row."""
        if self.ages is None and not isinstance(ages, int):
            self.ages = np.full(self._rows, OLDEST)
        if self.ages is not None:
            newer = ages > self.ages[target]
            target, place = target[newer], place[newer]
            self.ages[target] = ages if isinstance(ages, int) else ages[newer]
        self._parts.append((target, _picked(values, place)))

    def over(self, base: pa.Array) -> pa.Array:
        """The column with them."""
        if not self._parts:
            return base
        if len(self._parts) == 1:
            return replaced(base, *self._parts[0])
        newest = np.full(self._rows, -1)
        at = 0
        for target, _ in self._parts:
            newest[target] = np.arange(at, at + len(target))
            at += len(target)
        rows = np.flatnonzero(newest >= 0)
        values = pa.concat_arrays([values for _, values in self._parts])
        return replaced(base, rows, values.take(pa.array(newest[rows])))


def _picked(values: pa.Array, place: Integers) -> pa.Array:
    if len(place) and int(place[-1]) - int(place[0]) + 1 == len(place) and bool((np.diff(place) == 1).all()):
        return values.slice(int(place[0]), len(place))
    return values.take(pa.array(place))


def _stamps_by_field(copy: Copy) -> dict[str, Stamps]:
    return {field: stamps for stamps in copy.stamps for field in stamps.fields}

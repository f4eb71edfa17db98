"""Entries with something over them: overlays, and what other copies of their rows have folded.

Every cell takes the value of its greatest age. Overlays come in rising order of age, so where the entry is as
old as its rows, which is nearly always, each is simply put over what is there. Only a copy that has folded
cells, or a row with several copies, needs ages cell by cell; those are read from the copies' stamps.

All newer values of a column are gathered first and put over the entry in one go. Texts with few different
values stay numbers into their dictionary until then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from crdtcat.chunks.decode import gathered
from crdtcat.chunks.types import decode_type, storage_type, without_encodings
from crdtcat.format.row_ids import ID
from crdtcat.format.row_ops import Copy, Stamps
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.head.columns import Column
from crdtcat.head.patches import BY_STAMPS, Patches
from crdtcat.intervals.runs import Integers, expand
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.layers import OLDEST, Layer
from crdtcat.scan.plan import Plan
from crdtcat.scan.shown import stored_column


class _Source(NamedTuple):
    """Where a chunk holds a column.

    Attributes:
        field: the stored field, `None` if there is none.
        fits: whether its values can be read as the column's type.
        same: whether they are of that type.
        ended: whether a drop had seen the values it holds. What they replaced stays replaced.
    """

    field: StoredField | None
    fits: bool
    same: bool
    ended: bool


class _Held(NamedTuple):
    """What a chunk lays over others.

    Attributes:
        columns: which, and where it holds them; no field: what it held was ended.
        stamps: by stored field, where cells are as old as these say.
    """

    columns: list[tuple[Column, _Source]]
    stamps: dict[str, Stamps]


class ChangedEntries:
    """Reads entries of one plan with everything that lies over them.

    Args:
        plan: whose head's entries.
        chunks: reads stored chunks.
    """

    def __init__(self, plan: Plan, chunks: ChunkReader) -> None:
        self._head, self._chunks = plan.head, chunks
        self._sources: dict[tuple[str, int, int], _Source] = {}

    def read(self, entry: int, columns: Sequence[Column]) -> pa.Table:
        """All rows of an entry, deleted ones too, as storage arrays of the columns' types."""
        return self.read_all((entry,), columns)[0]

    def read_all(self, entries: Sequence[int], columns: Sequence[Column]) -> list[pa.Table]:
        """The same for several entries. Those that are neighbours in a segment are fetched together."""
        wanted = [self._wanted(entry, columns, with_ages=False) for entry in entries]
        stored = self._chunks.each(entries, [names for names, _ in wanted])
        return [
            self._laid_over(entry, columns, rows, stamps, with_ages=False)[0]
            for entry, rows, (_, stamps) in zip(entries, stored, wanted, strict=True)
        ]

    def read_with_ages(self, entry: int, columns: Sequence[Column]) -> tuple[pa.Table, dict[str, Integers]]:
        """As `read`, and per column, where any cell is newer than its row, the age of each."""
        names, stamps = self._wanted(entry, columns, with_ages=True)
        (stored,) = self._chunks.each((entry,), [names])
        return self._laid_over(entry, columns, stored, stamps, with_ages=True)

    def fetch_ahead(self, source: int, age: int, columns: Sequence[Column]) -> None:
        """Read a chunk that lies over entries about to be read, so that their readers do not wait."""
        self._stored(source, self._held(source, age, columns))

    def names(self, entry: int, columns: Sequence[Column]) -> tuple[str, ...]:
        """The stored columns of an entry that `read` fetches."""
        return self._wanted(entry, columns, with_ages=False)[0]

    def names_over(self, source: int, age: int, columns: Sequence[Column]) -> tuple[str, ...]:
        """The stored columns of a chunk that are fetched to be laid over entries."""
        return _names(self._held(source, age, columns))

    def sources(self, entry: int) -> set[tuple[int, int]]:
        """The chunks that lie over an entry, with their ages."""
        patches = self._head.rows.patches_of(entry)
        first = _firsts(patches)
        return set(zip(patches.source[first].tolist(), patches.age[first].tolist(), strict=True))

    def _wanted(
        self, entry: int, columns: Sequence[Column], *, with_ages: bool
    ) -> tuple[tuple[str, ...], dict[str, Stamps]]:
        """The stored columns of an entry that have to be read, stamps where ages will be compared."""
        copy = self._head.rows.copies.get(entry)
        dropped = any(column.instances & self._head.columns.hidden.keys() for column in columns)
        compare = with_ages or dropped or bool(len(self._head.rows.patches_of(entry).entry))
        stamps = _stamps_by_field(copy) if copy is not None and compare else {}
        sources = (self._source(column, entry).field for column in columns)
        fields = [field.name for field in sources if field is not None]
        wanted = [*fields, *(stamps[name].stored for name in fields if name in stamps)]
        return tuple(dict.fromkeys(wanted)), stamps

    def _laid_over(
        self,
        entry: int,
        columns: Sequence[Column],
        stored: pa.Table,
        stamps: Mapping[str, Stamps],
        *,
        with_ages: bool,
    ) -> tuple[pa.Table, dict[str, Integers]]:
        head = self._head
        sources = {column.name: self._source(column, entry) for column in columns}
        patches = head.rows.patches_of(entry)
        fields = [source.field.name for source in sources.values() if source.field is not None]
        layers = {column.name: Layer(int(head.log.rows[entry])) for column in columns}
        for name, source in sources.items():
            field = source.field
            if field is not None and field.name in stamps:
                layers[name].ages = self._ages(stamps[field.name], stored)
            elif with_ages and len(patches.entry):
                layers[name].ages = np.full(int(head.log.rows[entry]), OLDEST)
        bases = {
            column.name: self._unhidden(
                sources[column.name].field,
                entry,
                _as_stored(column, sources[column.name], stored),
                layers[column.name].ages,
            )
            for column in columns
        }
        self._gather(patches, columns, layers)
        arrays, in_segment = [], self._chunks.is_stored(entry)
        for column in columns:
            source, base = sources[column.name], bases[column.name]
            # What was decoded for this entry alone, and is one column of it, is nobody else's.
            alone = source.field is not None and fields.count(source.field.name) == 1
            arrays.append(layers[column.name].over(base, owned=alone and in_segment))
        ages = {name: layer.ages for name, layer in layers.items() if layer.ages is not None}
        newer = {name: found for name, found in ages.items() if (found > OLDEST).any()}
        return pa.Table.from_arrays(arrays, names=[column.name for column in columns]), newer

    def _source(self, column: Column, chunk: int) -> _Source:
        """Where a chunk holds a column. Found once per schema; once per version if columns were dropped."""
        log, columns = self._head.log, self._head.columns
        version, schema = int(log.chunk_version[chunk]), int(log.chunk_schema[chunk])
        key = (column.name, schema, version if columns.hidden else -1)
        found = self._sources.get(key)
        if found is None:
            field = columns.source(column, schema, version)
            fits = field is not None and columns.fits(field, column)
            kept = without_encodings(column.type)
            same = field is not None and without_encodings(decode_type(field.type)) == kept
            ended = field is None and self._is_ended(column, schema)
            found = self._sources[key] = _Source(field, fits, same, ended)
        return found

    def _is_ended(self, column: Column, schema: int) -> bool:
        """Whether a schema without values of a column to be shown has such that a drop has ended.

        Told of columns that are one: of several under one name, others may have the cell's value.
        """
        if len(column.instances) != 1:
            return False
        return any(field.column in column.instances for field in self._head.columns.fields(schema))

    def _ages(self, stamps: Stamps, stored: pa.Table) -> Integers:
        """Per row, the version that wrote its cell, or OLDEST."""
        at = self._head.log.find(np.array(stamps.ids, ID))
        ages = np.concatenate(([OLDEST], at)).astype(np.int64)
        numbers = np.asarray(stored.column(stamps.stored).combine_chunks())
        found: Integers = ages[numbers]
        return found

    def _gather(self, patches: Patches, columns: Sequence[Column], layers: Mapping[str, Layer]) -> None:
        edges = [*_firsts(patches).tolist(), len(patches.source)]
        for first, last in pairwise(edges):
            chunk, age = int(patches.source[first]), int(patches.age[first])
            held = self._held(chunk, age, columns)
            if not held.columns:
                continue
            target, place = patches.at[first:last], patches.source_at[first:last]
            length = patches.length[first:last]
            if (length != 1).any():  # else every row stands alone, as scattered ones do
                owner, offset = expand(length)
                target, place = target[owner] + offset, place[owner] + offset
            self._lay(held, chunk, age, (target, place), layers)

    def _lay(
        self, held: _Held, chunk: int, age: int, rows: tuple[Integers, Integers], layers: Mapping[str, Layer]
    ) -> None:
        """Put cells of one chunk over rows of the entry: `rows` are the rows, and where their cells are."""
        target, place = rows
        stored = self._stored(chunk, held)
        for column, source in held.columns:
            field = source.field
            values = _values_over(column, source, stored, place)
            ages: Array | int = age
            if age == BY_STAMPS and field is not None:
                ages = self._ages(held.stamps[field.name], stored)
                values = self._without_ended(field, values, ages)
                ages = ages[place]
            layers[column.name].put(target, values, place, ages)

    def _stored(self, chunk: int, held: _Held) -> pa.Table:
        """The stored rows of a chunk that lies over others."""
        names = _names(held)
        return self._chunks.kept(chunk, names) if names else pa.table({})

    def _held(self, chunk: int, age: int, columns: Sequence[Column]) -> _Held:
        """What a chunk has to lay over others."""
        sources = [(column, self._source(column, chunk)) for column in columns]
        if age != BY_STAMPS:
            return _Held([pair for pair in sources if pair[1].field is not None or pair[1].ended], {})
        stamps = _stamps_by_field(self._head.rows.copies[chunk])
        mine = [pair for pair in sources if pair[1].field is not None and pair[1].field.name in stamps]
        return _Held(mine, stamps)

    def _unhidden(
        self, field: StoredField | None, entry: int, base: pa.Array, ages: Integers | None
    ) -> pa.Array:
        """A copy's column without the values that a drop had seen: its cells are of several versions."""
        head = self._head
        if entry not in head.rows.copies or field is None or field.column not in head.columns.hidden:
            return base
        pieces = head.rows.pieces
        mine = np.flatnonzero(pieces.entry == entry)
        owner, offset = expand(pieces.stop[mine] - pieces.start[mine])
        author = np.full(len(base), OLDEST)
        author[pieces.at[mine][owner] + offset] = head.log.chunk_version[pieces.birth[mine]][owner]
        return self._without_ended(
            field, base, author if ages is None else np.where(ages > OLDEST, ages, author)
        )

    def _without_ended(self, field: StoredField, values: pa.Array, author: Integers) -> pa.Array:
        """Values without those of versions that a drop of their column had seen."""
        hidden = self._head.columns.hidden.get(field.column)
        if hidden is None:
            return values
        ended = (author > OLDEST) & hidden[author]
        return values.take(pa.array(np.arange(len(values)), mask=ended)) if ended.any() else values


def _firsts(patches: Patches) -> Integers:
    """Where what one chunk holds begins, chunk after chunk."""
    others = (patches.source[1:] != patches.source[:-1]) | (patches.age[1:] != patches.age[:-1])
    found: Integers = np.flatnonzero(np.concatenate((np.ones(min(len(patches.source), 1), bool), others)))
    return found


def _as_stored(column: Column, source: _Source, stored: pa.Table) -> pa.Array:
    """As `stored_column`; texts of the column's own type may still be a dictionary array."""
    field = source.field if source.fits else None
    if field is None:
        return stored_column(column, None, stored)
    held = stored.column(field.name)
    if source.same and held.num_chunks == 1:
        return held.chunk(0)
    return stored_column(column, field, gathered(stored.select([field.name])))


def _names(held: _Held) -> tuple[str, ...]:
    """The stored columns that are read of a chunk that lies over others."""
    names = [source.field.name for _, source in held.columns if source.field is not None]
    return tuple(dict.fromkeys([*names, *(one.stored for one in held.stamps.values() if names)]))


def _values_over(column: Column, source: _Source, stored: pa.Table, place: Integers) -> pa.Array:
    """A chunk's values of a column; where it has none to show, nulls for the places asked for."""
    if source.field is None or not source.fits:
        return pa.nulls(int(place.max()) + 1, storage_type(column.type, column.name))
    held = stored.column(source.field.name)
    same = source.same and held.num_chunks == 1
    return held.chunk(0) if same else stored_column(column, source.field, stored)


def _stamps_by_field(copy: Copy) -> dict[str, Stamps]:
    return {field: stamps for stamps in copy.stamps for field in stamps.fields}

"""Entries with something over them: overlays, and what other copies of their rows have folded.

Every cell takes the value of its greatest age. Overlays come in rising order of age, so where the entry is as
old as its rows, which is nearly always, each is simply put over what is there. Only a copy that has folded
cells, or a row with several copies, needs ages cell by cell; those are read from the copies' stamps.

All newer values of a column are gathered first, for all entries that are read together, and put over each
entry in one go, when it has just been decoded. Texts stay until then what they were decoded to: numbers into
a dictionary, or texts with wide offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from crdtcat.chunks.decode import plain
from crdtcat.chunks.types import storage_type
from crdtcat.format.row_ids import ID
from crdtcat.format.row_ops import Stamps
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.head.columns import Column
from crdtcat.head.patches import BY_STAMPS
from crdtcat.intervals.runs import Integers
from crdtcat.scan.as_born import AsBorn, Part, Span
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.holding import Held, Holding, Source, stamps_by_field
from crdtcat.scan.layers import OLDEST, Layer, Orders
from crdtcat.scan.plan import Plan
from crdtcat.scan.replace import replaced
from crdtcat.scan.shown import stored_column
from crdtcat.scan.visible import Over, Visible


class ChangedEntries:
    """Reads entries of one plan with everything that lies over them.

    Args:
        plan: whose head's entries.
        chunks: reads stored chunks.
    """

    def __init__(self, plan: Plan, chunks: ChunkReader) -> None:
        self._head, self._chunks, self._needed = plan.head, chunks, plan.needed
        self._holding, self._visible = Holding(plan.head), Visible(plan.head)
        self._born = AsBorn(plan.head)
        self._alone: dict[int, tuple[list[Source], list[bool]]] = {}

    def read(self, entry: int, columns: Sequence[Column], within: Span | None = None) -> pa.Table:
        """The rows of an entry, deleted ones too, as storage arrays of the columns' types. `within`: some of
        them only; what lies over others is not read."""
        return self._read((entry,), columns, within=within)[0][0]

    def read_all(self, entries: Sequence[int], columns: Sequence[Column]) -> list[pa.Table]:
        """All rows of several entries. Those that are neighbours in a segment are fetched together."""
        return self._read(entries, columns)[0]

    def read_with_ages(
        self, entry: int, columns: Sequence[Column], within: Span | None = None
    ) -> tuple[pa.Table, dict[str, Integers]]:
        """As `read`, and per column, where any cell is newer than its row, the age of each."""
        (rows,), ages = self._read((entry,), columns, within=within, with_ages=True)
        return rows, {name: found for name, found in ages.items() if (found > OLDEST).any()}

    def fetch_ahead(self, source: int, age: int, columns: Sequence[Column]) -> None:
        """Read a chunk that lies over entries about to be read, so that their readers do not wait."""
        self._stored(source, self._holding.held(source, age, columns))

    def names(self, entry: int, columns: Sequence[Column]) -> tuple[str, ...]:
        """The stored columns of an entry that `read` fetches."""
        return self._wanted(entry, columns, with_ages=False)[0]

    def names_over(self, source: int, age: int, columns: Sequence[Column]) -> tuple[str, ...]:
        """The stored columns of a chunk that are fetched to be laid over entries."""
        return self._holding.held(source, age, columns).names

    def sources(self, entry: int, within: Span) -> set[tuple[int, int]]:
        """The chunks that lie over some rows of an entry and show, with their ages."""
        sheets = self._visible.sheets_of(entry, self._needed)
        if within != (0, int(self._head.log.rows[entry])):
            sheets = [sheet for sheet in sheets if self._visible.reaches(sheet, within)]
        return {(sheet.source, sheet.age) for sheet in sheets}

    def _wanted(
        self, entry: int, columns: Sequence[Column], *, with_ages: bool
    ) -> tuple[tuple[str, ...], dict[str, Stamps]]:
        """The stored columns of an entry that have to be read, stamps where ages will be compared."""
        copy = self._head.rows.copies.get(entry)
        dropped = any(column.instances & self._head.columns.hidden.keys() for column in columns)
        sources = self._holding.sources(columns, entry)
        unfit = any(not source.fits for source in sources if source.field is not None)
        compare = with_ages or dropped or unfit or self._head.rows.is_overlaid(entry)
        stamps = stamps_by_field(copy) if copy is not None and compare else {}
        fields = [source.field.name for source in sources if source.field is not None]
        wanted = [*fields, *(stamps[name].stored for name in fields if name in stamps)]
        return tuple(dict.fromkeys(wanted)), stamps

    def _read(
        self,
        entries: Sequence[int],
        columns: Sequence[Column],
        *,
        within: Span | None = None,
        with_ages: bool = False,
    ) -> tuple[list[pa.Table], dict[str, Integers]]:
        """Entries, and per column the ages of the cells of all of them, where ages matter. `within`: some
        rows of the only one."""
        wanted = [self._wanted(entry, columns, with_ages=with_ages) for entry in entries]
        sources = [self._holding.sources(columns, entry) for entry in entries]
        stored: Iterable[pa.Table] = self._chunks.each(entries, [names for names, _ in wanted])
        sizes = self._head.log.rows[list(entries)].astype(np.int64)
        if within is not None:
            first, stop = within
            sizes = np.array([stop - first])
            stored = (rows.slice(first, stop - first) for rows in stored)
        ages: list[dict[str, Integers]] = [{} for _ in entries]
        if any(stamps for _, stamps in wanted):  # else each is decoded when its turn comes
            stored = list(stored)
            ages = [
                self._own_ages(columns, held, rows, stamps)
                for held, rows, (_, stamps) in zip(sources, stored, wanted, strict=True)
            ]
        start = np.concatenate(([0], np.cumsum(sizes)))
        sheets = [self._visible.sheets_of(entry, columns) for entry in entries]
        above = Over(self._head.rows, sheets, start, within)
        layers = self._laid(above, ages, sizes, columns, with_ages=with_ages)
        orders = Orders(start)
        cells = [layers[column.name].cells(orders) for column in columns]
        tables = []
        for at, (entry, rows) in enumerate(zip(entries, stored, strict=True)):
            arrays = []
            for column, source, owned, over in zip(
                columns, sources[at], self._owned(entry, sources[at]), cells, strict=True
            ):
                base = self._base(column, source, Part(entry, within), rows, ages[at].get(column.name))
                arrays.append(replaced(base, None if over is None else over[at], owned=owned))
            tables.append(pa.Table.from_arrays(arrays, names=[column.name for column in columns]))
        return tables, {name: layer.ages for name, layer in layers.items() if layer.ages is not None}

    def _laid(
        self,
        over: Over,
        ages: Sequence[Mapping[str, Integers]],
        sizes: Integers,
        columns: Sequence[Column],
        *,
        with_ages: bool,
    ) -> dict[str, Layer]:
        """Per column all that lies over entries, given the ages of their own cells."""
        layers = {}
        for column in columns:
            own = [found.get(column.name) for found in ages]
            known = any(found is not None for found in own) or (with_ages and bool(over))
            layers[column.name] = Layer(int(sizes.sum()), _all_ages(own, sizes) if known else None)
        for chunk, age, target, place in over:
            self._lay(chunk, age, (target, place), layers, columns)
        return layers

    def _own_ages(
        self,
        columns: Sequence[Column],
        sources: Sequence[Source],
        stored: pa.Table,
        stamps: Mapping[str, Stamps],
    ) -> dict[str, Integers]:
        """Per column, the ages of an entry's own cells, where they differ."""
        return {
            column.name: self._ages(stamps[source.field.name], stored)
            for column, source in zip(columns, sources, strict=True)
            if source.field is not None and source.field.name in stamps
        }

    def _base(
        self, column: Column, source: Source, part: Part, stored: pa.Table, ages: Integers | None
    ) -> pa.Array:
        """What an entry itself has of a column; `ages`: of its cells, where they differ."""
        field = source.field
        if field is not None and not source.fits and part.chunk in self._head.rows.copies:
            values = self._as_born(column, field, part, plain(stored.select([field.name])), ages)
        else:
            values = _as_stored(column, source, stored)
        return self._unhidden(field, part, values, ages)

    def _as_born(
        self, column: Column, field: StoredField, copy: Part, stored: pa.Table, ages: Integers | None
    ) -> pa.Array:
        born = self._born.cells(copy, field.column, ages)
        return self._born.column(column, field, stored.column(field.name).chunks, born)

    def _owned(self, entry: int, sources: list[Source]) -> list[bool]:
        """Per column, whether what was decoded for it is nobody else's: for this entry alone, and no other
        column of it; and whether it is as it was decoded. Found once for all entries alike: `Holding` gives
        them the same list."""
        if not self._chunks.is_stored(entry):
            return [False] * len(sources)
        if id(sources) not in self._alone:
            names = [None if source.field is None else source.field.name for source in sources]
            uses = Counter(names)
            alone = [source.same and uses[name] == 1 for name, source in zip(names, sources, strict=True)]
            self._alone[id(sources)] = sources, alone
        return self._alone[id(sources)][1]

    def _ages(self, stamps: Stamps, stored: pa.Table) -> Integers:
        """Per row, the version that wrote its cell, or OLDEST."""
        at = self._head.log.find(np.array(stamps.ids, ID))
        ages = np.concatenate(([OLDEST], at)).astype(np.int64)
        numbers = np.asarray(stored.column(stamps.stored).combine_chunks())
        found: Integers = ages[numbers]
        return found

    def _lay(
        self,
        chunk: int,
        age: int,
        rows: tuple[Integers, Integers],
        layers: Mapping[str, Layer],
        columns: Sequence[Column],
    ) -> None:
        """Put cells of one chunk over rows: `rows` are the rows, and where their cells are."""
        held = self._holding.held(chunk, age, columns)
        if not held.columns:
            return
        target, place = rows
        stored = self._stored(chunk, held)
        for column, source in held.columns:
            field = source.field
            ages: Array | int = age
            if age == BY_STAMPS and field is not None:
                ages = self._ages(held.stamps[field.name], stored)
                if source.fits:
                    values = _values_over(column, source, stored, place)
                else:
                    values = self._as_born(column, field, Part(chunk), stored, ages)
                values = self._without_ended(field, values, ages)
                ages = ages[place]
            else:
                values = _values_over(column, source, stored, place)
            layers[column.name].put(target, values, place, ages)

    def _stored(self, chunk: int, held: Held) -> pa.Table:
        """The stored rows of a chunk that lies over others."""
        return self._chunks.kept(chunk, held.names) if held.names else pa.table({})

    def _unhidden(
        self, field: StoredField | None, part: Part, base: pa.Array, ages: Integers | None
    ) -> pa.Array:
        """A copy's column without the values that a drop had seen: its cells are of several versions."""
        head = self._head
        if part.chunk not in head.rows.copies or field is None or field.column not in head.columns.hidden:
            return base
        births = self._born.births(part)
        author = np.where(births < 0, OLDEST, head.log.chunk_version[births].astype(np.int64))
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


def _all_ages(ages: Sequence[Integers | None], sizes: Integers) -> Integers:
    """Ages of the cells of several entries, one behind the other."""
    pairs = zip(ages, sizes.tolist(), strict=True)
    return np.concatenate([np.full(size, OLDEST) if age is None else age for age, size in pairs])


def _as_stored(column: Column, source: Source, stored: pa.Table) -> pa.Array:
    """As `stored_column`; texts of the column's own type may still be as `raw` reads give them."""
    field = source.field if source.fits else None
    if field is None:
        return stored_column(column, None, stored)
    held = stored.column(field.name)
    if source.same and held.num_chunks == 1:
        return held.chunk(0)
    return stored_column(column, field, plain(stored.select([field.name])))


def _values_over(column: Column, source: Source, stored: pa.Table, place: Integers) -> pa.Array:
    """A chunk's values of a column; where it has none to show, nulls for the places asked for."""
    if source.field is None or not source.fits:
        return pa.nulls(int(place.max()) + 1, storage_type(column.type, column.name))
    held = stored.column(source.field.name)
    same = source.same and held.num_chunks == 1
    return held.chunk(0) if same else stored_column(column, source.field, stored)

"""Merging the chunks of a group as they are read, by rising key.

Rows are given out as soon as no chunk still to be read can hold an equal or lesser key.

Memory: the chunks whose ranges hold one key at a time, up to `HELD_BYTES`, and what is read ahead. A chunk
that spans the whole table stays until its last key was given out; those that are too many stay in temporary
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.keys import encoded_key
from crdtcat.chunks.types import restored, storage_type
from crdtcat.errors import Corrupt
from crdtcat.format.ops import ColumnId
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.head.columns import Column, precedence
from crdtcat.scan.as_born import AsBorn
from crdtcat.scan.masks import mask
from crdtcat.scan.merge import ABSENT, Folded, Merger, Part, Slot, Stamp
from crdtcat.scan.merge_plan import Beside, Group
from crdtcat.scan.plan import Plan
from crdtcat.scan.shown import stored_column
from crdtcat.scan.spill import spilled

STEP_ROWS: Final = 128 * 1024  # merged at a time
LEAST_STEP: Final = 256  # of one chunk, however many are merged
HELD_BYTES: Final = 256 * 2**20  # of chunks that are merged at one time, in memory


class Reading:
    """One run of a merge plan.

    Args:
        plan: what is wanted.
    """

    def __init__(self, plan: Plan) -> None:
        head = plan.head
        assert head.keyed is not None
        self._plan, self._keyed = plan, head.keyed
        self._log, self._all = head.log, head.columns
        self._key = tuple(head.settings.key)
        wanted = [column for column in plan.needed if column.name not in self._key]
        self._slots: list[Slot] = []
        self._columns: list[list[int]] = []
        self._wanted: list[Column] = wanted
        self._shown_in: list[Column] = []
        for column in wanted:
            instances = sorted(column.instances, key=lambda one: (one.birth, one.name))
            begin = len(self._slots)
            self._slots += [Slot(one, storage_type(column.type, column.name)) for one in instances]
            self._shown_in += [column] * len(instances)
            self._columns.append(list(range(begin, len(self._slots))))

    def names(self, chunk: int, *, only_keys: bool = False) -> tuple[str, ...]:
        """The stored columns a chunk is read for: those that are wanted, or only keys and stamps."""
        fields = {} if only_keys else self._fields(chunk)
        found = [fields[slot.instance].name for slot in self._slots if slot.instance in fields]
        copy = self._keyed.copies.get(chunk)
        stamps = () if copy is None else [one.stored for one in copy.stamps]
        return tuple(dict.fromkeys((*self._key, *found, *stamps)))

    def _fields(self, chunk: int) -> dict[ColumnId, StoredField]:
        fields = self._all.fields(int(self._log.chunk_schema[chunk]))
        return {field.column: field for field in sorted(fields, key=precedence)}

    def rows(
        self, group: Group, take: Callable[[], pa.Table], beside: Mapping[int, pa.Table]
    ) -> Iterator[Callable[[], pa.Table | None]]:
        """The rows of a group, by rising key, filtered, some at a time: calls that may be made in any thread.

        `take` gives the group's chunks as they were read.
        """
        hiding = any(one.deletes < 0 for one in group.beside)
        hiding = hiding or any(map(self._keyed.has_hidden, group.chunks))
        others = self._others(group) if hiding else ()
        hidden = self._keyed.hidden
        merger = Merger(self._columns, self._slots, hidden if hiding else None, self._ended)
        for taken in self._taken(group, take, beside, others, hidden):
            yield partial(self._merged, merger, taken)

    def _merged(self, merger: Merger, taken: Sequence[Part]) -> pa.Table | None:
        return self._shown(*merger.merged(taken))

    def folded(
        self, group: Group, take: Callable[[], pa.Table], beside: Mapping[int, pa.Table]
    ) -> Iterator[Folded]:
        """All rows of a group that no delete and no overwrite takes, with the stamps of their cells, outdated
        or not.

        Theorem: `keyed_compaction_invisible`.
        """
        removed = self._keyed.removed_by >= 0
        hiding = any(one.deletes < 0 for one in group.beside)
        hiding = hiding or any(len(self._keyed.takers(chunk)) for chunk in group.chunks)
        hidden, others = (removed, self._others(group)) if hiding else (None, ())
        merger = Merger(self._columns, self._slots, hidden, lambda _instance, _stamp: None)
        for taken in self._taken(group, take, beside, others, removed):
            found = merger.folded(taken)
            if found is not None and len(found.row):
                yield found

    def _taken(
        self,
        group: Group,
        take: Callable[[], pa.Table],
        beside: Mapping[int, pa.Table],
        others: Sequence[ColumnId],
        hidden: Array,
    ) -> Iterator[list[Part]]:
        """The rows of a group's chunks, some at a time, by rising key: what is merged together."""
        parts = [self._beside(one, beside[one.chunk], others, group, hidden) for one in group.beside]
        gathered = 0
        for place, chunk in enumerate(group.chunks):
            held = sum(part.held for part in parts)
            part = self._part(chunk, *_kept(take(), HELD_BYTES - held), others)
            parts.append(part)
            gathered += len(part)
            last = place + 1 == len(group.chunks)
            limit = None if last else group.lows[place + 1]
            if last or (limit is not None and gathered >= STEP_ROWS):
                yield from _given_out(parts, limit)
                gathered = 0

    def _part(self, chunk: int, stored: pa.Table, held: int, others: Sequence[ColumnId]) -> Part:
        fields = self._fields(chunk)
        ages = self._ages(chunk, stored)
        cells: list[pa.Array | None] = []
        stamps: list[Stamp] = []
        for slot, column in zip(self._slots, self._shown_in, strict=True):
            field = fields.get(slot.instance)
            cells.append(None if field is None else self._values(stored, field, column, ages))
            stamps.append(ABSENT if field is None else ages.get(field.name, chunk))
        return Part(
            keys=self._keys(stored),
            cells=tuple(cells),
            stamps=tuple(stamps),
            row=ages.get(self._key[0], chunk),
            others=tuple(ages.get(fields[one].name, chunk) if one in fields else ABSENT for one in others),
            held=held,
        )

    def _ages(self, chunk: int, stored: pa.Table) -> dict[str, Stamp]:
        """In a copy, the stamps of each stored field; in other chunks all cells were born there."""
        copy = self._keyed.copies.get(chunk)
        ages: dict[str, Stamp] = {}
        for stamps in () if copy is None else copy.stamps:
            known, numbers = self._keyed.stamps(stamps), np.asarray(_one(stored.column(stamps.stored)))
            if len(numbers) and int(numbers.max()) >= len(known):
                raise Corrupt(str(self._log.id_at(int(self._log.chunk_version[chunk]))), "stamps of nobody")
            ages |= dict.fromkeys(stamps.fields, known[numbers])
        return ages

    def _keys(self, stored: pa.Table) -> tuple[pa.Array, ...]:
        return tuple(_one(stored.column(name)) for name in self._key)

    def _values(
        self, stored: pa.Table, field: StoredField, column: Column, ages: Mapping[str, Stamp]
    ) -> pa.Array | None:
        if self._all.fits(field, column):
            return stored_column(column, field, stored)
        born = ages.get(field.name)
        if born is None or isinstance(born, int):
            return None  # it wins, and reads as null
        return AsBorn(self._plan.head).column(column, field, stored.column(field.name).chunks, born)

    def _beside(
        self, one: Beside, stored: pa.Table, others: Sequence[ColumnId], group: Group, hidden: Array
    ) -> Part:
        """What takes cells away, as a part: a tombstone deletes, a shadow has stamps of cells, and no values.
        A copy is a shadow for those of its cells that are hidden: the others are elsewhere."""
        fields = self._fields(one.chunk) if one.deletes < 0 else {}
        ages = {name: _only(stamps, hidden) for name, stamps in self._ages(one.chunk, stored).items()}

        def stamp(instance: ColumnId) -> Stamp:
            return ages.get(fields[instance].name, one.chunk) if instance in fields else ABSENT

        part = Part(
            keys=self._keys(stored),
            cells=(None,) * len(self._slots),
            stamps=tuple(stamp(slot.instance) for slot in self._slots),
            row=ages.get(self._key[0], one.chunk) if one.deletes < 0 else ABSENT,
            others=tuple(map(stamp, others)),
            deletes=one.deletes if one.deletes >= 0 else ABSENT,
        )
        start = 0 if group.low is None else part.below(group.low)
        stop = len(part) if group.high is None else part.up_to(group.high)
        return part.slice(start, stop)

    def _others(self, group: Group) -> tuple[ColumnId, ...]:
        """Columns that chunks of a group hold and nobody wants to see: their cells keep a row there, too."""
        wanted = {slot.instance for slot in self._slots}
        held = {
            column
            for chunk in (*group.chunks, *(one.chunk for one in group.beside if one.deletes < 0))
            for column, field in self._fields(chunk).items()
            if field.name not in self._key
        }
        return tuple(sorted(held - wanted))

    def _ended(self, instance: ColumnId, stamp: Array) -> Array | None:
        hidden = self._all.hidden.get(instance)
        if hidden is None:
            return None
        ended: Array = hidden[self._log.chunk_version[stamp]]
        return ended

    def _shown(self, keys: list[pa.Array], values: list[pa.Array]) -> pa.Table | None:
        if not keys:
            return None
        plan = self._plan
        stored = dict(zip(self._key, keys, strict=True))
        stored |= {column.name: array for column, array in zip(self._wanted, values, strict=True)}
        columns = {column.name: column for column in plan.needed}
        if plan.filter is not None:
            looked_at = {
                name: restored([stored[name]], columns[name].type, name) for name in plan.filter.columns
            }
            table = pa.table(looked_at) if looked_at else pa.table({"": keys[0]})
            kept = mask(plan.filter, table).combine_chunks()
            stored = {column.name: stored[column.name].filter(kept) for column in plan.columns}
        arrays = [
            restored([stored[column.name]], column.type, column.name, column.order) for column in plan.columns
        ]
        return pa.Table.from_arrays(arrays, schema=plan.schema)


def _kept(stored: pa.Table, room: int) -> tuple[pa.Table, int]:
    """A chunk's rows, in memory if there is room for them, and how much of it they take."""
    size = stored.nbytes
    return (stored, size) if size <= room else (spilled(stored), 0)


def _given_out(parts: list[Part], limit: bytes | None) -> Iterator[list[Part]]:
    """Rows below a limit, so many at a time that merging them takes little memory; `parts` keeps the rest."""
    done = False
    while not done and any(part.deletes == ABSENT for part in parts):
        step = max(LEAST_STEP, STEP_ROWS // len(parts))
        ends = [encoded_key(part.keys, step) for part in parts if len(part) > step]
        bound = min([*ends, *([] if limit is None else [limit])], default=None)
        done = bound == limit
        taken = []
        for place, part in enumerate(parts):
            count = len(part) if bound is None else part.below(bound)
            taken.append(part.slice(0, count))
            parts[place] = part.slice(count, len(part))
        parts[:] = [part for part in parts if len(part)]
        yield taken


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _only(stamps: Stamp, hidden: Array) -> Stamp:
    """Those stamps that are hidden; no cell in the place of the others."""
    return stamps if isinstance(stamps, int) else np.where(hidden[stamps] & (stamps >= 0), stamps, ABSENT)

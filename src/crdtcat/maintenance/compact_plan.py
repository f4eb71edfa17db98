"""What to compact: which entries, together with which.

Worth it are entries with fewer rows and bytes than a chunk should have, and entries that are not read as they
are: rows gone from them, newer cells over them, other rows of their partition between theirs. Entries that
are worth it, and have none of their partition between them that is not, go into one group while they have
room in a chunk of target size, in rows and in bytes: wide rows make chunks of fewer, as where they are cut.
Rows of other partitions may lie between theirs, and stay there; whoever reads all of them in order holds a
chunk of each partition, so a *stretch* of row order in which partitions take turns is no longer than what a
scan reads at once. Entries that hold copies of the same rows go into one group whatever their size: a
compaction writes every row of every entry it replaces. Entries whose columns need more than one
field to read (after concurrent additions, or a type that does not fit) are left as they are.

Values of a column that was dropped are left out. They show nowhere, as long as the drop counts; so a copy
rests on it. But a cell that the drop had not seen may still come, and brings the column back: a row's own
cell is older than whatever comes, and only hides what is there for good, while an update of it (in a keyed
table, every cell) may be newer, and then hides what comes. Of those a copy keeps how old they are, with nulls
for their values, until they are below the horizon, where nothing older can come.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.type_codes import TypeCode
from crdtcat.clock import ROOT
from crdtcat.format.kinds import ROWS
from crdtcat.format.ops import ColumnId
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.head.columns import Column
from crdtcat.head.head import Head
from crdtcat.head.patches import Strips
from crdtcat.limits import CHUNK_BYTES_TARGET
from crdtcat.scan.units import UNIT_BYTES

LEAST_SHARE: Final = 4  # chunks with fewer than a fourth of what a chunk should have are small
Size = tuple[int, int]
"""Rows, and bytes of Arrow content."""


def groups(head: Head, *, least: int, target: int) -> Iterator[list[int]]:
    """Groups of entries to write anew. O(entries + strips)."""
    simple = Simple(head)
    shared = crowds(head)
    crowded = {entry for crowd in shared for entry in crowd}
    yield from (crowd for crowd in shared if all(map(simple.is_entry, crowd)))
    entries = head.live
    rows, changed, mixed = head.rows.live_rows(entries), changed_entries(head), mixed_entries(head)
    stretch, nbytes = Stretch(target, stretch_rows(head)), head.rows.bytes_read
    for entry, count in zip(entries.tolist(), rows.tolist(), strict=True):
        partition, dirty, held = int(head.log.partition[entry]), bool(changed[entry]), int(nbytes[entry])
        worth_it = dirty or mixed[entry] or is_small(count, held, least)
        if worth_it and entry not in crowded and simple.is_entry(entry):
            yield from stretch.add(entry, (count, held), partition, dirty=dirty)
        else:
            yield from stretch.passed(count, partition)
    yield from stretch.rest()


def is_small(rows: int, nbytes: int, least: int) -> bool:
    """Whether a chunk is worth joining with others: in rows, and in bytes."""
    return rows < least and nbytes < CHUNK_BYTES_TARGET // LEAST_SHARE


def changed_entries(head: Head) -> Array:
    """Per chunk, whether it is an entry with rows gone from it, or newer cells over it. O(both)."""
    rows = head.rows
    found = np.zeros(head.log.chunk_count, bool)
    if not rows.is_plain:
        for entries in (rows.holes.entry, rows.patches.entry):
            found[entries] = True
    return found


def mixed_entries(head: Head) -> Array:
    """Per chunk, whether it is an entry that is read in pieces: with others of its partition between its
    rows, or without some of them. To write such a one anew by itself changes nothing: it takes those between
    into its group, or stays. O(strips)."""
    rows, log = head.rows, head.log
    found = np.zeros(log.chunk_count, bool)
    if rows.is_plain:
        return found
    by_partition = np.argsort(log.partition[rows.strips.entry], kind="stable")
    strips = Strips(*(column[by_partition] for column in rows.strips)).joined()
    whole = (strips.start == 0) & (strips.stop == log.rows[strips.entry].astype(np.int64))
    found[strips.entry[~whole]] = True
    return found


def stretch_rows(head: Head) -> int:
    """About how many rows a scan reads at once: a power of two, so that what a compaction does to sizes makes
    no other stretches of the same rows."""
    log, live = head.log, head.live
    rows, nbytes = int(log.rows[live].sum()), int(log.nbytes[live].sum())
    return 1 << max(0, (UNIT_BYTES * rows // max(nbytes, 1)).bit_length() - 1)


class Stretch:
    """Groups that are open, by partition, until there are more rows since the first than may take turns."""

    def __init__(self, target: int, most: int) -> None:
        self._target, self._most = target, most
        self._open: dict[int, _Group] = {}
        self._rows = 0

    def add(self, entry: int, size: Size, partition: int, *, dirty: bool) -> Iterator[list[int]]:
        """Take one more entry; gives the groups that it does not go with."""
        rows, _ = size
        if self._rows + rows > self._most and self._open.keys() != {partition}:
            yield from self.rest()
        if partition in self._open and not self._open[partition].has_room(size):
            yield from self._ended(partition)
        self._open.setdefault(partition, _Group(self._target)).add(entry, size, dirty=dirty)
        self._rows += rows

    def passed(self, rows: int, partition: int) -> Iterator[list[int]]:
        """Leave one out; gives what it lies behind in its partition."""
        yield from self._ended(partition)
        if self._open:
            self._rows += rows

    def rest(self) -> Iterator[list[int]]:
        """Everything that is open."""
        for partition in list(self._open):
            yield from self._ended(partition)

    def _ended(self, partition: int) -> Iterator[list[int]]:
        if partition in self._open:
            yield from self._open.pop(partition).taken()
        if not self._open:
            self._rows = 0


class _Group:
    """Entries of one partition, up to a number of rows, and of bytes."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._entries: list[int] = []
        self._rows, self._nbytes, self._dirty = 0, 0, False

    def has_room(self, size: Size) -> bool:
        rows, nbytes = size
        return self._rows + rows <= self._target and self._nbytes + nbytes <= CHUNK_BYTES_TARGET

    def add(self, entry: int, size: Size, *, dirty: bool) -> None:
        rows, nbytes = size
        self._entries.append(entry)
        self._rows, self._nbytes = self._rows + rows, self._nbytes + nbytes
        self._dirty = self._dirty or dirty

    def taken(self) -> Iterator[list[int]]:
        """The group, if it is worth it: a single entry is only if its rows or cells are not those stored."""
        if len(self._entries) > 1 or self._dirty:
            yield self._entries


def crowds(head: Head) -> list[list[int]]:
    """Entries that share rows, together."""
    together: dict[int, set[int]] = {}
    for first, second in head.rows.shared:
        crowd = together.get(first, {first}) | together.get(second, {second})
        for entry in crowd:
            together[entry] = crowd
    distinct = {min(crowd): sorted(crowd) for crowd in together.values()}
    return [distinct[first] for first in sorted(distinct)]


class Simple:
    """Which entries can be written anew: every stored value is read, as one field of one column, or is of a
    column that was dropped."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._columns = {instance: column for column in head.columns.all for instance in column.instances}
        self._known: dict[tuple[int, int], bool] = {}

    def is_entry(self, entry: int) -> bool:
        """Whether that is so for an entry and all that lies over it."""
        over = np.unique(self._head.rows.patches_of(entry).source).tolist()
        return all(map(self.is_chunk, (entry, *over)))

    def is_chunk(self, chunk: int) -> bool:
        """Whether that is so for what a chunk itself holds."""
        log = self._head.log
        schema, version = int(log.chunk_schema[chunk]), int(log.chunk_version[chunk])
        key = (schema, version if self._head.columns.hidden else -1)
        if key not in self._known:
            fields = self._head.columns.fields(schema)
            shown = (field for field in fields if field.column in self._columns)
            self._known[key] = all(self._is_field(field, schema, version) for field in shown)
        return self._known[key]

    def _is_field(self, field: StoredField, schema: int, version: int) -> bool:
        columns, column = self._head.columns, self._columns[field.column]
        if len(column.instances) > 1 or field.column in columns.hidden:
            return False
        return columns.source(column, schema, version) == field and columns.fits(field, column)


def copy_columns(head: Head) -> tuple[Column, ...]:
    """The columns of a copy: those of today that have one instance. No simple entry has others."""
    return tuple(
        column
        for column in head.columns.all
        if len(column.instances) == 1 and not column.instances & head.columns.hidden.keys()
    )


def ended_columns(head: Head) -> tuple[Column, ...]:
    """Columns that were dropped, as copies have those of their cells that may hide some which come: as nulls.

    All that any chunk above the horizon has cells of that may be newer than their rows; a name for each that
    no other column has. O(chunks) in arrays, O(schemas * fields).
    """
    log, columns = head.log, head.columns
    may_hide = (log.kind != ROWS) | (head.keyed is not None)
    schemas = np.unique(log.chunk_schema[may_hide & ~log.is_folded[log.chunk_version]]).tolist()
    stored = {field.column for schema in schemas for field in columns.fields(schema)}
    gone = stored - {instance for column in columns.all for instance in column.instances}
    before = unlike(columns.by_name)
    return tuple(
        Column(f"{before}{number}", pa.null(), True, frozenset({instance}), (), 0.0)
        for number, instance in enumerate(sorted(gone))
    )


def unlike(names: Iterable[str]) -> str:
    """What none of some names begins with."""
    return "~" * (1 + max((len(name) - len(name.lstrip("~")) for name in names), default=0))


def columns_rest_on(head: Head, columns: Sequence[Column], chunks: Array) -> list[int]:
    """The versions without which copies of some chunks would not hold what is shown in these columns.

    Where a column was widened since, a copy is wider than what it was made of, and where one was dropped, it
    lacks its values. In a snapshot without those versions it would not fit, or values would be missing, so
    there it must not count. None, where all is stored as it was. O(chunks) in arrays, O(schemas * fields).
    """
    log = head.log
    schemas = np.unique(log.chunk_schema[chunks]).tolist()
    there: dict[ColumnId, list[TypeCode]] = {}
    for schema in schemas:
        for field in head.columns.fields(schema):
            there.setdefault(field.column, []).append(field.type)
    found = _drops(head, set(there))
    for column in columns:
        stored = [code for instance in column.instances for code in there.get(instance, ())]
        if all(code == column.code for code in stored):
            continue
        found.update(log.index_of(id.version) for id in column.definitions if id.version != ROOT)
        if not column.definitions:
            found.update(_first_uses(head, column, stored))
    return sorted(found)


def _drops(head: Head, stored: set[ColumnId]) -> set[int]:
    """The versions that dropped those of some columns that are not there any more."""
    gone = stored - {instance for column in head.columns.all for instance in column.instances}
    return {at for at, op in head.folded.ops.items() if not gone.isdisjoint(op.drops)} if gone else set()


def _first_uses(head: Head, column: Column, stored: Sequence[TypeCode]) -> Iterator[int]:
    """The first version that used a column in each other type: what nobody defined is as wide as its uses."""
    for schema in range(len(head.log.schemas)):
        fields = (field for field in head.columns.fields(schema) if field.column in column.instances)
        if any(field.type not in stored for field in fields):
            users = (head.log.schema == schema) & head.folded.standing & ~head.log.is_upkeep
            yield from np.flatnonzero(users)[:1].tolist()

"""What one version writes, from its own delta: rows, cells, partitions, columns, properties. No data is read.

Rows are intervals by tag, as `TaggedRows`: made from the file's lists when they are first asked for, and
kept, so that a write set is compared with many others for the price of looking up. Pure; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.conflicts.keys import KeyPart, key_parts
from crdtcat.conflicts.tagged_rows import Tag, TaggedRows
from crdtcat.format.kinds import COPY, OVERLAY, ROWS
from crdtcat.format.ops import ColumnId, DefinitionId, Ops, decode_ops
from crdtcat.format.row_ids import RowIds, Tags, whole_chunks
from crdtcat.format.schema_code import StoredField, decode_schema
from crdtcat.format.sections import Array
from crdtcat.format.version import OPERATIONS
from crdtcat.intervals import RowSet
from crdtcat.log.log import NONE, Log
from crdtcat.log.transactions import claim_of


class Numbering:
    """Numbers for tags: equal tags get equal numbers, in order of first sight."""

    def __init__(self, tags: Iterable[Tag] = ()) -> None:
        self.tags: list[Tag] = list(tags)
        self._numbers: dict[Tag, int] = {tag: number for number, tag in enumerate(self.tags)}

    def _of(self, tag: Tag) -> int:
        number = self._numbers.setdefault(tag, len(self.tags))
        if number == len(self.tags):
            self.tags.append(tag)
        return number

    def groups(self, ids: RowIds) -> Array:
        """Per interval of some row ids, the number of its tag. O(tags) in Python, intervals in arrays."""
        tags = ids.tags
        plain = zip(tags.versions.view("V36").tolist(), tags.ordinals.tolist(), strict=True)
        numbers = [self._of((bytes(version), int(ordinal))) for version, ordinal in plain]
        numbers += [self._of((tag.key, tag.hash, tag.ordinal)) for tag in tags.keyed]
        found: Array = np.array(numbers, np.int64)[ids.tag]
        return found

    def rows(self, ids: RowIds) -> RowSet:
        """Row ids as a set of intervals by tag number."""
        return RowSet(self.groups(ids), ids.start.astype(np.int64), ids.stop.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Cells:
    """New values for some columns of some rows."""

    columns: frozenset[ColumnId]
    rows: RowIds


@dataclass(frozen=True, eq=False)
class WriteSet:
    """What a version writes.

    Attributes:
        id: the version.
        number: its claim's number, 0 for one that is not committed, or took none.
        operation: "append", "overwrite", ...
        ops: its decoded ops.
        added: partitions it adds rows to, packed; `None` stands for an unpartitioned table.
        chunks: tags of the chunks it adds rows in, each with its partition.
        deleted: rows it deletes one by one.
        removed: chunks it removes whole.
        cells: cells it sets.
        columns: columns it defines or drops.
        names: display names it defines.
        brings: columns of the rows that it adds.
        definitions: the definitions it makes, by column.
        keys: in a keyed table, the keys it writes.
        once: its idempotency key.
        without_rows: columns of the rows that it brings, where these are none: whoever shows the table takes
            them for columns that it has.
    """

    id: VersionId
    number: int
    operation: str
    ops: Ops
    added: frozenset[bytes | None]
    chunks: tuple[tuple[Tag, bytes | None], ...]
    deleted: RowIds | None
    removed: RowIds | None
    cells: tuple[Cells, ...]
    columns: frozenset[ColumnId]
    names: frozenset[str]
    brings: frozenset[ColumnId]
    definitions: tuple[tuple[ColumnId, DefinitionId], ...]
    keys: tuple[KeyPart, ...] = ()
    once: str | None = None
    without_rows: frozenset[ColumnId] = frozenset()

    @property
    def uses(self) -> frozenset[ColumnId]:
        """Columns that it stores values for."""
        return self.brings.union(*(cells.columns for cells in self.cells))

    @property
    def deletes(self) -> bool:
        """Whether it deletes rows, one by one or with their chunk."""
        return self.deleted is not None or self.removed is not None

    @property
    def touches_rows(self) -> bool:
        """Whether it changes or deletes rows that were there, other than by key."""
        return bool(self.cells) or self.deletes

    @property
    def takes_rows(self) -> bool:
        """Whether rows are gone by it, also such that it does not name: those of overwrites before it."""
        return self.deletes or self.ops.is_overwrite

    @property
    def minds_rows(self) -> bool:
        """Whether it matters to it which rows others took away."""
        return self.touches_rows or self.ops.is_overwrite or bool(self.ops.drops)

    @cached_property
    def updated(self) -> tuple[tuple[frozenset[ColumnId], TaggedRows], ...]:
        """The cells it sets: rows by columns, each set of these once, however many chunks have the values."""
        found: dict[frozenset[ColumnId], list[RowIds]] = {}
        for cells in self.cells:
            found.setdefault(cells.columns, []).append(cells.rows)
        return tuple((columns, TaggedRows(lists)) for columns, lists in found.items())

    @cached_property
    def touched(self) -> TaggedRows:
        """Rows that it sets cells of."""
        if len(self.updated) == 1:
            return self.updated[0][1]
        return TaggedRows(cells.rows for cells in self.cells)

    @cached_property
    def gone(self) -> TaggedRows:
        """Rows that it deletes, one by one or with their chunk."""
        return TaggedRows(ids for ids in (self.deleted, self.removed) if ids is not None)


def write_set(log: Log, index: int, key: tuple[str, ...] = ()) -> WriteSet:
    """What the version at one index of a log writes. O(its chunks and ops); with a key, its inlined rows."""
    id = log.id_at(index)
    blob = log.ops[index].as_py()
    ops = Ops() if blob is None else decode_ops(blob, id, str(id))
    first, last = int(log.chunk_start[index]), int(log.chunk_start[index + 1])
    chunks = np.arange(first, last)
    kind = log.kind[chunks]
    rows, written = chunks[kind == ROWS], chunks[kind != COPY]
    brought = np.unique(log.chunk_schema[written[log.kind[written] != OVERLAY]]).tolist()
    fields = {
        int(schema): decode_schema(log.schemas[schema], str(id))
        for schema in np.unique(log.chunk_schema[written])
    }
    removed = Tags(ops.removed_versions, ops.removed_ordinals, ops.removed_keyed)
    return WriteSet(
        id=id,
        number=claim_of(log, index),
        operation=OPERATIONS[int(log.operation[index])],
        ops=ops,
        added=frozenset(_partition(log, int(chunk)) for chunk in rows),
        chunks=tuple((_tag(log, index, int(chunk) - first), _partition(log, int(chunk))) for chunk in rows),
        deleted=ops.rows.deletes,
        removed=whole_chunks(removed) if len(removed) else None,
        cells=tuple(
            Cells(_columns(fields[int(log.chunk_schema[first + overlay.ordinal])]), overlay.rows)
            for overlay in ops.rows.overlays
        ),
        columns=frozenset(item.column for item in ops.definitions) | frozenset(ops.drops),
        names=frozenset(item.name for item in ops.definitions),
        brings=frozenset(column for schema in brought for column in _columns(fields[schema])),
        definitions=tuple((item.column, DefinitionId(id, at)) for at, item in enumerate(ops.definitions)),
        keys=tuple(key_parts(log, index, key)) if key else (),
        once=_once(log, index),
        without_rows=_columns(decode_schema(log.schemas[schema], str(id)))
        if first == last and (schema := int(log.schema[index])) != int(NONE)
        else frozenset(),
    )


def _once(log: Log, index: int) -> str | None:
    key = log.key[index].as_py()
    return None if key is None else key.decode()


def _tag(log: Log, index: int, ordinal: int) -> Tag:
    key = _once(log, index)
    if key is None:
        return log.id_at(index).to_bytes(), ordinal
    return key, log.hash[int(log.chunk_start[index]) + ordinal].tobytes(), ordinal


def _partition(log: Log, chunk: int) -> bytes | None:
    at = int(log.partition[chunk])
    return None if at == int(NONE) else log.partitions[at]


def _columns(fields: Iterable[StoredField]) -> frozenset[ColumnId]:
    return frozenset(field.column for field in fields)

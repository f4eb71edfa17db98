"""Where chunks hold the columns of a head, and what they have to lay over others. Reads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crdtcat.chunks.types import decode_type, without_encodings
from crdtcat.format.row_ops import Copy, Stamps
from crdtcat.format.schema_code import StoredField
from crdtcat.head.columns import Column
from crdtcat.head.head import Head
from crdtcat.head.patches import BY_STAMPS


class Source(NamedTuple):
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


class Held(NamedTuple):
    """What a chunk lays over others.

    Attributes:
        columns: which, and where it holds them; no field: what it held was ended.
        stamps: by stored field, where cells are as old as these say.
    """

    columns: list[tuple[Column, Source]]
    stamps: dict[str, Stamps]

    @property
    def names(self) -> tuple[str, ...]:
        """The stored columns that are read of the chunk."""
        names = [source.field.name for _, source in self.columns if source.field is not None]
        return tuple(dict.fromkeys([*names, *(one.stored for one in self.stamps.values() if names)]))


class Holding:
    """Finds columns of one head in its chunks."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._sources: dict[tuple[int, int, tuple[str, ...]], list[Source]] = {}

    def sources(self, columns: Sequence[Column], chunk: int) -> list[Source]:
        """Where a chunk holds each of some columns. Found once per schema; once per version if columns were
        dropped."""
        log = self._head.log
        version, schema = int(log.chunk_version[chunk]), int(log.chunk_schema[chunk])
        names = tuple([column.name for column in columns])
        key = (schema, version if self._head.columns.hidden else -1, names)
        found = self._sources.get(key)
        if found is None:
            found = [self._source(column, schema, version) for column in columns]
            self._sources[key] = found
        return found

    def _source(self, column: Column, schema: int, version: int) -> Source:
        columns = self._head.columns
        field = columns.source(column, schema, version)
        fits = field is not None and columns.fits(field, column)
        kept = without_encodings(column.type)
        same = field is not None and without_encodings(decode_type(field.type)) == kept
        return Source(field, fits, same, ended=field is None and self._is_ended(column, schema))

    def _is_ended(self, column: Column, schema: int) -> bool:
        """Whether a schema without values of a column to be shown has such that a drop has ended.

        Told of columns that are one: of several under one name, others may have the cell's value.
        """
        if len(column.instances) != 1:
            return False
        return any(field.column in column.instances for field in self._head.columns.fields(schema))

    def held(self, chunk: int, age: int, columns: Sequence[Column]) -> Held:
        """What a chunk has to lay over others."""
        sources = list(zip(columns, self.sources(columns, chunk), strict=True))
        if age != BY_STAMPS:
            return Held([pair for pair in sources if pair[1].field is not None or pair[1].ended], {})
        stamps = stamps_by_field(self._head.rows.copies[chunk])
        mine = [pair for pair in sources if pair[1].field is not None and pair[1].field.name in stamps]
        return Held(mine, stamps)


def stamps_by_field(copy: Copy) -> dict[str, Stamps]:
    """What is said of the ages of a copy's cells, by stored field."""
    return {field: stamps for stamps in copy.stamps for field in stamps.fields}

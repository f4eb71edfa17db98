"""The columns of a head, as values: which there are, what they hold, where a chunk has them.

How they follow from definitions, drops and use is in `crdtcat.head.resolve`. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from crdtcat.chunks.entry_order import with_order
from crdtcat.chunks.type_codes import TypeCode, decode_type, encode_type
from crdtcat.chunks.widen import is_lossless
from crdtcat.clock import VersionId
from crdtcat.errors import LimitExceeded, UnsupportedFormat
from crdtcat.format.ops import ColumnId, DefinitionId
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.head.conflicts import Conflict
from crdtcat.head.stored_types import naming_the_file, stored_fields
from crdtcat.log.log import Log
from crdtcat.support.cached import cached_property


@dataclass(frozen=True)
class Column:
    """One column as readers see it.

    Attributes:
        name: what it is called.
        type: what it holds.
        nullable: whether it may hold nulls. Always true once a version wrote rows without it.
        instances: the column instances shown under this name.
        definitions: the definitions a new one would replace.
        position: sorts the columns.
        order: of an ordered dictionary, the entries of all who wrote to it, in order.
    """

    name: str
    type: pa.DataType
    nullable: bool
    instances: frozenset[ColumnId]
    definitions: tuple[DefinitionId, ...]
    position: float
    order: tuple[Any, ...] = ()

    @property
    def code(self) -> TypeCode:
        """Its type code, with the order of entries."""
        return with_order(encode_type(self.type, self.name), self.order)


class Columns:
    """The resolved columns of one set of versions. Built by `resolve_columns`.

    Theorem: `column_type_converges`.
    """

    def __init__(
        self,
        log: Log,
        columns: Sequence[Column],
        hidden: Mapping[ColumnId, Array],
        conflicts: Callable[[], Iterable[Conflict]],
    ) -> None:
        self._log = log
        self.all = tuple(sorted(columns, key=lambda column: (column.position, column.name)))
        self.by_name = {column.name: column for column in self.all}
        self.hidden = hidden
        self._conflicts = conflicts
        self._fields: dict[int, tuple[StoredField, ...]] = {}
        self._by_column: dict[int, dict[ColumnId, list[StoredField]]] = {}
        self._by_row: dict[int, bool] = {}

    def __repr__(self) -> str:
        return str(self.schema)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Definitions and values that lost. Worked out when asked for: there may be one per version."""
        return tuple(self._conflicts())

    @cached_property
    def schema(self) -> pa.Schema:
        """As Arrow sees it."""
        return pa.schema([pa.field(column.name, column.type, column.nullable) for column in self.all])

    def fields(self, schema: int) -> tuple[StoredField, ...]:
        """The stored fields of one packed schema."""
        if schema not in self._fields:
            self._fields[schema] = stored_fields(self._log, schema)
        return self._fields[schema]

    def source(self, column: Column, schema: int, version: int) -> StoredField | None:
        """Where the chunks of `version`, stored under `schema`, hold a column; `None` reads as null.

        Of two stored fields shown under one name the one of the later-born instance counts. O(instances of
        the column), after O(fields) once per schema.
        """
        stored = self._fields_by_column(schema)
        found = [
            field
            for instance in column.instances
            for field in stored.get(instance, ())
            if not self.is_hidden(field, version)
        ]
        return max(found, key=precedence) if found else None

    def field(self, instance: ColumnId, schema: int) -> StoredField | None:
        """Where chunks stored under `schema` hold a column instance, ended or not; `None`: nowhere."""
        found = self._fields_by_column(schema).get(instance, ())
        return found[0] if found else None

    def _fields_by_column(self, schema: int) -> dict[ColumnId, list[StoredField]]:
        if schema not in self._by_column:
            stored: dict[ColumnId, list[StoredField]] = {}
            for field in self.fields(schema):
                stored.setdefault(field.column, []).append(field)
            self._by_column[schema] = stored
        return self._by_column[schema]

    def is_hidden(self, field: StoredField, version: int) -> bool:
        """Whether a drop had seen `version`, and so ended the field in its chunks."""
        return field.column in self.hidden and bool(self.hidden[field.column][version])

    def fits(self, field: StoredField, column: Column) -> bool:
        """Whether the stored values can be read as the column's type. Raises `UnsupportedFormat`."""
        try:
            return is_lossless(decode_type(field.type), column.type)
        except (UnsupportedFormat, LimitExceeded) as error:
            raise naming_the_file(error, self._log) from error

    def are_read_by_row(self, schema: int) -> bool:
        """Whether cells of one column, in a copy stored under `schema`, are not all read alike: they are of
        many versions, and a drop that the column survived had seen some, or of the types they were written in
        not all fit the column. Found once."""
        if schema not in self._by_row:
            stored = self._fields_by_column(schema)
            self._by_row[schema] = any(
                field.column in self.hidden or not self.fits(field, column)
                for column in self.all
                for instance in column.instances
                for field in stored.get(instance, ())
            )
        return self._by_row[schema]


def precedence(field: StoredField) -> tuple[VersionId, str]:
    """Sorts stored fields shown under one name: the greatest is the one that is shown."""
    return field.column.birth, field.column.name

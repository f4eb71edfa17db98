"""Fitting rows to the newest column definitions a handle knows, before anything is written.

A handle may know a head (the best), the columns the table was created with, what it wrote itself, or
nothing at all; a blind commit never reads to find out. What it knows is what rows are checked against. Rows
are stored in the table's type where that loses nothing: always, by their type, or value by value (an int64
that fits an int32, a float without a fraction in an integer column, a coarser timestamp). Anything else is
`SchemaMismatch`, naming the column. A column that nobody declared and of which only nulls were seen is open:
the first rows with values give it its type, as they would for a reader of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.entry_order import Entries, with_order
from crdtcat.chunks.layout import count_nulls
from crdtcat.chunks.misfits import cast_rows, refusal
from crdtcat.chunks.type_codes import decode_type, encode_type
from crdtcat.chunks.type_parts import is_plain
from crdtcat.chunks.widen import is_lossless, widen
from crdtcat.clock import VersionId
from crdtcat.errors import SchemaMismatch
from crdtcat.format.ops import SELF, ColumnId, Definition
from crdtcat.format.schema_code import StoredField
from crdtcat.format.settings import Settings
from crdtcat.head.columns import Columns
from crdtcat.names import validate_column_names


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A column as a handle knows it.

    Attributes:
        id: which column it is.
        type: what it holds.
        nullable: whether rows may lack it.
        defined: whether somebody declared the type, rather than being the first to write such rows.
        position: sorts the columns; new ones go behind the last.
    """

    id: ColumnId
    type: pa.DataType
    nullable: bool
    defined: bool = True
    position: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether rows may still say what it holds: nobody declared it, and what was seen were nulls."""
        return not self.defined and _has_null(self.type)


Known = Mapping[str, KnownColumn]


@dataclass(frozen=True, slots=True)
class Fit:
    """How incoming rows go into a table.

    Attributes:
        fields: the stored fields, in the order of the incoming columns.
        schema: the Arrow schema rows are cast to.
        definitions: columns this commit adds.
        undefined: names of columns that no one declared.
        settled: whether these rows gave a type to columns of which only nulls were known.
        positions: of the stored fields, among the columns of the table.
    """

    fields: tuple[StoredField, ...]
    schema: pa.Schema
    definitions: tuple[Definition, ...] = ()
    settled: bool = False
    undefined: frozenset[str] = frozenset()
    positions: tuple[float, ...] = ()

    def ordered(self, orders: Mapping[str, Entries]) -> tuple[StoredField, ...]:
        """The stored fields, with what rows said of the order of their entries."""
        return tuple(
            replace(field, type=with_order(field.type, orders[field.name])) if field.name in orders else field
            for field in self.fields
        )

    def known(self, author: VersionId) -> dict[str, KnownColumn]:
        """What a handle knows after these rows were published by version `author`."""
        return {
            field.name: KnownColumn(
                ColumnId(field.column.name, author) if field.column.birth is SELF else field.column,
                decode_type(field.type),
                field.nullable,
                defined=field.column.birth is SELF or field.name not in self.undefined,
                position=position,
            )
            for field, position in zip(self.fields, self.positions, strict=True)
        }


def known_from_settings(settings: Settings) -> Known | None:
    """What the table was created with; `None` where nothing was declared."""
    if settings.columns is None:
        return None
    return {
        c.name: KnownColumn(ColumnId(c.name), decode_type(c.type), c.nullable, position=float(place))
        for place, c in enumerate(settings.columns)
    }


def known_from_head(columns: Columns) -> Known | None:
    """What a head shows. Of several instances of one name new rows go to the latest born."""
    if not columns.all:
        return None
    return {
        column.name: KnownColumn(
            max(column.instances, key=lambda instance: (instance.birth, instance.name)),
            column.type,
            column.nullable,
            defined=bool(column.definitions),
            position=column.position,
        )
        for column in columns.all
    }


def fit(incoming: pa.Schema, known: Known | None, *, evolve: bool) -> Fit:
    """How rows of `incoming` go into a table of which `known` is known.

    Raises:
        InvalidName: a column name that is not allowed, or twice the same.
        UnsupportedType: a type Parquet cannot hold.
        SchemaMismatch: a column the table does not have (without `evolve`), a type that does not fit, or a
            missing column that may not be null.
    """
    validate_column_names(incoming.names)
    fields, types, definitions, positions = [], [], [], []
    undefined, settled = set(), False
    last = max((column.position for column in (known or {}).values()), default=-1.0)
    for item in incoming:
        column = None if known is None else known.get(item.name)
        if column is not None:
            positions.append(column.position)
            type = stored_type(item.type, column)
            _check_type(item, type)
            if not column.defined:
                undefined.add(item.name)
                settled = settled or type != column.type
            fields.append(StoredField(item.name, column.id, encode_type(type, item.name), column.nullable))
            types.append(pa.field(item.name, type, column.nullable))
            continue
        code = encode_type(item.type, item.name)
        birth = ColumnId(item.name)
        last += 1.0
        positions.append(last)
        if known is None:
            undefined.add(item.name)
        else:
            if not evolve:
                raise SchemaMismatch(
                    f"column {item.name!r} is not in the table, which has {_listed(known)}; "
                    "add it with add_column(), or append with evolve=True"
                )
            birth = ColumnId(item.name, SELF)
            definitions.append(Definition(birth, item.name, code, nullable=True, position=last))
        fields.append(StoredField(item.name, birth, code, item.nullable))
        types.append(pa.field(item.name, item.type, item.nullable))
    _check_present(incoming, known)
    return Fit(
        tuple(fields), pa.schema(types), tuple(definitions), settled, frozenset(undefined), tuple(positions)
    )


def fit_some(incoming: pa.Schema, known: Known | None) -> Fit:
    """How new values of some columns go in; the others stay as they are. Raises as `fit` does."""
    missing = [name for name in incoming.names if name not in (known or {})]
    if known is None or missing:
        raise SchemaMismatch(f"columns {missing} are not in the table, which has {_listed(known or {})}")
    return fit(incoming, {name: known[name] for name in incoming.names}, evolve=False)


def stored_type(given: pa.DataType, column: KnownColumn) -> pa.DataType:
    """The type in which rows of type `given` are stored: the column's, filled in where it is open."""
    wider = widen(column.type, given) if column.is_open else None
    return column.type if wider is None else wider


def may_hold(given: pa.DataType, held: pa.DataType) -> bool:
    """Whether rows of one type can go into a column of the other, all of them or value by value."""
    return bool(given == held or is_lossless(given, held) or _may_fit(given, held))


def conform(batch: pa.RecordBatch | pa.Table, target: pa.Schema) -> pa.Table:
    """Rows cast to the stored types; columns they lack are null.

    Raises `SchemaMismatch` naming the column, and where it is one value, its row.
    """
    if batch.schema.equals(target, check_metadata=True) and all(item.nullable for item in target):
        return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
    columns = []
    present = set(batch.schema.names)
    for item in target:
        values = batch.column(item.name) if item.name in present else pa.nulls(batch.num_rows)
        values = pa.chunked_array([values]) if isinstance(values, pa.Array) else values
        if values.type != item.type:
            values = cast_rows(values, item.type, item.name)
        if not item.nullable and (nulls := count_nulls(values)):
            raise SchemaMismatch(f"column {item.name!r} may not be null, and {nulls} rows are")
        columns.append(values)
    return pa.Table.from_arrays(columns, schema=pa.schema([pa.field(f.name, f.type) for f in target]))


def full_columns(schema: pa.Schema, known: frozenset[str] = frozenset()) -> frozenset[str]:
    """The columns that are stored without saying of each row whether it is null: no row of them may be, or
    none is."""
    return frozenset(
        field.name for field in schema if (not field.nullable or field.name in known) and is_plain(field.type)
    )


def _check_type(item: pa.Field, held: pa.DataType) -> None:
    if not may_hold(item.type, held):
        raise refusal(item.name, held, item.type)


def _has_null(t: pa.DataType) -> bool:
    return pt.is_null(t) or any(_has_null(t.field(i).type) for i in range(t.num_fields))


def _may_fit(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Types within one family: whether the values fit is seen when they are cast."""
    families = (pt.is_integer, pt.is_decimal, pt.is_timestamp, pt.is_time, pt.is_duration, pt.is_date)
    if any(family(given) and family(wanted) for family in families):
        return not pt.is_timestamp(given) or (given.tz is None) == (wanted.tz is None)
    return all(pt.is_integer(type) or pt.is_floating(type) for type in (given, wanted))


def _check_present(incoming: pa.Schema, known: Known | None) -> None:
    present = set(incoming.names)
    absent = [name for name, column in (known or {}).items() if name not in present and not column.nullable]
    if absent:
        raise SchemaMismatch(f"the rows lack {absent}, which may not be null")


def _listed(known: Known) -> str:
    names: Sequence[str] = sorted(known)
    return ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")

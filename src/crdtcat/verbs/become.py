"""How a table's columns become those of the data it is to equal.

Columns that the data does not have are dropped; new ones are added. A column whose values do not fit the
type it has is widened where a lossless type holds both; else the old one is dropped and a new one of the name
takes its place. Columns stand in the order of the data; where they do already, nothing is said of it. No I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from crdtcat.chunks.entry_order import take_orders
from crdtcat.chunks.partitions import parse_partitioning
from crdtcat.chunks.types import cast_lossless, encode_type, widen
from crdtcat.errors import InvalidArgument, SchemaMismatch
from crdtcat.format.ops import ColumnId, Definition
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.writing.fit import Fit, Known, fit, may_hold


@dataclass(frozen=True)
class Becoming:
    """Columns on their way.

    Attributes:
        fit: how the rows go in.
        definitions: columns that are added or redefined.
        drops: columns that end.
    """

    fit: Fit
    definitions: tuple[Definition, ...]
    drops: tuple[ColumnId, ...]


def becoming(head: Head, rows: pa.Table, known: Known | None) -> Becoming:
    """How the columns of a head become those of some rows.

    Raises:
        InvalidName, UnsupportedType: columns that no table can have.
        InvalidArgument: a column of the key, or one by which the table is partitioned, would be dropped or
            changed.
    """
    incoming = rows.schema
    if known is None or not head.columns.all:
        fitted = _with_orders(fit(incoming, known, evolve=True), rows)
        return Becoming(fitted, fitted.definitions, ())
    kept: dict[str, Column] = {}
    widened: set[str] = set()
    held = dict(known)
    for item in incoming:
        column = head.columns.by_name.get(item.name)
        if column is None:
            continue
        type = _type_for(column, rows.column(item.name))
        if type is None:
            del held[item.name]
            continue
        kept[item.name] = column
        if type != column.type:
            held[item.name] = replace(held[item.name], type=type)
            widened.add(item.name)
    gone = [column for column in head.columns.all if column.name not in kept]
    _check_fixed(head, [*(column.name for column in gone), *widened])
    kept_types = {name: held[name] for name in incoming.names if name in held}
    fitted = _with_orders(fit(incoming, kept_types, evolve=True), rows)
    drops = tuple(sorted(instance for column in gone for instance in column.instances))
    definitions = tuple(_definitions(kept, gone, fitted, widened))
    places = {item.name: item.position for item in definitions}
    found = zip(fitted.schema.names, fitted.positions, strict=True)
    positions = tuple(places.get(name, position) for name, position in found)
    return Becoming(replace(fitted, positions=positions), definitions, drops)


def _definitions(
    kept: Mapping[str, Column], gone: Sequence[Column], fitted: Fit, widened: Collection[str]
) -> Iterator[Definition]:
    """Definitions of new columns, of those that hold more, and of those that stand elsewhere.

    Of columns that nobody defined all, where one of them is defined now or goes: their places follow from
    those of the others.
    """
    places = {name: column.position for name, column in kept.items()}
    places |= {item.name: item.position for item in fitted.definitions}
    names = fitted.schema.names
    if sorted(names, key=lambda name: (places[name], name)) != names:
        places = {name: float(at) for at, name in enumerate(names)}
    changed = {name for name, column in kept.items() if name in widened or places[name] != column.position}
    if not all(column.definitions for column in (*gone, *(kept[name] for name in changed))):
        changed |= {name for name, column in kept.items() if not column.definitions}
    for name, column in kept.items():
        if name in changed:
            code = encode_type(fitted.schema.field(name).type, name)
            for instance in sorted(column.instances):
                yield Definition(instance, name, code, column.nullable, places[name], column.definitions)
    yield from (replace(item, position=places[item.name]) for item in fitted.definitions)


def _with_orders(fitted: Fit, rows: pa.Table) -> Fit:
    """With what the rows say of the order of their entries, wherever they will be stored."""
    orders: dict[str, list[Any]] = {}
    take_orders(orders, rows)
    return replace(fitted, fields=fitted.ordered(orders))


def _type_for(column: Column, values: pa.ChunkedArray) -> pa.DataType | None:
    """The type in which a column can hold what it holds and these values too, if there is one."""
    if may_hold(values.type, column.type):
        try:
            cast_lossless(values, column.type, column.name)
        except SchemaMismatch:
            pass
        else:
            return column.type
    return widen(column.type, values.type)


def _check_fixed(head: Head, names: list[str]) -> None:
    partitions = [field.column for field in parse_partitioning(head.settings.partition_by).fields]
    for fixed, what in ((partitions, "is partitioned by"), (head.settings.key, "has in its key")):
        touched = [name for name in names if name in fixed]
        if touched:
            raise InvalidArgument(
                f"table {head.table!r} {what} {touched[0]!r}, which keeps its name and type for good; "
                "the data must have it, in a type that fits"
            )

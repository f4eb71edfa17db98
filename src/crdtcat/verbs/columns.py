"""Changing columns and properties. Each verb looks at a fresh head and publishes one version.

A change names the definitions it replaces, so two people who change one column at the same time both leave
a definition behind: the greater counts, and the other is widened in or listed as a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from crdtcat import limits
from crdtcat.cas.standing_back import head_to_change
from crdtcat.chunks.ingest import check_schema
from crdtcat.chunks.partitions import parse_partitioning
from crdtcat.chunks.types import encode_type, is_lossless
from crdtcat.errors import AlreadyExists, InvalidArgument, LimitExceeded, NotFound, SchemaMismatch, StoreError
from crdtcat.format.ops import SELF, ColumnId, Definition, Ops
from crdtcat.head import Head, Version
from crdtcat.head.columns import Column
from crdtcat.names import validate_column_name, validate_column_names
from crdtcat.session import Session
from crdtcat.support.showing import shown
from crdtcat.verbs.rows import packed_size
from crdtcat.writing.knowledge import known_after


def add_column(session: Session, name: str, type: pa.DataType, *, nullable: bool = True) -> Version:
    """Add a column at the end; existing rows read as null there.

    Raises `AlreadyExists`, `InvalidName`, `UnsupportedType`, and `InvalidArgument` for `nullable=False`.
    """
    validate_column_name(name)
    head = head_to_change(session)
    if name in head.columns.by_name:
        raise AlreadyExists(f"table {session.table!r} already has a column {name!r}")
    validate_column_names([*head.columns.by_name, name])
    if not nullable:
        raise InvalidArgument(f"a new column is null in existing rows: add {name!r} as nullable")
    _check_type(name, type)
    position = max((column.position for column in head.columns.all), default=-1.0) + 1.0
    code = encode_type(type, name)
    return _define(
        session, head, [Definition(ColumnId(name, SELF), name, code, nullable=True, position=position)]
    )


def drop_column(session: Session, name: str) -> Version:
    """End a column for every version seen here. Values written by others meanwhile go on being shown."""
    head = head_to_change(session)
    column = _column(session, head, name)
    _check_not_fixed(session, name)
    if len(head.columns.all) == 1:
        raise InvalidArgument(f"{name!r} is the only column of {session.table!r}: drop the table instead")
    return _commit(session, head, Ops(drops=tuple(sorted(column.instances))))


def rename_column(session: Session, name: str, to: str) -> Version:
    """Give a column another name. Writers that know the old one go on writing to it."""
    head = head_to_change(session)
    column = _column(session, head, name)
    validate_column_name(to)
    if to in head.columns.by_name:
        raise AlreadyExists(f"table {session.table!r} already has a column {to!r}")
    validate_column_names([to if other == name else other for other in head.columns.by_name])
    _check_not_fixed(session, name)
    return _define(session, head, _redefined(column, name=to))


def widen_column(session: Session, name: str, type: pa.DataType) -> Version:
    """Let a column hold more. Raises `SchemaMismatch` where a value could be lost."""
    head = head_to_change(session)
    column = _column(session, head, name)
    _check_not_fixed(session, name)
    _check_type(name, type)
    if not is_lossless(column.type, type):
        raise SchemaMismatch(f"column {name!r} holds {column.type}, which {type} cannot hold without loss")
    return _define(session, head, _redefined(column, type=type))


def reorder_columns(session: Session, names: Sequence[str]) -> Version:
    """Put columns in this order; those not named follow, in the order they had."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidArgument(f"reorder_columns({shown(names)}): pass a list of names")
    head = head_to_change(session)
    first = [_column(session, head, name) for name in names]
    if len(set(names)) != len(names):
        raise InvalidArgument(f"the same column twice: {list(names)}")
    rest = [column for column in head.columns.all if column.name not in set(names)]
    definitions = [
        definition
        for place, column in enumerate([*first, *rest])
        for definition in _redefined(column, position=float(place))
    ]
    return _define(session, head, definitions)


def set_properties(session: Session, given: Mapping[Any, Any] | None, more: Mapping[str, Any]) -> Version:
    """Set table properties; `None` removes one. Raises `InvalidArgument`, `LimitExceeded`."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidArgument(f"set_properties() takes a map of names and values, not {type(given).__name__}")
    properties = {**(given or {}), **more}
    if len(properties) != len(given or ()) + len(more):
        twice = sorted(more.keys() & (given or {}).keys())
        raise InvalidArgument(f"set_properties(): {twice} are given twice")
    if not properties:
        raise InvalidArgument("set_properties() without a property: name at least one")
    for name, value in properties.items():
        if not name or not isinstance(name, str):
            raise InvalidArgument(f"a property's name is a text that is not empty, not {shown(name, 60)}")
        if packed_size(name, f"property name {shown(name, 60)}") > limits.PROPERTY_NAME_BYTES_MAX:
            raise LimitExceeded(
                f"property name {name[:40]!r}...: at most {limits.PROPERTY_NAME_BYTES_MAX} bytes"
            )
        size = packed_size(value, f"property {name!r}")
        if size > limits.PROPERTY_VALUE_BYTES_MAX:
            raise LimitExceeded(
                f"property {name!r}: {size:,} bytes; at most {limits.PROPERTY_VALUE_BYTES_MAX:,}"
            )
    head = head_to_change(session)
    if len(head.properties.keys() | properties.keys()) > limits.PROPERTIES_MAX:
        raise LimitExceeded(f"at most {limits.PROPERTIES_MAX:,} properties")
    body = {"x": Ops(properties=dict(properties)).encode()}
    return session.commit("properties", body=body, seen=head)


def _column(session: Session, head: Head, name: Any) -> Column:
    column = head.columns.by_name.get(name) if isinstance(name, str) else None
    if column is None:
        raise NotFound(
            f"table {session.table!r} has no column {shown(name, 300)}; "
            f"it has {', '.join(head.columns.by_name)}"
        )
    return column


def _check_type(name: str, type: object) -> None:
    if not isinstance(type, pa.DataType):
        raise InvalidArgument(f"column {name!r}: pass a pyarrow type such as pa.int64(), not {shown(type)}")
    check_schema(pa.schema([pa.field(name, type)]))


def _check_not_fixed(session: Session, name: str) -> None:
    if any(field.column == name for field in parse_partitioning(session.settings.partition_by).fields):
        raise InvalidArgument(
            f"table {session.table!r} is partitioned by {name!r}, which keeps its name and type for good"
        )
    if name in session.settings.key:
        raise InvalidArgument(
            f"{name!r} is in the key of table {session.table!r}, and keeps its name and type for good"
        )


def _redefined(column: Column, **changes: Any) -> list[Definition]:
    """A definition for each instance shown under the name, replacing what is there."""
    return [
        Definition(
            instance,
            changes.get("name", column.name),
            encode_type(changes.get("type", column.type), column.name),
            column.nullable,
            changes.get("position", column.position),
            column.definitions,
        )
        for instance in sorted(column.instances)
    ]


def _define(session: Session, head: Head, definitions: Sequence[Definition]) -> Version:
    return _commit(session, head, Ops(definitions=tuple(definitions)))


def _commit(session: Session, head: Head, ops: Ops) -> Version:
    version = session.commit("schema", body={"x": ops.encode()}, seen=head)
    session.learn(known_after(head.columns, ops, version.id), version.id)
    with suppress(StoreError):  # the change stands, whether it can be looked at or not
        session.head()
    return version

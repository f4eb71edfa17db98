"""The settings of a table about to be created: what users ask for, checked before anything is put.

No request; knows nothing of what is there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.ingest import check_schema
from crdtcat.chunks.keys import can_be_key
from crdtcat.chunks.partitions import Partitioning, parse_partitioning
from crdtcat.chunks.type_codes import decode_type
from crdtcat.chunks.types import encode_type
from crdtcat.errors import CapabilityMissing, InvalidArgument
from crdtcat.format.settings import ColumnSetting, Settings
from crdtcat.names import validate_column_name
from crdtcat.store import Store
from crdtcat.support.arguments import require_names, require_one_of
from crdtcat.support.showing import shown

MODES: Final = ("merge", "cas")
INCARNATION_LONGEST: Final = 2**31  # as many digits as any
COLUMNS_TOLD: Final = 5  # of those that differ, in one message


def new_settings(
    schema: pa.Schema | None,
    partition_by: Sequence[str],
    time_column: str | None,
    mode: str = "merge",
    key: Sequence[str] = (),
) -> Settings:
    """The settings of a table that is to be created. Raises `UserError` for what is not allowed."""
    require_one_of("mode", mode, MODES)
    return _settings(schema, partition_by, time_column, key).model_copy(update={"mode": mode})


def require_creatable(settings: Settings) -> None:
    """Whether these settings can be stored, whichever life of its name the table has. Raises
    `LimitExceeded`."""
    settings.model_copy(update={"incarnation": INCARNATION_LONGEST}).encode()


def _settings(
    schema: pa.Schema | None, partition_by: Sequence[str], time_column: str | None, key: Sequence[str]
) -> Settings:
    require_names("partition_by", partition_by)
    require_names("key", key)
    partitioning = parse_partitioning(partition_by)
    for name in (*(field.column for field in partitioning.fields), *key):
        validate_column_name(name)
    if time_column is not None:
        validate_column_name(time_column)
    if schema is None:
        if key:
            raise InvalidArgument(f"key={list(key)}: declare the columns too, with schema=pa.schema([...])")
        return Settings(partition_by=tuple(map(str, partitioning.fields)), time_column=time_column)
    if not isinstance(schema, pa.Schema):
        raise InvalidArgument(
            f"schema={shown(schema)}: pass a pyarrow.Schema, as pa.schema([(name, type), ...])"
        )
    check_schema(schema)
    partitioning.validate(schema)
    if time_column is not None:
        _check_time_column(schema, time_column)
    _check_key(schema, tuple(key), partitioning)
    return Settings(
        partition_by=tuple(map(str, partitioning.fields)),
        time_column=time_column,
        columns=tuple(
            ColumnSetting(
                name=item.name,
                type=encode_type(item.type, item.name),
                nullable=item.nullable and item.name not in key,
            )
            for item in schema
        ),
        key=tuple(key),
    )


def differences(found: Settings, wanted: Settings, there: str = "the table", here: str = "this call") -> str:
    """Which settings of two tables differ, and how, in words."""
    told = [
        f"{name}: {_shown(old)} in {there}, {_shown(new)} in {here}"
        for name in ("mode", "key", "partition_by", "time_column")
        if (old := getattr(found, name)) != (new := getattr(wanted, name))
    ]
    if found.columns is not None and wanted.columns is not None:
        told += _other_columns(found.columns, wanted.columns, there, here)
    elif found.columns != wanted.columns:
        told.append(f"columns: declared in {there if found.columns is not None else here} only")
    return "; ".join(told)


def _other_columns(
    found: Sequence[ColumnSetting], wanted: Sequence[ColumnSetting], there: str, here: str
) -> list[str]:
    old, new = ({column.name: column for column in side} for side in (found, wanted))
    told = [
        f"column {name!r}: {_column(old.get(name))} in {there}, {_column(new.get(name))} in {here}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]
    if not told and list(old) != list(new):
        told.append(f"order of columns: {', '.join(old)} in {there}, {', '.join(new)} in {here}")
    more = len(told) - COLUMNS_TOLD
    return [*told[:COLUMNS_TOLD], f"and {more:,} columns more"] if more > 0 else told


def _column(column: ColumnSetting | None) -> str:
    if column is None:
        return "none"
    return f"{decode_type(column.type)}{'' if column.nullable else ' not null'}"


def _shown(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)


def require_exclusion(store: Store, table: str) -> None:
    """CAS mode rests on exclusive creation. A few requests on stores that must be tried, once.

    Raises:
        CapabilityMissing: the store does not have it.
    """
    if not store.can_create_exclusively:
        raise CapabilityMissing(
            f"table {table!r} is in CAS mode, and {store.url} cannot create an object exclusively: two "
            "writers could make one commit. Use merge mode, which needs nothing of the kind, or another store"
        )


def _check_time_column(schema: pa.Schema, name: str) -> None:
    if name not in schema.names:
        raise InvalidArgument(f"time_column={name!r} is not a column of the schema, which has {schema.names}")
    type = schema.field(name).type
    if not (pt.is_timestamp(type) or pt.is_date(type)):
        raise InvalidArgument(f"time_column={name!r} holds {type}: choose a timestamp or a date")


def _check_key(schema: pa.Schema, key: tuple[str, ...], partitioning: Partitioning) -> None:
    if not key:
        return
    missing = [name for name in key if name not in schema.names]
    if missing:
        raise InvalidArgument(f"key: {missing[0]!r} is not a column of the schema, which has {schema.names}")
    if len(set(key)) != len(key):
        raise InvalidArgument(f"key={list(key)}: the same column twice")
    for name in key:
        type = schema.field(name).type
        if not can_be_key(type):
            raise InvalidArgument(
                f"key: column {name!r} holds {type}, which has no order to sort rows by; a key is made of "
                "booleans, integers, decimals, dates, times, timestamps, durations, text or binaries"
            )
    for field in partitioning.fields:
        if field.column not in key:
            raise InvalidArgument(
                f"partition_by: {field.column!r} is not in the key {list(key)}; a row of a keyed table stays "
                "in one partition, so it is partitioned by key columns"
            )

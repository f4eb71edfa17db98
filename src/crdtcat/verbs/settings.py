"""What a table is created with, checked before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.ingest import check_schema
from crdtcat.chunks.partitions import parse_partitioning
from crdtcat.chunks.types import encode_type
from crdtcat.errors import CapabilityMissing, InvalidArgument
from crdtcat.format.settings import ColumnSetting, Settings
from crdtcat.names import validate_column_name
from crdtcat.store import Store

MODES: Final = ("merge", "cas")


def new_settings(
    schema: pa.Schema | None, partition_by: Sequence[str], time_column: str | None, mode: str
) -> Settings:
    """The settings of a table that is to be created. Raises `UserError` for what is not allowed."""
    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r}: a table is in one of {', '.join(map(repr, MODES))}")
    return _settings(schema, partition_by, time_column).model_copy(update={"mode": mode})


def _settings(schema: pa.Schema | None, partition_by: Sequence[str], time_column: str | None) -> Settings:
    if isinstance(partition_by, str):
        raise InvalidArgument(f"partition_by={partition_by!r}: pass a list")
    partitioning = parse_partitioning(partition_by)
    if time_column is not None:
        validate_column_name(time_column)
    if schema is None:
        return Settings(partition_by=tuple(map(str, partitioning.fields)), time_column=time_column)
    if not isinstance(schema, pa.Schema):
        raise InvalidArgument(
            f"schema={schema!r:.80}: pass a pyarrow.Schema, as pa.schema([(name, type), ...])"
        )
    check_schema(schema)
    partitioning.validate(schema)
    if time_column is not None:
        _check_time_column(schema, time_column)
    return Settings(
        partition_by=tuple(map(str, partitioning.fields)),
        time_column=time_column,
        columns=tuple(
            ColumnSetting(name=item.name, type=encode_type(item.type, item.name), nullable=item.nullable)
            for item in schema
        ),
    )


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

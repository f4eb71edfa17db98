"""What a table is created with, checked before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.ingest import check_schema
from crdtcat.chunks.partitions import parse_partitioning
from crdtcat.chunks.types import encode_type
from crdtcat.errors import InvalidArgument
from crdtcat.format.settings import ColumnSetting, Settings
from crdtcat.names import validate_column_name


def new_settings(schema: pa.Schema | None, partition_by: Sequence[str], time_column: str | None) -> Settings:
    """The settings of a table that is to be created. Raises `UserError` for what is not allowed."""
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


def _check_time_column(schema: pa.Schema, name: str) -> None:
    if name not in schema.names:
        raise InvalidArgument(f"time_column={name!r} is not a column of the schema, which has {schema.names}")
    type = schema.field(name).type
    if not (pt.is_timestamp(type) or pt.is_date(type)):
        raise InvalidArgument(f"time_column={name!r} holds {type}: choose a timestamp or a date")

"""Arrow's types as Spark has them, both ways, exactly or not at all.

Spark has fewer types than Arrow. Where a wider one holds every value it is used; where none does, the schema
is refused by column before anything is read:

| Arrow | Spark |
|---|---|
| bool, int8 to int64, float32, float64, date32, null | the same |
| uint8, uint16, uint32, uint64 | short, int, long, decimal(20, 0) |
| float16 | float |
| every string, every binary | string, binary |
| decimals up to 38 digits | decimal; more digits are refused |
| timestamp with a zone, without | timestamp, timestamp_ntz |
| date64 | timestamp_ntz, since Arrow lets it hold a time of day |
| time, duration | time, interval day to second |
| month_day_nano_interval | struct<months, days, nanoseconds>, as it is stored |
| every list type, map, struct | array, map, struct |
| dictionary, run-end encoded, extension | what their values are |

Spark counts in microseconds. A finer value is an error that names its column, never rounded.

The way back: every Spark type that has an exact Arrow type is taken; a variant, a user-defined type, a
geometry or a calendar interval would come back as something else, and is refused. Rows are declared nullable,
as Spark's own file sources do, nested ones too; timestamps are kept in UTC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from crdtcat.chunks import layout
from crdtcat.chunks.storage_types import storage_type, to_storage
from crdtcat.chunks.type_codes import list_kind
from crdtcat.errors import InvalidArgument, SchemaMismatch, UnsupportedType

_PLAIN: dict[pa.DataType, st.DataType] = {
    pa.null(): st.NullType(), pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(), pa.int16(): st.ShortType(), pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(), pa.uint8(): st.ShortType(), pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(), pa.uint64(): st.DecimalType(20, 0),
    pa.float16(): st.FloatType(), pa.float32(): st.FloatType(), pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(), pa.large_string(): st.StringType(), pa.string_view(): st.StringType(),
    pa.binary(): st.BinaryType(), pa.large_binary(): st.BinaryType(), pa.binary_view(): st.BinaryType(),
    pa.date32(): st.DateType(), pa.date64(): st.TimestampNTZType(),
}  # fmt: skip
_REFUSED = (
    st.VariantType,
    st.UserDefinedType,
    st.GeometryType,
    st.GeographyType,
    st.YearMonthIntervalType,
    st.CalendarIntervalType,
)
"""Types that would come back as another."""


def spark_schema(schema: pa.Schema) -> st.StructType:
    """Spark's schema for the columns of a table. Raises `UnsupportedType`, naming the column."""
    return st.StructType(
        [st.StructField(field.name, spark_type(field.type, field.name), field.nullable) for field in schema]
    )


def spark_type(t: pa.DataType, path: str) -> st.DataType:  # noqa: PLR0911 (one for each kind of type)
    """Spark's type that holds every value of `t`, to the microsecond. Raises `UnsupportedType`."""
    if isinstance(t, pa.BaseExtensionType):
        return spark_type(t.storage_type, path)
    if t in _PLAIN:
        return _PLAIN[t]
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return spark_type(t.value_type, path)
    if pa.types.is_struct(t):
        return st.StructType(
            [st.StructField(f.name, spark_type(f.type, f"{path}.{f.name}"), f.nullable) for f in t]
        )
    if pa.types.is_map(t):
        key, item = spark_type(t.key_type, f"{path}.key"), spark_type(t.item_type, f"{path}.value")
        return st.MapType(key, item, t.item_field.nullable)
    if list_kind(t) is not None:
        return st.ArrayType(spark_type(t.value_type, f"{path}[]"), t.value_field.nullable)
    return _spark_leaf(t, path)


def _spark_leaf(t: pa.DataType, path: str) -> st.DataType:
    if pa.types.is_timestamp(t):
        return st.TimestampNTZType() if t.tz is None else st.TimestampType()
    if pa.types.is_time(t):
        return st.TimeType(6)
    if pa.types.is_duration(t):
        return st.DayTimeIntervalType()
    if pa.types.is_fixed_size_binary(t):
        return st.BinaryType()
    if t == pa.month_day_nano_interval():
        return spark_type(storage_type(t), path)
    if pa.types.is_decimal(t):
        stored = storage_type(t, path)
        if stored.precision <= 38:
            return st.DecimalType(stored.precision, stored.scale)
        raise UnsupportedType(
            f"column {path} is {t}, and Spark's decimals have at most 38 digits: name the columns you want"
        )
    raise UnsupportedType(f"column {path} is {t}, which Spark has no type for: name the columns you want")


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """The Arrow schema Spark expects of batches with these columns: microseconds, UTC."""
    return to_arrow_schema(schema, timezone="UTC")


def table_schema(schema: st.StructType) -> pa.Schema:
    """The columns of a table that holds rows of a DataFrame.

    Raises `UnsupportedType`, naming the column; `InvalidArgument` if there is none."""
    if not schema.fields:
        raise InvalidArgument("the DataFrame has no columns: a table needs at least one")
    for field in schema.fields:
        _check_kept(field.dataType, field.name)
    loose = st.StructType([st.StructField(f.name, _loose(f.dataType)) for f in schema.fields])
    return pa.schema([pa.field(f.name, _nullable(f.type)) for f in arrow_schema(loose)])


def _loose(t: st.DataType) -> st.DataType:
    """The same type, with nulls wherever it can have them: of `array()` Spark says that it has none, and its
    items, which are nothing but null, could not be declared so."""
    if isinstance(t, st.ArrayType):
        return st.ArrayType(_loose(t.elementType))
    if isinstance(t, st.MapType):
        return st.MapType(_loose(t.keyType), _loose(t.valueType))
    if isinstance(t, st.StructType):
        return st.StructType([st.StructField(f.name, _loose(f.dataType)) for f in t.fields])
    return t


def _check_kept(t: st.DataType, path: str) -> None:
    if isinstance(t, _REFUSED):
        raise UnsupportedType(f"column {path} is {t.simpleString()}, which has no exact form: cast it first")
    if isinstance(t, st.ArrayType):
        _check_kept(t.elementType, f"{path}[]")
    elif isinstance(t, st.MapType):
        if isinstance(t.keyType, st.NullType):
            raise UnsupportedType(f"column {path} is a map whose keys have no type: cast it first")
        _check_kept(t.keyType, f"{path}.key")
        _check_kept(t.valueType, f"{path}.value")
    elif isinstance(t, st.StructType):
        for field in t.fields:
            _check_kept(field.dataType, f"{path}.{field.name}")


def _nullable(t: pa.DataType) -> pa.DataType:
    if pa.types.is_list(t):
        return pa.list_(_nullable(t.value_type))
    if pa.types.is_map(t):
        return pa.map_(_nullable(t.key_type), _nullable(t.item_type))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _nullable(f.type)) for f in t])
    return t


def to_spark(table: pa.Table, target: pa.Schema) -> pa.Table:
    """The same rows in the Arrow types Spark expects. No copy where a type is its own.

    Raises `SchemaMismatch`, naming the column, for a value that Spark cannot hold.
    """
    columns = [
        pa.chunked_array([_converted(chunk, field.type, field.name) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, target, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=target)


def _converted(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:  # noqa: PLR0911
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        return _converted(array.storage, target, path)
    if pa.types.is_dictionary(t):
        return _converted(layout.decode_dictionary(array), target, path)
    if pa.types.is_run_end_encoded(t):
        return _converted(layout.decode_runs(array), target, path)
    if t == pa.month_day_nano_interval():
        return _converted(to_storage(array, path), target, path)
    if pa.types.is_struct(t):
        bits = layout.validity_buffer(layout.valid_rows(array))
        fields = [(array.field(i), target.field(i).type, f.name) for i, f in enumerate(t)]
        children = [_converted(child, type, f"{path}.{name}") for child, type, name in fields]
        return pa.Array.from_buffers(target, len(array), [bits], children=children)
    if pa.types.is_map(t):
        lists = layout.open_lists(array, lambda entries: _entries(entries, target, path))
        return layout.close_lists(target, lists, path)
    if t.num_fields:
        lists = layout.open_lists(array, lambda items: _converted(items, target.value_type, f"{path}[]"))
        return layout.close_lists(target, lists, path)
    return array if t == target else _leaf(array, target, path)


def _entries(entries: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    fields = [target.key_field, target.item_field]
    children = [_converted(entries.field(i), f.type, f"{path}.{f.name}") for i, f in enumerate(fields)]
    return pa.StructArray.from_arrays(children, fields=fields)


def _leaf(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    try:
        if pa.types.is_time(target):  # Spark's times have microseconds, and travel as nanoseconds
            return array.cast(pa.time64("us")).cast(target)
        if array.type == pa.float16():  # pyarrow casts half floats one by one, and not in every version
            values: Any = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float32)
            return pa.array(values, mask=array.is_null().to_numpy(zero_copy_only=False))
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(
            f"column {path} is {array.type}, and a value does not fit Spark's {target}: {error}"
        ) from error

"""Storage types: the closed list of Arrow types that Parquet holds exactly, and the way to and from them.

A storage type is one that pyarrow writes to Parquet and reads back equal *without* the `ARROW:schema` entry
in the file, so any Parquet reader gets the right values and ours needs no magic. Found by trial:

| logical type | stored as | because |
|---|---|---|
| bool, integers, floats, string, binary, date32, null, other times and timestamps | itself | |
| large and view strings and binaries | string, binary | widths of offsets are not stored |
| fixed_size_binary(0) | binary | Parquet has no zero width |
| date64 | timestamp(ms) | Parquet would cut it to days |
| time32(s), timestamp(s) | milliseconds | Parquet has no seconds |
| timestamp with a zone | timestamp in UTC | the zone is in the type code |
| duration | int64 | Parquet has none |
| month_day_nano_interval | struct<months, days, nanoseconds> | Parquet's interval has milliseconds |
| decimals | decimal128, or decimal256 above 38 digits; scale between 0 and precision | |
| every list type | list | |
| struct without fields | bool, true where not null | Parquet has no empty group |
| map | map with unsorted keys | the flag is in the type code |
| dictionary, run-end encoded, extension | what their values are stored as | encodings belong to the file |

Nested fields are stored as nullable, except map keys; that a field was not nullable is in the type code and
is checked here. Large strings of more than 2 GiB in one array are refused: chunks are smaller than that.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks import layout
from crdtcat.chunks.entry_order import Entries, encode_ordered
from crdtcat.chunks.type_codes import check_depth, keeps_order, list_kind, make_decimal, unsupported
from crdtcat.errors import InvalidArgument, LimitExceeded, SchemaMismatch

_DECIMAL_DIGITS_MAX = 76
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_INTERVAL_STORAGE = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("nanoseconds", pa.int64())])
_KEPT = frozenset({
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
    pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.date32(), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
})  # fmt: skip
_REPLACED = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.timestamp("ms"),
    pa.time32("s"): pa.time32("ms"),
    pa.month_day_nano_interval(): _INTERVAL_STORAGE,
    pa.binary(0): pa.binary(),
}


def storage_type(t: pa.DataType, column: str = "") -> pa.DataType:
    """The type as which values of `t` are stored. Idempotent.

    Args:
        t: any Arrow type.
        column: dotted path, for error messages.

    Raises:
        UnsupportedType: no Parquet file can hold it; the message names column and type.
        LimitExceeded: nested deeper than `limits.NESTING_DEPTH_MAX`.
    """
    return _storage(t, column or "(column)", 0)


def _storage(t: pa.DataType, path: str, depth: int) -> pa.DataType:  # noqa: PLR0911 (one for each kind of type)
    check_depth(path, depth)
    if isinstance(t, pa.BaseExtensionType):  # first: extension types written in Python have no hash
        return _storage(t.storage_type, path, depth + 1)
    if t in _KEPT:
        return t
    if t in _REPLACED:
        return _REPLACED[t]
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return _storage(t.value_type, path, depth + 1)
    if pa.types.is_struct(t):
        children = [pa.field(f.name, _storage(f.type, f"{path}.{f.name}", depth + 1)) for f in t]
        return pa.struct(children) if children else pa.bool_()
    if pa.types.is_map(t):
        key = _storage(t.key_type, f"{path}.key", depth + 1)
        return pa.map_(key, _storage(t.item_type, f"{path}.value", depth + 1))
    if list_kind(t) is not None:
        return pa.list_(pa.field("element", _storage(t.value_type, f"{path}[]", depth + 1)))
    return _storage_of_leaf(t, path)


def _storage_of_leaf(t: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_timestamp(t):
        return pa.timestamp("ms" if t.unit == "s" else t.unit, None if t.tz is None else "UTC")
    if pa.types.is_duration(t):
        return pa.int64()
    if pa.types.is_fixed_size_binary(t):
        return t
    if pa.types.is_decimal(t):
        scale = max(t.scale, 0)
        precision = max(t.precision - min(t.scale, 0), scale)
        if precision <= _DECIMAL_DIGITS_MAX:
            return make_decimal(128 if precision <= 38 else 256, precision, scale)
    raise unsupported(t, path)


def storage_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of the storage arrays of a table: same names, storage types, every column nullable."""
    return pa.schema([pa.field(field.name, storage_type(field.type, field.name)) for field in schema])


def to_storage(array: pa.Array | pa.ChunkedArray, column: str = "") -> pa.Array:
    """The same rows as one array of the storage type, without garbage under null lists.

    Cost: no copy for what is stored as itself in one chunk; O(rows) otherwise.

    Raises:
        UnsupportedType: no Parquet file can hold the type.
        SchemaMismatch: null in a nested field that says it holds none.
        InvalidArgument: a time outside what the storage type can hold.
        LimitExceeded: more than 2 GiB of text in one array, or nested too deeply.
    """
    path = column or "(column)"
    stored = storage_type(array.type, column)
    try:
        if isinstance(array, pa.ChunkedArray):
            parts = [_store(chunk, stored, path) for chunk in array.chunks if len(chunk)]
            if len(parts) == 1:
                return parts[0]
            return pa.concat_arrays(parts) if parts else pa.array([], stored)
        return _store(array, stored, path)
    except pa.ArrowIndexError as error:
        raise InvalidArgument(f"column {path}: names entries that its dictionary does not have") from error
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        if "offset" in str(error) or isinstance(error, pa.ArrowCapacityError):
            raise LimitExceeded(
                f"column {path}: over 2 GiB in one chunk; write fewer rows at once"
            ) from error
        raise InvalidArgument(f"column {path}: {array.type} does not fit {stored}: {error}") from error


def _store(array: pa.Array, stored: pa.DataType, path: str) -> pa.Array:  # noqa: PLR0911 (one for each kind of type)
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        return _store(array.storage, stored, path)
    if t in _KEPT:
        return array
    if pa.types.is_dictionary(t):
        return _store(array.dictionary, stored, path).take(array.indices)
    if pa.types.is_run_end_encoded(t):
        return _store(layout.decode_runs(array), stored, path)
    if pa.types.is_struct(t):
        return _store_struct(array, stored, path)
    if pa.types.is_map(t):
        entries = layout.open_lists(array, lambda entries: _store_entries(entries, t, stored, path))
        return layout.close_lists(stored, entries, path)
    if t.num_fields:
        lists = layout.open_lists(array, lambda values: _store(values, stored.value_type, f"{path}[]"))
        _no_nulls(lists.values, None, nullable=t.value_field.nullable, path=f"{path}[]")
        return layout.close_lists(stored, lists, path)
    return _store_leaf(array, stored)


def _store_entries(entries: pa.Array, t: pa.DataType, stored: pa.DataType, path: str) -> pa.Array:
    """The entries of maps. Parquet demands keys; so does Arrow, but nobody has checked before this."""
    children = []
    for i, (field, kept) in enumerate(
        zip((t.key_field, t.item_field), (stored.key_field, stored.item_field), strict=True)
    ):
        child = _store(entries.field(i), kept.type, f"{path}.{kept.name}")
        _no_nulls(child, None, nullable=field.nullable, path=f"{path}.{kept.name}")
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=[stored.key_field, stored.item_field])


def _store_struct(array: pa.Array, stored: pa.DataType, path: str) -> pa.Array:
    valid = layout.valid_rows(array)
    if array.type.num_fields == 0:
        return pa.array(np.ones(len(array), bool), mask=None if valid is None else ~valid)
    children = []
    for i, field in enumerate(array.type):
        store = partial(_store, stored=stored.field(i).type, path=f"{path}.{field.name}")
        child = layout.convert_child(array.field(i), valid, store)
        _no_nulls(child, valid, nullable=field.nullable, path=f"{path}.{field.name}")
        children.append(child)
    return pa.Array.from_buffers(stored, len(array), [layout.validity_buffer(valid)], children=children)


def _no_nulls(child: pa.Array, valid: Any, *, nullable: bool, path: str) -> None:
    """Refuses nulls in a field declared without; under a null parent they mean nothing."""
    if nullable or child.null_count == 0:
        return
    missing = pc.is_null(child).to_numpy(zero_copy_only=False)
    if bool(np.any(missing if valid is None else valid & missing)):
        raise SchemaMismatch(
            f"column {path} is declared not null and holds nulls: fill them or declare it nullable"
        )


def _store_leaf(array: pa.Array, stored: pa.DataType) -> pa.Array:
    t = array.type
    if t == stored:
        return array
    if t == pa.month_day_nano_interval():
        pairs = np.frombuffer(array.buffers()[1], _INTERVAL)[array.offset : array.offset + len(array)]
        children = [pa.array(np.ascontiguousarray(pairs[name])) for name in _INTERVAL.fields or ()]
        bits = layout.validity_buffer(layout.valid_rows(array))
        return pa.Array.from_buffers(stored, len(array), [bits], children=children)
    if t == pa.time32("s"):  # pyarrow's cast does not notice overflow
        return pc.multiply_checked(array.view(pa.int32()), pa.scalar(1000, pa.int32())).view(stored)
    if (
        pa.types.is_duration(t)
        or pa.types.is_date64(t)
        or (pa.types.is_timestamp(t) and t.unit == stored.unit)
    ):
        return array.view(stored)
    return array.cast(stored)


def from_storage(array: pa.Array, logical: pa.DataType, column: str = "", order: Entries = ()) -> pa.Array:
    """The rows of a storage array as their logical type: the exact inverse of `to_storage`.

    `order` are the entries of an ordered dictionary, as its type code has them. Cost: no copy where only the
    type's label changes; O(rows) otherwise.

    Raises:
        InvalidArgument: the array is not of `storage_type(logical)`, or holds what `logical` cannot.
        LimitExceeded: more distinct values than a dictionary's index type can number.
    """
    path = column or "(column)"
    stored = storage_type(logical, column)
    if array.type != stored:
        raise InvalidArgument(f"column {path}: {logical} is stored as {stored}, not as {array.type}")
    if keeps_order(logical):
        return encode_ordered(
            array, logical, order, lambda entries: _restore(entries, logical.value_type, path), path
        )
    return _restore(array, logical, path)


def _restore(array: pa.Array, t: pa.DataType, path: str) -> pa.Array:  # noqa: PLR0911 (one for each kind of type)
    if isinstance(t, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(t, _restore(array, t.storage_type, path))
    if t in _KEPT:
        return array
    if pa.types.is_dictionary(t):
        return layout.encode_dictionary(_restore(array, t.value_type, path), t, path)
    if pa.types.is_run_end_encoded(t):
        return layout.encode_runs(_restore(array, t.value_type, path), t, path)
    if pa.types.is_struct(t):
        bits = layout.validity_buffer(layout.valid_rows(array))
        children = [_restore(array.field(i), f.type, f"{path}.{f.name}") for i, f in enumerate(t)]
        return pa.Array.from_buffers(t, len(array), [bits], children=children)
    if pa.types.is_map(t):
        return layout.close_lists(
            t, layout.open_lists(array, _same), path, lambda e: _restore_entries(e, t, path)
        )
    if t.num_fields:
        lists = layout.open_lists(array, _same)
        return layout.close_lists(t, lists, path, lambda values: _restore(values, t.value_type, f"{path}[]"))
    return _restore_leaf(array, t)


def _restore_entries(entries: pa.Array, t: pa.DataType, path: str) -> pa.Array:
    fields = [t.key_field, t.item_field]
    children = [
        _restore(entries.field(i), field.type, f"{path}.{field.name}") for i, field in enumerate(fields)
    ]
    return pa.StructArray.from_arrays(children, fields=fields)


def _same(values: pa.Array) -> pa.Array:
    return values


def _restore_leaf(array: pa.Array, t: pa.DataType) -> pa.Array:
    if array.type == t:
        return array
    if t == pa.month_day_nano_interval():
        rows = np.empty(len(array), _INTERVAL)
        for i, name in enumerate(_INTERVAL.fields or ()):
            rows[name] = array.field(i).fill_null(0).to_numpy(zero_copy_only=False)
        bits = layout.validity_buffer(layout.valid_rows(array))
        return pa.Array.from_buffers(t, len(array), [bits, pa.py_buffer(rows)])
    if t == pa.binary(0):
        bits = layout.validity_buffer(layout.valid_rows(array))
        return pa.Array.from_buffers(t, len(array), [bits, pa.py_buffer(b"")])
    if t == pa.time32("s"):
        return pc.divide(array.view(pa.int32()), pa.scalar(1000, pa.int32())).view(t)
    if (
        pa.types.is_duration(t)
        or pa.types.is_date64(t)
        or (pa.types.is_timestamp(t) and t.unit == array.type.unit)
    ):
        return array.view(t)
    return array.cast(t)

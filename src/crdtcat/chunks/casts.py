"""Casts that lose nothing, or do not happen.

`is_lossless` of `crdtcat.chunks.widen` speaks of types; `cast_lossless` speaks of values: an int64 column
whose values fit int8 becomes int8, and one value that does not fit fails the cast by column, row and value.
Casts stay within a family (numbers; text; bytes; moments with a zone; moments without; times; durations), so
that text is never parsed and a number never becomes a date. Struct fields go by name.

The "safe" casts of pyarrow do not check all of this (float64 to float32, int16 to float16), so where the
types alone do not promise it, values are cast back and compared. Known limit: 0.0 and -0.0
count as equal there.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks import layout
from crdtcat.chunks.narrow import in_pieces
from crdtcat.chunks.storage_types import from_storage, storage_type, to_storage
from crdtcat.chunks.type_codes import list_kind
from crdtcat.chunks.widen import index_capacity, is_lossless
from crdtcat.errors import InvalidArgument, SchemaMismatch


def cast_lossless(
    array: pa.Array | pa.ChunkedArray, to: pa.DataType, column: str = ""
) -> pa.Array | pa.ChunkedArray:
    """The same values as type `to`; a chunked array gives a chunked array. Cost: O(rows).

    It has more chunks than before where dictionaries or runs of `to` are too narrow for all rows of one.

    Raises:
        SchemaMismatch: a value does not survive, or the types have nothing in common. The message names the
            column, and where it is one value, its row.
        UnsupportedType: `to` cannot be held at all.
        LimitExceeded: the rows of one array do not fit dictionaries or runs as narrow as those of `to`.
    """
    path = column or "(column)"
    storage_type(to, column)
    if isinstance(array, pa.ChunkedArray):
        pieces = [in_pieces(chunk, lambda part: _cast(part, to, path)) for chunk in array.chunks]
        return pa.chunked_array([piece for some in pieces for piece in some], to)
    return _cast(array, to, path)


def _cast(array: pa.Array, to: pa.DataType, path: str) -> pa.Array:
    t = array.type
    if t == to:
        return array
    if isinstance(t, pa.BaseExtensionType):
        return _cast(array.storage, to, path)
    if pa.types.is_dictionary(t):
        return _cast_dictionary(array, to, path)
    if pa.types.is_run_end_encoded(t):
        return _cast(layout.decode_runs(array), to, path)
    if array.null_count == len(array):
        return from_storage(pa.nulls(len(array), storage_type(to)), to, path)
    return _cast_to_encoded(array, to, path)


def _cast_dictionary(array: pa.DictionaryArray, to: pa.DataType, path: str) -> pa.Array:
    same = pa.types.is_dictionary(to) and array.type.value_type == to.value_type
    if same and len(array.dictionary) <= index_capacity(to.index_type):  # only the indices differ
        indices = array.indices.cast(to.index_type)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=to.ordered)
    plain = from_storage(to_storage(array, path), array.type.value_type, path)  # Arrow gathers no views
    return _cast(plain, to, path)


def _cast_to_encoded(array: pa.Array, to: pa.DataType, path: str) -> pa.Array:
    if isinstance(to, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(to, _cast(array, to.storage_type, path))
    if pa.types.is_dictionary(to):
        return layout.encode_dictionary(_cast(array, to.value_type, path), to, path)
    if pa.types.is_run_end_encoded(to):
        return layout.encode_runs(_cast(array, to.value_type, path), to, path)
    return (
        _cast_nested(array, to, path)
        if array.type.num_fields or to.num_fields
        else _cast_leaf(array, to, path)
    )


def _cast_nested(array: pa.Array, to: pa.DataType, path: str) -> pa.Array:
    t = array.type
    if pa.types.is_struct(t) and pa.types.is_struct(to):
        return _cast_struct(array, to, path)
    if pa.types.is_map(t) and pa.types.is_map(to):
        lists, pairs = _open(array, path)
        fields = [to.key_field, to.item_field]
        children = [_cast(pairs.field(i), f.type, f"{path}.{f.name}") for i, f in enumerate(fields)]
        entries = pa.StructArray.from_arrays(children, fields=fields)
        return layout.close_lists(to, lists._replace(values=entries), path)
    if list_kind(t) is None or list_kind(to) is None:
        raise _apart(t, to, path)
    lists, items = _open(array, path)
    stored = to_storage(_cast(items, to.value_type, f"{path}[]"), path)
    try:
        restored = lists._replace(values=stored)
        return layout.close_lists(to, restored, path, lambda v: from_storage(v, to.value_type, path))
    except InvalidArgument as error:
        raise SchemaMismatch(f"column {path}: {t} does not fit {to}: {error}") from error


def _open(array: pa.Array, path: str) -> tuple[layout.Lists, pa.Array]:
    """Lists taken apart, and their items; by way of storage types, since those can all be gathered."""
    lists = layout.open_lists(array, lambda values: to_storage(values, path))
    return lists, from_storage(lists.values, array.values.type, path)


def _cast_struct(array: pa.Array, to: pa.DataType, path: str) -> pa.Array:
    names = [field.name for field in array.type]
    for i, name in enumerate(names):
        if to.get_field_index(name) < 0 and to_storage(array.field(i), path).null_count != len(array):
            raise SchemaMismatch(f"column {path}.{name} has values, and {to} has no such field: add it first")
    children = []
    for field in to:
        if field.name in names:
            child = _cast(array.field(names.index(field.name)), field.type, f"{path}.{field.name}")
        else:
            child = from_storage(pa.nulls(len(array), storage_type(field.type)), field.type)
        children.append(child)
    bits = layout.validity_buffer(layout.valid_rows(array))
    cast = pa.Array.from_buffers(to, len(array), [bits], children=children)
    to_storage(cast, path)  # refuses nulls where a field says it has none
    return cast


def _cast_leaf(array: pa.Array, to: pa.DataType, path: str) -> pa.Array:
    t = array.type
    family = _family(t)
    if family is None or family != _family(to):
        raise _apart(t, to, path)
    try:
        cast = _direct(array, to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(f"column {path}: {t} does not fit {to}: {error}") from error
    if not is_lossless(t, to):
        _check_survived(array, cast, path)
    return cast


def _direct(array: pa.Array, to: pa.DataType, *, safe: bool = True) -> pa.Array:
    """The cast of pyarrow; text, bytes and moments as they are stored, where casts are complete."""
    if pa.types.is_decimal(array.type) and pa.types.is_decimal(to):
        # Rescaled at full width: pyarrow narrows first, and then refuses values that would fit.
        wide = array.cast(pa.decimal256(array.type.precision, array.type.scale))
        return wide.cast(pa.decimal256(to.precision, to.scale), safe=safe).cast(to, safe=safe)
    if _family(to) in {"number", "time", "duration"} or pa.types.is_date64(to):  # a date64 is cut to days
        return array.cast(to, safe=safe)
    return from_storage(to_storage(array).cast(storage_type(to), safe=safe), to)


def _check_survived(array: pa.Array, cast: pa.Array, path: str) -> None:
    try:
        back = _direct(cast, array.type, safe=False)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(f"column {path}: {array.type} does not fit {cast.type}: {error}") from error
    if pa.types.is_fixed_size_binary(array.type) or _family(array.type) in {"text", "bytes"}:
        return  # pyarrow checks lengths and offsets; there is nothing else to lose
    if pa.types.is_floating(array.type):  # as float64: pyarrow does not compare float16
        there, here = array.cast(pa.float64()), back.cast(pa.float64())
        same = pc.or_(pc.equal(here, there), pc.and_(pc.is_nan(here), pc.is_nan(there)))
    else:
        same = pc.equal(back, array)
    row = pc.index(same, False).as_py()
    if row >= 0:
        value = array[row]
        raise SchemaMismatch(
            f"column {path}, row {row}: {value} ({array.type}) does not survive as {cast.type}"
        )


def _family(t: pa.DataType) -> str | None:
    tests = {
        "number": pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t),
        "text": pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
        "bytes": pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t)
        or pa.types.is_fixed_size_binary(t),
        "moment": pa.types.is_date(t) or (pa.types.is_timestamp(t) and t.tz is None),
        "moment with a zone": pa.types.is_timestamp(t) and t.tz is not None,
        "time": pa.types.is_time(t),
        "duration": pa.types.is_duration(t),
    }  # fmt: skip
    return next((name for name, holds in tests.items() if holds), None)


def _apart(t: pa.DataType, to: pa.DataType, path: str) -> SchemaMismatch:
    return SchemaMismatch(f"column {path} is {to}, the rows have {t}: cast them before writing")

"""Type codes: Arrow types as small MessagePack-able values, one code per type.

A code is a string (`"int64"`) or a list whose head is a string (`["timestamp", "us", "UTC"]`). Codes are part
of the file format: a name never changes its meaning, new names may be added, and an unknown one is refused
with `UnsupportedFormat` rather than guessed.

Equal types have equal codes. So a code leaves out what Arrow's own equality ignores (names of list items and
map entries), and field metadata (keep it in table properties).

The width of indices and run ends is left out where it is 32 bits, which is what codes without one mean. The
code of an ordered dictionary ends with its entries in their order; as the code of a type alone, with none.
Struct field names, nullability of every nested field, time zones, extension names with their metadata are
part of the code. An extension type that is not registered where a file is read becomes its storage type.

No I/O. Recursion is bounded by `limits.NESTING_DEPTH_MAX`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crdtcat import limits
from crdtcat.chunks.extensions import extension_metadata, registered_extension
from crdtcat.errors import LimitExceeded, UnsupportedFormat, UnsupportedType
from crdtcat.support.showing import shown

if TYPE_CHECKING:
    from collections.abc import Callable

TypeCode = str | list[Any]
"""A string, or a list of strings, integers, booleans, bytes and codes."""

PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(), "bool": pa.bool_(),
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(),
    "string": pa.string(), "large_string": pa.large_string(), "string_view": pa.string_view(),
    "binary": pa.binary(), "large_binary": pa.large_binary(), "binary_view": pa.binary_view(),
    "date32": pa.date32(), "date64": pa.date64(), "interval": pa.month_day_nano_interval(),
}  # fmt: skip
"""Types without parameters, by code."""

_PLAIN_CODES = {t: code for code, t in PLAIN.items()}

LISTS: dict[str, tuple[Callable[[pa.DataType], bool], Callable[[pa.Field], pa.DataType]]] = {
    "list": (pa.types.is_list, pa.list_),
    "large_list": (pa.types.is_large_list, pa.large_list),
    "list_view": (pa.types.is_list_view, pa.list_view),
    "large_list_view": (pa.types.is_large_list_view, pa.large_list_view),
}
"""List types of variable length: how to recognize one, how to make one."""

_DECIMALS = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}
_TIMED = {"time32": pa.time32, "time64": pa.time64, "duration": pa.duration}


def list_kind(t: pa.DataType) -> str | None:
    """The name of a list type of variable length, `"fixed_size_list"`, or None for anything else."""
    if pa.types.is_fixed_size_list(t):
        return "fixed_size_list"
    return next((name for name, (recognize, _) in LISTS.items() if recognize(t)), None)


def make_decimal(bits: int, precision: int, scale: int) -> pa.DataType:
    """The decimal type of that width."""
    return _DECIMALS[bits](precision, scale)


def encode_type(t: pa.DataType, column: str = "") -> TypeCode:
    """The code of a type. `decode_type(encode_type(t))` is `t`, but for what the module's head leaves out.

    Args:
        t: any Arrow type but unions.
        column: dotted path, for error messages.

    Raises:
        UnsupportedType: no Parquet file can hold it, or it is a dictionary whose order cannot be kept; the
            message names column and type.
        LimitExceeded: nested deeper than `limits.NESTING_DEPTH_MAX`.
    """
    return _encode(t, column or "(column)", 0)


def _encode(t: pa.DataType, path: str, depth: int) -> TypeCode:
    check_depth(path, depth)
    if isinstance(t, pa.BaseExtensionType):  # first: extension types written in Python have no hash
        return [
            "extension",
            t.extension_name,
            extension_metadata(t),
            _encode(t.storage_type, path, depth + 1),
        ]
    plain = _PLAIN_CODES.get(t)
    if plain is not None:
        return plain
    if pa.types.is_dictionary(t):
        if t.ordered:
            _check_order(t, path, depth)
            return ["dictionary", _encode(t.value_type, path, 1), _PLAIN_CODES[t.index_type], []]
        return ["dictionary", _encode(t.value_type, path, depth + 1), *_width(t.index_type)]
    if pa.types.is_run_end_encoded(t):
        return ["run_end_encoded", _encode(t.value_type, path, depth + 1), *_width(t.run_end_type)]
    return _encode_nested(t, path, depth) if t.num_fields or pa.types.is_struct(t) else _encode_leaf(t, path)


def _check_order(t: pa.DataType, path: str, depth: int) -> None:
    """Refuse a dictionary whose order could not be restored."""
    if depth == 0 and keeps_order(t):
        return
    where = f"of {t.value_type}" if depth == 0 else "inside another type"
    raise UnsupportedType(
        f"column {path} is an ordered dictionary {where}, whose order cannot be kept: "
        f"cast it to an unordered one, {pa.dictionary(t.index_type, t.value_type)}, or to {t.value_type} "
        "(pandas: .cat.as_unordered())"
    )


def _width(t: pa.DataType) -> list[TypeCode]:
    """The integers that indices or run ends are, unless 32 bits."""
    return [] if t == pa.int32() else [_PLAIN_CODES[t]]


def _encode_leaf(t: pa.DataType, path: str) -> TypeCode:
    if pa.types.is_timestamp(t):
        return ["timestamp", t.unit] if t.tz is None else ["timestamp", t.unit, t.tz]
    if pa.types.is_time(t) or pa.types.is_duration(t):
        return [str(t).partition("[")[0], t.unit]
    if pa.types.is_decimal(t):
        return [f"decimal{t.bit_width}", t.precision, t.scale]
    if pa.types.is_fixed_size_binary(t):
        return ["fixed_size_binary", t.byte_width]
    raise unsupported(t, path)


def _encode_nested(t: pa.DataType, path: str, depth: int) -> TypeCode:
    if pa.types.is_struct(t):
        fields = [[f.name, _encode(f.type, f"{path}.{f.name}", depth + 1), f.nullable] for f in t]
        return ["struct", fields]
    if pa.types.is_map(t):
        key, item = (
            _encode(t.key_type, f"{path}.key", depth + 1),
            _encode(t.item_type, f"{path}.value", depth + 1),
        )
        return ["map", key, item, t.item_field.nullable, t.keys_sorted]
    kind = list_kind(t)
    if kind is None:
        raise unsupported(t, path)
    child = _encode(t.value_type, f"{path}[]", depth + 1)
    size = [t.list_size] if kind == "fixed_size_list" else []
    return [kind, child, t.value_field.nullable, *size]


def decode_type(code: TypeCode) -> pa.DataType:
    """The type of a code; takes tuples for lists.

    Raises:
        UnsupportedFormat: a name this release does not know, or a code that is not one.
        LimitExceeded: nested deeper than `limits.NESTING_DEPTH_MAX`.
    """
    try:
        return _decode(code, 0)
    except (
        TypeError,
        ValueError,
        IndexError,
        KeyError,
        OverflowError,
        AttributeError,
        pa.ArrowException,
    ) as error:
        if isinstance(error, LimitExceeded):
            raise
        raise UnsupportedFormat(
            f"{shown(code, 200)} is not a type code this release knows: upgrade crdtcat ({error})"
        ) from error


def _decode(code: Any, depth: int) -> pa.DataType:  # noqa: PLR0911 (one for each kind of type)
    check_depth("a stored type", depth)
    if isinstance(code, str):
        return PLAIN[code]
    head, *arguments = code
    if head == "extension":
        name, metadata, storage = arguments
        return registered_extension(name, metadata, _decode(storage, depth + 1))
    if head in {"dictionary", "run_end_encoded"}:
        return _decode_encoded(getattr(pa, head), arguments, depth)
    if head in LISTS or head in {"struct", "map", "fixed_size_list"}:
        return _decode_nested(head, arguments, depth)
    if head == "timestamp":
        return pa.timestamp(*arguments)
    if head in _TIMED:
        return _TIMED[head](*arguments)
    if head == "fixed_size_binary":
        (width,) = arguments
        return pa.binary(_size(width))
    if head.startswith("decimal"):
        return make_decimal(int(head.removeprefix("decimal")), *arguments)
    raise KeyError(head)


def keeps_order(t: pa.DataType) -> bool:
    """Whether it is an ordered dictionary, of values whose order is kept (`crdtcat.chunks.entry_order`)."""
    return pa.types.is_dictionary(t) and t.ordered and _has_order(t.value_type)


def _has_order(t: pa.DataType) -> bool:
    if isinstance(t, pa.BaseExtensionType):
        return False
    if t in _PLAIN_CODES:
        return _PLAIN_CODES[t] not in {"null", "float16", "interval"}
    return bool(pa.types.is_temporal(t) or pa.types.is_fixed_size_binary(t))


def _decode_encoded(make: Callable[..., pa.DataType], arguments: list[Any], depth: int) -> pa.DataType:
    value, *rest = arguments
    held = _decode(value, depth + 1)
    ordered = len(rest) == 2 and make is pa.dictionary and depth == 0
    if ordered and isinstance(rest[1], list | tuple) and _has_order(held):
        return pa.dictionary(PLAIN[rest[0]], held, ordered=True)
    if rest == ["int32"]:
        raise ValueError("32 bits are left out")
    (index,) = rest or ["int32"]
    return make(PLAIN[index], held)


def _decode_nested(head: str, arguments: list[Any], depth: int) -> pa.DataType:
    if head == "struct":
        (fields,) = arguments
        return pa.struct([pa.field(name, _decode(t, depth + 1), nullable=null) for name, t, null in fields])
    if head == "map":
        key, item, nullable, keys_sorted = arguments
        value = pa.field("value", _decode(item, depth + 1), nullable=nullable)
        return pa.map_(_decode(key, depth + 1), value, keys_sorted=keys_sorted)
    child, nullable, *size = arguments
    field = pa.field("item", _decode(child, depth + 1), nullable=nullable)
    return pa.list_(field, _size(size[0])) if head == "fixed_size_list" else LISTS[head][1](field)


def _size(size: int) -> int:
    """A size, checked: pyarrow takes -1 for "of any size"."""
    if not 0 <= size < 2**31:
        raise ValueError(f"size {size}")
    return size


def unsupported(t: pa.DataType, path: str) -> UnsupportedType:
    """The error for a type that cannot be held."""
    return UnsupportedType(
        f"column {path}: Parquet cannot hold Arrow type {t}; cast or drop the column before writing"
    )


def check_depth(path: str, depth: int) -> None:
    """Raises `LimitExceeded` where nesting passes the limit, before recursion does harm."""
    if depth > limits.NESTING_DEPTH_MAX:
        raise LimitExceeded(
            f"column {path} is nested deeper than {limits.NESTING_DEPTH_MAX} levels: flatten it"
        )

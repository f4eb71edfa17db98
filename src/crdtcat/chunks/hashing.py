r"""Canonical content hashes: equal rows, equal hash, whatever the memory layout.

Theory. A column is fed to BLAKE3 as one self-delimiting stream, so two columns give the same stream exactly
when they have the same value type and the same values, bit for bit. The format is fixed for ever::

    column = b"crdtcat column 1\0"  u32 length of type  u64 rows  type (UTF-8)  body
    body   = nothing                                                 type null
           | validity  bits                                          bool
           | validity  rows x width bytes, zero under nulls          fixed width
           | validity  u64 total  ends  total bytes                  string, binary
           | validity  u64 total  ends  body of the total items      list, map (items are key-value structs)
           | validity  body of the items of the valid rows           fixed-size list
           | validity  body of each child, null where the row is     struct
    validity = 0x00 if no row is null, else 0x01 and a bitmap (bit i of byte i // 8 set: row i is valid)
    ends     = where each row's values end, as i32 where total < 2**31, else i64; a null row has no values
    chunk  = b"crdtcat chunk 1\0"  u64 rows  u32 columns
             for each column: u32 length  name (UTF-8)  u32 length  type (UTF-8)  32 bytes column hash

Integers are little-endian and unused bits are zero. The prefixes keep a column's hash from ever being a
chunk's. Not part of the content: slices, offsets, chunking, a validity bitmap without nulls, bytes under
nulls, dictionary and run-end encoding, view and 64-bit-offset variants, child field names of lists, and
nullability. Part of it: struct field names, units, time zones, and the sign of zero and the payload of NaN,
since floats are compared by their bits (Parquet keeps them, and nothing else is an equivalence that numeric
and bitwise comparison agree on).

The bodies are made in `crdtcat.chunks.canonical`. No I/O here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
from blake3 import blake3

from crdtcat.chunks.canonical import feed
from crdtcat.errors import InvalidArgument, UnsupportedType

HASH_BYTES = 32
_COLUMN_PREFIX = b"crdtcat column 1\0"
_CHUNK_PREFIX = b"crdtcat chunk 1\0"

_PLAIN: dict[pa.DataType, str] = {
    pa.null(): "null",
    pa.bool_(): "bool",
    **{
        getattr(pa, f"{kind}{bits}")(): f"{kind}{bits}"
        for kind in ("int", "uint")
        for bits in (8, 16, 32, 64)
    },
    **{getattr(pa, f"float{bits}")(): f"float{bits}" for bits in (16, 32, 64)},
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), "string"),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), "binary"),
    pa.date32(): "date32",
    pa.date64(): "date64",
    **{pa.time32(unit): f"time32[{unit}]" for unit in ("s", "ms")},
    **{pa.time64(unit): f"time64[{unit}]" for unit in ("us", "ns")},
    **{pa.duration(unit): f"duration[{unit}]" for unit in ("s", "ms", "us", "ns")},
    pa.month_day_nano_interval(): "interval",
}


@lru_cache(maxsize=4096)
def value_type(t: pa.DataType) -> str:  # noqa: C901, PLR0911 - one line per kind of type
    """The canonical text of a type as far as values go: layouts of equal values share it.

    Raises:
        UnsupportedType: for unions and whatever else has no canonical form.
    """
    plain = _PLAIN.get(t)
    if plain is not None:
        return plain
    if isinstance(t, pa.TimestampType):
        return f"timestamp[{t.unit}]" if t.tz is None else f"timestamp[{t.unit},{json.dumps(t.tz)}]"
    if pa.types.is_decimal(t):
        return f"decimal{t.bit_width}[{t.precision},{t.scale}]"
    if isinstance(t, pa.FixedSizeBinaryType):
        return f"binary[{t.byte_width}]"
    if isinstance(t, pa.FixedSizeListType):
        return f"list[{t.list_size},{value_type(t.value_type)}]"
    if isinstance(t, (pa.ListType, pa.LargeListType, pa.ListViewType, pa.LargeListViewType)):
        return f"list[{value_type(t.value_type)}]"
    if isinstance(t, pa.MapType):
        return f"map[{value_type(t.key_type)},{value_type(t.item_type)}]"
    if isinstance(t, pa.StructType):
        inside = ",".join(f"{json.dumps(field.name)}:{value_type(field.type)}" for field in t)
        return f"struct[{inside}]"
    if isinstance(t, (pa.DictionaryType, pa.RunEndEncodedType)):
        return value_type(t.value_type)
    if isinstance(t, pa.BaseExtensionType):
        return value_type(t.storage_type)
    raise UnsupportedType(f"values of type {t} have no canonical hash: cast the column to another type")


def column_hash(array: pa.Array | pa.ChunkedArray) -> bytes:
    """The 32-byte hash of a column's type and values; see the module's docstring for what counts.

    Cost: about the speed of BLAKE3 over the column's buffers; bounded extra memory except for
    dictionaries, views and run-end encoding, which are decoded first. Releases the interpreter lock while
    hashing, so columns can be hashed in threads.

    Raises:
        UnsupportedType: for types without a canonical form.
    """
    name = value_type(array.type).encode()
    hasher = blake3(_COLUMN_PREFIX + struct.pack("<IQ", len(name), len(array)) + name)
    feed(hasher, array.type, array.chunks if isinstance(array, pa.ChunkedArray) else [array])
    return hasher.digest()


def chunk_hash(
    names: Sequence[str], type_codes: Sequence[str], column_hashes: Sequence[bytes], rows: int
) -> bytes:
    """The 32-byte hash of a chunk, from its columns' names, canonical types and hashes. Cost: O(columns).

    Args:
        names: the columns' names, in order.
        type_codes: `value_type` of each column.
        column_hashes: `column_hash` of each column.
        rows: how many rows each column has.

    Raises:
        InvalidArgument: if the three lists differ in length, or a hash is not 32 bytes.
    """
    if not len(names) == len(type_codes) == len(column_hashes):
        raise InvalidArgument(
            f"{len(names)} names, {len(type_codes)} types and {len(column_hashes)} hashes do not make a chunk"
        )
    parts = [_CHUNK_PREFIX, struct.pack("<QI", rows, len(names))]
    for name, code, digest in zip(names, type_codes, column_hashes, strict=True):
        if len(digest) != HASH_BYTES:
            raise InvalidArgument(f"the hash of column {name!r} has {len(digest)} bytes, not {HASH_BYTES}")
        for text in (name.encode(), code.encode()):
            parts += (struct.pack("<I", len(text)), text)
        parts.append(digest)
    return blake3(b"".join(parts)).digest()


def hash_table(table: pa.Table | pa.RecordBatch) -> tuple[bytes, list[bytes]]:
    """The chunk hash of a table and the hashes of its columns. Cost: `column_hash` of each column."""
    columns = [column_hash(column) for column in table.columns]
    codes = [value_type(t) for t in table.schema.types]
    return chunk_hash(table.schema.names, codes, columns, table.num_rows), columns

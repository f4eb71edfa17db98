"""Keys: what the rows of a keyed table are known by, their order, and bounds of it.

A key is one or more columns whose types have a total order: booleans, integers, decimals, dates, times,
timestamps, durations, text and binaries, in any layout. Floats have none (NaN, two zeros), nested values none
that everybody agrees on. Keys are ordered column by column, as Arrow orders the stored values: numbers by
value, text by its bytes in UTF-8.

The bounds of a chunk are its first and its last key, each as bytes that sort as keys do (`encoded_key`), cut
as any bound is. They are kept with the statistics, under the name of no column (`KEY_BOUNDS`). So whether two
chunks can share a key is a comparison of bytes, exact for keys of up to 64 bytes.

Everything but `encoded_key` is vectorized, O(rows). No I/O; knows nothing about tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.chunks.narrow import restored
from crdtcat.chunks.statistics import cut_up, domain, value_type
from crdtcat.chunks.storage_types import to_storage
from crdtcat.limits import STATISTICS_BYTES_MAX

KEY_BOUNDS: Final = ""
"""The name under which statistics hold the bounds of whole keys. No column has it."""

Bits = npt.NDArray[np.bool_]


def can_be_key(type: pa.DataType) -> bool:
    """Whether a column of this type may be part of a key."""
    return domain(type) is not None and not pt.is_floating(value_type(type))


def sorted_by_key(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows by rising key; of several with one key only the last. No copy if they are so already."""
    keys = [to_storage(table.column(name), name) for name in key]
    if bool(rises(keys).all()):
        return table
    order = sort_order(keys)
    last = np.append(starts_of_groups([column.take(order) for column in keys])[1:], True)
    return taken(table, order.filter(pa.array(last)))


def taken(table: pa.Table, index: pa.Array) -> pa.Table:
    """Some rows, by number, of columns of any type: Arrow can take all stored types, and not all others."""
    columns = [
        restored([to_storage(column, name).take(index)], column.type, name)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def sort_order(keys: Sequence[pa.Array]) -> pa.Array:
    """Where each row of the stored key columns goes, by rising key; rows of one key keep their order."""
    if len(keys) == 1:
        if pt.is_integer(keys[0].type) and not keys[0].null_count:
            # Rows mostly come as a few runs that rise, which this sort only has to merge.
            return pa.array(np.argsort(keys[0].to_numpy(), kind="stable").astype(np.uint64))
        return pc.array_sort_indices(keys[0])
    names = [str(at) for at in range(len(keys))]
    table = pa.Table.from_arrays(list(keys), names=names)
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])


def starts_of_groups(keys: Sequence[pa.Array]) -> Bits:
    """Per row of sorted, stored key columns, whether it is the first of its key."""
    count = len(keys[0])
    differs = np.zeros(max(count - 1, 0), bool)
    for column in keys:
        unequal = pc.not_equal(column.slice(1), column.slice(0, max(count - 1, 0)))
        differs |= np.asarray(unequal.to_numpy(zero_copy_only=False), bool)
    first: Bits = np.concatenate((np.ones(min(count, 1), bool), differs))
    return first


def rises(keys: Sequence[pa.Array]) -> Bits:
    """Per row but the first, whether its key is greater than the one before."""
    count = max(len(keys[0]) - 1, 0)
    greater, equal = np.zeros(count, bool), np.ones(count, bool)
    for column in keys:
        later, earlier = column.slice(1), column.slice(0, count)
        greater |= equal & np.asarray(pc.greater(later, earlier).to_numpy(zero_copy_only=False), bool)
        equal &= np.asarray(pc.equal(later, earlier).to_numpy(zero_copy_only=False), bool)
    return greater


def key_bounds(keys: Sequence[pa.Array]) -> tuple[bytes, bytes | None]:
    """Outer bounds of the keys in rows that rise by key; there is at least one row."""
    low, high = encoded_key(keys, 0), encoded_key(keys, len(keys[0]) - 1)
    return low[:STATISTICS_BYTES_MAX], cut_up(high)


def encoded_key(keys: Sequence[pa.Array], row: int) -> bytes:
    """One key as bytes: they compare as keys of the same columns do. Key columns are in storage types."""
    return b"".join(_encoded(column[row]) for column in keys)


def _encoded(value: Any) -> bytes:  # noqa: PLR0911 (one for each kind of type)
    t = value.type
    if pt.is_boolean(t):
        return b"\1" if value.as_py() else b"\0"
    if pt.is_unsigned_integer(t):
        return int(value.as_py()).to_bytes(8, "big")
    if pt.is_integer(t):
        return int(value.as_py() + 2**63).to_bytes(8, "big")
    if pt.is_temporal(t):
        return int(value.value + 2**63).to_bytes(8, "big")
    if pt.is_decimal(t):
        return (_unscaled(value.as_py()) + 2**255).to_bytes(32, "big")
    plain = value.as_py()
    data: bytes = plain.encode() if isinstance(plain, str) else plain
    if pt.is_fixed_size_binary(t):
        return data
    return data.replace(b"\0", b"\0\xff") + b"\0\0"  # shorter before longer, whatever comes after


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)) or "0")
    return -number if sign else number

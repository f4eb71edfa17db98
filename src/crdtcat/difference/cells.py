"""Which cells of two columns differ, the n-th against the n-th.

Cells are equal where `crdtcat.chunks.hashing` says so: floats by their bits, null apart from every value.
Where Arrow compares values that way it does, at the speed of memory; what it cannot compare, or compares
otherwise, is compared by hashes of 64 bits. Pure.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.chunks.row_hash import column_hashes

Flags = npt.NDArray[np.bool_]

_EXACT: Final = (
    pt.is_integer,
    pt.is_boolean,
    pt.is_date,
    pt.is_time,
    pt.is_timestamp,
    pt.is_duration,
    pt.is_string,
    pt.is_binary,
)
_BITS: Final = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}


def differing(old: pa.ChunkedArray, new: pa.ChunkedArray, name: str) -> Flags:
    """For each row whether the two cells differ. Columns of one type and length; O(rows), vectorized."""
    if old.type in _BITS:
        old, new = (_viewed(column, _BITS[column.type]) for column in (old, new))
    if not any(is_kind(old.type) for is_kind in _EXACT):
        found: Flags = column_hashes(old, name) != column_hashes(new, name)
        return found
    differs = pc.not_equal(old, new)
    if differs.null_count:
        lonely = pc.not_equal(pc.is_null(old), pc.is_null(new))
        differs = pc.or_(pc.fill_null(differs, False), lonely)
    flags: Flags = differs.to_numpy()
    return flags


def _viewed(column: pa.ChunkedArray, bits: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)

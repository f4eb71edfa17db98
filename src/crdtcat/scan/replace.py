"""Some values of an array replaced by others.

Arrow has a kernel for that, which copies value by value and knows few types. Values of fixed width are one
block of memory: it is copied in one go and new values are put in. All else is gathered from both arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from crdtcat.format.sections import Array
from crdtcat.intervals.runs import Integers

WIDTHS: Final[Mapping[int, str]] = {8: "u1", 16: "u2", 32: "u4", 64: "u8"}


def replaced(base: pa.Array, rows: Integers, values: pa.Array) -> pa.Array:
    """`base` with `values` in place of `rows`. Both are storage arrays of one type. O(len(base))."""
    if not len(rows):
        return base
    width = WIDTHS.get(base.type.bit_width) if _is_plain(base.type) else None
    if width is None:
        index = np.arange(len(base))
        index[rows] = len(base) + np.arange(len(rows))
        return pa.concat_arrays([base, values]).take(pa.array(index))
    data = _values(base, width).copy()
    data[rows] = _values(values, width)
    buffers = [None, pa.py_buffer(data)]
    if base.null_count or values.null_count:
        valid = np.array(base.is_valid())
        valid[rows] = np.asarray(values.is_valid())
        buffers[0] = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(base.type, len(base), buffers)


def _is_plain(type: pa.DataType) -> bool:
    """Whether an array is one block of values of a fixed number of bytes."""
    return bool(
        pa.types.is_integer(type)
        or pa.types.is_floating(type)
        or pa.types.is_temporal(type)
        or pa.types.is_decimal(type)
    )


def _values(array: pa.Array, width: str) -> Array:
    data: Array = np.frombuffer(array.buffers()[1], width)
    return data[array.offset : array.offset + len(array)]

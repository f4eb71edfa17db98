"""Some texts of an array replaced by others: what lies between two replaced ones is copied in one go.

The bytes of an array of texts are one block, in row order. Cut before and after every replaced row, it is an
array of runs: kept, replaced, kept, replaced, ..., kept. The new texts, with an empty one before each and one
behind the last, line up with it. So Arrow's `if_else` over the runs, kept ones from here and replaced ones
from there, is the new block: a copy for every run instead of one for every row. Where a text begins has
shifted by what all replaced before it have grown.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks.decode import NARROW
from crdtcat.format.sections import Array
from crdtcat.intervals.runs import Integers
from crdtcat.scan.pooled import pooled

BYTES_MAX: Final = 2**31 - 1  # of an array whose offsets have 32 bits
KEPT_AND_REPLACED: Final = 0b01010101  # eight bits of the mask, the first is the lowest


def can_splice(base: pa.Array, replaced: int) -> bool:
    """Whether runs are long enough to copy them rather than rows, and the type is one block of bytes."""
    is_block = base.type in NARROW or pa.types.is_string(base.type) or pa.types.is_binary(base.type)
    return bool(is_block) and 4 * replaced <= len(base)


def spliced(base: pa.Array, rows: Integers, values: pa.Array) -> pa.Array | None:
    """`base` with `values[i]` at `rows[i]`; `None` if that is too much for one array.

    O(bytes) as memory is copied, O(len(base)) in arrays of offsets, O(rows) in runs.

    Args:
        base: strings or binaries, not none; their offsets may be wide.
        rows: strictly rising.
        values: one for each of `rows`, of the type of `base` with narrow offsets, which the result has.
    """
    begin, end, count = _offsets(base), _offsets(values), 2 * len(rows) + 1
    if int(begin[-1]) + int(end[-1] - end[0]) > BYTES_MAX:
        return None
    cuts = np.empty(count + 1, np.int32)
    cuts[0], cuts[-1] = begin[0], begin[-1]
    cuts[1:-1:2], cuts[2:-1:2] = begin[rows], begin[rows + 1]
    mask = np.full(count // 8 + 1, KEPT_AND_REPLACED, np.uint8)
    runs = pc.if_else(
        pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(mask)]),
        pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(cuts), _data(base)]),
        pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(np.repeat(end, 2)), _data(values)]),
    )
    offsets = pooled(len(base) + 1, np.int32)  # first what each row adds to the shift, in the same memory
    offsets[:] = 0
    offsets[0] = -begin[0]
    offsets[rows + 1] = np.diff(end) - (cuts[2:-1:2] - cuts[1:-1:2])
    np.cumsum(offsets, dtype=np.int32, out=offsets)
    np.add(offsets, begin, out=offsets, casting="unsafe")  # all of them fit
    return pa.Array.from_buffers(
        values.type, len(base), [_validity(base, rows, values), pa.py_buffer(offsets), runs.buffers()[2]]
    )


def _validity(base: pa.Array, rows: Integers, values: pa.Array) -> pa.Buffer | None:
    if not (base.null_count or values.null_count):
        return None
    valid = np.array(base.is_valid())
    valid[rows] = np.asarray(values.is_valid())
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _offsets(array: pa.Array) -> Array:
    found: Array = np.frombuffer(array.buffers()[1], np.int64 if array.type in NARROW else np.int32)
    return found[array.offset : array.offset + len(array) + 1]


def _data(array: pa.Array) -> pa.Buffer:
    data = array.buffers()[2]
    return pa.py_buffer(b"") if data is None else data

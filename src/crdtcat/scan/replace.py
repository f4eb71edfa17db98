"""Some values of an array replaced by others.

Arrow has a kernel for that, which copies value by value and knows few types. Values of fixed width are one
block of memory: it is copied in one go and new values are put in. All else is gathered once from both arrays;
texts that come as numbers into a small dictionary from that and the new values, so that nothing is copied
twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from crdtcat.format.sections import Array
from crdtcat.intervals.runs import Integers

WIDTHS: Final[Mapping[int, str]] = {8: "u1", 16: "u2", 32: "u4", 64: "u8"}


class Part(NamedTuple):
    """Values for some rows: `values[place[i]]` goes to row `rows[i]`."""

    rows: Integers
    values: pa.Array
    place: Integers


def replaced(base: pa.Array, parts: Sequence[Part], *, owned: bool = False) -> pa.Array:
    """`base` with the values of all parts in place of its own; of two for one row that of the later part.

    All are storage arrays of one type; `base` may be a dictionary array of it, which the result never is.
    O(len(base)), and O(values) of parts that use few of their own.

    Args:
        base: the array.
        parts: new values.
        owned: nobody else has `base` or its memory, which may then be changed, and becomes the result's.
    """
    parts = [part for part in parts if len(part.rows)]
    if pa.types.is_dictionary(base.type):
        return _gathered(base.dictionary, base.indices, parts)
    if not parts:
        return base
    width = WIDTHS.get(base.type.bit_width) if _is_plain(base.type) else None
    return _gathered(base, None, parts) if width is None else _put_in(base, width, parts, owned=owned)


def _put_in(base: pa.Array, width: str, parts: Sequence[Part], *, owned: bool) -> pa.Array:
    data = _values(base, width)
    if not (owned and data.flags.writeable):
        data = data.copy()
    for part in parts:
        data[part.rows] = _values(part.values, width)[part.place]
    buffers = [None, pa.py_buffer(data)]
    if base.null_count or any(part.values.null_count for part in parts):
        valid = np.array(base.is_valid())
        for part in parts:
            valid[part.rows] = np.asarray(part.values.is_valid())[part.place]
        buffers[0] = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(base.type, len(base), buffers)


def _gathered(values: pa.Array, numbers: pa.Array | None, parts: Sequence[Part]) -> pa.Array:
    """Values by their numbers (`None`: as they stand), those of parts behind them."""
    if not parts:
        return values if numbers is None else values.take(numbers)
    absent = None
    if numbers is None:
        index = np.arange(len(values))
    else:
        index = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy().copy()
        absent = np.asarray(numbers.is_null()).copy() if numbers.null_count else None
    arrays, held = [values], len(values)
    for part in parts:
        used, place = _used(part)
        index[part.rows] = held + place
        if absent is not None:
            absent[part.rows] = False
        arrays.append(used)
        held += len(used)
    return pa.concat_arrays(arrays).take(pa.array(index, mask=absent))


def _used(part: Part) -> tuple[pa.Array, Integers]:
    """The values of a part that it uses, and where they are then. Those in a row are not copied."""
    first, last = int(part.place.min()), int(part.place.max()) + 1
    if last - first <= 2 * len(part.place):
        return part.values.slice(first, last - first), part.place - first
    return part.values.take(pa.array(part.place)), np.arange(len(part.place))


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

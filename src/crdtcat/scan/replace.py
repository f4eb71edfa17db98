"""Some values of an array replaced by others.

Arrow has a kernel for that, which copies value by value and knows few types. Values of fixed width are one
block of memory: it is copied in one go and new values are put in. Texts between which few are replaced are
copied run by run (`crdtcat.scan.splice`). All else is gathered once from both arrays; texts that come as
numbers into a small dictionary from that and the new values, so that nothing is copied twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crdtcat.format.sections import Array
from crdtcat.intervals.runs import Integers
from crdtcat.scan.pooled import pooled_copy
from crdtcat.scan.splice import can_splice, spliced

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
        return _gathered(base.dictionary, base.indices, parts, owned=owned)
    if not parts:
        return base
    width = WIDTHS.get(base.type.bit_width) if _is_plain(base.type) else None
    if width is not None:
        return _put_in(base, width, parts, owned=owned)
    found = None
    if can_splice(base, sum(len(part.rows) for part in parts)):
        found = spliced(base, *_in_order(parts))
    return _gathered(base, None, parts, owned=owned) if found is None else found


def _put_in(base: pa.Array, width: str, parts: Sequence[Part], *, owned: bool) -> pa.Array:
    data = _values(base, width)
    if not (owned and data.flags.writeable):
        data = pooled_copy(data)
    for part in parts:
        data[part.rows] = _values(part.values, width)[part.place]
    buffers = [None, pa.py_buffer(data)]
    if base.null_count or any(part.values.null_count for part in parts):
        valid = np.array(base.is_valid())
        for part in parts:
            valid[part.rows] = np.asarray(part.values.is_valid())[part.place]
        buffers[0] = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(base.type, len(base), buffers)


def _gathered(values: pa.Array, numbers: pa.Array | None, parts: Sequence[Part], *, owned: bool) -> pa.Array:
    """Values by their numbers (`None`: as they stand), those of parts behind them."""
    if not parts:
        return values if numbers is None else values.take(numbers)
    absent = None
    if numbers is None:
        index = np.arange(len(values))
    else:
        whole = numbers.fill_null(0) if numbers.null_count else numbers
        index = _values(whole, numbers.type.to_pandas_dtype())
        if not (owned and index.flags.writeable):
            index = pooled_copy(index)
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


def _in_order(parts: Sequence[Part]) -> tuple[Integers, pa.Array]:
    """The rows of all parts, rising, each once, and their values, one for each."""
    used = [_used(part) for part in parts]
    first = np.cumsum([0, *(len(values) for values, _ in used)])
    rows = np.concatenate([part.rows for part in parts])
    place = np.concatenate([place + base for (_, place), base in zip(used, first[:-1], strict=True)])
    if not (rows[1:] > rows[:-1]).all():
        order = np.argsort(rows, kind="stable")
        rows, place = rows[order], place[order]
        last = np.append(rows[1:] != rows[:-1], True)
        rows, place = rows[last], place[last]
    values = used[0][0] if len(used) == 1 else pa.concat_arrays([values for values, _ in used])
    if len(place) != len(values) or (place != np.arange(len(place))).any():
        values = values.take(pa.array(place))
    return rows, values


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


def _values(array: pa.Array, dtype: npt.DTypeLike) -> Array:
    data: Array = np.frombuffer(array.buffers()[1], dtype)
    return data[array.offset : array.offset + len(array)]

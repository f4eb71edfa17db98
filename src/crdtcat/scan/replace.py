"""Some values of an array replaced by others.

Arrow has a kernel for that, which copies value by value and knows few types. Values of fixed width are one
block of memory: it is copied in one go and new values are put in. Texts between which few are replaced are
copied run by run (`crdtcat.scan.splice`). All else is gathered once from both arrays; texts that come as
numbers into a small dictionary from that and the new values, so that nothing is copied twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crdtcat.chunks.decode import NARROW
from crdtcat.format.sections import Array
from crdtcat.scan.layers import Cells
from crdtcat.scan.pooled import pooled_copy
from crdtcat.scan.splice import can_splice, spliced

WIDTHS: Final[Mapping[int, str]] = {8: "u1", 16: "u2", 32: "u4", 64: "u8"}


def replaced(base: pa.Array, cells: Cells | None, *, owned: bool = False) -> pa.Array:
    """`base` with the values of cells in place of its own. O(len(base)).

    Both are storage arrays of one type; `base` may be a dictionary array of it, or texts with wide offsets,
    which the result never is.

    Args:
        base: the array.
        cells: new values, and where they go.
        owned: nobody else has `base` or its memory, which may then be changed, and becomes the result's.
    """
    if cells is None or not len(cells.rows):
        return base.dictionary.take(base.indices) if pa.types.is_dictionary(base.type) else _narrow(base)
    if pa.types.is_dictionary(base.type):
        return _numbered(base, cells, owned=owned)
    width = WIDTHS.get(base.type.bit_width) if _is_plain(base.type) else None
    if width is not None:
        return _put_in(base, width, cells, owned=owned)
    found = spliced(base, *cells) if can_splice(base, len(cells.rows)) else None
    return _gathered(_narrow(base), cells) if found is None else found


def _put_in(base: pa.Array, width: str, cells: Cells, *, owned: bool) -> pa.Array:
    data = _values(base, width)
    if not (owned and data.flags.writeable) or _is_shared(base):
        data = pooled_copy(data)
    data[cells.rows] = _values(cells.values, width)
    buffers = [None, pa.py_buffer(data)]
    if base.null_count or cells.values.null_count:
        valid = np.array(base.is_valid())
        valid[cells.rows] = np.asarray(cells.values.is_valid())
        buffers[0] = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(base.type, len(base), buffers)


def _is_shared(base: pa.Array) -> bool:
    """Whether values and validity are the same memory. Arrow makes nulls so: a value that is put into it
    would be read as the validity of the first rows, too."""
    validity, data = base.buffers()
    return validity is not None and data is not None and validity.address == data.address


def _gathered(base: pa.Array, cells: Cells) -> pa.Array:
    index = np.arange(len(base))
    index[cells.rows] = np.arange(len(base), len(base) + len(cells.rows))
    return pa.concat_arrays([base, cells.values]).take(pa.array(index))


def _numbered(base: pa.DictionaryArray, cells: Cells, *, owned: bool) -> pa.Array:
    """Values by their numbers, new ones behind those of the dictionary."""
    numbers, held = base.indices, len(base.dictionary)
    whole = numbers.fill_null(0) if numbers.null_count else numbers
    index = _values(whole, numbers.type.to_pandas_dtype())
    if not (owned and index.flags.writeable):
        index = pooled_copy(index)
    index[cells.rows] = np.arange(held, held + len(cells.rows))
    absent = None
    if numbers.null_count:
        absent = np.asarray(numbers.is_null()).copy()
        absent[cells.rows] = False
    return pa.concat_arrays([base.dictionary, cells.values]).take(pa.array(index, mask=absent))


def _narrow(base: pa.Array) -> pa.Array:
    return base.cast(NARROW[base.type]) if base.type in NARROW else base


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

"""Named arrays in one buffer: how a bundle keeps a million entries so that they load without being parsed.

A directory in MessagePack lists each array's name, element code, shape and offset; the arrays follow, raw,
little-endian, each aligned to 64 bytes. Reading is `numpy.frombuffer`: no copy, no loop. Blobs of varying
length are up to three arrays: `<name>.offsets` (one more than there are blobs), `<name>.data`, and
`<name>.valid` where some are null; where all are, `<name>.none` holds how many.

::

    0    4   length d of the directory, big-endian
    4    d   MessagePack map: {"meta": ..., "arrays": [[name, code, shape, offset, bytes], ...]}
    ...      zero bytes, then the arrays, each at a multiple of 64 bytes from the start of the *file*
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from crdtcat.errors import Corrupt
from crdtcat.format.version import pack, unpack

ALIGNMENT: Final = 64
CODES: Final[Mapping[str, np.dtype[Any]]] = {
    code: np.dtype(code) for code in ("<u1", "<u4", "<u8", "<i8", "<f8")
}

Array = np.ndarray[Any, np.dtype[Any]]
Column = Any
"""An `Array`, or a `pyarrow.LargeBinaryArray` of blobs."""


def blobs(values: Any) -> pa.LargeBinaryArray:
    """A column of byte strings or nulls."""
    return pa.array(values, type=pa.large_binary())


def nulls(count: int) -> pa.LargeBinaryArray:
    """A column of nulls: of zeros that nobody wrote, which cost address space until they are looked at."""
    valid, offsets = np.zeros(-(-count // 8), np.uint8), np.zeros(count + 1, np.int64)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(b"")], count
    )


def encode_sections(meta: Any, columns: Mapping[str, Column], at: int) -> bytes:
    """All columns, with `meta`, in one buffer that will stand at byte `at` of a file. Cost: one copy.

    Equal values give equal bytes.
    """
    arrays = _flatten(columns)
    listed: list[list[Any]] = []
    offset = 0
    for name, array in arrays.items():
        listed.append([name, array.dtype.str.replace("|", "<"), list(array.shape), offset, array.nbytes])
        offset = _aligned(offset + array.nbytes)
    directory = pack({"meta": meta, "arrays": listed})
    start = _start(len(directory), at)
    out = bytearray(start + offset)
    out[:4] = len(directory).to_bytes(4, "big")
    out[4 : 4 + len(directory)] = directory
    for (_, _, _, offset, size), array in zip(listed, arrays.values(), strict=True):
        out[start + offset : start + offset + size] = array.tobytes()
    return bytes(out)


def decode_sections(data: memoryview, at: int, name: str) -> tuple[Any, dict[str, Column]]:
    """The inverse, without copying the arrays. Raises `Corrupt` where directory and bytes do not fit."""
    if len(data) < 4:
        raise Corrupt(name, "no section directory")
    length = int.from_bytes(data[:4], "big")
    if 4 + length > len(data):
        raise Corrupt(name, "the section directory runs past the end")
    directory = unpack(data[4 : 4 + length], name)
    start = _start(length, at)
    arrays: dict[str, Array] = {}
    try:
        for title, code, shape, offset, size in directory["arrays"]:
            dtype = CODES[code]
            if offset < 0 or start + offset + size > len(data) or size != dtype.itemsize * _product(shape):
                raise Corrupt(name, f"section {title!r} does not lie within the file")
            arrays[title] = np.frombuffer(
                data, dtype, _product(shape), start + offset if size else 0
            ).reshape(shape)
        return directory["meta"], _unflatten(arrays, name, len(data))
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(name, f"malformed section directory: {error}") from error


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _start(directory_bytes: int, at: int) -> int:
    """Where the arrays begin in this buffer, which stands at byte `at` of the file."""
    return _aligned(at + 4 + directory_bytes) - at


def _product(shape: list[Any]) -> int:
    count = 1
    for size in shape:
        if not isinstance(size, int) or size < 0:
            raise ValueError(f"shape {shape}")
        count *= size
    return count


def _flatten(columns: Mapping[str, Column]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name in sorted(columns):
        column = columns[name]
        if isinstance(column, np.ndarray):
            arrays[name] = np.ascontiguousarray(column)
        elif column.null_count == len(column):
            arrays[f"{name}.none"] = np.array([len(column)], "<u8")
        else:
            _, ends, content = column.buffers()
            offsets = np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
            arrays[f"{name}.offsets"] = (offsets - offsets[0]).astype("<i8")
            held = b"" if content is None else memoryview(content)[int(offsets[0]) : int(offsets[-1])]
            arrays[f"{name}.data"] = np.frombuffer(held, np.uint8)
            if column.null_count:
                arrays[f"{name}.valid"] = np.asarray(column.is_valid()).astype("<u1")
    return arrays


def _unflatten(arrays: dict[str, Array], name: str, size: int) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    nothing: dict[int, Column] = {}  # columns without a value are common, and can be the same
    for title, array in arrays.items():
        base, _, kind = title.rpartition(".")
        if kind == "none":
            if array.shape != (1,) or array.dtype != np.dtype("<u8"):
                raise Corrupt(name, f"section {title!r} says of how many rows it has nothing by one integer")
            count = int(array[0])
            if count > size:  # whatever has rows has bytes for each of them in some other column
                raise Corrupt(name, f"declares {count:,} nulls in {size:,} bytes")
            if count not in nothing:
                nothing[count] = nulls(count)
            columns[base] = nothing[count]
        elif kind == "offsets":
            columns[base] = _blobs(
                array, arrays[f"{base}.data"], arrays.get(f"{base}.valid"), f"{name}: {base}"
            )
        elif kind not in {"data", "valid"}:
            columns[title] = array
    return columns


def _blobs(offsets: Array, data: Array, valid: Array | None, name: str) -> pa.LargeBinaryArray:
    rising = offsets.ndim == 1 and len(offsets) > 0 and not (offsets[1:] < offsets[:-1]).any()
    if not rising or offsets[0] != 0 or offsets[-1] != len(data):
        raise Corrupt(name, "blobs have offsets that do not rise to their size")
    count = len(offsets) - 1
    if valid is not None and len(valid) != count:
        raise Corrupt(name, "blobs have a validity of another length")
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid != 0, bitorder="little"))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
    )

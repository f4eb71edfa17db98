"""Named arrays in one buffer: how a bundle keeps a million entries so that they load without being parsed.

A directory in MessagePack lists each array's name, element code, shape and offset; the arrays follow, raw,
little-endian, each aligned to 64 bytes. Reading is `numpy.frombuffer`: no copy, no loop. Blobs of varying
length are three arrays: `<name>.ends` (running ends), `<name>.data`, and `<name>.valid` where some are null.

::

    0    4   length d of the directory, big-endian
    4    d   MessagePack map: {"meta": ..., "arrays": [[name, code, shape, offset, bytes], ...]}
    ...      zero bytes up to a multiple of 64 counted from the start of this buffer, then the arrays
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


def encode_sections(meta: Any, columns: Mapping[str, Column]) -> bytes:
    """All columns, with `meta`, in one buffer. Equal values give equal bytes. Cost: one copy."""
    arrays = _flatten(columns)
    listed: list[list[Any]] = []
    offset = 0
    for name, array in arrays.items():
        listed.append([name, array.dtype.str.replace("|", "<"), list(array.shape), offset, array.nbytes])
        offset = _aligned(offset + array.nbytes)
    directory = pack({"meta": meta, "arrays": listed})
    start = _aligned(4 + len(directory))
    out = bytearray(start + offset)
    out[:4] = len(directory).to_bytes(4, "big")
    out[4 : 4 + len(directory)] = directory
    for (_, _, _, offset, size), array in zip(listed, arrays.values(), strict=True):
        out[start + offset : start + offset + size] = array.tobytes()
    return bytes(out)


def decode_sections(data: memoryview, name: str) -> tuple[Any, dict[str, Column]]:
    """The inverse, without copying the arrays. Raises `Corrupt` where directory and bytes do not fit."""
    if len(data) < 4:
        raise Corrupt(name, "no section directory")
    length = int.from_bytes(data[:4], "big")
    if 4 + length > len(data):
        raise Corrupt(name, "the section directory runs past the end")
    directory = unpack(data[4 : 4 + length], name)
    start = _aligned(4 + length)
    arrays: dict[str, Array] = {}
    try:
        for title, code, shape, offset, size in directory["arrays"]:
            dtype = CODES[code]
            if offset < 0 or start + offset + size > len(data) or size != dtype.itemsize * _product(shape):
                raise Corrupt(name, f"section {title!r} does not lie within the file")
            arrays[title] = np.frombuffer(
                data, dtype, _product(shape), start + offset if size else 0
            ).reshape(shape)
        return directory["meta"], _unflatten(arrays, name)
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(name, f"malformed section directory: {error}") from error


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


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
            continue
        _, ends, content = column.buffers()
        all_ends = (
            np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
            if len(column)
            else None
        )
        first = 0 if all_ends is None else int(all_ends[0])
        last = 0 if all_ends is None else int(all_ends[-1])
        arrays[f"{name}.ends"] = (
            all_ends[1:] - first if all_ends is not None else np.empty(0, np.int64)
        ).astype("<u8")
        arrays[f"{name}.data"] = (
            np.frombuffer(content, np.uint8)[first:last] if last > first else np.empty(0, np.uint8)
        )
        if column.null_count:
            arrays[f"{name}.valid"] = np.asarray(column.is_valid()).astype("<u1")
    return arrays


def _unflatten(arrays: dict[str, Array], name: str) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for title, array in arrays.items():
        if title.endswith((".data", ".valid")):
            continue
        if not title.endswith(".ends"):
            columns[title] = array
            continue
        base = title.removesuffix(".ends")
        data = arrays[f"{base}.data"]
        ends = array.astype(np.int64)
        offsets = np.concatenate((np.zeros(1, np.int64), ends))
        if len(ends) and ((np.diff(offsets) < 0).any() or ends[-1] != len(data)):
            raise Corrupt(name, f"blobs {base!r} have ends that do not rise to their size")
        valid = arrays.get(f"{base}.valid")
        if valid is not None and len(valid) != len(ends):
            raise Corrupt(name, f"blobs {base!r} have a validity of another length")
        bitmap = None if valid is None else pa.py_buffer(np.packbits(valid != 0, bitorder="little"))
        columns[base] = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(ends), [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
    return columns

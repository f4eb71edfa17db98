"""Arrow's bitmaps in canonical form: row 0 at bit 0 of byte 0, unused bits zero.

Arrow lets a bitmap start at any bit, be absent where every row is valid, and hold anything in the bits past
the last row. Whoever compares or hashes bitmaps wants none of that freedom. Everything here copies, which
costs an eighth of a byte per row, and works on whole bytes, never bit by bit. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


def validity_bits(array: pa.Array) -> Bytes:
    """Which rows of a non-null-type array hold a value."""
    buffer = array.buffers()[0]
    if buffer is None:
        return pack(np.ones(len(array), np.bool_))
    return align(buffer, array.offset, len(array))


def value_bits(array: pa.Array) -> Bytes:
    """The values of a boolean array, zero where null."""
    bits = align(array.buffers()[1], array.offset, len(array))
    return bits & validity_bits(array) if array.null_count else bits


def valid_rows(array: pa.Array) -> Flags:
    """For each row, whether it holds a value."""
    return unpack(validity_bits(array), len(array))


def align(buffer: pa.Buffer, offset: int, rows: int) -> Bytes:
    """A copy of `rows` bits from bit `offset` on, moved to bit 0, the rest of the last byte zero."""
    first, shift = divmod(offset, 8)
    count = (rows + 7) // 8
    raw = np.frombuffer(buffer, np.uint8, (offset + rows + 7) // 8 - first, first)
    bits: Bytes = raw[:count].copy()
    if shift:
        bits >>= np.uint8(shift)
        bits[: len(raw) - 1] |= raw[1:] << np.uint8(8 - shift)
    if rows % 8:
        bits[-1] &= (1 << rows % 8) - 1
    return bits


def join(parts: Sequence[tuple[Bytes, int]]) -> Bytes:
    """Bitmaps, each with its number of rows, one after the other as one bitmap."""
    if len(parts) == 1:
        return parts[0][0]
    return pack(np.concatenate([np.zeros(0, np.bool_), *(unpack(bits, rows) for bits, rows in parts)]))


def unpack(bits: Bytes, rows: int) -> Flags:
    """One boolean per row."""
    return np.unpackbits(bits, count=rows, bitorder="little").view(np.bool_)


def pack(flags: Flags) -> Bytes:
    """The inverse of `unpack`."""
    return np.packbits(flags, bitorder="little")

"""The canonical byte stream of a column's values, fed to a hasher.

What the stream looks like is defined in `crdtcat.chunks.hashing`; this is how it is made from any Arrow
layout at close to the speed of memory. Buffers that are canonical already are hashed where they lie; others
are rewritten block by block, in cache. Chunks are fed one after the other, so nothing is concatenated but
bitmaps. There is no loop over rows here, and no I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from crdtcat.chunks import bitmaps
from crdtcat.chunks.layout import decode_dictionary, decode_runs

_BLOCK_ROWS = 1 << 16
_INT32_MAX = 2**31 - 1


def feed(hasher: blake3, t: pa.DataType, chunks: Sequence[pa.Array]) -> None:  # noqa: C901, PLR0912 - one case per shape
    """Feed the body of a column that lies in `chunks`, all of type `t`, as `hashing` defines it.

    Cost: one pass over the buffers, in place where they are canonical already.
    """
    chunks = [chunk for chunk in chunks if len(chunk)]
    match shape(t):
        case "extension":
            feed(hasher, t.storage_type, [chunk.storage for chunk in chunks])
        case "dictionary":
            _feed_decoded(hasher, t.value_type, [decode_dictionary(chunk) for chunk in chunks])
        case "runs":
            _feed_decoded(hasher, t.value_type, [decode_runs(chunk) for chunk in chunks])
        case "view":
            _feed_binary(hasher, [chunk.cast(pa.large_binary()) for chunk in chunks])
        case "variable":
            _feed_binary(hasher, chunks)
        case "list":
            _feed_list(hasher, t, chunks)
        case "fixed list":
            _feed_validity(hasher, chunks)
            feed(hasher, t.value_type, [piece for chunk in chunks for piece in _items(chunk)])
        case "struct":
            _feed_validity(hasher, chunks)
            children = [chunk.flatten() for chunk in chunks]
            for i, field in enumerate(t):
                feed(hasher, field.type, [child[i] for child in children])
        case "bool":
            _feed_validity(hasher, chunks)
            hasher.update(bitmaps.join([(bitmaps.value_bits(chunk), len(chunk)) for chunk in chunks]).data)
        case "fixed":
            _feed_validity(hasher, chunks)
            for chunk in chunks:
                for block in _fixed_blocks(chunk, t.bit_width // 8):
                    hasher.update(block)


def _feed_decoded(hasher: blake3, t: pa.DataType, chunks: Sequence[pa.Array]) -> None:
    """Values that were gathered, perhaps in another layout than `t`, which no hash tells."""
    feed(hasher, chunks[0].type if chunks else t, chunks)


@lru_cache(maxsize=4096)
def shape(t: pa.DataType) -> str:
    """How values of a type lie in memory; "null" has no body."""
    if isinstance(t, pa.BaseExtensionType):
        return "extension"
    if pa.types.is_nested(t) and not isinstance(t, pa.RunEndEncodedType):
        if isinstance(t, pa.StructType):
            return "struct"
        return "fixed list" if isinstance(t, pa.FixedSizeListType) else "list"
    if isinstance(t, (pa.DictionaryType, pa.RunEndEncodedType)):
        return "dictionary" if isinstance(t, pa.DictionaryType) else "runs"
    return _SHAPES.get(t, "fixed")


_SHAPES: dict[pa.DataType, str] = {
    pa.null(): "null",
    pa.bool_(): "bool",
    **dict.fromkeys((pa.string(), pa.binary(), pa.large_string(), pa.large_binary()), "variable"),
    **dict.fromkeys((pa.string_view(), pa.binary_view()), "view"),
}


def _feed_validity(hasher: blake3, chunks: Sequence[pa.Array]) -> None:
    if not any(chunk.null_count for chunk in chunks):
        hasher.update(b"\0")
        return
    hasher.update(b"\1")
    hasher.update(bitmaps.join([(bitmaps.validity_bits(chunk), len(chunk)) for chunk in chunks]).data)


def _feed_binary(hasher: blake3, chunks: Sequence[pa.Array]) -> None:
    _feed_validity(hasher, chunks)
    clean = [pc.fill_null(chunk, b"") if _has_bytes_under_nulls(chunk) else chunk for chunk in chunks]
    offsets = [_offsets(chunk) for chunk in clean]
    _feed_ends(hasher, offsets)
    for chunk, where in zip(clean, offsets, strict=True):
        data = chunk.buffers()[2]
        if data is not None and where[-1] > where[0]:
            hasher.update(memoryview(data)[int(where[0]) : int(where[-1])])


def _feed_list(hasher: blake3, t: pa.DataType, chunks: Sequence[pa.Array]) -> None:
    _feed_validity(hasher, chunks)
    if isinstance(t, pa.MapType):
        t = pa.list_(pa.struct([t.key_field, t.item_field]))
        chunks = [_as_list(chunk, t) for chunk in chunks]
    _feed_ends(hasher, [_list_offsets(chunk) for chunk in chunks])
    feed(hasher, t.value_type, [piece for chunk in chunks for piece in _items(chunk)])


def _as_list(array: pa.Array, t: pa.DataType) -> pa.Array:
    """A map as the list of its entries, over the same buffers; Arrow's own cast aborts on some slices."""
    entries = pa.StructArray.from_arrays([array.keys, array.items], fields=list(t.value_type))
    own = array.buffers()[:2]
    return pa.Array.from_buffers(t, len(array), own, offset=array.offset, children=[entries])


def _feed_ends(hasher: blake3, offsets: Sequence[npt.NDArray[Any]]) -> None:
    """Feed the total and where each row ends, counted from the first row of the first chunk."""
    total = sum(int(where[-1]) - int(where[0]) for where in offsets)
    hasher.update(struct.pack("<Q", total))
    wanted = np.dtype("<i4") if total <= _INT32_MAX else np.dtype("<i8")
    before = 0
    for where in offsets:
        shift = before - int(where[0])
        if shift == 0 and where.dtype == wanted:
            hasher.update(where[1:].view(np.uint8).data)
        else:
            for start in range(1, len(where), _BLOCK_ROWS):
                block = where[start : start + _BLOCK_ROWS].astype(np.int64)
                hasher.update((block + shift).astype(wanted).view(np.uint8).data)
        before += int(where[-1]) - int(where[0])


def _offsets(array: pa.Array) -> npt.NDArray[Any]:
    """The `rows + 1` offsets of a string, binary or list array, where they lie."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    wide = wide or pa.types.is_large_list(array.type)
    dtype = np.dtype("<i8") if wide else np.dtype("<i4")
    buffer = array.buffers()[1]
    return np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)


def _list_offsets(array: pa.Array) -> npt.NDArray[Any]:
    """Offsets into the items that `_items` gives, where null rows have none."""
    if isinstance(array.type, (pa.ListType, pa.LargeListType)) and not _has_bytes_under_nulls(array):
        return _offsets(array)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def _items(array: pa.Array) -> list[pa.Array]:
    """The items of all valid rows of a list array, in order, in one piece wherever they lie in one."""
    starts, stops = _item_ranges(array)
    if not len(starts):
        return []
    breaks = np.flatnonzero(starts[1:] != stops[:-1])
    if len(breaks):
        try:
            return [array.flatten()]
        except pa.ArrowNotImplementedError:  # Arrow cannot gather every type of item; slices always work
            pass
    firsts, lasts = starts[np.r_[0, breaks + 1]], stops[np.r_[breaks, len(stops) - 1]]
    values = array.values
    return [values.slice(a, b - a) for a, b in zip(firsts.tolist(), lasts.tolist(), strict=True)]


def _item_ranges(array: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Where in `array.values` the items of each valid row that has any begin and end."""
    rows, t = len(array), array.type
    if isinstance(t, pa.FixedSizeListType):
        where = np.arange(array.offset, array.offset + rows + 1, dtype=np.int64) * t.list_size
        starts, stops = where[:-1], where[1:]
    elif isinstance(t, (pa.ListType, pa.LargeListType)):
        where = _offsets(array)
        if not array.null_count:
            # Without nulls the rows lie back to back, so they are one range.
            where = where[[0, -1]]
        starts, stops = where[:-1], where[1:]
    else:
        starts = array.offsets.to_numpy()
        stops = starts + array.sizes.to_numpy()
    wanted = stops > starts
    if array.null_count:
        wanted &= bitmaps.valid_rows(array)
    return starts[wanted], stops[wanted]


def _has_bytes_under_nulls(array: pa.Array) -> bool:
    """Whether a null row of a string, binary or list array covers values."""
    if not array.null_count:
        return False
    where = _offsets(array)
    null_rows = np.flatnonzero(~bitmaps.valid_rows(array))
    return bool((where[null_rows + 1] != where[null_rows]).any())


def _fixed_blocks(array: pa.Array, width: int) -> Iterator[Any]:
    """The values of a fixed-width array, zero under nulls: in place, or block by block."""
    if width == 0:
        return
    start, rows = array.offset * width, len(array)
    data = memoryview(array.buffers()[1])[start : start + rows * width]
    if not array.null_count:
        yield data
        return
    lane = next(size for size in (8, 4, 2, 1) if width % size == 0)
    values = np.frombuffer(data, f"<u{lane}").reshape(rows, width // lane)
    valid = bitmaps.valid_rows(array)
    for begin in range(0, rows, _BLOCK_ROWS):
        block = values[begin : begin + _BLOCK_ROWS].copy()
        block[~valid[begin : begin + _BLOCK_ROWS]] = 0
        yield block.reshape(-1).view(np.uint8).data

"""Hashes of Arrow values, 64 bits each, in numpy: what row hashes are made of.

Every value first becomes one word, then the word is mixed under its column's key::

    word  = the value's own bits                                         up to 64 bits
          | sum of mix(word ^ place[i]) over its words, plus its length  wider, texts, lists of hashes
          | sum of the hashes of its fields, each under a key of its own struct
    hash  = mix(word ^ key), or the key's constant for null

where ``place[i]`` is a constant for the i-th word, so the order of words counts. Words of texts are loaded
from wherever they begin, eight bytes at a time for all rows of a block at once. ``mix`` multiplies by odd
constants and folds the high half into the low one, so it loses nothing.

No I/O, no loop over rows, except over single values of more than a megabyte.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blake3 import blake3

from crdtcat.chunks import bitmaps
from crdtcat.chunks.canonical import shape
from crdtcat.chunks.layout import decode_dictionary, decode_runs, open_lists

Words = npt.NDArray[np.uint64]

MULTIPLIERS = np.frombuffer(bytes.fromhex("15 7c 4a 7f b9 79 37 9e  eb 11 31 11 8b 49 d0 94"), "<u8")
_HALF = np.uint64(32)
_STEPWISE_WORDS = 4
"""Texts of up to this many words are hashed word by word; of longer ones all words at once."""
_FLAT_WORDS_MAX = 1 << 17
"""How many words are held at once; a single value of more is hashed with BLAKE3."""
_PLACES = 1024


class Key(NamedTuple):
    """The constants of one column or field.

    Attributes:
        flip: what words are xored with.
        scale: an odd number they are multiplied by.
        null: the hash of null.
        lane: which of the independent hash functions this belongs to.
        seed: for the keys of fields below.
    """

    flip: np.uint64
    scale: np.uint64
    null: np.uint64
    lane: int
    seed: bytes

    @classmethod
    def of(cls, text: bytes, lane: int) -> Key:
        """The constants of whatever has this name in a lane."""
        seed = blake3(b"crdtcat row hash\0%d\0" % lane + text).digest()
        flip, scale, null, _ = np.frombuffer(seed, "<u8")
        return cls(flip, scale | np.uint64(1), null, lane, seed)

    def field(self, name: str) -> Key:
        """The key of a struct's field."""
        return Key.of(self.seed + name.encode(), self.lane)

    @property
    def item(self) -> Key:
        """The key of the items of lists: one for all, since what they add up to is mixed again."""
        return _item(self.lane)


@lru_cache
def _item(lane: int) -> Key:
    return Key.of(b"\0item", lane)


def hash_values(array: pa.Array, key: Key, *, cheap: bool = False) -> Words:
    """A hash for each value. Cost: about 1 ns for each fixed-width value, 5 for a short text."""
    kind = shape(array.type)
    if kind == "null" or not len(array):
        return np.full(len(array), key.null)
    if kind == "extension":
        return hash_values(array.storage, key, cheap=cheap)
    if kind == "dictionary":
        return hash_values(decode_dictionary(array), key, cheap=cheap)
    if kind == "runs":
        return hash_values(decode_runs(array), key, cheap=cheap)
    words = _words(array, kind, key, cheap=cheap)
    words ^= key.flip
    _mix(words, key.scale)
    if array.null_count:
        words[~bitmaps.valid_rows(array)] = key.null
    return words


def _mix(words: Words, scale: np.uint64) -> None:
    """In place, a bijection. Folded before too: multiplication alone never carries high bits down."""
    words ^= words >> _HALF
    words *= MULTIPLIERS[0]
    words ^= words >> _HALF
    words *= scale


def _scatter(words: Words) -> None:
    """As `_mix`, and folded once more: words of one value are summed under one and the same multiplier."""
    _mix(words, MULTIPLIERS[1])
    words ^= words >> _HALF


def _words(array: pa.Array, kind: str, key: Key, *, cheap: bool) -> Words:
    """One word for each value, anything for null; an array of its own."""
    match kind:
        case "bool":
            return bitmaps.unpack(bitmaps.value_bits(array), len(array)).astype(np.uint64)
        case "fixed":
            return _fixed(array, array.type.bit_width // 8, key.lane)
        case "struct":
            words = np.zeros(len(array), np.uint64)
            for number, field in enumerate(array.type):
                words += hash_values(array.field(number), key.field(field.name), cheap=cheap)
            return words
        case "variable" | "view":
            if kind == "view":
                array = array.cast(pa.large_binary())
            return _texts(array, key.lane, cheap=cheap)
    # Items are hashed before they are gathered, since Arrow cannot gather every type.
    lists = open_lists(array, lambda items: pa.array(hash_values(items, key.item, cheap=cheap)))
    return _sums(lists.values.to_numpy(), lists.offsets, key.lane)


def _fixed(array: pa.Array, width: int, lane: int) -> Words:
    rows = len(array)
    if width == 0:
        return np.zeros(rows, np.uint64)
    data = np.frombuffer(array.buffers()[1], np.uint8, rows * width, array.offset * width)
    if width in (1, 2, 4, 8):
        return data.view(f"<u{width}").astype(np.uint64)
    if width % 8:
        padded = np.zeros((rows, -(-width // 8) * 8), np.uint8)
        padded[:, :width] = data.reshape(rows, width)
        data = padded.reshape(-1)
    placed = data.view("<u8").reshape(rows, -1) ^ _places(-(-width // 8), lane)
    _scatter(placed)
    total: Words = placed.sum(axis=1, dtype=np.uint64)
    return total


@lru_cache
def _first_places(lane: int) -> Words:
    return np.frombuffer(blake3(b"crdtcat places %d" % lane).digest(length=8 * _PLACES), "<u8")


def _places(count: int, lane: int) -> Words:
    """The constants of the first words: random ones, then what a mixed counter gives."""
    first = _first_places(lane)
    if count <= _PLACES:
        return first[:count]
    more: Words = np.arange(count, dtype=np.uint64) ^ first[0]
    _scatter(more)
    more[:_PLACES] = first
    return more


def _sums(words: Words, offsets: npt.NDArray[np.int64], lane: int) -> Words:
    """For each row `words[offsets[i]:offsets[i + 1]]`, mixed with their places, summed, with their number."""
    lengths = np.diff(offsets)
    inside = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    placed = words ^ _places(int(lengths.max(initial=0)), lane)[inside]
    _scatter(placed)
    running = np.zeros(len(placed) + 1, np.uint64)
    np.cumsum(placed, out=running[1:])
    return running[offsets[1:]] - running[offsets[:-1]] + _lengths(lengths)


def _lengths(lengths: npt.NDArray[Any]) -> Words:
    words: Words = lengths.astype(np.uint64)
    words *= MULTIPLIERS[1]
    return words


def _texts(array: pa.Array, lane: int, *, cheap: bool) -> Words:
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    dtype = np.dtype("<i8") if wide else np.dtype("<i4")
    _, ends, data = array.buffers()
    where = np.frombuffer(ends, dtype, len(array) + 1, array.offset * dtype.itemsize).astype(np.int64)
    starts, lengths = where[:-1], np.diff(where)
    text = TextBytes(data)
    if cheap:
        last: Words = text.load(np.maximum(starts, where[1:] - 8), lengths) ^ _lengths(lengths)
        longer = np.flatnonzero(lengths > 8)
        if len(longer):
            last[longer] += text.load(starts[longer], lengths[longer]) * MULTIPLIERS[1]
        return last
    places = _places(_STEPWISE_WORDS, lane)
    words: Words = text.load(starts, lengths) ^ places[0]
    _scatter(words)
    words += _lengths(lengths)
    rows = np.flatnonzero(lengths > 8)
    for word in range(1, _STEPWISE_WORDS):
        if not len(rows):
            return words
        more = text.load(starts[rows] + 8 * word, lengths[rows] - 8 * word) ^ places[word]
        _scatter(more)
        words[rows] += more
        rows = rows[lengths[rows] > 8 * (word + 1)]
    if len(rows):
        skipped = 8 * _STEPWISE_WORDS
        more = _long_texts(text, starts[rows] + skipped, lengths[rows] - skipped, lane)
        _scatter(more)  # apart from the words before, whose places it shares
        words[rows] += more
    return words


class TextBytes:
    """The bytes of a text array, from which words are loaded at any offset."""

    def __init__(self, data: pa.Buffer | None) -> None:
        self.bytes = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        whole = len(self.bytes) // 8 * 8
        self._aligned = self.bytes[:whole].view("<u8")
        tail = np.zeros(24, np.uint8)
        tail[: len(self.bytes) - whole] = self.bytes[whole:]
        self._tail, self._whole = tail.view("<u8"), whole // 8

    def load(self, starts: npt.NDArray[np.int64], lengths: npt.NDArray[Any]) -> Words:
        """The up to 8 bytes from each start on, as words whose upper bytes they fill; no byte gives zero."""
        at = starts >> 3
        shift = ((starts & 7) << 3).view(np.uint64)
        low = self._take(at)
        low >>= shift
        at += 1
        words = self._take(at)
        np.subtract(_BITS, shift, out=shift)
        words <<= shift  # a shift by all 64 bits gives zero
        words |= low
        unused = np.minimum(lengths, 8)
        np.subtract(8, unused, out=unused)
        unused <<= 3
        words <<= unused.view(np.uint64)
        return words

    def _take(self, at: npt.NDArray[np.int64]) -> Words:
        """Whole words of the buffer; what lies behind it is zero."""
        if not self._whole:
            return self._tail.take(at, mode="clip")
        words: Words = self._aligned.take(at, mode="clip")
        if len(at) and int(at.max()) >= self._whole:
            behind = np.flatnonzero(at >= self._whole)
            words[behind] = self._tail.take(at[behind] - self._whole, mode="clip")
        return words


_BITS = np.uint64(64)


def _long_texts(
    text: TextBytes, starts: npt.NDArray[np.int64], lengths: npt.NDArray[Any], lane: int
) -> Words:
    """Hashes of texts of any length, as many at a time as memory allows."""
    counts = -(-lengths // 8)
    words = np.empty(len(starts), np.uint64)
    huge = counts > _FLAT_WORDS_MAX
    for row in np.flatnonzero(huge).tolist():
        whole = text.bytes[starts[row] : starts[row] + lengths[row]]
        words[row] = np.frombuffer(blake3(b"%d" % lane).update(whole.data).digest(), "<u8")[0]
    rest = np.flatnonzero(~huge)
    ends = np.cumsum(counts[rest])
    begin = 0
    while begin < len(rest):
        before = int(ends[begin - 1]) if begin else 0
        stop = max(begin + 1, int(np.searchsorted(ends, before + _FLAT_WORDS_MAX, side="right")))
        rows = rest[begin:stop]
        offsets = np.concatenate(([0], np.cumsum(counts[rows])))
        inside = 8 * (np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts[rows]))
        loaded = text.load(
            np.repeat(starts[rows], counts[rows]) + inside, np.repeat(lengths[rows], counts[rows]) - inside
        )
        words[rows] = _sums(loaded, offsets, lane)
        begin = stop
    return words

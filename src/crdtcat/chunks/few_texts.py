"""Short texts with few different values, as numbers into a list of them.

Parquet's writer makes a dictionary by hashing and comparing every value, and compares them once more to find
the least and the greatest: a column of four words costs it three times as much as one of random numbers.
Given the numbers, it does neither. Here they are found for thousands of rows at once. A text of up to 7 bytes
and its length are one word, one of up to 15 bytes two. A multiplication under which all words known so far
fall into different slots of a table says which of them a row's word may be; whether it is that one is
compared, always, and what is none of them is new.

No I/O, no loop over rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blake3 import blake3

from crdtcat.chunks.value_hash import MULTIPLIERS, TextBytes, Words

VALUES_MAX: Final = 127
"""As many as a signed byte can number."""
BYTES_MAX: Final = 15
_SHORT_BYTES: Final = 7
_BLOCK_ROWS: Final = 1 << 14  # as in `row_hash`: they stay in a core's cache
_LOOKED_AT: Final = 256  # of rows with unknown values, at a time
_SLOT_BITS: Final = 12
_TRIES: Final = 64  # with 127 values one in 7 multipliers will do
_SEEDS: Final = np.frombuffer(blake3(b"crdtcat few texts").digest(length=8 * _TRIES), "<u8") | np.uint64(1)

Numbers = npt.NDArray[np.int8]


def numbered(column: pa.ChunkedArray) -> pa.DictionaryArray | None:
    """The rows of a `string` or `binary` column without nulls, as a dictionary of the values they have.

    `None` where a text is too long, values are too many, or some are null. Cost: 8 ns for a row of a column
    of short texts, 14 with longer ones; where it cannot be done, next to nothing.
    """
    if column.null_count or not len(column):
        return None
    parts = [_offsets(chunk) for chunk in column.chunks]
    longest = max(int(np.diff(part).max()) for part in parts if len(part) > 1)
    if longest > BYTES_MAX:
        return None
    values, numbers, at = _Values(), np.empty(len(column), np.int8), 0
    for chunk, offsets in zip(column.chunks, parts, strict=True):
        for words in _words(chunk, offsets, is_short=longest <= _SHORT_BYTES):
            found = values.numbers(words)
            if found is None:
                return None
            numbers[at : at + len(found)] = found
            at += len(found)
    texts = pa.array(values.texts, pa.binary()).view(column.type)  # whatever they are, they are kept
    return pa.DictionaryArray.from_arrays(pa.array(numbers), texts, safe=False)


def _offsets(chunk: pa.Array) -> npt.NDArray[np.int32]:
    ends = chunk.buffers()[1]
    if ends is None or not len(chunk):
        return np.zeros(1, np.int32)
    return np.frombuffer(ends, "<i4", len(chunk) + 1, chunk.offset * 4)


def _words(chunk: pa.Array, offsets: npt.NDArray[np.int32], *, is_short: bool) -> Iterator[list[Words]]:
    """One or two words for each row, block by block. The lowest byte of the last is the row's length."""
    text = TextBytes(chunk.buffers()[2])
    for start in range(0, len(chunk), _BLOCK_ROWS):
        where = offsets[start : start + _BLOCK_ROWS + 1].astype(np.int64)
        starts, lengths = where[:-1], np.diff(where)
        words = [text.load(starts, lengths)]
        if not is_short:
            words.append(text.load(starts + 8, np.maximum(lengths - 8, 0)))
        words[-1] |= lengths.view(np.uint64)
        yield words


def _text(words: Sequence[int]) -> bytes:
    """The text that words stand for: its bytes fill the upper end of each."""
    length = words[-1] & 0xFF
    whole = words[0].to_bytes(8, "little")[8 - min(length, 8) :] if len(words) > 1 else b""
    rest = length - len(whole)
    return whole + words[-1].to_bytes(8, "little")[8 - rest :]


class _Values:
    """The values found so far, and a table that finds them."""

    def __init__(self) -> None:
        self._known: list[Words] = []
        self._seed = _SEEDS[0]
        self._slots: Numbers = np.zeros(1 << _SLOT_BITS, np.int8)

    @property
    def texts(self) -> list[bytes]:
        """The values, in the order of their numbers."""
        return [_text(words) for words in zip(*(each.tolist() for each in self._known), strict=True)]

    def numbers(self, words: list[Words]) -> Numbers | None:
        """The number of each row's value, new ones added; `None` if there are too many."""
        if not self._known and not self._add(words):
            return None
        while True:
            found = self._slots.take(self._slot_of(words))
            same = self._known[-1].take(found) == words[-1]
            if len(words) > 1:
                same &= self._known[0].take(found) == words[0]
            if same.all():
                return found
            new = np.flatnonzero(~same)[:_LOOKED_AT]
            if not self._add([word[new] for word in words]):
                return None

    def _slot_of(self, words: list[Words]) -> npt.NDArray[np.int64]:
        mixed = words[-1] * self._seed
        if len(words) > 1:
            mixed ^= mixed >> np.uint64(32)
            mixed ^= words[0]
            mixed *= self._seed
            mixed ^= mixed >> np.uint64(32)
            mixed *= MULTIPLIERS[0]
        mixed >>= np.uint64(64 - _SLOT_BITS)
        slots: npt.NDArray[np.int64] = mixed.view(np.int64)
        return slots

    def _add(self, words: list[Words]) -> bool:
        """Take in the values of the first of these rows, if there is room for them."""
        some = np.stack([word[:_LOOKED_AT] for word in words])
        new = np.unique(some, axis=1) if len(words) > 1 else np.unique(some)[None]
        self._known = [np.concatenate(pair) for pair in zip(self._known or new[:, :0], new, strict=True)]
        numbers = np.arange(len(self._known[0]), dtype=np.int64)
        if len(numbers) > VALUES_MAX:
            return False
        for seed in _SEEDS:
            self._seed = seed
            slots = self._slot_of(self._known)
            self._slots[slots] = numbers
            if (self._slots.take(slots) == numbers).all():
                return True
        return False

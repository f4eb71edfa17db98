"""Row hashes: 64 bits per row, equal for equal rows whatever the memory layout.

Rows are told apart by these where chunk hashes say that something differs, and chunks are cut by them. They
are never stored, but chunk boundaries follow from them: another definition cuts elsewhere, and tables written
before and after share no chunks. Chunk hashes, which are stored, are made in `crdtcat.chunks.hashing`.

Theory. A row's hash is a mixed sum over its columns, ``mix(sum(h(column name, value)))``, modulo 2**64. So
the order of columns does not count, and the sum without one column is a subtraction. ``h`` is a bijection for
values of up to 64 bits: rows that differ in one such cell never collide. Otherwise different rows collide
with probability 2**-64 for each pair compared, if nobody has searched for a collision: these are not
cryptographic hashes. A `lane` other than 0 gives an independent hash, and two lanes make 128 bits where many
pairs are compared.

Equal values are those that `hashing` calls equal: floats by their bits, null apart from every value; slices,
offsets, chunking, dictionaries, runs, views and what lies under nulls do not count. Types do not count: who
compares rows of several tables first makes their types equal.

The hashes of values are made in `crdtcat.chunks.value_hash`. No I/O, no loop over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crdtcat.chunks.hashing import value_type
from crdtcat.chunks.value_hash import MULTIPLIERS, Key, hash_values

Hashes = npt.NDArray[np.uint64]

_BLOCK_ROWS = 1 << 14
"""Rows hashed at a time: they stay in a core's cache, and malloc has such arrays without new pages."""


def row_hashes(
    table: pa.Table | pa.RecordBatch,
    columns: Sequence[str] | None = None,
    *,
    lane: int = 0,
    cheap: bool = False,
) -> Hashes:
    """A hash for each row. Cost: about 50 ms for a million rows of 6 columns, 2 of them text.

    Args:
        table: rows of any types that have a canonical form.
        columns: those that count; all of them by default.
        lane: which of the independent hash functions.
        cheap: of texts and binaries look only at the length, the first 8 and the last 8 bytes. Good enough
            to cut by, not to compare by.

    Raises:
        UnsupportedType: for types without a canonical form.
    """
    total = np.zeros(table.num_rows, np.uint64)
    for name in table.schema.names if columns is None else columns:
        add_column(total, table.column(name), name, lane=lane, cheap=cheap)
    return finish(total)


def column_hashes(array: pa.Array | pa.ChunkedArray, name: str, *, lane: int = 0) -> Hashes:
    """A hash for each value of one column: the summands of `row_hashes` before `finish`."""
    total = np.zeros(len(array), np.uint64)
    add_column(total, array, name, lane=lane)
    return total


def null_hash(name: str, *, lane: int = 0) -> np.uint64:
    """What `column_hashes` gives for null."""
    return column_key(name, lane).null


def add_column(
    total: Hashes, array: pa.Array | pa.ChunkedArray, name: str, *, lane: int = 0, cheap: bool = False
) -> None:
    """Add a column's hashes to the sums of its rows, in place."""
    value_type(array.type)  # refuses what has no canonical form
    key = column_key(name, lane)
    at = 0
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        for start in range(0, len(chunk), _BLOCK_ROWS):
            block = chunk.slice(start, _BLOCK_ROWS)
            total[at : at + len(block)] += hash_values(block, key, cheap=cheap)
            at += len(block)


def finish(total: Hashes) -> Hashes:
    """Row hashes from sums of column hashes, in place: every bit depends on every bit. A bijection."""
    for start in range(0, len(total), _BLOCK_ROWS):
        block = total[start : start + _BLOCK_ROWS]
        block ^= block >> np.uint64(32)
        block *= MULTIPLIERS[0]
        block ^= block >> np.uint64(29)
        block *= MULTIPLIERS[1]
        block ^= block >> np.uint64(32)
    return total


@lru_cache(maxsize=65_536)
def column_key(name: str, lane: int) -> Key:
    """The constants by which a column's values are hashed."""
    return Key.of(name.encode(), lane)

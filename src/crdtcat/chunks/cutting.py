"""Where chunks end: by content, so that an inserted row disturbs its neighbourhood only.

Theory. A chunk ends before a row whose hash is small. Which rows those are depends on the rows alone and not
on where they stand, so two tables that share a run of rows cut it alike from the first boundary on that both
find there, and what lies before does not matter.

- No chunk has fewer than `least` rows (but the last), so that small hashes in a row cannot shatter a table.
- After that, the first row whose hash is below ``2**64 / (target - least)`` begins the next chunk: `target`
  rows on average.
- Where none comes before `greatest`, the row with the smallest hash between `least` and `greatest` does; of
  several the last. It is found again after an insertion, as a cut after exactly `greatest` rows would not be.

A changed row moves a boundary only if it stood at one, or comes to stand at one. Tables whose rows repeat a
lot take longer to agree again, since every row with a small hash may be a boundary.

One column is hashed if it tells rows apart: the first of at least 32 bits of which a sample hardly repeats.
Then changes to the others move no boundary, and cutting costs a few milliseconds for a million rows. Where
there is none, all columns count, of texts only the ends.

Wide rows make chunks of fewer rows: all three sizes are halved until `target` rows of average width fit
`limits.CHUNK_BYTES_TARGET`. Halved, because sizes that followed the average exactly would cut a table anew
whenever it grew. A chunk that has twice as many bytes all the same, because a few of its rows are huge, is
split in the middle. A fixed number of rows is the other way to cut: quicker, and without re-use after an
insertion.

Pure: rows in, row numbers out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crdtcat.chunks.encodings import SAMPLE_RUN_ROWS, SAMPLE_RUNS
from crdtcat.chunks.row_hash import Hashes, column_hashes, row_hashes
from crdtcat.errors import InvalidArgument
from crdtcat.limits import (
    CHUNK_BYTES_TARGET,
    CHUNK_ROWS_GREATEST,
    CHUNK_ROWS_LEAST,
    CHUNK_ROWS_TARGET,
)
from crdtcat.support.pools import ThreadPool

_BITS_LEAST = 32
_TELLS_APART = 0.9
_THREAD_ROWS = 1 << 19
"""Rows that one thread hashes at a time; fewer are not worth one."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows a chunk has.

    Attributes:
        least: no chunk has fewer, but the last of a run of rows.
        target: what most are near.
        greatest: no chunk has more. Equal to `least`: every chunk has exactly so many.
    """

    least: int = CHUNK_ROWS_LEAST
    target: int = CHUNK_ROWS_TARGET
    greatest: int = CHUNK_ROWS_GREATEST

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.target <= self.greatest <= CHUNK_ROWS_GREATEST:
            raise InvalidArgument(
                f"chunks of at least {self.least:,}, about {self.target:,}, at most {self.greatest:,} rows: "
                f"give sizes that rise, between 1 and {CHUNK_ROWS_GREATEST:,}"
            )

    @classmethod
    def fixed(cls, rows: int) -> Sizes:
        """Every chunk has exactly so many rows."""
        return cls(rows, rows, rows)

    @property
    def is_fixed(self) -> bool:
        """Whether the content does not matter."""
        return self.least == self.greatest

    def within(self, nbytes: int, rows: int) -> Sizes:
        """The sizes for rows that take `nbytes` together: halved until `target` of them fit."""
        sizes = self
        while sizes.target > 1 and nbytes * sizes.target > CHUNK_BYTES_TARGET * max(rows, 1):
            halves = (max(1, size // 2) for size in (sizes.least, sizes.target, sizes.greatest))
            sizes = Sizes(*halves)
        return sizes


def cut(table: pa.Table, sizes: Sizes, *, last: bool = True) -> list[int]:
    """Where chunks begin and end: rising row numbers from 0 on, to the end if this is the `last` of a run.

    Otherwise the end of the last chunk is left open: the rows behind the last number given belong to a chunk
    that further rows may lengthen, and are to be cut again together with them.

    Cost: `row_hashes` of one column or, cheaply, of all; nothing for a fixed number of rows.
    """
    nbytes = table.nbytes
    fitting = sizes.within(nbytes, table.num_rows)
    if fitting.is_fixed or table.num_rows <= fitting.least:
        found = fixed_boundaries(table.num_rows, fitting.greatest, last=last)
    else:
        found = boundaries(_hashes(table, deciding(table)), fitting, last=last)
    return found if nbytes <= 2 * CHUNK_BYTES_TARGET else light(table, found)


def _hashes(table: pa.Table, columns: list[str]) -> Hashes:
    """Row hashes to cut by, made on all cores where there are rows enough."""
    starts = range(0, table.num_rows, _THREAD_ROWS)
    if len(starts) < 2:
        return row_hashes(table, columns, cheap=True)
    with ThreadPool(min(len(starts), os.cpu_count() or 1), "crdtcat-cut") as pool:
        parts = pool.map(
            lambda start: row_hashes(table.slice(start, _THREAD_ROWS), columns, cheap=True), starts
        )
        return np.concatenate([*parts])


def deciding(table: pa.Table) -> list[str]:
    """The columns by which a table is cut. Cost: at most about a tenth of a millisecond for each column."""
    rows = table.num_rows
    step = max(1, (rows - SAMPLE_RUN_ROWS) // (SAMPLE_RUNS - 1))
    runs = [(start, SAMPLE_RUN_ROWS) for start in range(0, rows, step)][:SAMPLE_RUNS]
    for field in table.schema:
        if not pa.types.is_primitive(field.type) or field.type.bit_width < _BITS_LEAST:
            continue
        column = table.column(field.name)
        sample = np.concatenate([column_hashes(column.slice(*run), field.name) for run in runs])
        if len(np.unique(sample)) >= _TELLS_APART * len(sample):
            return [field.name]
    names: list[str] = table.column_names
    return names


def fixed_boundaries(rows: int, size: int, *, last: bool = True) -> list[int]:
    """As `cut`, every `size` rows."""
    found = list(range(0, rows + 1, size))
    return [*found, rows] if last and found[-1] < rows else found


def boundaries(hashes: Hashes, sizes: Sizes, *, last: bool = True) -> list[int]:
    """As `cut`, from row hashes. Cost: one pass over the hashes, and a search per chunk."""
    limit = np.uint64(2**64 // max(2, sizes.target - sizes.least + 1) - 1)
    small = np.flatnonzero(hashes <= limit)
    return [0, *_ends(hashes, small, sizes, last=last)]


def _ends(hashes: Hashes, small: npt.NDArray[np.intp], sizes: Sizes, *, last: bool) -> Iterator[int]:
    start, rows = 0, len(hashes)
    while rows - start > sizes.least:
        at = int(np.searchsorted(small, start + sizes.least))
        end = int(small[at]) if at < len(small) else rows
        if end - start > sizes.greatest:
            window = hashes[start + sizes.least : start + sizes.greatest + 1]
            end = start + sizes.greatest - int(window[::-1].argmin())
        elif end == rows:
            break
        yield end
        start = end
    if last and rows > start:
        yield rows


def light(table: pa.Table, found: Sequence[int]) -> list[int]:
    """Boundaries, as `cut` gives them, and more in the middle of chunks with too many bytes."""
    more = (_halves(table.slice(start, end - start), start) for start, end in pairwise(found))
    return sorted([*found, *chain.from_iterable(more)])


def _halves(piece: pa.Table, start: int) -> Iterator[int]:
    """Boundaries inside a piece. What halving does not make lighter (a shared dictionary) is left whole."""
    if piece.num_rows < 2 or piece.nbytes <= 2 * CHUNK_BYTES_TARGET:
        return
    middle = piece.num_rows // 2
    sides = piece.slice(0, middle), piece.slice(middle)
    if piece.num_rows > 2 and sum(side.nbytes for side in sides) > 1.5 * piece.nbytes:
        return
    yield from _halves(sides[0], start)
    yield start + middle
    yield from _halves(sides[1], start + middle)

"""Tables in slices: of so many bytes, of so many rows. Copies nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa

from crdtcat.chunks.cutting import Sizes
from crdtcat.options import Options

T = TypeVar("T")


def chunk_sizes(options: Options) -> Sizes:
    """The sizes in which rows are cut, by a handle's options."""
    if options.chunk_rows is not None:
        return Sizes.fixed(options.chunk_rows)
    return Sizes(options.chunk_rows_min, options.chunk_rows_target, options.chunk_rows_max)


def slabs(table: pa.Table, held: int, nbytes: int) -> Iterator[tuple[pa.Table, int]]:
    """A table that has `held` bytes in slices of about so many, and how many each has: work on the first can
    begin."""
    if not table.num_rows:
        return
    if held <= nbytes:
        yield table, held
        return
    rows = max(1, nbytes * table.num_rows // held)
    slabs = (table.slice(start, rows) for start in range(0, table.num_rows, rows))
    yield from ((slab, slab.nbytes) for slab in slabs)


def evenly(items: Sequence[T], sizes: Sequence[int], target: int) -> Iterator[list[T]]:
    """Items in runs of about `target`, each as large as the others: a small one left over would cost a thread
    as much to begin with as a large one."""
    total = sum(sizes)
    share = total / max(1, round(total / target))
    run: list[T] = []
    held = done = 0
    for item, size in zip(items, sizes, strict=True):
        if run and held + size / 2 > share * (done + 1):
            yield run
            run, done = [], done + 1
        run.append(item)
        held += size
    if run:
        yield run


def parts_of(table: pa.Table, ends: list[int]) -> list[pa.Table]:
    """A table cut at these row numbers."""
    return [table.slice(start, end - start) for start, end in pairwise(ends)]

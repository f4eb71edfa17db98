"""Rows by the values of some columns: in which order, whether they are in order, and where to cut.

The order is that of statistics: numbers and times by value, text and bytes as bytes, columns one after the
other; NaN comes after all numbers, null after everything. All functions take tables of storage arrays. No
I/O; memory, a few numbers for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.intervals.runs import Integers

ENTRY: Final = "~entry"
OFFSET: Final = "~offset"


def keys_of(rows: pa.Table, names: Sequence[str], entry: Integers, offset: Integers) -> pa.Table:
    """What rows are compared by: the columns, then where each row is read from, so that no two are equal."""
    columns = [_sortable(rows.column(name)) for name in names]
    columns += [pa.chunked_array([pa.array(numbers, pa.int64())]) for numbers in (entry, offset)]
    return pa.Table.from_arrays(columns, names=[*map(str, range(len(names))), ENTRY, OFFSET])


def ordered(keys: pa.Table, *, ties: bool = False) -> Integers:
    """The numbers of rows in rising order. Equal rows keep theirs; with `ties` they go by where they are."""
    names = keys.column_names if ties else keys.column_names[:-2]
    found: Integers = np.asarray(pc.sort_indices(keys, [(name, "ascending") for name in names]), np.int64)
    return found


def are_in_order(keys: pa.Table) -> bool:
    """Whether rows rise, or stay equal, as they stand."""
    order = ordered(keys)
    return bool((order[1:] > order[:-1]).all())


def quantiles(sample: pa.Table, ways: int) -> pa.Table:
    """Keys that cut a sample into so many parts of about equal size, rising: at most `ways - 1`."""
    order = ordered(sample, ties=True)
    at = np.unique(np.arange(1, ways) * len(order) // ways)
    return sample.take(pa.array(order[at]))


def parts(keys: pa.Table, cuts: pa.Table) -> list[Integers]:
    """The numbers of rows below the first cut, from each cut up to the next, and from the last on.

    Each part rises.
    """
    both = pa.concat_tables([cuts, keys])
    order = ordered(both, ties=True)
    ends = np.flatnonzero(order < cuts.num_rows)
    return [part[part >= cuts.num_rows] - cuts.num_rows for part in np.split(order, ends)]


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Arrow sorts all storage types that statistics have an order for, but one."""
    return column.cast(pa.float32()) if pt.is_float16(column.type) else column

"""What a footer says of the values of a row group, held against the values.

Our reader asks nobody but the log for bounds. Spark's own reader asks the footer, and skips row groups by it:
one wrong bound or count of nulls there hides rows. So what somebody else wrote into a footer is looked at
before the footer becomes that of a segment.

No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def claims_hold(row_group: Any, rows: pa.Table) -> bool:
    """Whether bounds and counts of nulls in a row group's footer are true of its rows, column by column.

    What cannot be compared counts as wrong. Bounds may be too wide. O(rows)."""
    leaves = [leaf for column in rows.columns for leaf in _leaves(column.combine_chunks())]
    if len(leaves) != row_group.num_columns:
        return False
    return all(_holds(row_group.column(at), leaf) for at, leaf in enumerate(leaves))


def _leaves(array: Any) -> Iterator[pa.Array]:
    """The values of Parquet's leaf columns, in their order."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    t = array.type
    if pt.is_struct(t):
        for child in array.flatten():
            yield from _leaves(child)
    elif pt.is_map(t):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif t.num_fields:
        yield from _leaves(array.flatten())
    else:
        yield array


def _holds(column: Any, leaf: pa.Array) -> bool:
    said = column.statistics
    if said is None:
        return True
    count = len(leaf) - leaf.null_count
    if said.has_null_count and said.null_count != column.num_values - count:
        return False
    if not said.has_min_max or not count:
        return True
    try:
        least, greatest = _bound(said.min, said.min_raw, leaf.type), _bound(said.max, said.max_raw, leaf.type)
        found = pc.min_max(leaf)
        inside = pc.and_(pc.less_equal(least, found["min"]), pc.less_equal(found["max"], greatest))
        return bool(inside.as_py())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False


def _bound(value: Any, raw: Any, t: pa.DataType) -> pa.Scalar:
    """A bound as a value of the leaf. Those of times are taken as numbers: Python's times lose digits."""
    if not pt.is_temporal(t):
        return pa.scalar(value, t)
    return pa.scalar(raw, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)

"""Which partitions an `overwrite(where=...)` means.

The filter is asked of each partition, not of rows: a partition is replaced when every row it could hold
matches, kept when none could, and a filter that cuts through one is refused, because replacing part of a
partition is an update, not an overwrite. The new rows must match the filter too. Rows are in the partition
that their values put them in now, wherever they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.chunks.partitions import Partitioning, Values, decode_values, parse_partitioning
from crdtcat.chunks.statistics import domain
from crdtcat.chunks.types import decode_type, without_encodings
from crdtcat.errors import InvalidArgument, NotFound
from crdtcat.format.sections import Array
from crdtcat.head.head import Head
from crdtcat.log.log import NONE
from crdtcat.scan.buckets import values_at
from crdtcat.scan.filters import ColumnBounds, RowFilter, parse_filter, prune
from crdtcat.scan.masks import filter_schema, mask
from crdtcat.session import Session
from crdtcat.verbs.moved import Moved, RowPlaces, moved_rows


@dataclass(frozen=True, eq=False)
class Selected:
    """Partitions chosen, and what is in them.

    Attributes:
        scope: their packed values.
        chunks: live chunks of which all rows are in them.
        rows: rows of other chunks that are in them, because an update moved them: entry and offset.
    """

    scope: frozenset[bytes]
    chunks: Array
    rows: RowPlaces


def partition_scope(session: Session, head: Head, where: Any, rows: pa.Table) -> Selected:
    """The partitions of `head` that `where` selects, by what rows hold now.

    Reads nothing, but for the partition columns of chunks over which an update of those lies.

    Raises:
        InvalidArgument: the table is not partitioned, the filter cuts through a partition, or new rows do
            not match it.
        InvalidFilter: a filter that cannot be used.
        NotFound: the table has no rows yet, so there is nothing to select by.
    """
    settings = session.settings
    partitioning = parse_partitioning(settings.partition_by)
    if not partitioning.fields:
        raise InvalidArgument(
            f"overwrite(where=...) needs a partitioned table, and {head.table!r} is not; "
            "overwrite all of it, or create it with partition_by=[...]"
        )
    if not head.columns.all:
        raise NotFound(f"table {head.table!r} has no columns yet: append to it first")
    _check_types(partitioning, head)
    schema = filter_schema(head.schema)
    parsed = parse_filter(where, schema)
    _check_rows(parsed, rows)
    moved = moved_rows(session, head, partitioning)
    as_stored = head.live[~np.isin(head.live, moved.entries)]
    values = _values(partitioning, head, as_stored, moved)
    matching = _exactly(partitioning, head, list(values.values()), parsed)
    if matching is None:
        answer = prune(parsed.predicate, _PartitionBounds(partitioning, head, list(values.values())), schema)
        torn = np.flatnonzero(answer.may_match & ~answer.all_match)
        if len(torn):
            cut = list(values.values())[int(torn[0])]
            raise InvalidArgument(
                f"{parsed} selects only part of {dict(zip(settings.partition_by, cut, strict=True))}; "
                f"filter by what the table is partitioned by: {', '.join(settings.partition_by)}"
            )
        matching = answer.all_match
    scope = frozenset(packed for packed, chosen in zip(values, matching.tolist(), strict=True) if chosen)
    numbers = [number for number, packed in enumerate(head.log.partitions) if packed in scope]
    chunks = as_stored[np.isin(head.log.partition[as_stored], numbers)]
    return Selected(scope, chunks, moved.within(scope))


def _values(partitioning: Partitioning, head: Head, as_stored: Array, moved: Moved) -> dict[bytes, Values]:
    """Every partition that rows are in now, packed and not."""
    fields, numbers = len(partitioning.fields), np.unique(head.log.partition[as_stored])
    found = {head.log.partitions[at]: values_at(head, at, fields) for at in numbers[numbers != NONE].tolist()}
    return found | {packed: decode_values(packed, fields, head.table) for packed in moved.partitions}


def _exactly(partitioning: Partitioning, head: Head, values: list[Values], filter: RowFilter) -> Array | None:
    """Which partitions match, where the filter looks only at columns whose values the partitions are.

    All rows of such a partition are alike to the filter, so it is asked of one row for each; but for both
    zeros, which are one partition and two rows. `None` where the filter looks at anything else, tells zeros
    apart, or where values are kept in another form.
    """
    places = {
        field.column: at for at, field in enumerate(partitioning.fields) if field.transform == "identity"
    }
    if not places.keys() >= set(filter.columns):
        return None
    held = {name: [value[places[name]] for value in values] for name in filter.columns}
    try:
        rows, mirrored = (
            pa.table({name: _column(each(held[name]), head.columns.by_name[name].type) for name in held})
            for each in (list, _with_other_zeros)
        )
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        return None
    kept, other = (np.asarray(mask(filter, each).fill_null(False)).astype(bool) for each in (rows, mirrored))
    return kept if len(kept) == len(values) and np.array_equal(kept, other) else None


def _with_other_zeros(values: list[Any]) -> list[Any]:
    return [-0.0 if isinstance(value, float) and value == 0 else value for value in values]


def _column(values: list[Any], type: pa.DataType) -> pa.Array:
    if pt.is_temporal(type):
        width = pa.int32() if type.bit_width == 32 else pa.int64()
        return pa.array(values, width).cast(type)
    if pt.is_decimal(type):  # kept as text
        return pa.array([None if value is None else Decimal(value) for value in values], type)
    return pa.array(values, type)


def _check_types(partitioning: Partitioning, head: Head) -> None:
    """Partition values are in the type their writer had; blind writers may have had different ones."""
    for schema in np.unique(head.log.chunk_schema[head.live]).tolist():
        for field in head.columns.fields(schema):
            column = head.columns.by_name.get(field.name)
            named = any(part.column == field.name for part in partitioning.fields)
            if not named or column is None:
                continue
            if without_encodings(decode_type(field.type)) != without_encodings(column.type):
                raise InvalidArgument(
                    f"column {field.name!r} was written as {decode_type(field.type)} and as {column.type}; "
                    "its partitions cannot be told apart by a filter: overwrite the whole table"
                )


def _check_rows(filter: RowFilter, rows: pa.Table) -> None:
    missing = [name for name in filter.columns if name not in rows.column_names]
    if missing:
        raise InvalidArgument(f"the new rows lack {missing}, which {filter} looks at")
    matching = pc.sum(mask(filter, rows)).as_py() or 0
    if matching != rows.num_rows:
        raise InvalidArgument(
            f"{rows.num_rows - matching:,} of {rows.num_rows:,} new rows do not match {filter}; "
            "they would land in partitions that are not being overwritten"
        )


class _PartitionBounds:
    """What partition values say about the columns they come from. Implements `BoundsSource`."""

    def __init__(self, partitioning: Partitioning, head: Head, values: list[Values]) -> None:
        self._partitioning, self._head, self._values = partitioning, head, values

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        return np.ones(len(self._values), np.int64)

    def bounds(self, column: str) -> ColumnBounds | None:
        type = self._head.columns.by_name[column].type
        kind = domain(type)
        found = [
            [self._partitioning.bounds(at, values[at], type) for values in self._values]
            for at, field in enumerate(self._partitioning.fields)
            if field.column == column
        ]
        if kind is None or not found:
            return None
        pairs = [_tightest(options) for options in zip(*found, strict=True)]
        known = np.array([low is not None and high is not None for low, high in pairs], bool)
        nulls = np.zeros(len(pairs), np.int64)
        for at, values in enumerate(self._values):
            if any(
                field.column == column and values[place] is None
                for place, field in enumerate(self._partitioning.fields)
            ):
                nulls[at] = 1  # the one row that stands for this partition is null
        return ColumnBounds(_side(pairs, 0, kind), _side(pairs, 1, kind), known, known, nulls)


def _tightest(options: tuple[Any, ...]) -> tuple[Any, Any]:
    lows = [option[0] for option in options if option is not None and option[0] is not None]
    highs = [option[1] for option in options if option is not None and option[1] is not None]
    return max(lows, default=None), min(highs, default=None)


def _side(pairs: list[tuple[Any, Any]], side: int, kind: str) -> Any:
    if kind == "bytes":
        return pa.array([pair[side] if pair[side] is not None else b"" for pair in pairs], pa.large_binary())
    values = [pair[side] if pair[side] is not None else 0 for pair in pairs]
    return np.array(values, np.float64 if kind == "float" else np.int64)

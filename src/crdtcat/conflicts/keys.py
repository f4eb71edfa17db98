"""The keys that a version of a keyed table writes, from its own file: exactly, or as ranges.

Rows that ride inside the version file tell their keys. Of rows in segments the file has the least and the
greatest key of each chunk, so those are compared as ranges, which may find a key that is not there and never
misses one. Whoever may read the segments makes those exact that meet (`crdtcat.cas.key_reading`). Pure; no
store is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.footer import SegmentRef
from crdtcat.chunks.inline import decode_inline
from crdtcat.chunks.keys import KEY_BOUNDS, encoded_key, sort_order, starts_of_groups
from crdtcat.chunks.segment import segment_name
from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.ops import ColumnId
from crdtcat.format.schema_code import decode_schema
from crdtcat.intervals import Interval, IntervalIndex
from crdtcat.log.log import Log

KeyValues = tuple[Any, ...]
"""The values of the key columns of one row: of Python, or Arrow's scalars where that has none."""
Keys = tuple[pa.Array, ...]
"""Key columns, in storage types."""
ONLY_RANGES: Final = "only ranges of keys are known"
PAIRS_LOOKED_AT: Final = 64  # so few are compared faster than an interval tree is made
KEYS_NAMED_MAX: Final = 1_000  # keys that one conflict names; each is a condition where rows are looked up


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where a chunk's keys can be read: a segment, the row group there, and the chunk's hash and rows."""

    segment: SegmentRef
    group: int
    hash: bytes
    rows: int


@dataclass(frozen=True, eq=False)
class KeyPart:
    """Keys that one chunk of a version writes.

    Attributes:
        gone: whether it deletes them.
        columns: the columns that it sets, without those of the key.
        low, high: no key is below or above; `None`: unknown.
        exact: every key; `None`: only the range is known.
        source: where they can be read, if only the range is known.
        unread: why they were not, where somebody wanted to.
    """

    gone: bool
    columns: frozenset[ColumnId]
    low: bytes | None
    high: bytes | None
    exact: Keys | None
    source: KeySource | None = None
    unread: str = ""

    def common(self, other: KeyPart) -> tuple[KeyValues, ...] | None:
        """The keys of both, empty if there are none; `None` where both are ranges that overlap.

        At most one more than `KEYS_NAMED_MAX`. Where one of them is a range, keys that may be in it.
        """
        if self.apart(other):
            return ()
        if self.exact is not None and other.exact is not None:
            return _in_both(self.exact, other.exact)
        if self.exact is not None:
            inside = (at for at in range(len(self.exact[0])) if other._may_have(self.exact, at))
            return _values(self.exact, list(islice(inside, KEYS_NAMED_MAX + 1)))
        return None if other.exact is None else other.common(self)

    def apart(self, other: KeyPart) -> bool:
        """Whether the ranges tell that no key is in both."""
        return _below(self.high, other.low) or _below(other.high, self.low)

    def doubt(self, other: KeyPart) -> str:
        """Why keys that both seem to have may not be in both; empty: they are."""
        known = [part for part in (self, other) if part.exact is None]
        if known:
            return "; ".join(dict.fromkeys(part.unread or ONLY_RANGES for part in known))
        return "" if _comparable(self.exact or (), other.exact or ()) else "the keys are of different types"

    def _may_have(self, keys: Keys, row: int) -> bool:
        key = encoded_key(keys, row)
        return not (_below(key, self.low) or _below(self.high, key))


def meeting(mine: Sequence[KeyPart], theirs: Sequence[KeyPart]) -> Iterator[tuple[KeyPart, KeyPart]]:
    """Every pair whose ranges do not tell that they are apart. O((m + t) log + pairs)."""
    if len(mine) * len(theirs) <= PAIRS_LOOKED_AT:
        yield from (pair for pair in product(mine, theirs) if not pair[0].apart(pair[1]))
        return
    ours, others = (
        IntervalIndex(Interval(part.low, part.high) for part in parts) for parts in (mine, theirs)
    )
    for here, there in zip(*(numbers.tolist() for numbers in ours.pairs(others)), strict=True):
        yield mine[here], theirs[there]


def _below(first: bytes | None, second: bytes | None) -> bool:
    """Whether a bound is known to be below another. A low bound may be cut, so it is compared as a prefix."""
    return first is not None and second is not None and first < second


def _comparable(mine: Keys, theirs: Keys) -> bool:
    return [column.type for column in mine] == [column.type for column in theirs]


def _in_both(mine: Keys, theirs: Keys) -> tuple[KeyValues, ...] | None:
    """Keys that are in both; `None` if they are of different types, which cannot be compared. O(n log n)."""
    if not _comparable(mine, theirs):
        return None
    if not len(mine[0]) or not len(theirs[0]):
        return ()
    both = [pa.concat_arrays(pair) for pair in zip(mine, theirs, strict=True)]
    order = sort_order(both)
    first = np.flatnonzero(starts_of_groups([column.take(order) for column in both]))
    row = np.asarray(order.to_numpy(), np.int64)
    is_theirs = row >= len(mine[0])
    met = np.maximum.reduceat(is_theirs, first) & ~np.minimum.reduceat(is_theirs, first)
    return _values(tuple(both), row[first[met]].tolist())


def _values(keys: Keys, rows: Sequence[int]) -> tuple[KeyValues, ...]:
    return tuple(tuple(_plain(column[row]) for column in keys) for row in rows[: KEYS_NAMED_MAX + 1])


def _plain(value: pa.Scalar) -> Any:
    """A value of Python that is the same, or the scalar itself: Python's times have no nanoseconds."""
    try:
        plain = value.as_py()
        return plain if pa.scalar(plain, value.type).equals(value) else value
    except (pa.ArrowException, ValueError, OverflowError):
        return value


def in_words(values: KeyValues) -> str:
    """A key as conflicts tell it."""
    return ", ".join(
        value.cast(pa.string()).as_py() if isinstance(value, pa.Scalar) else repr(value) for value in values
    )


def exactly(value: Any, type: pa.DataType) -> pa.Scalar:
    """A value of a key as one of the type that it is compared with: as a plain number or time it may be taken
    for another."""
    return value.cast(type) if isinstance(value, pa.Scalar) else pa.scalar(value, type)


def key_parts(log: Log, index: int, key: Sequence[str]) -> Iterator[KeyPart]:
    """What a version of a keyed table writes, chunk by chunk. O(inlined rows)."""
    first, last = int(log.chunk_start[index]), int(log.chunk_start[index + 1])
    bounds = log.statistics.bounds(KEY_BOUNDS, "b")
    id = log.id_at(index).to_bytes()
    for chunk in range(first, last):
        if log.kind[chunk] not in (ROWS, GONE):
            continue
        fields = decode_schema(log.schemas[int(log.chunk_schema[chunk])], str(log.id_at(index)))
        data = log.inline.get((id, chunk - first))
        low = high = None
        if bounds is not None:
            for at in np.flatnonzero((bounds.chunk == chunk) & bounds.known).tolist():
                low, high = bounds.low[at].as_py(), bounds.high[at].as_py()
        yield KeyPart(
            gone=bool(log.kind[chunk] == GONE),
            columns=frozenset(field.column for field in fields if field.name not in key),
            low=low,
            high=high,
            exact=None if data is None else _exact(data, str(log.id_at(index)), key),
            source=None if data is not None else _source(log, chunk),
        )


def _exact(data: bytes, name: str, key: Sequence[str]) -> Keys:
    table = decode_inline(data, name, None, columns=list(key))
    return tuple(column.combine_chunks() for column in table.columns)


def _source(log: Log, chunk: int) -> KeySource | None:
    wanted = np.array([chunk, chunk + 1], log.place_chunk.dtype)  # another type would copy all places
    first, last = np.searchsorted(log.place_chunk, wanted)
    if first == last:
        return None
    segment, group = int(log.place_segment[first]), int(log.place_group[first])
    title = log.segment_name[segment : segment + 1].tobytes()
    return KeySource(
        SegmentRef(
            segment_name(title[:16], title[16:]),
            int(log.segment_size[segment]),
            int(log.segment_footer[segment]),
            log.segment_digest[segment].tobytes(),
        ),
        group,
        log.hash[chunk].tobytes(),
        int(log.rows[chunk]),
    )

"""The keys that a version of a keyed table writes, from its own file: exactly, or as ranges.

Rows that ride inside the version file tell their keys. Of rows in segments the file has the least and the
greatest key of each chunk, so those are compared as ranges, which may find a key that is not there and never
misses one. Pure; no store is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crdtcat.chunks.inline import decode_inline
from crdtcat.chunks.keys import KEY_BOUNDS, encoded_key
from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.ops import ColumnId
from crdtcat.format.schema_code import decode_schema
from crdtcat.log.log import Log

KeyValues = tuple[Any, ...]
"""The values of the key columns of one row."""


@dataclass(frozen=True, eq=False)
class KeyPart:
    """Keys that one chunk of a version writes.

    Attributes:
        gone: whether it deletes them.
        columns: the columns that it sets, without those of the key.
        low, high: no key is below or above; `None`: unknown.
        exact: every key, as bytes that sort as keys do, with its values; `None`: only the range is known.
    """

    gone: bool
    columns: frozenset[ColumnId]
    low: bytes | None
    high: bytes | None
    exact: Mapping[bytes, KeyValues] | None

    def common(self, other: KeyPart) -> tuple[KeyValues, ...] | None:
        """The keys of both, empty if there are none; `None` where both are ranges that overlap."""
        if self.exact is not None and other.exact is not None:
            return tuple(values for key, values in self.exact.items() if key in other.exact)
        if self.exact is not None:
            return tuple(values for key, values in self.exact.items() if other._may_have(key))
        if other.exact is not None:
            return other.common(self)
        apart = _below(self.high, other.low) or _below(other.high, self.low)
        return () if apart else None

    def _may_have(self, key: bytes) -> bool:
        return not (_below(key, self.low) or _below(self.high, key))


def _below(first: bytes | None, second: bytes | None) -> bool:
    """Whether a bound is known to be below another. A low bound may be cut, so it is compared as a prefix."""
    return first is not None and second is not None and first < second


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
        )


def _exact(data: bytes, name: str, key: Sequence[str]) -> dict[bytes, KeyValues]:
    table = decode_inline(data, name, None, columns=list(key))
    columns = [table.column(at).combine_chunks() for at in range(table.num_columns)]
    return {
        encoded_key(columns, row): tuple(column[row].as_py() for column in columns)
        for row in range(table.num_rows)
    }

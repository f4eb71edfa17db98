"""Cells of copies whose type has ceased to fit their column, each as what it was written as.

A copy is stored in the types that columns had when it was made. Of two who widen one column at once to types
that do not meet, one loses, and a copy made by somebody who had seen only that one does not fit. But its
cells were written before, by many versions, and a compaction changes no value: each is shown as it would be
if nobody had copied it. What it was written as is said by the chunk it was born in, which the log names for
as long as the copy is there. A type only ever widens, so a cell goes back to that type without loss; from
there it becomes the column's, or null where that does not hold it either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from crdtcat.chunks.type_codes import decode_type
from crdtcat.chunks.types import cast_lossless, is_lossless, restored, storage_type, to_storage
from crdtcat.format.kinds import OVERLAY
from crdtcat.format.ops import ColumnId
from crdtcat.format.schema_code import StoredField
from crdtcat.head.columns import Column
from crdtcat.head.head import Head
from crdtcat.intervals.runs import Integers, expand

NOWHERE = -1
"""In place of the chunk that a cell was born in, where there is none."""


Span = tuple[int, int]
"""Some rows of a chunk: the first, and the one behind the last."""


class Part(NamedTuple):
    """Rows of a chunk: some, or all of them."""

    chunk: int
    within: Span | None = None


class AsBorn:
    """Reads what copies of one head hold as what it was written as. No request."""

    def __init__(self, head: Head) -> None:
        self._head = head

    def births(self, copy: Part) -> Integers:
        """Per row of a copy in a table without a key, the chunk it was born in."""
        rows, log = self._head.rows, self._head.log
        birth, start, stop, at = rows.tags.rows_with_places(rows.copies[copy.chunk].rows)
        owner, offset = expand(stop - start)
        found = np.full(int(log.rows[copy.chunk]), NOWHERE, np.int64)
        found[at[owner] + offset] = birth[owner]
        return found if copy.within is None else found[slice(*copy.within)]

    def cells(self, copy: Part, instance: ColumnId, ages: Integers | None) -> Integers:
        """Per row of such a copy, the chunk that its cell of a column was born in. `ages`: per row, the
        version that wrote it; negative where that is the row's own."""
        found = self.births(copy)
        if ages is not None:
            for version in np.unique(ages[ages >= 0]).tolist():
                found[ages == version] = self._overlay(version, instance)
        return found

    def _overlay(self, version: int, instance: ColumnId) -> int:
        """The chunk in which a version wrote new values of a column."""
        log = self._head.log
        chunks = range(int(log.chunk_start[version]), int(log.chunk_start[version + 1]))
        for chunk in (chunk for chunk in chunks if int(log.kind[chunk]) == OVERLAY):
            if self._head.columns.field(instance, int(log.chunk_schema[chunk])) is not None:
                return chunk
        return NOWHERE

    def column(
        self, column: Column, field: StoredField, stored: Sequence[pa.Array], born: Integers
    ) -> pa.Array:
        """What a copy holds of a column, as a storage array of the column's type. O(rows).

        Args:
            column: the column, which the field does not fit.
            field: where the copy holds it.
            stored: its storage arrays.
            born: per row, the chunk its cell was born in.
        """
        columns = self._head.columns
        held = pa.chunked_array(stored, storage_type(decode_type(field.type), column.name))
        schema = np.where(born < 0, NOWHERE, self._head.log.chunk_schema[born].astype(np.int64))
        place = np.full(len(born), NOWHERE, np.int64)
        parts: list[pa.Array] = []
        for number in np.unique(schema[schema >= 0]).tolist():
            written = columns.field(field.column, number)
            if written is None or not columns.fits(written, column):
                continue
            rows = np.flatnonzero(schema == number)
            place[rows] = np.arange(len(rows)) + sum(map(len, parts))
            parts.append(_brought(held.take(pa.array(rows)), field, written, column))
        if not parts:
            return pa.nulls(len(born), storage_type(column.type, column.name))
        return pa.concat_arrays(parts).take(pa.array(place, mask=place == NOWHERE))


def _brought(held: pa.ChunkedArray, field: StoredField, written: StoredField, column: Column) -> pa.Array:
    """Stored values of a wider type, by way of the one they were written in, as the column's."""
    wide, narrow = decode_type(field.type), decode_type(written.type)
    assert is_lossless(narrow, wide), f"{column.name}: a copy of {narrow} cannot be {wide}"
    back = cast_lossless(restored(held.chunks, wide, column.name), narrow, column.name)
    return to_storage(cast_lossless(back, column.type, column.name), column.name)

"""A head's statistics as the pruner wants them: one array per column over the chunks in question.

A chunk's bounds count only if they mean the same in the column's type today: what is stored is the same, or
both are integers, floats, texts, or bytes. Chunks that do not hold the column at all read as null, and say
so. Where newer cells lie over a chunk's rows its bounds are joined with theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.statistics import domain, value_type
from crdtcat.chunks.type_codes import decode_type
from crdtcat.format.kinds import COPY
from crdtcat.format.sections import Array
from crdtcat.head.columns import Column
from crdtcat.head.head import Head
from crdtcat.log.statistics import DOMAINS, Bounds
from crdtcat.scan.filters.bounds import ColumnBounds
from crdtcat.scan.overlaid import Part, joined

_CODES = {domain: code for code, domain in DOMAINS.items()}
_LOW = 2**32 - 1


class HeadStatistics:
    """Bounds of the chunks `index` of a head, worked out when asked for. Implements `BoundsSource`."""

    def __init__(self, head: Head, index: Array) -> None:
        self._head, self._index = head, index
        self._schemas = head.log.chunk_schema[index]
        self._place: Array | None = None

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Rows per chunk."""
        rows: npt.NDArray[np.int64] = self._head.log.rows[self._index].astype(np.int64)
        return rows

    def bounds(self, column: str) -> ColumnBounds | None:
        """A column's bounds, of rows as they are shown. O(chunks + patches) in arrays."""
        found = self._head.columns.by_name.get(column)
        if found is None:
            return None
        own = self._part(found)
        entry, source = sources_over(self._head, found)
        place = np.full(self._head.log.chunk_count, -1, np.int64)
        place[self._index] = np.arange(len(self._index))
        here = place[entry] >= 0
        if not here.any():
            return own.bounds
        sources, which = np.unique(source[here], return_inverse=True)
        over = HeadStatistics(self._head, sources)._part(found)
        return joined(own, over, place[entry[here]], which)

    def _part(self, column: Column) -> Part:
        """Bounds of what the chunks themselves hold."""
        code = _CODES[domain(column.type)]
        gather = _Gather(len(self._index), code)
        for schema in np.unique(self._schemas).tolist():
            members = np.flatnonzero(self._schemas == schema)
            self._gather(gather, column, code, schema, members)
        return Part(gather.bounds(), self.rows)

    def _gather(self, gather: _Gather, column: Column, code: str, schema: int, members: Array) -> None:
        head = self._head
        fields = [field for field in head.columns.fields(schema) if field.column in column.instances]
        if any(field.column in head.columns.hidden for field in fields) or len(fields) > 1:
            return  # a dropped column with survivors: rare, and never pruned by
        stored = decode_type(fields[0].type) if fields else pa.null()
        if pt.is_null(stored) or not head.columns.fits(fields[0], column):
            if not pt.is_null(stored):  # cells of a copy may fit one by one
                members = members[head.log.kind[self._index[members]] != COPY]
            gather.nulls[members] = head.log.rows[self._index[members]].astype(np.int64)
            return
        for candidate in dict.fromkeys((code, "-")) if _same_meaning(stored, column.type) else ():
            bounds = head.log.statistics.bounds(fields[0].name, candidate)
            if bounds is not None:
                gather.take(bounds, self._placed(bounds, members))

    def _placed(self, bounds: Bounds, members: Array) -> Array:
        """For each row of `bounds` its place among our chunks, -1 for chunks that are not `members`."""
        if self._place is None:
            self._place = np.full(self._head.log.chunk_count, -1, np.int64)
            self._place[self._index] = np.arange(len(self._index))
        place = self._place[bounds.chunk]
        ours = np.zeros(len(self._index) + 1, bool)
        ours[members] = True
        placed: Array = np.where(ours[place], place, -1)
        return placed


def sources_over(head: Head, column: Column) -> tuple[Array, Array]:
    """Pairs of an entry and a chunk with newer values of a column over its rows. O(patches log patches)."""
    if head.rows.is_plain:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    patches, log, columns = head.rows.patches, head.log, head.columns
    pairs = np.unique(patches.entry << 32 | patches.source)  # numbers of chunks are below 2**32
    entry, source = pairs >> 32, pairs & _LOW
    sources, which = np.unique(source, return_inverse=True)
    stored = log.chunk_schema[sources].astype(np.int64) << 32
    if columns.hidden:
        stored |= log.chunk_version[sources]
    kinds, kind = np.unique(stored, return_inverse=True)  # those of one kind hold the same
    holds = [columns.source(column, one >> 32, one & _LOW) is not None for one in kinds.tolist()]
    kept = np.array(holds, bool)[kind][which]
    return entry[kept], source[kept]


def entries_overlaid(head: Head, column: Column) -> Array:
    """Per chunk, whether newer values of a column lie over its rows."""
    found = np.zeros(head.log.chunk_count, bool)
    found[sources_over(head, column)[0]] = True
    return found


class _Gather:
    """Bounds under construction: unknown until taken."""

    def __init__(self, count: int, code: str) -> None:
        self.code = code
        self.nulls = np.full(count, -1, np.int64)
        self.known = np.zeros(count, bool)
        self.low: Any = np.zeros(count, np.float64 if code == "f" else np.int64)
        self.high: Any = self.low.copy()
        self._bytes: list[tuple[Any, Any]] = []
        self._at = np.full(count, -1, np.int64)
        self._taken = 0

    def take(self, bounds: Bounds, place: Array) -> None:
        rows = np.flatnonzero(place >= 0)
        at = place[rows]
        self.nulls[at] = bounds.nulls[rows]
        if isinstance(bounds.low, pa.LargeBinaryArray):
            self._bytes.append((bounds.low, bounds.high))
            self._at[at] = rows + self._taken
            self._taken += len(bounds.chunk)
            self.known[at] = bounds.known[rows]
        elif bounds.known.any():  # statistics without bounds say only how many nulls there are
            self.known[at] = bounds.known[rows]
            self.low[at], self.high[at] = bounds.low[rows], bounds.high[rows]

    def bounds(self) -> ColumnBounds:
        low, high = self.low, self.high
        if self.code == "b":
            index = pa.array(self._at, mask=self._at < 0)
            low, high = (self._texts(side, index) for side in (0, 1))
        return ColumnBounds(low, high, self.known, self.known, self.nulls)

    def _texts(self, side: int, index: pa.Array) -> pa.LargeBinaryArray:
        if not self._bytes:
            return pa.array([b""] * len(index), pa.large_binary())
        return pa.concat_arrays([pair[side] for pair in self._bytes]).take(index).fill_null(b"")


def _same_meaning(stored: pa.DataType, shown: pa.DataType) -> bool:
    """Whether bounds of one type are bounds of the other: units count, and what values are held in does not.

    A dictionary of seconds is no more alike to one of microseconds than seconds are to microseconds."""
    held, wanted = value_type(stored), value_type(shown)
    if held == wanted:
        return True
    families = (
        lambda t: pt.is_integer(t) and not pt.is_uint64(t),
        pt.is_floating,
        lambda t: pt.is_string(t) or pt.is_large_string(t),
        lambda t: pt.is_binary(t) or pt.is_large_binary(t),
    )
    return any(family(held) and family(wanted) for family in families)

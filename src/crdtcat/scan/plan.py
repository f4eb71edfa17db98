"""The plan of a scan: which chunks, which columns of them, and from where.

The same plan serves the local reader and every other engine: a list of chunks in row order, each with the
places its bytes are, whether the filter still has to be applied to its rows, and the stored columns needed.
Making a plan reads nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.chunks.footer import SegmentRef
from crdtcat.chunks.segment import segment_name
from crdtcat.errors import InvalidArgument, InvalidFilter
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.head.columns import Column
from crdtcat.head.head import Head
from crdtcat.head.keyed import KeyedRows
from crdtcat.intervals.runs import Integers
from crdtcat.scan.buckets import in_matching_buckets
from crdtcat.scan.filters import RowFilter, parse_filter, prune
from crdtcat.scan.masks import filter_schema
from crdtcat.scan.merge_plan import MergePlan, plan_merge, shared_keys
from crdtcat.scan.source import HeadStatistics
from crdtcat.support.cached import cached_property
from crdtcat.support.showing import shown as short


@dataclass(frozen=True, eq=False)
class Plan:
    """What a scan will do. Theorem: `pruning_sound`.

    Attributes:
        head: the snapshot it reads.
        columns: the columns returned, in order.
        needed: those and the ones the filter looks at.
        filter: the row filter, if any.
        chunks: the chunks kept, as indexes into the head's log, in row order.
        whole: per chunk kept, whether all its rows are known to match.
        pruned: how many live chunks statistics ruled out.
        merge: in a keyed table, which chunks are merged by key. They stand by rising key, and only those that
            need no merging can be whole.
    """

    head: Head
    columns: tuple[Column, ...]
    needed: tuple[Column, ...]
    filter: RowFilter | None
    chunks: Array
    whole: Array
    pruned: int
    merge: MergePlan | None = None

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return f"Plan({self.head!r}: {names}; {len(self.chunks):,} chunks, {self.pruned:,} pruned)"

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the rows returned."""
        return pa.schema([pa.field(column.name, column.type, column.nullable) for column in self.columns])

    @property
    def rows(self) -> int:
        """Rows in the chunks kept: no fewer than the scan returns."""
        return int(self.head.rows.live_rows(self.chunks).sum())

    def sources(self, chunk: int) -> tuple[tuple[Column, StoredField | None], ...]:
        """For each column needed, the stored field that holds it in a chunk; `None` reads as null."""
        log, columns = self.head.log, self.head.columns
        version = int(log.chunk_version[chunk])
        schema = int(log.chunk_schema[chunk])
        found = []
        for column in self.needed:
            field = columns.source(column, schema, version)
            found.append((column, field if field is not None and columns.fits(field, column) else None))
        return tuple(found)

    def is_read_by_row(self, chunk: int) -> bool:
        """Whether a chunk is a copy, and cells of one column of it are not all read alike."""
        head = self.head
        return chunk in head.rows.copies and head.columns.are_read_by_row(int(head.log.chunk_schema[chunk]))

    def undecided(self) -> Plan:
        """What has to be looked at to know which rows match, and nothing but the columns to look at."""
        names = () if self.filter is None else self.filter.columns
        names = names or tuple(self.head.columns.by_name)[:1]  # a constant looks at none
        looked_at = tuple(self.head.columns.by_name[name] for name in names)
        if self.merge is not None:
            return replace(self, columns=looked_at, needed=looked_at, merge=self.merge.but(self.whole))
        rest = ~self.whole
        return replace(
            self, columns=looked_at, needed=looked_at, chunks=self.chunks[rest], whole=self.whole[rest]
        )

    def places(self, chunk: int) -> list[tuple[int, int]]:
        """(segment, row group) pairs that hold a chunk."""
        log = self.head.log
        wanted = np.array([chunk, chunk + 1], log.place_chunk.dtype)  # another type would copy all places
        first, last = np.searchsorted(log.place_chunk, wanted)
        return [(int(log.place_segment[at]), int(log.place_group[at])) for at in range(first, last)]

    def segments(self) -> list[int | None]:
        """For each chunk of the plan the first segment that holds it; `None`: it is in its version file."""
        log = self.head.log
        if not len(log.place_chunk):
            return [None] * len(self.chunks)
        first = np.searchsorted(log.place_chunk, self.chunks.astype(log.place_chunk.dtype))
        first = first.clip(max=len(log.place_chunk) - 1)
        held = zip(log.place_segment[first].tolist(), log.place_chunk[first] == self.chunks, strict=True)
        return [segment if there else None for segment, there in held]

    def segment(self, segment: int) -> SegmentRef:
        """How the log refers to a segment."""
        log = self.head.log
        return SegmentRef(
            self.segment_file(segment),
            int(log.segment_size[segment]),
            int(log.segment_footer[segment]),
            log.segment_digest[segment].tobytes(),
        )

    def is_everything(self, segment: int, chunks: Sequence[int], names: Sequence[str]) -> bool:
        """Whether some stored columns of chunks are all that the log knows to be in a segment."""
        head = self.head
        schema = int(head.log.chunk_schema[chunks[0]])  # a file has one
        if not {field.name for field in head.columns.fields(schema)} <= set(names):
            return False
        copies = head.rows.copies if head.keyed is None else head.keyed.copies
        if any(chunk in copies and copies[chunk].stamps for chunk in chunks):  # columns that are never shown
            return False
        return len(chunks) == int(self._chunks_of_segments[segment])

    def segment_file(self, segment: int) -> str:
        """The name of a segment."""
        title = self._segment_titles[segment * 24 : segment * 24 + 24]
        return segment_name(title[:16], title[16:])

    @cached_property
    def _chunks_of_segments(self) -> Integers:
        log = self.head.log
        return np.bincount(log.place_segment, minlength=len(log.segment_name))

    @cached_property
    def _segment_titles(self) -> bytes:
        """All names in a row: numpy's own strings would lose zero bytes at the end."""
        return self.head.log.segment_name.tobytes()


def make_plan(head: Head, columns: Sequence[str] | None, filter: object | None) -> Plan:
    """Plan a scan. Theorem: `pruning_sound`.

    Raises:
        InvalidArgument: a column that is not there.
        InvalidFilter: a filter that cannot be used.
    """
    shown = _columns(head, columns)
    if head.keyed is not None:
        return _keyed_plan(head, head.keyed, shown, filter)
    if filter is None:
        whole = np.ones(len(head.live), bool)
        return Plan(head, shown, shown, None, head.live, whole, 0)
    parsed, needed = _filter(head, shown, filter)
    schema = filter_schema(head.schema)
    result = prune(parsed.predicate, HeadStatistics(head, head.live), schema)
    kept = np.flatnonzero(result.may_match & in_matching_buckets(head, parsed.predicate))
    return Plan(
        head, shown, needed, parsed, head.live[kept], result.all_match[kept], len(head.live) - len(kept)
    )


def _keyed_plan(head: Head, keyed: KeyedRows, shown: tuple[Column, ...], filter: object | None) -> Plan:
    if filter is None:
        merge = plan_merge(head, keyed, np.arange(len(keyed.entries)))
        return Plan(head, shown, shown, None, merge.chunks, merge.straight, 0, merge)
    parsed, needed = _filter(head, shown, filter)
    source = HeadStatistics(head, keyed.entries)
    result = prune(parsed.predicate, source, filter_schema(head.schema), shared_keys(head, keyed))
    kept = np.flatnonzero(result.may_match & in_matching_buckets(head, parsed.predicate))
    merge = plan_merge(head, keyed, kept)
    matching = np.isin(merge.chunks, keyed.entries[result.all_match])
    pruned = len(keyed.entries) - len(kept)
    return Plan(head, shown, needed, parsed, merge.chunks, merge.straight & matching, pruned, merge)


def _filter(head: Head, shown: tuple[Column, ...], filter: object) -> tuple[RowFilter, tuple[Column, ...]]:
    """The filter, and the columns to be read for it and to be shown."""
    try:
        parsed = parse_filter(filter, filter_schema(head.schema))
    except InvalidFilter as error:
        if head.columns.all:
            raise
        raise InvalidFilter(f"table {head.table!r} has no columns yet: {error.args[0]}") from error
    names = {column.name for column in shown}
    return parsed, (*shown, *(head.columns.by_name[name] for name in parsed.columns if name not in names))


def _columns(head: Head, names: Any) -> tuple[Column, ...]:
    if names is None:
        return head.columns.all
    alone = isinstance(names, str | bytes) or (isinstance(names, np.ndarray) and not names.ndim)
    if alone or not isinstance(names, Collection):
        raise InvalidArgument(f"columns={short(names)}: pass a list of names")
    missing = [name for name in names if not isinstance(name, str) or name not in head.columns.by_name]
    if missing:
        raise InvalidArgument(
            f"table {head.table!r} has no column {short(missing[0], 300)}; "
            f"it has {', '.join(head.columns.by_name) or 'none yet'}"
        )
    if not len(names):  # a pandas Index has no truth
        raise InvalidArgument("columns=[]: name at least one, or leave it out for all; count() counts rows")
    if len(set(names)) != len(names):
        raise InvalidArgument(f"columns={list(names)}: the same column twice")
    return tuple(head.columns.by_name[name] for name in names)

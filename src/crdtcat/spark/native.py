"""What Spark's own Parquet reader can read of a plan, and what it cannot.

A segment is a Parquet file, so Spark reads it as fast as any. It can be trusted with a chunk when the chunk
is in a segment, no cell of it was replaced, every column needed has a type Spark reads as we would, and the
filter either holds for all its rows or says something Spark understands the same way. Rows that were deleted
are left out by their number in the file, while they leave few gaps. Everything else is left to the Python
path, which can read all.

Whatever a later release adds to a unit makes the unit one for the Python path unless `understands` says
otherwise: nothing is read natively by default.

Pure: no request, no session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.types import decode_type
from crdtcat.format.schema_code import StoredField
from crdtcat.head.columns import Column
from crdtcat.log.log import Log
from crdtcat.scan.plan import Plan
from crdtcat.scan.units import Sources, Unit
from crdtcat.spark.conditions import condition
from crdtcat.spark.floats import doubtful
from crdtcat.spark.types import spark_type

RUNS_MAX: Final = 64  # of one file with deleted rows: Spark compares each of its rows with each of them
_UNIT_FIELDS: Final = frozenset({"chunks", "whole", "sources", "segment", "nbytes", "strips", "all_rows"})
_HIDDEN: Final = "_metadata"  # Spark's own column of every file source
_LEAVES: Final = frozenset({
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(),
    pa.large_binary(), pa.binary_view(), pa.date32(),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of a segment, by number: `start` to `stop`. The same run twice means the rows count twice."""

    file: str
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class NativeGroup:
    """Segments whose rows are shown in the same way.

    Attributes:
        sources: for each column needed, the stored field that holds it.
        clean: files of which every row is wanted, once.
        runs: rows wanted of other files.
        doubtful: columns of which Spark's reader may be asked nothing.
    """

    sources: Sources
    clean: tuple[str, ...]
    runs: tuple[Run, ...]
    doubtful: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A chunk, where it is, and which of its rows are wanted: offsets `(start, stop)`, or all."""

    chunk: int
    segment: int
    group: int
    ranges: tuple[tuple[int, int], ...] | None


def split(plan: Plan, units: Sequence[Unit], layout: Log) -> tuple[list[NativeGroup], list[int]]:
    """What Spark can read by itself, and the chunks that are left.

    `layout` is the newest log there is: it knows every row group of a segment, while the plan's own may be
    that of an older snapshot, and lack some."""
    translated = plan.filter is None or condition(plan.filter.predicate) is not None
    groups: list[tuple[Sources, list[_Wanted]]] = []
    left: set[int] = set()
    for unit in units:
        alike = unit.strips is None and readable(plan, unit.chunks[0], unit.sources)
        for chunk, whole in zip(unit.chunks, unit.whole, strict=True):
            wanted = _wanted(plan, unit, chunk) if understands(unit) and (whole or translated) else None
            sources = unit.sources if unit.strips is None else plan.sources(chunk)
            if wanted is None or not (alike or (unit.strips and readable(plan, chunk, sources))):
                left.add(chunk)
                continue
            known = next((mine for held, mine in groups if held is sources or held == sources), None)
            if known is None:
                groups.append((sources, known := []))
            known.append(wanted)
    file_layout = _Layout(layout)
    made = []
    for sources, mine in groups:
        clean, runs, others = file_layout.divided(plan, mine)
        left |= others
        held = sorted({item.chunk for item in mine} - others)
        made.append(NativeGroup(sources, tuple(clean), tuple(runs), doubtful(plan, held, sources)))
    return made, sorted(left)


def _wanted(plan: Plan, unit: Unit, chunk: int) -> _Wanted | None:
    """What is wanted of a chunk, if it is in a segment as its rows are today."""
    places = plan.places(chunk)
    if not places or (unit.strips is None and unit.segment is None):
        return None
    if unit.strips is None:
        return next(_Wanted(chunk, *place, None) for place in places if place[0] == unit.segment)
    rows = plan.head.rows
    if len(rows.patches_of(chunk).entry) or plan.is_read_by_row(chunk):
        return None
    live = np.concatenate([rows.live_offsets(*strip) for strip in unit.strips if strip[0] == chunk])
    live.sort()
    ends = np.flatnonzero(np.diff(live, append=-1) != 1)
    firsts = np.append(0, ends[:-1] + 1)[: len(ends)]
    return _Wanted(
        chunk, *places[0], tuple(zip(live[firsts].tolist(), (live[ends] + 1).tolist(), strict=True))
    )


def understands(unit: Unit) -> bool:
    """Whether a unit says nothing that only our own reader can do."""
    return all(item.name in _UNIT_FIELDS or not getattr(unit, item.name) for item in fields(unit))


class _Layout:
    """How many rows each row group of a segment has, as far as a log knows."""

    def __init__(self, log: Log) -> None:
        self._names = {name: at for at, name in enumerate(log.segment_name.tolist())}
        order = np.argsort(log.place_segment, kind="stable")
        self._segment, self._group = log.place_segment[order], log.place_group[order]
        self._rows = log.rows[log.place_chunk[order]]
        placed = len(np.unique(log.place_chunk)) + len(log.inline)
        self._all_known = placed == log.chunk_count  # after an expiry, dead row groups are not

    def divided(self, plan: Plan, wanted: Sequence[_Wanted]) -> tuple[list[str], list[Run], set[int]]:
        """Files wanted as they are, runs of others, and chunks of files whose layout is not known, or that
        have too many gaps."""
        clean: list[str] = []
        runs: list[Run] = []
        others: set[int] = set()
        by_segment: dict[int, list[_Wanted]] = {}
        for item in wanted:
            by_segment.setdefault(item.segment, []).append(item)
        for segment, items in by_segment.items():
            sizes = self._sizes(plan.head.log.segment_name[segment])
            file = plan.segment_file(segment)
            if sizes is None or max(item.group for item in items) >= len(sizes):
                others |= {item.chunk for item in items}
                continue
            whole = sorted(item.group for item in items if item.ranges is None)
            if self._all_known and len(whole) == len(items) and whole == list(range(len(sizes))):
                clean.append(file)
                continue
            masked = [item for item in items if item.ranges is not None]
            if sum(len(item.ranges or ()) for item in masked) > RUNS_MAX:
                others |= {item.chunk for item in masked}
                masked = []
            starts = np.concatenate(([0], np.cumsum(sizes))).tolist()
            runs += _runs(file, starts, whole)
            for item in masked:
                begin = starts[item.group]
                runs += [Run(file, begin + start, begin + stop) for start, stop in item.ranges or ()]
        return clean, runs, others

    def _sizes(self, name: bytes) -> list[int] | None:
        """Rows of the row groups 0, 1, 2, ...; `None` if one in between is not known."""
        at = self._names.get(bytes(name))
        if at is None:
            return None
        first, last = np.searchsorted(self._segment, np.array([at, at + 1], self._segment.dtype))
        rows = dict(zip(self._group[first:last].tolist(), self._rows[first:last].tolist(), strict=True))
        return [rows[group] for group in range(len(rows))] if set(rows) == set(range(len(rows))) else None


def _runs(file: str, starts: list[int], groups: list[int]) -> Iterator[Run]:
    """Neighbouring groups as one run; a group that is wanted again starts another."""
    waiting = groups
    while waiting:
        again: list[int] = []
        first = last = waiting[0]
        for group in waiting[1:]:
            if group == last:
                again.append(group)
            elif group == last + 1:
                last = group
            else:
                yield Run(file, starts[first], starts[last + 1])
                first = last = group
        yield Run(file, starts[first], starts[last + 1])
        waiting = again


def readable(plan: Plan, chunk: int, sources: Sources) -> bool:
    """Whether Spark reads every column needed of a chunk as we would."""
    log = plan.head.log
    stored = plan.head.columns.fields(int(log.chunk_schema[chunk]))
    folded = [field.name.casefold() for field in stored]
    wanted = [field.name.casefold() for _, field in sources if field is not None]
    if any(folded.count(name) > 1 for name in wanted) or not wanted or _HIDDEN in wanted:
        return False  # Spark finds columns without regard to case, and counts nothing without one
    return all(field is None or _shown_alike(column, field) for column, field in sources)


def _shown_alike(column: Column, field: StoredField) -> bool:
    stored = decode_type(field.type)
    return _is_native(stored) and (stored == column.type or _widens(stored, column.type))


def _is_native(t: pa.DataType) -> bool:
    if isinstance(t, pa.BaseExtensionType):
        return _is_native(t.storage_type)
    if t in _LEAVES:
        return True
    if pt.is_dictionary(t) or pt.is_run_end_encoded(t):
        return _is_native(t.value_type)
    if pt.is_struct(t) or pt.is_map(t) or pt.is_list(t) or pt.is_large_list(t):
        return t.num_fields > 0 and _names_differ(t) and all(_is_native(child) for child in _children(t))
    return bool(
        (pt.is_timestamp(t) and t.unit == "us")
        or (pt.is_decimal(t) and t.precision <= 38 and 0 <= t.scale <= t.precision)
        or (pt.is_fixed_size_binary(t) and t.byte_width > 0)
    )


def _names_differ(t: pa.DataType) -> bool:
    """Whether Spark, which does not regard case, tells the fields of a struct apart."""
    names = [t.field(i).name.casefold() for i in range(t.num_fields)]
    return len(set(names)) == len(names)


def _children(t: pa.DataType) -> list[pa.DataType]:
    if pt.is_map(t):
        return [t.key_type, t.item_type]
    return [t.field(i).type for i in range(t.num_fields)]


def _widens(stored: pa.DataType, shown: pa.DataType) -> bool:
    """Types between which Spark's cast is ours."""
    if spark_type(stored, "") == spark_type(shown, "") and _is_native(shown):
        return True
    small = pt.is_integer(stored) and stored.bit_width <= 32
    if pt.is_integer(stored) and pt.is_integer(shown):
        return bool(shown != pa.uint64())
    return bool((small or stored == pa.float32()) and shown == pa.float64())

"""Rows with their places: what update, delete and write look at before they change anything.

Reads like any scan, through the same units, and gives for each unit its rows as storage arrays and, for each
row, the entry it is in and its offset there. Also places of rows by their number in the table, which reads
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from crdtcat.head.head import Head
from crdtcat.intervals.runs import Integers
from crdtcat.scan.execute import Execution
from crdtcat.scan.plan import Plan
from crdtcat.scan.units import Unit, units


@dataclass(frozen=True, eq=False)
class Located:
    """Some rows of a table.

    Attributes:
        rows: as storage arrays of the columns asked for.
        entry: per row, the chunk it is in.
        offset: where in it.
    """

    rows: pa.Table
    entry: Integers
    offset: Integers


def located(plan: Plan, execution: Execution) -> Iterator[Located]:
    """The rows of a plan, unit by unit, in row order. Costs what the scan does; memory, a unit."""
    for unit in units(plan):
        rows, place = execution.changed_rows(_with_strips(plan, unit))
        chunks = np.array(unit.chunks, np.int64)
        yield Located(rows, chunks[place >> 32], place & 0xFFFFFFFF)


def _with_strips(plan: Plan, unit: Unit) -> Unit:
    if unit.strips is not None:
        return unit
    sizes = plan.head.log.rows[list(unit.chunks)].tolist()
    strips = tuple((chunk, 0, size) for chunk, size in zip(unit.chunks, sizes, strict=True))
    return replace(unit, strips=strips)


def all_rows_of(head: Head, entries: Integers) -> tuple[Integers, Integers]:
    """Every row of some entries, in row order: entry and offset. Reads nothing."""
    entry, start, stop = _strips(head, entries)
    parts = [
        head.rows.live_offsets(*strip)
        for strip in zip(entry.tolist(), start.tolist(), stop.tolist(), strict=True)
    ]
    owner = np.repeat(entry, [len(part) for part in parts])
    return owner, np.concatenate(parts) if parts else np.empty(0, np.int64)


def rows_between(head: Head, start: int, stop: int) -> tuple[Integers, Integers]:
    """The rows with numbers `start` to `stop` of the table: entry and offset. Reads nothing. O(strips)."""
    entry, first, last = _strips(head, head.live)
    found: list[tuple[int, Integers]] = []
    before = 0
    for strip in zip(entry.tolist(), first.tolist(), last.tolist(), strict=True):
        if before >= stop:
            break
        longest = strip[2] - strip[1]
        if before + longest <= start and not len(head.rows.holes_of(strip[0]).entry):
            before += longest
            continue
        offsets = head.rows.live_offsets(*strip)
        kept = offsets[max(0, start - before) : max(0, stop - before)]
        found.append((strip[0], kept))
        before += len(offsets)
    owner = np.repeat([entry for entry, _ in found], [len(kept) for _, kept in found]).astype(np.int64)
    return owner, np.concatenate([kept for _, kept in found]) if found else np.empty(0, np.int64)


def _strips(head: Head, entries: Integers) -> tuple[Integers, Integers, Integers]:
    if head.rows.is_plain:
        return entries, np.zeros(len(entries), np.int64), head.log.rows[entries].astype(np.int64)
    strips = head.rows.strips
    kept = np.isin(strips.entry, entries)
    return strips.entry[kept], strips.start[kept], strips.stop[kept]

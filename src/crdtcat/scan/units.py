"""A plan cut into units: what one thread reads at a time.

Entries that are read whole and as they are go together while they are neighbours in one segment, or in
version files, with the same columns. Others go together while their rows alternate: where something was
inserted into the middle of a chunk, that chunk and the inserted one are one unit, so that each is read once.
A unit that grows too large is cut all the same, and the chunks on both sides of the cut are read twice
(`crdtcat.scan.alternating`).

Changed entries of which every row is shown go together too. What lies over entries counts as they do: all of
it is in memory while they are read. An entry over which more lies than may be in one unit is read part by
part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from crdtcat.format.schema_code import StoredField
from crdtcat.head.columns import Column
from crdtcat.head.head import Head
from crdtcat.intervals.runs import Integers
from crdtcat.scan.alternating import MOST, Alternating
from crdtcat.scan.as_born import Span
from crdtcat.scan.plan import Plan

UNIT_BYTES: Final = 32 * 2**20  # Arrow content read by one request to a segment
FEW: Final = 16  # units, of which the last matters: if it is short, the other threads' work is waited for
INLINED: Final = 256  # chunks in version files that are decoded one after the other

Sources = tuple[tuple[Column, StoredField | None], ...]


@dataclass(frozen=True)
class Unit:
    """Entries that are read together.

    Attributes:
        chunks: which.
        whole: for each, whether all its rows are known to match the filter.
        sources: where each column needed is stored in them; not used where `strips` are given.
        segment: the segment they are all in, `None` for version files; not used where `strips` are given.
        nbytes: of Arrow content, with what lies over it.
        strips: (chunk, start, stop) in row order, where rows were changed, deleted or inserted; `None`: all
            rows of `chunks`, as they are, in order.
        all_rows: whether the strips are all rows of `chunks`, in order.
    """

    chunks: tuple[int, ...]
    whole: tuple[bool, ...]
    sources: Sources
    segment: int | None
    nbytes: int
    strips: tuple[tuple[int, int, int], ...] | None = None
    all_rows: bool = False

    @property
    def spans(self) -> dict[int, Span]:
        """With strips, per chunk, the least run of its rows that has all of them."""
        found: dict[int, Span] = {}
        for chunk, start, stop in self.strips or ():
            first, last = found.get(chunk, (start, stop))
            found[chunk] = min(first, start), max(last, stop)
        return found


def units(plan: Plan, *, together: bool = True) -> Iterator[Unit]:
    """The plan cut into units, in row order; `together`: changed entries too, where they can be."""
    return _together(_cut(plan), _Share(plan)) if together else _cut(plan)


def read_in_parts(head: Head) -> Integers:
    """The entries over which so much lies that it is most of what is read, and too much. O(chunks)."""
    nbytes, held = head.rows.bytes_read, head.log.nbytes.astype(np.float64)
    return np.flatnonzero(nbytes > np.maximum(MOST * UNIT_BYTES, 2 * held))


def rows_at_once(head: Head, entry: int) -> int:
    """How many rows of an entry are read at once: all of them; of one that is read in parts, as many as take
    what the entry itself does, which is decoded each time, or a quarter of the most."""
    held, rows = int(head.log.nbytes[entry]), int(head.log.rows[entry])
    nbytes = int(head.rows.bytes_read[entry])
    if nbytes <= max(MOST * UNIT_BYTES, 2 * held):
        return rows
    return max(1, rows * max(held, MOST * UNIT_BYTES // 4) // nbytes)


class _Share:
    """How much goes into a unit: up to `UNIT_BYTES`; where units are few, about as much into each."""

    def __init__(self, plan: Plan) -> None:
        nbytes = plan.head.rows.bytes_read
        total = float(nbytes[plan.chunks].sum(dtype=np.float64))  # a log may claim any sizes
        count = math.ceil(total / UNIT_BYTES)
        self._each = total / count if 1 < count <= FEW else math.inf
        self._goal, self._taken, self.held = self._each, 0, 0

    def fits(self, nbytes: int) -> bool:
        """Whether so much more goes into this unit: it ends as near to its share of all as it can."""
        return self.held + nbytes <= UNIT_BYTES and self._taken + nbytes / 2 <= self._goal

    def add(self, nbytes: int) -> None:
        """Count what is put into this unit."""
        self.held += nbytes
        self._taken += nbytes

    def next(self) -> None:
        """Go on with another unit."""
        self.held = 0
        if self._each < math.inf:
            self._goal = math.ceil(self._taken / self._each + 0.5) * self._each


def _cut(plan: Plan) -> Iterator[Unit]:
    gather = _Gather(plan)
    if plan.head.rows.is_plain:
        for chunk, whole in zip(plan.chunks.tolist(), plan.whole.tolist(), strict=True):
            yield from gather.add(chunk, whole=whole)
        yield from gather.rest()
        return
    mixed = _Mixed(plan)
    untouched = plan.chunks[plan.head.rows.untouched(plan.chunks)].tolist()
    copies = plan.head.rows.copies  # asked here too: there may be a million chunks
    simple = {chunk for chunk in untouched if chunk not in copies or not plan.is_read_by_row(chunk)}
    for strip in mixed.strips:
        if strip[0] in simple and not mixed.is_open:
            yield from gather.add(strip[0], whole=mixed.whole[strip[0]])
        else:
            yield from gather.rest()
            yield from mixed.add(strip)
    yield from gather.rest()


def _together(units: Iterator[Unit], share: _Share) -> Iterator[Unit]:
    """The same units, changed entries that are neighbours and read whole put together."""
    held: list[Unit] = []
    for unit in units:
        if held and not (unit.all_rows and share.fits(unit.nbytes)):
            yield _one(held)
            held = []
            share.next()
        if unit.all_rows:
            held.append(unit)
            share.add(unit.nbytes)
        else:
            yield unit
    if held:
        yield _one(held)


def _one(parts: list[Unit]) -> Unit:
    return Unit(
        tuple(chunk for part in parts for chunk in part.chunks),
        tuple(whole for part in parts for whole in part.whole),
        (),
        None,
        sum(part.nbytes for part in parts),
        tuple(strip for part in parts for strip in part.strips or ()),
        all_rows=True,
    )


class _Gather:
    """Neighbours that can be read by one request."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._log = plan, plan.head.log
        self._hidden = bool(plan.head.columns.hidden)
        self._sources: dict[tuple[int, int], Sources] = {}
        self._segments = dict(zip(plan.chunks.tolist(), plan.segments(), strict=True))
        self._share = _Share(plan)
        self._gathered: list[tuple[int, bool]] = []
        self._kind: tuple[Sources, int | None] = ((), None)

    def add(self, chunk: int, *, whole: bool) -> Iterator[Unit]:
        """Take one more; gives what it does not go with."""
        version = int(self._log.chunk_version[chunk]) if self._hidden else -1
        key = (int(self._log.chunk_schema[chunk]), version)
        if key not in self._sources:
            self._sources[key] = self._plan.sources(chunk)
        kind = (self._sources[key], self._segments[chunk])
        nbytes = int(self._log.nbytes[chunk])
        inlined = kind[1] is None and len(self._gathered) >= INLINED
        full = inlined or not self._share.fits(nbytes)
        if self._gathered and (kind != self._kind or full):
            yield from self.rest()
        self._kind = kind
        self._gathered.append((chunk, whole))
        self._share.add(nbytes)

    def rest(self) -> Iterator[Unit]:
        """What is left."""
        if self._gathered:
            chunks, whole = zip(*self._gathered, strict=True)
            yield Unit(chunks, whole, *self._kind, self._share.held)
            self._gathered = []
            self._share.next()


class _Mixed:
    """Entries whose rows are changed, or alternate."""

    def __init__(self, plan: Plan) -> None:
        self._head, self._log, self._rows = plan.head, plan.head.log, plan.head.rows
        self.whole = dict(zip(plan.chunks.tolist(), plan.whole.tolist(), strict=True))
        kept = np.isin(plan.head.rows.strips.entry, plan.chunks)
        columns = [column[kept].tolist() for column in plan.head.rows.strips]
        self.strips: list[tuple[int, int, int]] = list(zip(*columns, strict=True))
        self._nbytes = plan.head.rows.bytes_read
        self._left: dict[int, int] = {}
        for entry, _, _ in self.strips:
            self._left[entry] = self._left.get(entry, 0) + 1
        self._gathered: list[tuple[int, int, int]] = []
        self._together = Alternating(UNIT_BYTES)
        self._in_parts = frozenset(read_in_parts(plan.head).tolist())

    @property
    def is_open(self) -> bool:
        """Whether rows of an entry that was begun are still to come."""
        return bool(self._gathered)

    def add(self, strip: tuple[int, int, int]) -> Iterator[Unit]:
        """Take one more; gives a unit once no entry in it has more rows to come, or it is too large."""
        entry = strip[0]
        self._left[entry] -= 1
        if entry in self._in_parts:
            yield from self._rest()
            yield from self._parts(strip)
            return
        self._gathered.append(strip)
        if self._together.add(entry, int(self._nbytes[entry]), more=self._left[entry] > 0):
            yield from self._rest()

    def _rest(self) -> Iterator[Unit]:
        """What was gathered, whatever is still to come."""
        if self._gathered:
            chunks = tuple(self._together.chunks)
            whole = tuple(self.whole[chunk] for chunk in chunks)
            strips = tuple(self._gathered)
            nbytes = self._together.nbytes
            yield Unit(chunks, whole, (), None, nbytes, strips, all_rows=self._is_all(strips))
            self._gathered, self._together = [], Alternating(UNIT_BYTES)

    def _parts(self, strip: tuple[int, int, int]) -> Iterator[Unit]:
        entry, start, stop = strip
        at_once = rows_at_once(self._head, entry)
        of_row = int(self._nbytes[entry]) / int(self._log.rows[entry])
        for first in range(start, stop, at_once):
            part = entry, first, min(first + at_once, stop)
            size = int(of_row * (part[2] - first))
            yield Unit((entry,), (self.whole[entry],), (), None, size, (part,))

    def _is_all(self, strips: tuple[tuple[int, int, int], ...]) -> bool:
        """Whether strips are all rows of one entry, none of them deleted."""
        (entry, start, stop), *more = strips
        whole = not more and start == 0 and stop == int(self._log.rows[entry])
        return whole and not len(self._rows.holes_of(entry).entry)

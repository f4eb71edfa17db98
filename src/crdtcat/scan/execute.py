"""Carrying out a plan: fetch, verify, decode, bring to the column types of today, filter.

Units are read in row order by a few threads that run ahead of the consumer by a bounded number of bytes, so
memory does not grow with the table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.read import FooterCache, Verify
from crdtcat.intervals.runs import Integers
from crdtcat.scan.as_born import Span
from crdtcat.scan.changed import ChangedEntries
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.masks import mask
from crdtcat.scan.plan import Plan
from crdtcat.scan.shown import as_shown, shown_column
from crdtcat.scan.units import Sources, Unit, units
from crdtcat.store import Store
from crdtcat.support.pools import ThreadPool, cores

AHEAD_BYTES: Final = 128 * 2**20  # Arrow content that may be decoded or under way before it is asked for
SOURCES_AHEAD: Final = 2  # units begun between what lies over a third one and that one
SMALL_BYTES: Final = 16 * 2**10  # Arrow content of a chunk whose decoding is mostly Python's own work
THREADS_MAX: Final = 8


Wanted = tuple[int | None, int, tuple[str, ...]]
"""The number of a read, a chunk, and the stored columns read of it. What lies over others is read once,
and has no number."""


def threads_of(store: Store) -> int:
    """How many threads read: as many as cores, and a few more where some wait for the store. One more where
    nobody waits made scans of changed rows a tenth slower: in Python, threads hold each other up."""
    return min(THREADS_MAX, cores() + (2 if store.is_remote else 0))


class Execution:
    """Reads the units of a plan.

    Args:
        plan: what to read.
        store: where from.
        footers: kept from one scan to the next.
        verify: whether to check every column against its hash, and how deeply.
    """

    def __init__(self, plan: Plan, store: Store, footers: FooterCache, *, verify: Verify) -> None:
        self._plan = plan
        self.threads = threads_of(store)
        """How many read at once."""
        self._chunks = ChunkReader(plan, store, footers, verify=verify)
        self._changed = ChangedEntries(plan, self._chunks)

    def tables(self) -> Iterator[pa.Table]:
        """The rows, in order, a table per chunk; small chunks may share one.

        Raises `Corrupt`, naming what is damaged or missing.
        """
        with ThreadPool(self.threads, thread_name_prefix="crdtcat-scan") as pool:
            found = self._with_sources(pool)
            begin = list(islice(found, 2))
            if len(begin) < 2:  # nobody would work beside the thread
                for only in begin:
                    yield from self.read(only)
                return
            running: deque[tuple[Unit, Future[list[pa.Table]] | None]] = deque()
            ahead = 0
            try:
                for unit in chain(begin, found):
                    running.append((unit, None if _is_quick(unit) else pool.submit(self.read, unit)))
                    ahead += unit.nbytes
                    while ahead > AHEAD_BYTES or len(running) > 4 * self.threads:
                        first, future = running.popleft()
                        yield from self.read(first) if future is None else future.result()
                        ahead -= first.nbytes
                while running:
                    first, future = running.popleft()
                    yield from self.read(first) if future is None else future.result()
            finally:
                for _, future in running:
                    if future is not None:
                        future.cancel()

    def _with_sources(self, pool: ThreadPool) -> Iterator[Unit]:
        """The units, each a little after the reading of what lies over it was begun.

        Neighbours have the same chunks over them: else all threads would wait for the one that reads these.
        """
        begun: set[tuple[int, int]] = set()
        waiting: deque[Unit] = deque()
        for unit in units(self._plan):
            for entry, span in unit.spans.items():
                for source in self._changed.sources(entry, span) - begun:
                    begun.add(source)
                    pool.submit(self._changed.fetch_ahead, *source, self._plan.needed)
            waiting.append(unit)
            if len(waiting) > SOURCES_AHEAD:
                yield waiting.popleft()
        yield from waiting

    def wanted(self) -> Iterator[Wanted]:
        """Every chunk that `tables` reads, and the stored columns it reads of it. No request."""
        for number, unit in enumerate(units(self._plan)):
            yield from self.wanted_of(unit, number)

    def wanted_of(self, unit: Unit, number: int) -> Iterator[Wanted]:
        """What `read` reads for a unit. Chunks that lie over several entries come up with each of them."""
        columns = self._plan.needed
        for chunk in unit.chunks:
            if unit.strips is None:
                yield number, chunk, _names(unit.sources)
                continue
            yield number, chunk, self._changed.names(chunk, columns)
            for source, age in self._changed.sources(chunk, unit.spans[chunk]):
                yield None, source, self._changed.names_over(source, age, columns)

    def read(self, unit: Unit) -> list[pa.Table]:
        """The rows of one unit, filtered, a table per chunk; one for all where their rows alternate, or where
        chunks are small and statistics tell the same about them."""
        if unit.strips is not None:
            tables = self._entries(unit) if unit.all_rows else [self.changed_rows(unit)[0]]
            return [as_shown(self._plan.columns, rows, self._plan.schema) for rows in tables]
        stored = self._chunks.read(unit.chunks, unit.segment, _names(unit.sources))
        read = list(zip(stored, unit.whole, strict=True))
        if _are_small(unit):
            alike = [(whole, [table for table, _ in group]) for whole, group in groupby(read, itemgetter(1))]
            read = [(pa.concat_tables(tables), whole) for whole, tables in alike]
        return [self._shown(unit.sources, table, whole=whole) for table, whole in read]

    def stored(self, chunk: int, names: tuple[str, ...]) -> pa.Table:
        """Stored columns of one chunk, from wherever they are whole. Raises `Corrupt`."""
        places = self._plan.places(chunk)
        return self._chunks.read((chunk,), places[0][0] if places else None, names)[0]

    def _entries(self, unit: Unit) -> list[pa.Table]:
        """Changed entries of which every row is shown, filtered, as storage arrays."""
        plan = self._plan
        found = self._changed.read_all(unit.chunks, plan.needed)
        if plan.filter is not None:
            found = [
                table if whole else table.filter(mask(plan.filter, _looked_at(plan, table)))
                for table, whole in zip(found, unit.whole, strict=True)
            ]
        return found

    def changed_rows(self, unit: Unit) -> tuple[pa.Table, Integers]:
        """The rows of a unit with strips, filtered, as storage arrays of the columns needed.

        With it, for each row, its place: unit.chunks[place >> 32] at offset place & 0xffffffff.
        """
        assert unit.strips is not None
        plan = self._plan
        spans = unit.spans
        tables = [self._read(chunk, spans[chunk]) for chunk in unit.chunks]
        number = {chunk: at for at, chunk in enumerate(unit.chunks)}
        base = np.cumsum([0, *(table.num_rows for table in tables)])[:-1]
        base -= [spans[chunk][0] for chunk in unit.chunks]
        rows = [plan.head.rows.live_offsets(*strip) for strip in unit.strips]
        owner = np.repeat([number[entry] for entry, _, _ in unit.strips], [len(part) for part in rows])
        offset = np.concatenate(rows) if rows else np.empty(0, np.int64)
        table, index = pa.concat_tables(tables), base[owner] + offset
        if len(index) != table.num_rows or (index[1:] < index[:-1]).any():
            table = table.combine_chunks().take(pa.array(index))
        place = (owner.astype(np.int64) << 32) | offset
        if plan.filter is not None and not all(unit.whole):
            kept = mask(plan.filter, _looked_at(plan, table))
            table, place = table.filter(kept), place[np.asarray(kept.fill_null(fill_value=False))]
        return table, place

    def _read(self, chunk: int, span: Span) -> pa.Table:
        within = None if span == (0, int(self._plan.head.log.rows[chunk])) else span
        return self._changed.read(chunk, self._plan.needed, within)

    def _shown(self, sources: Sources, stored: pa.Table, *, whole: bool) -> pa.Table:
        filter = self._plan.filter
        if filter is not None and not whole:
            needed = [(column, field) for column, field in sources if column.name in filter.columns]
            arrays = [shown_column(column, field, stored) for column, field in needed]
            looked_at = pa.Table.from_arrays(
                arrays or [stored.column(0)], names=[c.name for c, _ in needed] or [""]
            )
            stored = stored.filter(mask(filter, looked_at))
        shown = sources[: len(self._plan.columns)]  # a plan needs what it shows, then the filter's own
        arrays = [shown_column(column, field, stored) for column, field in shown]
        return pa.Table.from_arrays(arrays, schema=self._plan.schema)


def _are_small(unit: Unit) -> bool:
    """Whether the chunks of a unit without strips are small, most of them."""
    return unit.nbytes < SMALL_BYTES * len(unit.chunks)


def _is_quick(unit: Unit) -> bool:
    """Whether it is quicker to read than to hand to another thread: nothing to wait for, little to decode."""
    return unit.strips is None and unit.segment is None and _are_small(unit)


def _names(sources: Sources) -> tuple[str, ...]:
    return tuple(dict.fromkeys(field.name for _, field in sources if field is not None))


def _looked_at(plan: Plan, table: pa.Table) -> pa.Table:
    """The filter's columns, as it was bound to them."""
    assert plan.filter is not None
    columns = [plan.head.columns.by_name[name] for name in plan.filter.columns]
    if not columns:
        return table
    schema = pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns])
    return as_shown(columns, table, schema)

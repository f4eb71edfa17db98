"""Carrying out a plan: fetch, verify, decode, bring to the column types of today, filter.

Chunks are read in row order by a few threads that run ahead of the consumer by a bounded number of bytes, so
memory does not grow with the table. Neighbouring chunks of one segment are read together. A chunk that has
several places is read from the first that works; if none does, the damage is reported by name.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from crdtcat.chunks.footer import SegmentRef
from crdtcat.chunks.inline import decode_inline
from crdtcat.chunks.read import FooterCache, read_chunks
from crdtcat.chunks.types import cast_lossless, decode_type, from_storage, storage_type
from crdtcat.errors import Corrupt
from crdtcat.format.schema_code import StoredField
from crdtcat.head.columns import Column
from crdtcat.scan.masks import mask
from crdtcat.scan.plan import Plan
from crdtcat.store import Store

UNIT_BYTES: Final = 32 * 2**20  # Arrow content read by one request to a segment
AHEAD_BYTES: Final = 128 * 2**20  # Arrow content that may be decoded or under way before it is asked for
THREADS: Final = min(8, (os.cpu_count() or 1) + 2)  # a few more than cores: some wait for the store

Sources = tuple[tuple[Column, StoredField | None], ...]


@dataclass(frozen=True)
class Unit:
    """Chunks that are read together: neighbours in the plan, in one segment, with the same columns."""

    chunks: tuple[int, ...]
    whole: tuple[bool, ...]
    sources: Sources
    segment: int | None
    nbytes: int


def units(plan: Plan) -> Iterator[Unit]:
    """The plan cut into units, in row order."""
    log = plan.head.log
    gathered: list[tuple[int, bool]] = []
    current: tuple[Sources, int | None] | None = None
    size = 0
    sources_of: dict[tuple[int, int], Sources] = {}
    hidden = bool(plan.head.columns.hidden)
    for chunk, whole in zip(plan.chunks.tolist(), plan.whole.tolist(), strict=True):
        version = int(log.chunk_version[chunk])
        kind = (int(log.chunk_schema[chunk]), version if hidden else -1)
        if kind not in sources_of:
            sources_of[kind] = plan.sources(chunk)
        places = plan.places(chunk)
        this = (sources_of[kind], places[0][0] if places else None)
        nbytes = int(log.nbytes[chunk])
        if gathered and (this != current or this[1] is None or size + nbytes > UNIT_BYTES):
            yield _unit(gathered, current, size)
            gathered, size = [], 0
        current = this
        gathered.append((chunk, whole))
        size += nbytes
    if gathered:
        yield _unit(gathered, current, size)


def _unit(gathered: list[tuple[int, bool]], kind: Any, size: int) -> Unit:
    chunks, whole = zip(*gathered, strict=True)
    return Unit(chunks, whole, kind[0], kind[1], size)


class Execution:
    """Reads the units of a plan.

    Args:
        plan: what to read.
        store: where from.
        footers: kept from one scan to the next.
        verify: whether to check every column against its hash.
    """

    def __init__(self, plan: Plan, store: Store, footers: FooterCache, *, verify: bool) -> None:
        self._plan, self._store, self._footers, self._verify = plan, store, footers, verify

    def tables(self) -> Iterator[pa.Table]:
        """The rows, in order, a table per chunk. Raises `Corrupt`, naming what is damaged or missing."""
        todo = units(self._plan)
        with ThreadPoolExecutor(THREADS, thread_name_prefix="crdtcat-scan") as pool:
            running: deque[tuple[Unit, Future[list[pa.Table]]]] = deque()
            ahead = 0
            try:
                for unit in todo:
                    running.append((unit, pool.submit(self.read, unit)))
                    ahead += unit.nbytes
                    while ahead > AHEAD_BYTES or len(running) > 4 * THREADS:
                        first, future = running.popleft()
                        yield from future.result()
                        ahead -= first.nbytes
                while running:
                    yield from running.popleft()[1].result()
            finally:
                for _, future in running:
                    future.cancel()

    def read(self, unit: Unit) -> list[pa.Table]:
        """The rows of one unit, filtered, a table per chunk."""
        stored = self._stored(unit)
        return [
            self._shown(unit.sources, table, whole=whole)
            for table, whole in zip(stored, unit.whole, strict=True)
        ]

    def _stored(self, unit: Unit) -> list[pa.Table]:
        names = list(dict.fromkeys(field.name for _, field in unit.sources if field is not None))
        if not names:
            rows = [int(self._plan.head.log.rows[chunk]) for chunk in unit.chunks]
            return [pa.table({"": pa.nulls(count)}) for count in rows]
        if unit.segment is None:
            return [self._inline(chunk, names) for chunk in unit.chunks]
        try:
            return self._segment(unit.segment, unit.chunks, names)
        except Corrupt:
            if len(unit.chunks) == 1 and len(self._plan.places(unit.chunks[0])) == 1:
                raise
        return [self._anywhere(chunk, names) for chunk in unit.chunks]

    def _segment(self, segment: int, chunks: tuple[int, ...], names: list[str]) -> list[pa.Table]:
        plan, log = self._plan, self._plan.head.log
        ref = SegmentRef(
            plan.segment_file(segment),
            int(log.segment_size[segment]),
            int(log.segment_footer[segment]),
            log.segment_digest[segment].tobytes(),
        )
        groups = []
        for chunk in chunks:
            group = next(group for where, group in plan.places(chunk) if where == segment)
            groups.append((group, log.hash[chunk].tobytes()))
        return read_chunks(
            self._store, ref, groups, names, verify=self._verify, footers=self._footers, threads=1
        )

    def _anywhere(self, chunk: int, names: list[str]) -> pa.Table:
        failure: Corrupt | None = None
        for segment, _ in self._plan.places(chunk):
            try:
                return self._segment(segment, (chunk,), names)[0]
            except Corrupt as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def _inline(self, chunk: int, names: list[str]) -> pa.Table:
        log = self._plan.head.log
        version = int(log.chunk_version[chunk])
        id = log.id_at(version)
        data = log.inline.get((id.to_bytes(), chunk - int(log.chunk_start[version])))
        if data is None:
            raise Corrupt(f"{id}.v", f"chunk {log.hash[chunk].tobytes().hex()} has no place to be read from")
        hash = log.hash[chunk].tobytes()
        return decode_inline(data, f"{id}.v", hash, columns=names, verify=self._verify)

    def _shown(self, sources: Sources, stored: pa.Table, *, whole: bool) -> pa.Table:
        filter = self._plan.filter
        if filter is not None and not whole:
            needed = [(column, field) for column, field in sources if column.name in filter.columns]
            arrays = [_shown_column(column, field, stored) for column, field in needed]
            looked_at = pa.Table.from_arrays(
                arrays or [stored.column(0)], names=[c.name for c, _ in needed] or [""]
            )
            stored = stored.filter(mask(filter, looked_at))
        shown = sources[: len(self._plan.columns)]  # a plan needs what it shows, then the filter's own
        arrays = [_shown_column(column, field, stored) for column, field in shown]
        return pa.Table.from_arrays(arrays, schema=self._plan.schema)


def _shown_column(column: Column, field: StoredField | None, stored: pa.Table) -> pa.ChunkedArray:
    if field is None:
        nulls = pa.nulls(stored.num_rows, storage_type(column.type, column.name))
        return pa.chunked_array([from_storage(nulls, column.type, column.name)])
    logical = decode_type(field.type)
    arrays = [from_storage(array, logical, column.name) for array in stored.column(field.name).chunks]
    if logical != column.type:
        arrays = [cast_lossless(array, column.type) for array in arrays]
    return pa.chunked_array(arrays, column.type)

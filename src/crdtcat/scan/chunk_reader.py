"""Stored chunks, wherever they are: inside version files or in segments, checked, in storage types.

A chunk that has several places is read from the first that works; if none does, the damage is reported by
name. Chunks that lie over others (overlays, spare copies) are asked for once for every entry they touch, so
the last few that were read are kept. Thread-safe.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import chain, groupby
from operator import itemgetter
from threading import Lock
from typing import Final

import pyarrow as pa

from crdtcat.chunks.inline import decode_inline
from crdtcat.chunks.read import WHOLE_FILE_BYTES, FooterCache, Verify, fetch_chunks, read_footer
from crdtcat.errors import Corrupt
from crdtcat.scan.plan import Plan
from crdtcat.store import Store

Place = tuple[int, int]
"""A segment and a row group."""
KEPT_BYTES: Final = 64 * 2**20  # Arrow content of chunks kept for the next entry they lie over


class ChunkReader:
    """Reads stored columns of the chunks of one plan.

    Args:
        plan: whose head's chunks.
        store: where from.
        footers: kept from one scan to the next.
        verify: whether to check every column against its hash.
    """

    def __init__(self, plan: Plan, store: Store, footers: FooterCache, *, verify: Verify) -> None:
        self._plan, self._store, self._footers, self._verify = plan, store, footers, verify
        self._lock = Lock()
        self._kept: OrderedDict[tuple[Place | int, tuple[str, ...]], Future[pa.Table]] = OrderedDict()
        self._kept_bytes = 0

    def read(self, chunks: tuple[int, ...], segment: int | None, names: Sequence[str]) -> list[pa.Table]:
        """Some columns of neighbouring chunks of one segment (`None`: of version files), a table for each.

        Raises `Corrupt`, naming what is damaged or missing.
        """
        return list(self._fetched(chunks, segment, names))

    def _fetched(
        self, chunks: tuple[int, ...], segment: int | None, names: Sequence[str], *, raw: bool = False
    ) -> Iterator[pa.Table]:
        """The same, fetched now, and decoded one by one. With `raw`, texts may be dictionary arrays, or have
        wide offsets."""
        if not names:
            return (pa.table({"": pa.nulls(int(self._plan.head.log.rows[chunk]))}) for chunk in chunks)
        if segment is None:
            return (self._checked(chunk, self._inline(chunk, names)) for chunk in chunks)
        try:
            begun = self._segment(segment, chunks, names, raw=raw)
        except Corrupt as failure:
            begun = map(_raised, [failure])
        return self._whole(chunks, begun, names)

    def _whole(
        self, chunks: tuple[int, ...], begun: Iterator[pa.Table], names: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Chunks as they come, and from the first that is damaged on from wherever they are whole."""
        rest = iter(chunks)
        for chunk in rest:
            try:
                table = next(begun)
            except Corrupt:
                if len(chunks) == 1 and len(self._plan.places(chunk)) == 1:
                    raise
                yield from (self._anywhere(one, names) for one in (chunk, *rest))
                return
            yield self._checked(chunk, table)

    def _checked(self, chunk: int, table: pa.Table) -> pa.Table:
        """Offsets of rows are worked out from what the log says: nobody may allocate by its word."""
        log = self._plan.head.log
        if table.num_rows != int(log.rows[chunk]):
            id = log.id_at(int(log.chunk_version[chunk]))
            raise Corrupt(
                f"{id}.v", f"a chunk of {table.num_rows:,} rows is said to have {log.rows[chunk]:,}"
            )
        return table

    def one(self, chunk: int, names: Sequence[str]) -> pa.Table:
        """Some columns of one chunk. Raises as `read` does."""
        places = self._plan.places(chunk)
        return self.read((chunk,), places[0][0] if places else None, names)[0]

    def each(self, chunks: Sequence[int], names: Sequence[tuple[str, ...]]) -> Iterator[pa.Table]:
        """Some columns of chunks, each its own; neighbours in one segment with the same are fetched together.

        All are fetched now, and each decoded when it is asked for. Texts may be dictionary arrays, or have
        wide offsets. Raises as `read` does.
        """
        places = [self._plan.places(chunk) for chunk in chunks]
        wanted = [(at[0][0] if at else None, those) for at, those in zip(places, names, strict=True)]
        runs = groupby(zip(wanted, chunks, strict=True), key=itemgetter(0))
        fetched = [
            self._fetched(tuple(chunk for _, chunk in run), segment, those, raw=True)
            for (segment, those), run in runs
        ]
        return chain.from_iterable(fetched)

    def is_stored(self, chunk: int) -> bool:
        """Whether a chunk lies in a segment, rather than in a version file."""
        return bool(self._plan.places(chunk))

    def column_hashes(self, chunk: int) -> dict[str, bytes]:
        """Content hashes of a stored chunk's columns, from its segment's footer. At most one GET."""
        segment, group = self._plan.places(chunk)[0]
        footer = read_footer(self._store, self._plan.segment(segment), self._footers)
        return {name: place.content for name, place in zip(footer.names, footer.places[group], strict=True)}

    def kept(self, chunk: int, names: Sequence[str]) -> pa.Table:
        """As `one`, for chunks that will be asked for again, or others of the same content."""
        places = self._plan.places(chunk)
        key = (places[0] if places else chunk, tuple(names))
        with self._lock:
            found = self._kept.get(key)
            mine = found is None
            if found is None:
                found = self._kept[key] = Future()
            else:
                self._kept.move_to_end(key)
        if mine:
            try:
                found.set_result(self.one(chunk, names))
            except BaseException as error:
                found.set_exception(error)
                with self._lock:
                    self._kept.pop(key, None)
                raise
            self._make_room(found.result().nbytes)
        return found.result()

    def _make_room(self, fresh: int) -> None:
        with self._lock:
            self._kept_bytes += fresh
            while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
                key, oldest = self._kept.popitem(last=False)
                if not oldest.done():
                    self._kept[key] = oldest
                    break
                self._kept_bytes -= oldest.result().nbytes

    def _segment(
        self, segment: int, chunks: tuple[int, ...], names: Sequence[str], *, raw: bool = False
    ) -> Iterator[pa.Table]:
        plan, log = self._plan, self._plan.head.log
        groups = []
        for chunk in chunks:
            group = next(group for where, group in plan.places(chunk) if where == segment)
            groups.append((group, log.hash[chunk].tobytes()))
        ref = plan.segment(segment)
        return fetch_chunks(
            self._store,
            ref,
            groups,
            names,
            verify=self._verify,
            footers=self._footers,
            raw=raw,
            everything=ref.size <= WHOLE_FILE_BYTES and plan.is_everything(segment, chunks, names),
        )

    def _anywhere(self, chunk: int, names: Sequence[str]) -> pa.Table:
        failure: Corrupt | None = None
        for segment, _ in self._plan.places(chunk):
            try:
                return self._checked(chunk, next(self._segment(segment, (chunk,), names)))
            except Corrupt as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def _inline(self, chunk: int, names: Sequence[str]) -> pa.Table:
        log = self._plan.head.log
        version = int(log.chunk_version[chunk])
        id = log.id_at(version)
        data = log.inline.get((id.to_bytes(), chunk - int(log.chunk_start[version])))
        if data is None:
            raise Corrupt(f"{id}.v", f"chunk {log.hash[chunk].tobytes().hex()} has no place to be read from")
        hash = log.hash[chunk].tobytes()
        return decode_inline(data, f"{id}.v", hash, columns=list(names), verify=self._verify)


def _raised(failure: Corrupt) -> pa.Table:
    """In place of a chunk that could not even be fetched."""
    raise failure

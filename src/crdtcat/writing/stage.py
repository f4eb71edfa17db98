"""Staging: rows become chunks, chunks become inlined bytes or segments.

Rows are held until a stretch is full or the input ends, then split by partition and cut into chunks. The
chunks of a stretch are brought to storage types, hashed, measured and encoded by one of several threads,
while the next rows come in; stretches make segments, which are written as they grow. A chunk that is stored
already, or that this commit has twice, is not encoded again: it refers to where it lies. A commit whose rows
encode small enough has no segment at all: they ride inside its version file. Segments get unique names and
are stored before the version that makes them visible; if that never happens they are garbage for the
collector, and nobody sees them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from threading import Lock
from typing import Any, Final

import pyarrow as pa

from crdtcat.chunks.cutting import cut
from crdtcat.chunks.entry_order import take_orders
from crdtcat.chunks.inline import encode_inline
from crdtcat.chunks.keys import sorted_by_key
from crdtcat.chunks.partitions import Partitioning, encode_values
from crdtcat.chunks.statistics import moments
from crdtcat.chunks.stretch import Stretch, encode_stretch
from crdtcat.errors import LimitExceeded
from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.schema_code import encode_schema
from crdtcat.limits import PARTITION_VALUES_PER_COMMIT_MAX
from crdtcat.options import Options
from crdtcat.protocol import Put
from crdtcat.support.pools import ThreadPool
from crdtcat.writing.fit import Fit, conform, full_columns
from crdtcat.writing.open_segment import Ahead
from crdtcat.writing.prepared import Piece, Prepared, prepare
from crdtcat.writing.reuse import Lookup, Place, nowhere
from crdtcat.writing.segments import Segments
from crdtcat.writing.slabs import chunk_sizes, evenly, parts_of, slabs
from crdtcat.writing.staged import Staged

INLINE_ATTEMPT: Final = 16  # Arrow content beyond this many times the limit never encodes below it
STRETCH_BYTES: Final = 2**25  # of Arrow content: what one thread encodes at a time
KEYED_STRETCH_BYTES: Final = 2**27  # sorted as a whole: the longer, the fewer chunks share keys
THREADS_MAX: Final = 16  # each holds a stretch: more would take memory and gain little


_Encoded = tuple[list[Prepared], Stretch | None]
"""Chunks without their rows, and the rows of those that lay nowhere."""


class Stager:
    """Takes rows in, gives chunks out. For one thread; it starts others when there is work for them.

    Args:
        fit: how rows go into the table.
        partitioning: the table's partitioning.
        options: sizes.
        time_column: column whose least and greatest values are recorded.
        put: stores a full segment at once, so that memory stays bounded; called by another thread. The last
            one is left to the caller, in `puts`, where all of it is in memory.
        ahead: the store, which is told of the bytes of a segment while it is made.
        reuse: where chunks lie that are stored already.
        key: the table's key columns: each stretch's rows are sorted by them, and of several rows of one key
            only the last is kept.
        segment_bytes: Arrow content of a segment, if not what the options say.
        kind: what the chunks are, see `crdtcat.format.kinds`.
        full: columns of which it is known that no row to come is null, besides those that may not be.
    """

    def __init__(
        self,
        fit: Fit,
        partitioning: Partitioning,
        options: Options,
        *,
        time_column: str | None,
        put: Callable[[Put], None],
        ahead: Ahead,
        reuse: Lookup = nowhere,
        key: tuple[str, ...] = (),
        kind: int = ROWS,
        segment_bytes: int | None = None,
        full: frozenset[str] = frozenset(),
    ) -> None:
        self.fit = fit
        self.staged = Staged()
        self.rows = 0
        """Rows taken in so far."""
        self.in_order = False
        """Whether rows stay in their order, as `Partitioning.split` has it."""
        self._partitioning, self._options, self._time_column = partitioning, options, time_column
        self._sizes = chunk_sizes(options)
        self._reuse, self._key, self._kind = reuse, key, kind
        self._full = full_columns(fit.schema, full)
        if reuse is not nowhere:
            self.staged.begin()
        most = options.segment_bytes if segment_bytes is None else segment_bytes
        self._stretch_bytes = min(most, KEYED_STRETCH_BYTES if key else STRETCH_BYTES)
        self._segments = Segments(ahead, put, segment_bytes=most, stretch_bytes=self._stretch_bytes)
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._seen: set[bytes] = set()
        self._places: dict[bytes, Place | None] = {}
        self._claims = Lock()
        self._threads: ThreadPool | None = None
        self._spare = 0
        self._running: deque[Future[_Encoded]] = deque()

    @property
    def puts(self) -> list[Put]:
        """What the caller must store before the version, once `finish` was called."""
        return self._segments.puts

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take in rows. Raises `SchemaMismatch`, `UnsupportedType`, `LimitExceeded`."""
        table = conform(batch, self.fit.schema)
        self.rows += table.num_rows
        # Of rows that are all in memory more stretches may be begun, so that no core waits for the next.
        held = table.nbytes
        self._spare = _cores() if held > 2 * self._stretch_bytes else 0
        for slab, nbytes in slabs(table, held, self._stretch_bytes):
            self._pending.append(slab)
            self._pending_bytes += nbytes
            if self._pending_bytes >= self._stretch_bytes:
                for pieces in self._groups(last=False):
                    self._start(pieces)

    def add_all(self, batches: Iterable[pa.RecordBatch]) -> Stager:
        """Take in batches as users gave them, orders of entries too. An error ends it as `abort` does."""
        try:
            for batch in batches:
                take_orders(self.staged.orders, batch)
                self.add(batch)
        except BaseException:
            self.abort()
            raise
        return self

    def abort(self) -> None:
        """Let go of everything: no thread of this staging runs, and none makes a request, after this."""
        self._pending, self._pending_bytes = [], 0
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        self._segments.forget()

    def finish(self) -> dict[str, Any]:
        """The version file's keys for everything taken in, schema included. Waits for all threads."""
        try:
            *groups, last = [*self._groups(last=True)] or [[]]
            for pieces in groups:
                self._start(pieces)
            if self._threads is not None:
                self._start(last)
                self._wait(0)
            elif not self._inlined(chunks := [prepare(piece) for piece in last]):
                self._take(self._encoded(chunks))
            self._segments.finish(self._threads)
        finally:
            self.abort()
        self.staged.place({**self._places, **self._segments.places})
        self.staged.check_in_time()
        kinds = [self._kind] * len(self.staged.rows) if self._kind != ROWS else None
        return {
            "f": [encode_schema(self.fit.ordered(self.staged.orders))],
            "b": kinds or None,
            **self.staged.body(),
        }

    def _groups(self, *, last: bool) -> Iterator[list[Piece]]:
        """The pieces of one stretch after the other. What may still grow stays pending, unless it is all."""
        if not self._pending:
            return
        table = pa.concat_tables(self._pending)
        if self._key:
            table = sorted_by_key(table, self._key)
        pieces, rest = self._pieces(table, last=last or bool(self._key))  # what follows has any key
        self._pending, self._pending_bytes = ([rest], rest.nbytes) if rest.num_rows else ([], 0)
        if len(pieces) == 1:  # nearly every commit of few rows
            yield pieces
            return
        yield from evenly(pieces, [piece.table.nbytes for piece in pieces], self._stretch_bytes)

    def _pieces(self, table: pa.Table, *, last: bool) -> tuple[list[Piece], pa.Table]:
        """The table's pieces in order, and the rows behind them that further rows may join."""
        if not self._partitioning.fields:
            ends = cut(table, self._sizes, last=last)
            if 2 * ends[-1] < table.num_rows:  # one chunk fills a stretch: what is held has to go
                ends = cut(table, self._sizes)
            pieces = [Piece(None, part, self._key) for part in parts_of(table, ends)]
            return pieces, table.slice(ends[-1])
        pieces = []
        for values, part in self._partitioning.split(table, in_order=self.in_order):
            packed = encode_values(values)
            self._seen.add(packed)
            if len(self._seen) > PARTITION_VALUES_PER_COMMIT_MAX:
                raise LimitExceeded(
                    f"one commit touches more than {PARTITION_VALUES_PER_COMMIT_MAX:,} partitions; "
                    "partition more coarsely, or commit fewer at a time"
                )
            pieces += [Piece(packed, chunk, self._key) for chunk in parts_of(part, cut(part, self._sizes))]
        return pieces, table.slice(0, 0)

    def _start(self, pieces: list[Piece]) -> None:
        """Let a thread make a stretch of them; waits while every thread has one."""
        if self._threads is None:
            self._threads = ThreadPool(_cores() + 1, "crdtcat-stage")  # one that stores
            self.staged.begin()
        self._wait(_cores() - 1 + self._spare)
        self._running.append(
            self._threads.submit(lambda: self._encoded([prepare(piece) for piece in pieces]))
        )

    def _wait(self, running: int) -> None:
        """Take what the oldest threads have made, until at most so many are running."""
        while len(self._running) > running:
            self._take(self._running.popleft().result())

    def _take(self, encoded: _Encoded) -> None:
        """Let chunks be part of the commit."""
        chunks, stretch = encoded
        for chunk in chunks:
            self.staged.add(chunk)
            self._note_time(chunk)
        if stretch is not None:
            self._segments.add(stretch, self._threads)

    def _encoded(self, chunks: list[Prepared]) -> _Encoded:
        """Encode the chunks that lie nowhere yet. Gives all of them back, without their rows."""
        fresh = [chunk for chunk in chunks if self._claim(chunk.hash)]
        if not fresh:
            return [chunk.settled({}) for chunk in chunks], None
        stretch = encode_stretch(
            [chunk.table for chunk in fresh],
            [(chunk.hash, chunk.column_hashes) for chunk in fresh],
            full=self._full,
        )
        bounds = {id(chunk): found for chunk, found in zip(fresh, stretch.bounds, strict=True)}
        return [chunk.settled(bounds.get(id(chunk), {})) for chunk in chunks], stretch

    def _claim(self, hash: bytes) -> bool:
        """Whether a chunk has to be stored, and by the caller."""
        with self._claims:
            if hash in self._places:
                return False
            place = self._places[hash] = self._reuse(hash)
            return place is None

    def _inlined(self, chunks: list[Prepared]) -> bool:
        """Whether all chunks of the commit are stored already or fit into the version file; then they do."""
        limit = self._options.inline_bytes
        if self._threads is not None or sum(chunk.nbytes for chunk in chunks) > INLINE_ATTEMPT * limit:
            return False
        encoded: list[bytes | None] = []
        held = 0
        for chunk in chunks:
            place = self._places[chunk.hash] = self._reuse(chunk.hash)
            encoded.append(None if place is not None else encode_inline(chunk.table))
            held += len(encoded[-1] or b"")
            if held > limit:
                self._places.clear()
                return False
        self._take(([chunk.settled({}) for chunk in chunks], None))
        self.staged.inline = encoded if any(encoded) else []
        return True

    def _note_time(self, chunk: Prepared) -> None:
        """Moments in the time column of rows that are added, from what is known of it: it was looked at."""
        for name, _, known in chunk.statistics if self._time_column and self._kind != GONE else ():
            if name == self._time_column and known is not None:
                found = moments(self.fit.schema.field(name).type, known)
                if found is not None:
                    before = self.staged.time_range or found
                    self.staged.time_range = min(before[0], found[0]), max(before[1], found[1])


def _cores() -> int:
    return min(THREADS_MAX, os.cpu_count() or 1)

"""From stretches to segments: which go into one file, when it is stored, and what is held meanwhile.

A commit's rows are one segment, whatever their size: the store takes what is encoded while more is, and what
it has need not be held. Where a store takes nothing before the put, a segment ends when enough is held. One
thread stores at a time, in order; whoever brings stretches waits for it when it falls behind, so memory stays
bounded on a slow store too.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from crdtcat.chunks.stretch import Stretch
from crdtcat.protocol import Put
from crdtcat.support.pools import ThreadPool
from crdtcat.writing.open_segment import Ahead, OpenSegment
from crdtcat.writing.reuse import Place

HELD_BYTES: Final = 2**28  # encoded: beyond, what the store has is let go of, and what it has not is awaited
HELD_BYTES_MAX: Final = 2**30  # encoded: a segment ends where the store has taken nothing of so much
ROW_GROUPS_MAX: Final = 2**15 - 1  # of a Parquet file, which numbers them with 16 bits


class Segments:
    """The segments of one commit, as they fill. For one thread, which may let others store.

    Args:
        ahead: the store, which is told of bytes while there are more to come.
        put: stores a segment; called by another thread.
        segment_bytes: Arrow content of a segment, at most.
        stretch_bytes: about how much Arrow content a stretch has.

    Attributes:
        puts: segments that the caller must store: the last one, while all of it is in memory, so that it is
            published together with the version.
        places: where each chunk lies, or will.
    """

    def __init__(
        self, ahead: Ahead, put: Callable[[Put], object], *, segment_bytes: int, stretch_bytes: int
    ) -> None:
        self.puts: list[Put] = []
        self.places: dict[bytes, Place] = {}
        self._ahead, self._put = ahead, put
        self._segment_bytes, self._half = segment_bytes, stretch_bytes // 2
        self._open = OpenSegment(ahead)
        self._storing: Future[int] | None = None

    def add(self, stretch: Stretch, threads: ThreadPool | None) -> None:
        """The next stretch. With threads one stores what there is; this waits for it where too much is held.

        Raises what the store does, where only a part of it can be stored any more.
        """
        surplus = self._open.row_groups + len(stretch.rows) > ROW_GROUPS_MAX
        if surplus and threads is not None and not self._open.is_empty:
            self._close(threads)
        self._open.add(stretch)
        if threads is None:
            return
        if self._is_full():
            self._close(threads)
            return
        much = self._open.held_bytes > HELD_BYTES
        if self._storing is not None and not much and not self._storing.done():
            return  # what comes next takes it along
        stored = self._stored()
        if much:  # while all is held, a failure of the store is made good by its put
            self._open.let_go(stored)
        self._storing = threads.submit(self._open.write_ahead, self._open.begun)

    def finish(self, threads: ThreadPool | None) -> None:
        """No more stretches: waits until all but what is in `puts` is stored."""
        self._stored()
        if threads is not None and not self._open.is_held:
            self._close(threads)
            self._stored()
        elif not self._open.is_empty:
            whole, places = self._open.closed()
            self.puts.append(whole)
            self.places.update(places)
            self._open = OpenSegment(self._ahead)

    def forget(self) -> None:
        """Let go of everything. No thread may be storing."""
        self._open.forget()
        self._open = OpenSegment(self._ahead)

    def _is_full(self) -> bool:
        """Whether the next stretch goes to another segment."""
        return (
            self._open.content_bytes + self._half >= self._segment_bytes
            or self._open.held_bytes >= HELD_BYTES_MAX
        )

    def _stored(self) -> int:
        """Wait for the thread that stores: how many of the open segment's first bytes the store has."""
        return 0 if self._storing is None else self._storing.result()

    def _close(self, threads: ThreadPool) -> None:
        """Have the open segment stored, and begin another."""
        self._stored()
        full, self._open = self._open, OpenSegment(self._ahead)
        self._storing = threads.submit(self._store, full)

    def _store(self, segment: OpenSegment) -> int:
        """Put a segment, and note where its chunks are. Nothing of the next one is stored: 0."""
        try:
            whole, places = segment.closed()
            self._put(whole)
        except BaseException:
            segment.forget()
            raise
        self.places.update(places)
        return 0

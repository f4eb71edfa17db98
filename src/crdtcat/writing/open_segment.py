"""A segment that is still being made: stretches come, and the store hears of their bytes at once.

What has been encoded is written while the rest is: a store has nearly all of a segment when its last stretch
is done. What it says it has for good is let go of, once much is held, so a segment may be larger than memory.
Nothing is visible, or even named in the store, before the segment is put.
"""

from __future__ import annotations

import secrets
import weakref
from typing import Protocol

from crdtcat.chunks.segment import laid_out, linked, segment_name
from crdtcat.chunks.stretch import MAGIC, Stretch
from crdtcat.protocol import Put
from crdtcat.support.scattered import Scattered
from crdtcat.writing.reuse import Place, StoredSegment


class Ahead(Protocol):
    """Whoever can make use of an object's first bytes: a store."""

    def write_ahead(self, name: str, data: Scattered) -> int:
        """An object that begins with these bytes is about to be put. How many need not be kept for it."""

    def forget(self, name: str, *, requests: bool = True) -> None:
        """It is not. Without `requests`, none is made to say so."""


class OpenSegment:
    """Stretches that will be one segment. Not thread-safe, but for `Ahead`, which one other thread may run.

    Args:
        ahead: told of the bytes.
    """

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._stretches: list[Stretch] = []
        self._unique = secrets.token_bytes(8)
        self._finalizer: weakref.finalize[..., OpenSegment] | None = None
        self._kept_from = 0
        self.content_bytes = 0
        """Arrow content so far."""
        self.held_bytes = 0
        """Encoded bytes that are in memory."""
        self.row_groups = 0

    def add(self, stretch: Stretch) -> None:
        """The next row groups. A segment that nobody knows any more, as of a stream that nobody closed, is
        forgotten by the store."""
        self._stretches.append(stretch)
        if self._finalizer is None:
            self._finalizer = weakref.finalize(self, self._ahead.forget, self.name, requests=False)
            self._finalizer.atexit = False
        self.content_bytes += sum(stretch.chunk_bytes)
        self.held_bytes += stretch.groups_bytes
        self.row_groups += len(stretch.rows)

    def let_go(self, stored: int) -> None:
        """Let go of stretches that end within the first `stored` bytes."""
        end = len(MAGIC) + sum(stretch.gone for stretch in self._stretches[: self._kept_from])
        for at in range(self._kept_from, len(self._stretches)):
            stretch = self._stretches[at]
            end += stretch.groups_bytes
            if end > stored:
                return
            self._stretches[at] = stretch.let_go()
            self._kept_from = at + 1
            self.held_bytes -= stretch.groups_bytes

    @property
    def is_held(self) -> bool:
        """Whether all of it is in memory."""
        return not self._kept_from

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not self._stretches

    @property
    def _title(self) -> bytes:
        return self._stretches[0].hashes[0][0][:16]

    @property
    def name(self) -> str:
        """What it will be called, from its first stretch on."""
        return segment_name(self._title, self._unique)

    @property
    def begun(self) -> Scattered:
        """The bytes that are certain: all but the footer."""
        return laid_out(self._stretches)

    def write_ahead(self, begun: Scattered) -> int:
        """Tell the store of them. How many of the first it has for good. Another thread may do this."""
        return self._ahead.write_ahead(self.name, begun)

    def forget(self) -> None:
        """It will not be stored."""
        if self._stretches:
            self._ahead.forget(self.name)

    def closed(self) -> tuple[Put, dict[bytes, Place]]:
        """The PUT that stores it, and where each of its chunks lies then."""
        if self._finalizer is not None:
            self._finalizer.detach()
        whole = linked(self._stretches)
        title = self._title + self._unique
        stored = StoredSegment(title, len(whole.data), whole.digest, whole.footer_length)
        hashes = [hash for stretch in self._stretches for hash, _ in stretch.hashes]
        return Put(self.name, whole.data), {hash: Place(stored, at) for at, hash in enumerate(hashes)}

"""A segment that is still being made: stretches come, and the store hears of their bytes at once.

What has been encoded is written while the rest is: a local store has nearly all of a segment on disk when its
last stretch is done. Nothing is visible, or even named in the store, before the segment is put.
"""

from __future__ import annotations

import secrets
from typing import Protocol

from crdtcat.chunks.segment import linked, segment_name
from crdtcat.chunks.stretch import MAGIC, Stretch
from crdtcat.protocol import Put
from crdtcat.scattered import Scattered
from crdtcat.writing.reuse import Place, StoredSegment


class Ahead(Protocol):
    """Whoever can make use of an object's first bytes: a store."""

    def write_ahead(self, name: str, data: Scattered) -> None:
        """An object that begins with these bytes is about to be put."""

    def forget(self, name: str) -> None:
        """It is not."""


class OpenSegment:
    """Stretches that will be one segment. Not thread-safe, but for `Ahead`, which one other thread may run.

    Args:
        ahead: told of the bytes.
    """

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._stretches: list[Stretch] = []
        self._unique = secrets.token_bytes(8)
        self.content_bytes = 0
        """Arrow content so far."""

    def add(self, stretch: Stretch) -> None:
        """The next row groups."""
        self._stretches.append(stretch)
        self.content_bytes += sum(stretch.chunk_bytes)

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
        return Scattered([MAGIC, *(stretch.groups for stretch in self._stretches)])

    def forget(self) -> None:
        """It will not be stored."""
        if self._stretches:
            self._ahead.forget(self.name)

    def closed(self) -> tuple[Put, dict[bytes, Place]]:
        """The PUT that stores it, and where each of its chunks lies then."""
        whole = linked(self._stretches)
        title = self._title + self._unique
        stored = StoredSegment(title, len(whole.data), whole.digest, whole.footer_length)
        hashes = [hash for stretch in self._stretches for hash, _ in stretch.hashes]
        return Put(self.name, whole.data), {hash: Place(stored, at) for at, hash in enumerate(hashes)}

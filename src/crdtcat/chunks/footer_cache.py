"""Footers of segments, kept from one read to the next.

A footer is immutable and named by its digest, so nothing here ever goes stale: footers leave only to make
room, the one unused for longest first. No I/O.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from crdtcat.chunks.footer import Footer, SegmentRef

FOOTER_CACHE_BYTES = 64 * 2**20


class FooterCache:
    """The footers used last, up to a number of bytes. Thread-safe.

    Args:
        max_bytes: how much to keep, counted in bytes as stored.
    """

    def __init__(self, max_bytes: int = FOOTER_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, bytes], Footer] = OrderedDict()
        self._bytes = 0
        self._fetching: dict[tuple[str, bytes], tuple[threading.Lock, int]] = {}

    def _here(self) -> threading.Lock:
        """The lock. A forked child begins anew: other threads of its parent may have been at work here."""
        if self._process != os.getpid():
            self._start()
        return self._lock

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, ref: SegmentRef) -> Footer | None:
        """The footer of a segment, if it is here."""
        key = (ref.name, ref.digest)
        with self._here():
            footer = self._kept.get(key)
            if footer is not None:
                self._kept.move_to_end(key)
            return footer

    def put(self, ref: SegmentRef, footer: Footer) -> None:
        """Keep a footer, and forget the ones unused for longest where there is no room."""
        key = (ref.name, ref.digest)
        with self._here():
            if key in self._kept or footer.footer_length > self._max_bytes:
                return
            self._kept[key] = footer
            self._bytes += footer.footer_length
            while self._bytes > self._max_bytes:
                self._bytes -= self._kept.popitem(last=False)[1].footer_length

    @contextmanager
    def one_at_a_time(self, ref: SegmentRef) -> Iterator[None]:
        """Held by whoever fetches a footer, so that threads that want the same one fetch it once."""
        key = (ref.name, ref.digest)
        with self._here():
            turn, waiting = self._fetching.get(key, (threading.Lock(), 0))
            self._fetching[key] = turn, waiting + 1
        try:
            with turn:
                yield
        finally:
            with self._here():
                turn, waiting = self._fetching.pop(key)
                if waiting > 1:
                    self._fetching[key] = turn, waiting - 1

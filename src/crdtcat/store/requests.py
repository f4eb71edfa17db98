"""Counting requests: cost is part of the contract, so every store can be asked what it did.

A counter only grows. Take a `snapshot()` before, ask `since(snapshot)` after, compare with what the
operation promises. Every try counts, also one that failed and was repeated: that is what a store charges for.
Bytes are those of objects, and are counted when the request succeeded.

Counts belong to one store object in one process; a pickled or forked copy has counts of its own.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, fields
from typing import Literal

Kind = Literal["put", "get", "list", "delete", "head"]
"""What a request does. Parts of a multipart upload, and its first and last request, are each a `put`."""


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """How many requests of each kind, and how many bytes of objects they carried.

    Attributes:
        put: objects or parts written, created exclusively, or begun and completed as multipart.
        get: objects or ranges read.
        list: pages of listings.
        delete: requests that delete, however many names each carries.
        head: requests for metadata only; no operation of this library needs one.
        bytes_in: bytes received from the store.
        bytes_out: bytes sent to it.
    """

    put: int = 0
    get: int = 0
    list: int = 0
    delete: int = 0
    head: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def __sub__(self, earlier: RequestCounts) -> RequestCounts:
        return RequestCounts(*(getattr(self, each) - getattr(earlier, each) for each in _FIELDS))

    @property
    def total(self) -> int:
        """All requests, of every kind."""
        return self.put + self.get + self.list + self.delete + self.head

    def __str__(self) -> str:
        shown = [f"{getattr(self, each)} {each}" for each in _FIELDS if getattr(self, each)]
        return ", ".join(shown) or "no requests"


_FIELDS = tuple(field.name for field in fields(RequestCounts))


class RequestCounter:
    """A growing count of requests. Thread-safe, and usable in a forked child."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_FIELDS, 0)
        self._lock = threading.Lock()
        self._process = os.getpid()

    def add(self, kind: Kind | None = None, *, count: int = 1, bytes_in: int = 0, bytes_out: int = 0) -> None:
        """Count requests of one kind, or only bytes."""
        if self._process != os.getpid():  # a lock another thread held at the fork would never be released
            self._lock, self._process = threading.Lock(), os.getpid()
        with self._lock:
            if kind is not None:
                self._counts[kind] += count
            self._counts["bytes_in"] += bytes_in
            self._counts["bytes_out"] += bytes_out

    def snapshot(self) -> RequestCounts:
        """The counts now."""
        return RequestCounts(**self._counts)

    def since(self, earlier: RequestCounts) -> RequestCounts:
        """What was counted after `earlier` was taken."""
        return self.snapshot() - earlier

    def __getattr__(self, name: str) -> int:
        if name in _FIELDS:
            return self._counts[name]
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"RequestCounter({self.snapshot()})"

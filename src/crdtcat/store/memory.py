"""Objects in this process's memory, for tests, examples and scratch work.

They live in fsspec's memory filesystem, so whatever else reads `memory://` URLs in this process sees them
too, and every store of the same URL sees the same objects. Another process sees nothing: a forked child has
a copy of its own, an unpickled store elsewhere starts empty.

One lock makes every operation atomic. The clock that stamps objects can be replaced.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import CapabilityMissing
from crdtcat.store.base import Store
from crdtcat.store.retry import RetryPolicy
from crdtcat.store.values import Answers, Data, Names, ObjectInfo, Page, Range

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 (a lock another thread held at the fork would never be released)
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class MemoryStore(Store):
    """Objects in memory, shared by all stores of this process.

    Args:
        url: `memory://` and any path.
        storage_options: accepted for symmetry; there is nothing to set.
        retry: how failures injected by tests are repeated.
        clock_ms: where the stamps of objects come from.
    """

    can_create_exclusively = True
    is_remote = False
    page_limit = 1_000_000

    def __init__(
        self,
        url: str = "memory://",
        storage_options: Mapping[str, Any] | None = None,
        *,
        retry: RetryPolicy | None = None,
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        super().__init__(url, storage_options, retry=retry)
        self.url = url  # all of it: it holds no credentials
        path = url.split("://", 1)[1].strip("/")
        self._root = f"/{path}/" if path else "/"
        self._clock_ms = clock_ms

    @property
    def place(self) -> str:
        """`memory://` and the path."""
        return f"memory:/{self._root}".rstrip("/")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_process": os.getpid()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.pop("_process") != os.getpid():
            raise CapabilityMissing(
                f"{state['url']} lives in the memory of one process and cannot be handed to another; "
                "use a local path to share a catalog between processes"
            )
        super().__setstate__(state)

    def skew_ms(self) -> int | None:
        """This store's clock minus the machine's: zero unless the clock was replaced."""
        return self._clock_ms() - wall_ms() if self._clock_ms is not wall_ms else 0

    @property
    def _files(self) -> dict[str, Any]:
        files: dict[str, Any] = MemoryFileSystem.store  # of the class: an instance is looked up by a hash
        return files

    def _put(self, name: str, data: Data) -> None:
        path = self._root + name
        file = MemoryFile(fsspec.filesystem("memory"), path, bytes(data))
        file.modified = _EPOCH + timedelta(milliseconds=self._clock_ms())
        with _lock:
            self._files[path] = file

    def _put_if_absent(self, name: str, data: Data) -> None:
        with _lock:
            if self._root + name in self._files:
                raise FileExistsError(name)
            self._put(name, data)

    def _get(self, name: str, start: int, stop: int | None) -> bytes:
        with _lock:
            file = self._files.get(self._root + name)
            if file is None:
                raise FileNotFoundError(name)
            return bytes(file.getvalue()[start:stop])

    def _get_many(self, ranges: list[Range] | Any) -> Answers:
        return [self._get_or_none(each) for each in ranges]

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        with _lock:
            names = sorted(
                name for name in self._below(prefix) if name > after and "/" not in name[len(prefix) :]
            )
            objects = tuple(self._info(name) for name in names[:limit])
        return Page(objects, objects[-1].name if len(names) > limit else None)

    def _folders(self, prefix: str) -> Names:
        def find() -> Names:
            with _lock:
                inside = (name[len(prefix) :].split("/") for name in self._below(prefix))
                return list({parts[0] for parts in inside if len(parts) > 1})

        return self._attempt("list", prefix, find)

    def _delete(self, names: Names) -> None:
        def forget() -> None:
            with _lock:
                for name in names:
                    self._files.pop(self._root + name, None)

        self._attempt("delete", names[0], forget)

    def _below(self, prefix: str) -> Names:
        start, skip = self._root + prefix, len(self._root)
        return [path[skip:] for path in self._files if path.startswith(start)]

    def _info(self, name: str) -> ObjectInfo:
        file = self._files[self._root + name]
        modified_ms = (file.modified - _EPOCH) // timedelta(milliseconds=1)
        return ObjectInfo(name, len(file.getbuffer()), modified_ms)

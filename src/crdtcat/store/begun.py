"""Local files that are written before all of their content is known.

Whoever encodes a large object says what its first bytes will be, piece by piece; they go to a hidden file,
and the put only adds the rest. A failure here means that the put writes all of it, while all of it is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock
from typing import Final

from crdtcat.errors import StoreUnavailable
from crdtcat.store.local_files import write_all
from crdtcat.store.values import Content
from crdtcat.support.scattered import Scattered

FILES_MAX: Final = 64
_sync: Final = getattr(os, "fdatasync", os.fsync)  # not everywhere


@dataclass
class Begun:
    """A hidden file under way.

    Attributes:
        hidden: its path.
        descriptor: open for writing, at its end.
        written: how many bytes it has.
    """

    hidden: str
    descriptor: int
    written: int = 0

    def drop(self) -> None:
        """Close and remove it."""
        with suppress(OSError):
            os.close(self.descriptor)
        with suppress(OSError):
            os.unlink(self.hidden)  # noqa: PTH108


def lost(name: str) -> StoreUnavailable:
    """For an object whose first bytes nobody has any more."""
    return StoreUnavailable(
        f"{name}: what had been written of it is lost, and too large to be kept here as well; nothing of it "
        "is visible; do it again"
    )


class BegunFiles:
    """The files one process has begun, by the name they will have. Thread-safe; one thread for each name.

    Only so many, no more are begun: who begins an object and neither puts nor forgets it must not keep ever
    more files open.
    """

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), RLock()  # the garbage collector may forget one within
        self._files: dict[str, Begun] = {}
        self._failed: set[str] = set()

    def write(self, name: str, data: Scattered, hidden: str, create: Callable[[str], int]) -> int:
        """Write what of `data` is not in the file yet; `create` opens it the first time, at `hidden`.

        Returns how many bytes the file has: all, or none.
        """
        if name in self._failed or self._process != os.getpid():
            return 0
        begun = self._pop(name)
        if begun is None and (data.gone or len(self._files) >= FILES_MAX):
            return 0
        try:
            begun = begun or Begun(hidden, create(hidden))
            write_all(begun.descriptor, data, start=begun.written)
            _sync(begun.descriptor)  # what is on disk now the put need not wait for, and nobody waits here
            begun.written = len(data)
            with self._lock:
                self._files[name] = begun
        except BaseException as error:
            self._pop(name)
            if begun is not None:
                begun.drop()
            if not isinstance(error, OSError):
                raise
            self._failed.add(name)
            return 0
        return begun.written

    def ready(self, name: str, data: Content) -> Begun | None:
        """The file begun for an object, until it is released. Raises `StoreUnavailable`."""
        self._failed.discard(name)
        begun = self._files.get(name) if self._process == os.getpid() else None
        if begun is not None and begun.written > len(data):
            self.forget(name)
            begun = None
        if begun is None and isinstance(data, Scattered) and data.gone:
            raise lost(name)
        return begun

    def release(self, name: str) -> None:
        """From now on the file is the caller's, who removes it."""
        self._pop(name)

    def forget(self, name: str) -> None:
        """Remove the file, if there is one."""
        self._failed.discard(name)
        begun = self._pop(name)
        if begun is not None:
            begun.drop()

    def _pop(self, name: str) -> Begun | None:
        if self._process != os.getpid():  # a forked child has its parent's files, and leaves them alone
            return None
        with self._lock:
            return self._files.pop(name, None)

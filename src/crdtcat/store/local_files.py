"""Reading and writing open files, whole: the system may do less than it was asked for."""

from __future__ import annotations

import os
import secrets
from typing import Final

from crdtcat.scattered import Scattered
from crdtcat.store.values import Content

HIDDEN: Final = ".crdtcat-"
"""How the names of files begin that are being written."""
_SMALL_BYTES: Final = 16 * 1024


def hidden_in(folder: str) -> str:
    """A path in the folder that nobody has, and nobody lists."""
    return f"{folder}/{HIDDEN}{secrets.token_hex(12)}"


def read_range(descriptor: int, start: int, stop: int | None) -> bytes:
    """The bytes from `start` to before `stop`, or to the end."""
    if stop is None:
        data = os.pread(descriptor, _SMALL_BYTES, start)
        if len(data) < _SMALL_BYTES:  # most objects: then asking for the size first would cost a third more
            return data
    end = os.fstat(descriptor).st_size if stop is None else stop
    parts: list[bytes] = []
    while start < end:
        part = os.pread(descriptor, end - start, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_all(descriptor: int, data: Content, *, start: int = 0) -> None:
    """Write the bytes from `start` on, all of them."""
    whole = data if isinstance(data, Scattered) else Scattered([data])
    for part in whole.between(start):
        view = part
        while view:
            view = view[os.write(descriptor, view) :]


def force(folder: str) -> None:
    """Wait until the entries of a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Reading and writing open files, whole: the system may do less than it was asked for.

And what is in a folder, or in its way.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crdtcat.errors import RequestRefused
from crdtcat.scattered import Scattered
from crdtcat.store.values import Content, Names

HIDDEN: Final = ".crdtcat-"
"""How the names of files begin that are being written."""
_SMALL_BYTES: Final = 16 * 1024


def hidden_in(folder: str) -> str:
    """A path in the folder that nobody has, and nobody lists."""
    return f"{folder}/{HIDDEN}{secrets.token_hex(12)}"


@contextmanager
def folder_needed(folder: str, url: str) -> Iterator[None]:
    """Where something fails because a file stands in the place of this folder or one above it, say which.

    Raises `RequestRefused` instead.
    """
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        file = _in_the_way(folder)
        if file is None:
            raise
        raise RequestRefused(
            f"{file!r} is no folder, and {url} needs one there; check the path of the catalog"
        ) from error


def _in_the_way(folder: str) -> str | None:
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)  # noqa: PTH120
    return None if os.path.isdir(folder) else folder  # noqa: PTH112


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


def names_in(folder: str, after: str) -> Names:
    """The names of its files above one, in no order; none where there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return [
                entry.name
                for entry in entries
                if entry.name > after and not entry.name.startswith(".") and entry.is_file()
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []

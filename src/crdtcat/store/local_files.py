"""Reading and writing open files, whole: the system may do less than it was asked for.

And what is in a folder, or in its way.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from crdtcat.errors import RequestRefused, StoreFull
from crdtcat.store.retry import Fault, classify
from crdtcat.store.values import Content, Names, ObjectInfo, Page
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.support.pools import ThreadPool
from crdtcat.support.scattered import Scattered

HIDDEN: Final = ".crdtcat-"
"""How the names of files begin that are being written."""
_SMALL_BYTES: Final = 16 * 1024
LARGE_BYTES: Final = 16 * 2**20
"""From this size on, a file that is read whole gets memory of its own."""
_READ_THREADS_MAX: Final = 4
_READINGS_MAX: Final = 100
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


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


@contextmanager
def room_needed(goal: str) -> Iterator[None]:
    """Where a disk is full, or a quota or a limit reached, before the object has its name, say that.

    Raises `StoreFull` instead.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StoreFull(
            f"there is no room for {goal!r} ({error.strerror}), and it was not stored; make room, then repeat"
        ) from error


@contextmanager
def name_given(goal: str) -> Iterator[None]:
    """An object has its name, and others see it: whatever fails now, it is not refused. What would say so (a
    folder that may be written to and not read, a file system that was mounted anew, read only) says instead
    that nobody knows, `EIO`."""
    try:
        yield
    except FileNotFoundError:  # gone again, with its folder
        raise
    except OSError as error:
        if classify(error) in (Fault.TRANSIENT, Fault.UNAVAILABLE):
            raise
        told = f"it has its name, and whether it is on disk is not known ({error.strerror})"
        raise OSError(errno.EIO, told, goal) from error


def _in_the_way(folder: str) -> str | None:
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)  # noqa: PTH120
    return None if os.path.isdir(folder) else folder  # noqa: PTH112


def read_range(descriptor: int, start: int, stop: int | None) -> ObjectBytes:
    """The bytes from `start` to before `stop`, or to the end; of a large file without `stop` as a view."""
    if stop is None:
        data = os.pread(descriptor, _SMALL_BYTES, start)
        if len(data) < _SMALL_BYTES:  # most objects: then asking for the size first would cost a third more
            return data
    end = os.fstat(descriptor).st_size if stop is None else stop
    if stop is None and end - start >= LARGE_BYTES:
        return _read_apart(descriptor, start, end)
    parts: list[bytes] = []
    while start < end:
        part = os.pread(descriptor, end - start, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_apart(descriptor: int, start: int, end: int) -> memoryview:
    """The bytes from `start` to before `end`, or as many as there are, in memory of their own.

    A copy, and not the file mapped: what was checked against a hash is what is used, whatever becomes of the
    file. The memory is given back with the last view of it, and a view hashes, as the object below it does.

    Finding a page of memory for every 4 KB takes longer than reading them, so several threads read. Large
    pages would take a third of that, and on machines whose host lends them memory, up to four times as long.
    """
    memory = mmap.mmap(-1, end - start, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = memoryview(memory)
    threads = min(_READ_THREADS_MAX, os.cpu_count() or 1)
    size = -(-len(view) // (threads * mmap.PAGESIZE)) * mmap.PAGESIZE
    parts = range(0, len(view), size)

    def read(first: int) -> int:
        """How far a part was read."""
        at, stop = first, min(first + size, len(view))
        while at < stop and (count := os.preadv(descriptor, [view[at:stop]], start + at)):
            at += count
        return at

    with ThreadPool(threads, "crdtcat-read") as pool:
        ends = list(pool.map(read, parts))
    short = (stop for first, stop in zip(parts, ends, strict=True) if stop < min(first + size, len(view)))
    return view[: next(short, len(view))].toreadonly()


def read_into(memory: memoryview, descriptor: int, ranges: Sequence[tuple[int, int]]) -> int:
    """Read ranges to their own places in memory; how many bytes. Fewer than asked for: the file is short."""
    read = 0
    for start, stop in ranges:
        at = start
        while at < stop and (count := os.preadv(descriptor, [memory[at:stop]], at)):
            at += count
        read += at - start
    return read


def write_all(descriptor: int, data: Content, *, start: int = 0) -> None:
    """Write the bytes from `start` on, all of them."""
    whole = data if isinstance(data, Scattered) else Scattered([data])
    for part in whole.between(start):
        view = part
        while view:
            view = view[os.write(descriptor, view) :]


def finish(descriptor: int, data: Content, *, start: int) -> int:
    """Write the bytes from `start` on, wait until all are on disk, and close; when the file was written last.

    A function of its own: a `try` right after a file was made is preceded by an instruction that no handler
    covers, and who is interrupted there leaves the file.
    """
    try:
        write_all(descriptor, data, start=start)
        os.fsync(descriptor)
        return os.fstat(descriptor).st_mtime_ns // 1_000_000
    finally:
        os.close(descriptor)


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
                name
                for entry in entries
                if (name := entry.name) > after and name[0] != "." and entry.is_file()
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []


def readings(folder: str, after: str) -> Iterator[Names]:
    """The names above one, each time from a reading that misses none of the reading before it."""
    before = set(names_in(folder, after))
    for _ in range(_READINGS_MAX):
        names = names_in(folder, after)
        if before.issubset(names):
            yield names
        before = set(names)


def folders_in(folder: str) -> Names:
    """The names of the folders in it, in no order; none where there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def described(folder: str, prefix: str, names: Names, limit: int) -> Page | None:
    """The page of the first `limit` objects; `None` if one vanished meanwhile."""
    objects = []
    try:
        for name in names[:limit]:
            status = os.stat(folder + name)  # noqa: PTH116
            objects.append(ObjectInfo(prefix + name, status.st_size, status.st_mtime_ns // 1_000_000))
    except FileNotFoundError:
        return None
    return Page(tuple(objects), objects[-1].name if len(names) > limit else None)


def remove_hidden(folder: str, *, older_seconds: float) -> int:
    """Remove the folder's hidden files that were last written longer ago than this; how many."""
    removed = 0
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(HIDDEN):
                with suppress(FileNotFoundError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > older_seconds:
                        os.unlink(entry.path)  # noqa: PTH108
                        removed += 1
    return removed

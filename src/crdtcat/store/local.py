"""Objects as files below a folder, put so that no torn file ever carries a final name.

A put writes a file of a hidden random name beside its goal, forces it to disk, renames it, and forces the
folder to disk: whoever is killed at any instruction leaves the old object, the new object, or a hidden
leftover that nobody lists. Exclusive creation links the finished hidden file to its final name, which the
file system grants to one caller only. Folders are made on demand, and forced to disk once per process
before anything relies on them.

A listing must not miss an object because a greater-named one replaced it meanwhile, but a folder is read in
no order and not in one instant. So it is read twice, and again until nothing seen before has vanished. To be
misled, two replacements, one of the other's product, would have to fall into two readings (milliseconds),
which any grace period longer than that rules out.

Made for POSIX file systems with hard links. Network file systems are as safe as their rename and link are.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from typing import Any

from crdtcat.errors import InvalidName
from crdtcat.store import naming
from crdtcat.store.base import Store
from crdtcat.store.begun import BegunFiles, lost
from crdtcat.store.local_files import (
    described,
    finish,
    folder_needed,
    folders_in,
    force,
    hidden_in,
    name_given,
    read_into,
    read_range,
    readings,
    remove_hidden,
    room_needed,
)
from crdtcat.store.places import local_root
from crdtcat.store.retry import Fault, RetryPolicy, classify
from crdtcat.store.skew import SkewEstimate
from crdtcat.store.values import Answers, Content, Data, Names, NamesPage, Page, Range
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.support.scattered import Scattered

LEFTOVER_SECONDS = 24 * 60 * 60
"""A hidden file older than this belongs to a process that was killed while it wrote."""
_DURABLE: dict[str, set[str]] = {}  # by root, the folders that stores of this process have forced to disk
_ROOTS_MAX = 1_000
_CLOCK_RESOLUTION_MS = 20  # file systems stamp with the kernel's coarse clock, which lags by up to one tick
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalStore(Store):
    """Objects as files below a folder, which is made by the first put.

    A put costs two forced writes, a listing two readings of the folder, and `stat`s unless it is of names.
    """

    can_create_exclusively = True
    is_remote = False
    page_limit = 1_000_000
    _live = (*Store._live, "_durable", "_swept", "_skew", "_begun")

    def __init__(
        self,
        url: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        *,
        retry: RetryPolicy | None = None,
    ) -> None:
        text = os.fspath(url)
        self.root = local_root(text)
        super().__init__(text, storage_options, retry=retry)
        self.url = text  # all of it: a path hides nothing, and may have a '?' or '#' in it

    def _start(self) -> None:
        super()._start()
        if len(_DURABLE) >= _ROOTS_MAX:
            _DURABLE.clear()  # stores in use keep their own
        self._durable = _DURABLE.setdefault(self.root, set())
        self._swept: dict[str, float] = {}
        self._skew = SkewEstimate()
        self._begun = BegunFiles()

    @property
    def place(self) -> str:
        """The folder's path, whole, with links followed."""
        return os.path.realpath(self.root)

    def skew_ms(self) -> int | None:
        """The file system's clock minus this machine's: of interest on network file systems."""
        return self._skew.milliseconds

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    # Writing.

    def write_ahead(self, name: str, data: Scattered) -> int:
        """Writes the bytes to the hidden file that the put will rename. All of them, or none. No request."""
        folder = os.path.dirname(self._path(name))  # noqa: PTH120
        has = self._begun.write(name, data, hidden_in(folder), lambda hidden: self._create(hidden, folder))
        if has < data.gone:
            raise lost(name)
        return has

    def forget(self, name: str, *, requests: bool = True) -> None:  # noqa: ARG002 (it needs none)
        """Removes the hidden file."""
        self._begun.forget(name)

    def _put(self, name: str, data: Data) -> None:
        self._put_file(name, data)

    def _put_scattered(self, name: str, data: Scattered) -> None:
        self._put_file(name, data)

    def _put_file(self, name: str, data: Content) -> None:
        goal = self._path(name)
        with self._written_beside(goal, data, name) as (hidden, folder):
            os.rename(hidden, goal)  # noqa: PTH104 (a Path for each put would cost more than the call)
            with name_given(goal):
                force(folder)

    def _put_if_absent(self, name: str, data: Data) -> None:
        goal = self._path(name)
        if os.path.lexists(goal):  # most who lose are told before they force anything to disk
            raise FileExistsError(errno.EEXIST, "the name is taken", goal)
        with self._written_beside(goal, data) as (hidden, folder):
            try:
                os.link(hidden, goal)
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise NotImplementedError("this file system has no hard links") from error
                raise
            with name_given(goal):
                os.unlink(hidden)  # noqa: PTH108
                force(folder)

    @contextmanager
    def _written_beside(self, goal: str, data: Content, name: str | None = None) -> Iterator[tuple[str, str]]:
        """A finished, forced, hidden file in the folder of `goal`; removed unless it was renamed away.

        With a `name`, what was written ahead under it is used.
        """
        folder = os.path.dirname(goal)  # noqa: PTH120
        begun = None if name is None else self._begun.ready(name, data)
        hidden = begun.hidden if begun is not None else hidden_in(folder)
        sent_ms = time.time_ns() // 1_000_000
        try:
            with room_needed(goal):
                if name is not None:
                    self._begun.release(name)
                descriptor = begun.descriptor if begun is not None else self._create(hidden, folder)
                stamp_ms = finish(descriptor, data, start=begun.written if begun is not None else 0)
            self._skew.observe(stamp_ms, _CLOCK_RESOLUTION_MS, sent_ms, time.time_ns() // 1_000_000)
            yield hidden, folder
        except BaseException as error:
            with suppress(OSError):
                os.unlink(hidden)  # noqa: PTH108
            if isinstance(error, FileNotFoundError):  # swept, or removed with its folder: write it again
                self._durable.clear()
                raise OSError(errno.ESTALE, "the file vanished while it was written") from error
            if isinstance(error, IsADirectoryError):
                raise InvalidName(f"{goal!r} is a folder, and cannot be an object as well") from error
            raise

    def _create(self, hidden: str, folder: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        if folder in self._durable:
            try:
                return os.open(hidden, flags, 0o666)
            except FileNotFoundError:  # the folder was removed behind our back
                self._durable.clear()
        self._make_durable(folder)
        return os.open(hidden, flags, 0o666)

    def _make_durable(self, folder: str) -> None:
        """Make `folder` and what is above it, and force each entry to disk.

        Also where it exists already: a process that made it may have been killed before it forced it.
        """
        parent = os.path.dirname
        made_from = folder
        while not os.path.isdir(made_from):  # noqa: PTH112
            made_from = parent(made_from)
        with folder_needed(folder, self.url):
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        above_root = parent(self.root)
        last = min(made_from, above_root, key=len)
        step = folder
        while step != last and step != parent(step) and step not in self._durable:
            try:
                force(parent(step))
            except PermissionError:
                # Somebody else's folder above an existing root may be closed to us; its entry is old.
                if parent(step) != above_root:
                    raise
            step = parent(step)
        self._durable.add(folder)

    # Reading.

    def _open(self, name: str) -> int:
        try:
            return os.open(self._path(name), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except NotADirectoryError:
            with folder_needed(self.root, self.url):
                raise  # below the root a file in the way only means that there is no such object

    def _get(self, name: str, start: int, stop: int | None) -> ObjectBytes:
        descriptor = self._open(name)
        try:
            return read_range(descriptor, start, stop)
        finally:
            os.close(descriptor)

    def _get_many(self, ranges: Sequence[Range]) -> Answers:
        """One after the other: threads cost more than a read from the page cache. One open for neighbours."""
        self.requests.add("get", count=len(ranges))
        answers: Answers = []
        received = 0
        for name, group in groupby(ranges, key=itemgetter(0)):
            wanted = list(group)
            try:
                descriptor = self._open(name)
                try:
                    found = [read_range(descriptor, start, stop) for _, start, stop in wanted]
                finally:
                    os.close(descriptor)
            except OSError as error:
                if classify(error) is Fault.MISSING:
                    answers.extend([None] * len(wanted))
                else:  # the slow way repeats and translates
                    answers.extend(self._get_or_none(each) for each in wanted)
            else:
                received += sum(map(len, found))
                answers.extend(found)
        self.requests.add(bytes_in=received)
        return answers

    def get_into(self, memory: memoryview, name: str, ranges: Sequence[tuple[int, int]]) -> bool:
        """As `get_many` does, without a copy. A short or missing file is told by that."""
        with suppress(OSError):
            descriptor = self._open(name)
            try:
                read = read_into(memory, descriptor, ranges)
            finally:
                os.close(descriptor)
            if read == sum(stop - start for start, stop in ranges):
                self.requests.add("get", count=len(ranges), bytes_in=read)
                return True
        return False

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        folder = self._path(prefix)
        for names in readings(folder, after[len(prefix) :]):
            page = described(folder, prefix, sorted(names), limit)
            if page is not None:
                return page
        raise TimeoutError("the folder changed during every reading of it")

    def _list_names(self, prefix: str, after: str, limit: int) -> NamesPage:
        for found in readings(self._path(prefix), after[len(prefix) :]):
            names = [prefix + name for name in sorted(found)]
            return NamesPage(tuple(names[:limit]), names[limit - 1] if len(names) > limit else None)
        raise TimeoutError("the folder changed during every reading of it")

    def _folders(self, prefix: str) -> Names:
        return self._attempt("list", prefix, lambda: folders_in(self._path(prefix)))

    # Deleting.

    def _delete(self, names: Names) -> None:
        def unlink_all() -> None:
            for name in names:
                with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    os.unlink(self._path(name))  # noqa: PTH108

        self._attempt("delete", names[0], unlink_all)
        for prefix in {name[: name.rfind("/") + 1] for name in names}:
            if time.monotonic() - self._swept.get(prefix, -LEFTOVER_SECONDS) >= LEFTOVER_SECONDS:
                self.sweep(prefix)

    def sweep(self, prefix: str) -> int:
        """Remove hidden files older than a day; how many. `delete` does it once a day for each folder.

        A writer that slept so long finds its hidden file gone, and writes it again.
        """
        naming.check_prefix(prefix)
        self._swept[prefix] = time.monotonic()
        return remove_hidden(self._path(prefix), older_seconds=LEFTOVER_SECONDS)

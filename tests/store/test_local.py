"""Local files: durable order of writes, kills, leftovers, folders that vanish, listings under churn."""

from __future__ import annotations

import errno
import itertools
import os
import pickle
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crdtcat.errors import (
    AccessDenied,
    CapabilityMissing,
    InvalidArgument,
    InvalidName,
    RequestRefused,
    StoreFull,
    StoreUnavailable,
)
from crdtcat.store import Missing, RequestCounts, RetryPolicy, local, local_files, open_store
from crdtcat.store.local import LEFTOVER_SECONDS, LocalStore

QUICK = RetryPolicy(attempts=3, base_ms=1, max_ms=1)

SIZE = 200_000


def write_for_ever(root: Path, writer: int, acknowledge: int) -> None:
    """Put, replace and create objects of one repeated letter, and say so after each."""
    store = LocalStore(root)
    for number in itertools.count():
        data = bytes([65 + number % 26]) * SIZE
        if number % 3 == 0:
            store.put("log/overwritten", data)
        elif number % 3 == 1:
            store.put(f"log/{writer}-{number:06}", data)
        else:
            assert store.put_if_absent(f"log/{writer}-{number:06}", data)
        os.write(acknowledge, b"%d\n" % number)


def killed_after(seconds: float, root: Path, writer: int) -> list[int]:
    """The numbers a writing process acknowledged before it was killed."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other tests' threads are none of its business
        child = os.fork()
    if child == 0:
        try:
            write_for_ever(root, writer, writing)
        finally:
            os._exit(1)
    os.close(writing)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with os.fdopen(reading, "rb") as answers:
        return [int(line) for line in answers.read().split()]


def visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def test_killed_writers_leave_no_torn_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    acknowledged = 0
    for writer in range(40):
        numbers = killed_after(0.0015 * writer, tmp_path, writer)
        for number in numbers:
            if number % 3:
                assert store.get(f"log/{writer}-{number:06}") == bytes([65 + number % 26]) * SIZE
                acknowledged += 1
        if (tmp_path / "log").exists():
            listed = [info.name for info in store.list("log/")]
            assert sorted(listed) == sorted(f"log/{path.name}" for path in visible(tmp_path / "log"))
            for name in listed:
                data = bytes(store.get(name))
                assert data == data[:1] * SIZE
            store.delete(listed)
    assert acknowledged > 0


class Recorder:
    """Records the system calls of a put, and fails or "kills" at the n-th."""

    WATCHED = ("open", "write", "fsync", "rename", "link", "unlink", "close")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_at: int | None = None) -> None:
        self.calls: list[str] = []
        for name in self.WATCHED:
            monkeypatch.setattr(os, name, self._wrap(name, getattr(os, name), fail_at))

    def _wrap(self, name: str, real: Callable[..., Any], fail_at: int | None) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            if fail_at is not None and len(self.calls) >= fail_at:
                raise Killed
            return real(*arguments, **named)

        return call


class Killed(BaseException):
    """As if the process ended here: nothing after it has any effect."""


def test_the_order_of_a_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put("log/warm", b"x")
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        store.put("log/1", b"x")
    assert recorder.calls == ["open", "write", "fsync", "close", "rename", "open", "fsync", "close"]
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        store.put_if_absent("log/2", b"x")
    assert recorder.calls == ["open", "write", "fsync", "close", "link", "unlink", "open", "fsync", "close"]


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_kill_at_every_call_leaves_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exclusive: bool
) -> None:
    for n in range(1, 12):
        store = LocalStore(tmp_path / f"{n}", retry=QUICK)
        store.put("log/warm", b"x")
        if not exclusive:
            store.put("log/1", b"old")
        with monkeypatch.context() as patch:
            recorder = Recorder(patch, fail_at=n)
            try:
                (store.put_if_absent if exclusive else store.put)("log/1", b"new and longer")
                acknowledged = True
            except Killed:
                acknowledged = False
        found = LocalStore(tmp_path / f"{n}").get_many([("log/1", 0, None)])[0]
        if acknowledged:
            assert found == b"new and longer"
        else:
            assert found in (None if exclusive else b"old", b"new and longer")
        names = [info.name for info in store.list("log/")]
        assert names == (["log/1", "log/warm"] if found is not None else ["log/warm"])
    assert len(recorder.calls) < n, "every call was reached"


def test_who_loses_a_name_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    assert store.create("a/b", b"first")
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("it wrote"))
    assert not store.create("a/b", b"second")
    assert store.get("a/b") == b"first"


def test_new_folders_are_forced_to_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    real = local_files.force

    def record(folder: str) -> None:
        forced.append(folder)
        real(folder)

    monkeypatch.setattr(local, "force", record)
    root = tmp_path / "a" / "root"
    store = LocalStore(root)
    store.put("tables/t/1", b"x")
    expected = [root / "tables", root, tmp_path / "a", tmp_path, root / "tables" / "t"]
    assert forced == [str(path) for path in expected]
    forced.clear()
    store.put("tables/t/2", b"x")
    assert forced == [str(root / "tables" / "t")]
    forced.clear()
    LocalStore(root).put("tables/t/3", b"x")
    assert forced == [str(root / "tables" / "t")]
    forced.clear()
    monkeypatch.setattr(local, "_DURABLE", {})  # another process does not know who made the folders
    LocalStore(root).put("tables/t/4", b"x")
    assert forced == [str(path) for path in (root / "tables", root, tmp_path / "a", root / "tables" / "t")]


def test_folders_that_vanish_are_made_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.put("f/1", b"x")
    store.delete(["f/1"])
    (tmp_path / "root" / "f").rmdir()
    (tmp_path / "root").rmdir()
    store.put("f/2", b"y")
    assert store.get("f/2") == b"y"


def test_leftovers_are_invisible_and_swept_when_old(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("f/1", b"x")
    young, old = tmp_path / "f" / ".crdtcat-young", tmp_path / "f" / ".crdtcat-old"
    foreign = tmp_path / "f" / ".nfs000"
    for path in (young, old, foreign):
        path.write_bytes(b"half")
    past = time.time() - LEFTOVER_SECONDS - 60
    os.utime(old, (past, past))
    os.utime(foreign, (past, past))
    assert [info.name for info in store.list("f/")] == ["f/1"]
    assert store.folders("") == ["f"]
    store.delete(["f/none"])
    assert young.exists()
    assert foreign.exists()
    assert not old.exists()
    old.write_bytes(b"half")
    os.utime(old, (past, past))
    store.delete(["f/none"])  # once a day is enough
    assert old.exists()
    assert store.sweep("f/") == 1
    assert store.sweep("none/") == 0


def test_a_writer_whose_file_was_swept_writes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, retry=QUICK)
    store.put("f/warm", b"x")
    swept: list[str] = []

    def rename(source: str, goal: str) -> None:
        if not swept:
            swept.append(source)
            Path(source).unlink()
        real(source, goal)

    real = os.rename
    monkeypatch.setattr(os, "rename", rename)
    store.put("f/1", b"x")
    assert store.get("f/1") == b"x"
    assert store.requests.snapshot().put == 3


@pytest.mark.parametrize("racing_reading", [1, 2, 3])
def test_a_replacement_during_a_reading_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, racing_reading: int
) -> None:
    """The reading has passed the place of the new object, and the old one goes before it gets there."""
    store, other = LocalStore(tmp_path), LocalStore(tmp_path)
    store.put("log/old", b"")
    readings = 0
    real = local_files.names_in

    def read(folder: str, after: str) -> list[str]:
        nonlocal readings
        readings += 1
        if readings != racing_reading:
            return real(folder, after)
        seen = real(folder, after)
        other.put("log/z-covers-old", b"")
        other.delete(["log/old"])
        return [name for name in seen if name != "old"]

    monkeypatch.setattr(local_files, "names_in", read)
    names = [info.name for info in store.list("log/")]
    assert names == (["log/old"] if racing_reading > 2 else ["log/z-covers-old"])


def test_an_object_that_vanishes_before_it_is_described_means_reading_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = LocalStore(tmp_path), LocalStore(tmp_path)
    store.put("log/old", b"")
    real = local_files.described
    replaced: list[bool] = []

    def describe(folder: str, prefix: str, names: list[str], limit: int) -> Any:
        if not replaced:
            replaced.append(True)
            other.put("log/z-covers-old", b"")
            other.delete(["log/old"])
        return real(folder, prefix, names, limit)

    monkeypatch.setattr(local, "described", describe)
    assert [info.name for info in store.list("log/")] == ["log/z-covers-old"]


def test_a_folder_that_never_rests_ends_in_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (f"{i}" for i in range(10**6))
    monkeypatch.setattr(local_files, "names_in", lambda *_: [next(names)])
    with pytest.raises(StoreUnavailable, match="changed during every reading"):
        LocalStore(tmp_path, retry=QUICK).list_page("log/")
    with pytest.raises(StoreUnavailable, match="changed during every reading"):
        LocalStore(tmp_path, retry=QUICK).list_names("log/")


def test_a_listing_under_churn_always_shows_something(tmp_path: Path) -> None:
    """An object is removed only after a greater one was put, so whoever lists must see one of them."""
    store = LocalStore(tmp_path)
    store.put("log/000000", b"")
    done = threading.Event()
    last = 0

    def churn() -> None:
        nonlocal last
        other = LocalStore(tmp_path)
        while not done.is_set():
            other.put(f"log/{last + 1:06}", b"")
            last += 1
            other.delete([f"log/{last - 1:06}"])

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for turn in range(150):
            before = last
            listed = (info.name for info in store.list("log/"))
            found = [*listed] if turn % 3 == 0 else [*store.list_names("log/").names]
            assert found
            assert found[-1] >= f"log/{before:06}"
    finally:
        done.set()
        thread.join()


def test_permission_full_disk_and_folders_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, retry=QUICK)
    store.put("f/1", b"x")

    def failing(number: int) -> Callable[..., Any]:
        def fail(*_: Any, **__: Any) -> Any:
            raise OSError(number, os.strerror(number))

        return fail

    for number, expected in (
        (errno.EACCES, AccessDenied),
        (errno.EROFS, AccessDenied),
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EFBIG, StoreFull),
        (errno.EIO, StoreUnavailable),
        (errno.EMFILE, StoreUnavailable),
        (errno.ENAMETOOLONG, RequestRefused),
        (errno.ELOOP, RequestRefused),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", failing(number))
            with pytest.raises(expected):
                store.put("f/2", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", failing(errno.EPERM))
        with pytest.raises(CapabilityMissing, match="hard links"):
            store.put_if_absent("f/2", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", failing(errno.EIO))
        with pytest.raises(StoreUnavailable):
            store.get_many([("f/1", 0, None)])
    with pytest.raises(InvalidName, match="is a folder"):
        store.put("f", b"x")
    with pytest.raises(Missing):
        store.get("f")
    assert visible(tmp_path / "f") == list((tmp_path / "f").iterdir()) == [tmp_path / "f" / "1"]


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EROFS, errno.ELOOP, errno.ENOSYS, errno.EIO, errno.EMFILE, errno.ENOTDIR]
)
@pytest.mark.parametrize("call", ["force", "unlink"])
def test_what_has_its_name_is_never_told_to_be_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    """A folder that may be written to and not read, a file system that became read-only at that moment."""
    store = LocalStore(tmp_path, retry=QUICK)
    store.put("f/1", b"x")

    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(*(local, "force") if call == "force" else (os, "unlink"), fail)
        if call == "force":
            with pytest.raises(StoreUnavailable):
                store.put("f/2", b"x")
        if number == errno.EMFILE:  # repeated, and refused by its own success: the caller looks
            assert not store.create("f/3", b"x")
        else:
            with pytest.raises(StoreUnavailable):
                store.create("f/3", b"x")
    assert store.get("f/3") == b"x"


def test_neighbouring_ranges_are_read_from_one_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"0123456789")
    before = store.requests.snapshot()
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        assert store.get_many([("a", 0, 2), ("a", 4, None), ("a", 9, 20)]) == [b"01", b"456789", b"9"]
    assert recorder.calls == ["open", "close"]
    assert store.requests.since(before) == RequestCounts(get=3, bytes_in=9)


def test_paths_and_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = open_store("lake")
    relative.put("a", b"x")
    copy = pickle.dumps(relative)
    monkeypatch.chdir("/")
    assert pickle.loads(copy).get("a") == b"x"
    for url in (
        tmp_path / "lake",
        str(tmp_path / "lake"),
        f"file://{tmp_path}/lake",
        f"local://{tmp_path}/lake/",
    ):
        assert open_store(url).get("a") == b"x"
    assert not (tmp_path / "none").exists()
    assert list(open_store(tmp_path / "none").list("")) == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["q?x=1", "hash#tag", "a@b", "x://y@z/w"])
def test_the_url_that_is_told_leads_to_the_same_place(tmp_path: Path, name: str) -> None:
    for place in (f"{tmp_path}/{name}", f"file://{tmp_path}/{name}", f"memory://{tmp_path}/{name}"):
        open_store(place).put("a", b"x")
        assert open_store(open_store(place).url).get("a") == b"x"


def test_urls_of_files_are_read_as_the_standard_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would otherwise be another folder than the one that is meant, and look empty."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "a b/100% é://x"
    open_store(root).put("a", b"x")
    for url in (root.as_uri(), f"file:{root}", f"FILE://localhost{root}", f"local://{root}"):
        assert open_store(url).get("a") == b"x", url
    monkeypatch.setenv("HOME", str(tmp_path / "a b"))
    assert open_store("~/100% é:/x").get("a") == b"x"
    assert LocalStore("./s3:/b").root == str(tmp_path / "s3:/b")
    assert LocalStore("C:/b").root == str(tmp_path / "C:/b")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("s3:/bucket/lake", "write s3://bucket/lake, or ./s3:/bucket/lake for a folder"),
        ("s3:bucket", "write s3://bucket"),
        ("memory:", "write memory://"),
        ("file:lake", "write ./lake"),
        ("file://lake/tables", "write file:///lake/tables for a path from the root, or ./lake/tables"),
        ("local://lake", "names a machine called 'lake'"),
        ("file://", "names a machine called ''"),
        ("nul\0", "NUL"),
        ("\ud800", "Unicode"),
        ("~nobody-of-that-name/lake", "no home for '~nobody-of-that-name'"),
    ],
)
def test_what_looks_like_a_place_and_is_none(place: str, told: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(told)):
        open_store(place)


def test_the_clock_of_the_file_system_is_learned(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert store.skew_ms() is None
    store.put("a", b"x")
    skew_ms = store.skew_ms()
    assert skew_ms is not None
    assert abs(skew_ms) < 1000

"""Handles that travel: forked, pickled, shared between threads. Each copy is a writer of its own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.clock import HybridClock
from crdtcat.clock.hlc import wall_ms
from crdtcat.support.cached import cached_property
from crdtcat.writing import copies
from tests.processes.work import SCHEMA, commits_found, rows


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(str(tmp_path / "catalog"), upkeep=False).create_table("t", SCHEMA)


def _in_a_fork(work: object) -> str:
    """Run in a forked child, and return what it returns, or the error it raises."""
    assert callable(work)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = str(work())
        except BaseException as error:  # noqa: BLE001 (a child must never return into the test run)
            text = f"error {error!r}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def test_a_forked_handle_commits_under_another_id(table: Table) -> None:
    before = table.append(rows(0, 0))
    assert table.head().row_count == 5  # a head, a clock and a writer are all in use
    child = _in_a_fork(lambda: table.append(rows(1, 0)).id)
    after = table.append(rows(0, 1))
    writers = {version.id.writer for version in table.history()}
    assert len(writers) == 2
    assert after.id.writer == before.id.writer
    assert [before.id.seq, after.id.seq] == [1, 2]
    assert child in {str(version.id) for version in table.history()}
    assert commits_found(Catalog(table._session.store.url)) == {0: {0, 1}, 1: {0}}


def test_forks_of_forks(table: Table) -> None:
    def grandchild() -> str:
        table.append(rows(1, 0))
        answer = _in_a_fork(lambda: table.append(rows(2, 0)).id.seq)
        table.append(rows(1, 1))
        return answer

    table.append(rows(0, 0))
    assert _in_a_fork(grandchild) == "1"
    assert commits_found(Catalog(table._session.store.url)) == {0: {0}, 1: {0, 1}, 2: {0}}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_while_other_threads_commit_and_read(table: Table) -> None:
    """Locks that another thread held at the fork must not stop the child."""
    stop = threading.Event()

    def busy(number: int) -> None:
        commit = 0
        while not stop.is_set():
            table.append(rows(number, commit))
            table.head()
            commit += 1

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(busy, number) for number in range(3)]
        try:
            for n in range(100, 112):
                assert _in_a_fork_within(20, partial(_append_seq, table, n)) == "1"
                assert int(_in_a_fork_within(20, lambda: table.head().row_count)) >= 5
        finally:
            stop.set()
        for each in running:
            each.result()
    found = commits_found(Catalog(table._session.store.url))
    assert set(range(100, 112)) <= set(found)


def _append_seq(table: Table, child: int) -> int:
    return table.append(rows(child, 0)).id.seq


def _in_a_fork_within(seconds: int, work: object) -> str:
    def limited() -> object:
        signal.alarm(seconds)  # ends the child, and with it the pipe
        assert callable(work)
        return work()

    return _in_a_fork(limited)


def test_a_pickled_handle_is_another_writer_and_knows_the_columns(table: Table) -> None:
    first = table.append(rows(0, 0))
    copy: Table = pickle.loads(pickle.dumps(table))
    second = copy.append(rows(1, 0))
    assert first.id.writer != second.id.writer
    assert second.id.seq == 1
    assert copy.head().snapshot == table.head().snapshot
    with pytest.raises(ValueError, match="unknown"):
        copy.append([{"unknown": 1}])


def elsewhere(handle: Any) -> Any:
    """A copy of a handle, as another process unpickles it."""
    sent = pickle.dumps(handle)
    copies._shared.clear()
    copies._clocks.clear()
    return pickle.loads(sent)


@pytest.mark.parametrize("copied", ["table", "catalog", "opened catalog", "branch"])
def test_a_copy_commits_after_all_that_its_original_had_seen(tmp_path: Path, copied: str) -> None:
    """The worker's clock may be behind that of whoever wrote what the driver has read."""
    one = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    ahead = Catalog(tmp_path, upkeep=False)
    ahead._clock = HybridClock(lambda: wall_ms() + 60_000)
    theirs = ahead.create_table("t", one, key=["id"])
    seen = theirs.upsert([{"id": 1, "v": 1}])
    branch = "b" if copied == "branch" else "main"
    if copied == "branch":
        seen = theirs.branch("b").upsert([{"id": 1, "v": 2}])

    lake = Catalog(tmp_path, upkeep=False)
    if copied == "opened catalog":
        lake.table("t")
    else:
        lake.table("t", branch).head()
    handle = lake.table("t", branch) if copied in ("table", "branch") else lake
    if copied == "opened catalog":  # read by a copy, and copied again
        handle = pickle.loads(pickle.dumps(lake))
        handle.table("t").head()
    copy = elsewhere(handle)
    table = copy.table("t", branch) if isinstance(copy, Catalog) else copy
    mine = table.upsert([{"id": 1, "v": 3}])
    assert mine.id > seen.id
    assert table.read().to_pylist() == [{"id": 1, "v": 3}]


def test_a_copied_catalog_commits_after_its_own_transactions(tmp_path: Path) -> None:
    """All tables of one are stamped by one clock, which is then beyond what one of them had seen."""
    ahead = Catalog(tmp_path, upkeep=False)
    ahead._clock = HybridClock(lambda: wall_ms() + 60_000)
    for name in ("a", "b"):
        ahead.create_table(name, pa.schema([("id", pa.int64()), ("v", pa.int64())]), key=["id"])
    ahead.commit("a", [{"id": 1, "v": 1}])
    copy: Catalog = elsewhere(Catalog(tmp_path, upkeep=False))
    with copy.transaction() as both:
        both.upsert("a", [{"id": 1, "v": 2}])
        both.upsert("b", [{"id": 1, "v": 2}])
    mine = copy.commit("b", [{"id": 1, "v": 3}])
    assert mine.id > both.versions["b"][-1].id
    assert copy.read("b").to_pylist() == [{"id": 1, "v": 3}]


def test_copies_in_one_process_are_one_writer(table: Table) -> None:
    """A worker takes many tasks, each with a copy of one handle: the table gets one writer, not one each."""
    catalog = Catalog(table._session.store.url, upkeep=False)
    copies = [pickle.loads(pickle.dumps(catalog)) for _ in range(3)]
    ids = [copy.commit("t", rows(number, 0)).id for number, copy in enumerate(copies)]
    handle = pickle.loads(pickle.dumps(copies[0].table("t")))  # a copy of a copy, and of a table
    ids.append(handle.append(rows(3, 0)).id)
    assert len({id.writer for id in ids}) == 1
    assert [id.seq for id in ids] == [1, 2, 3, 4]
    assert sorted(ids) == ids
    assert catalog.commit("t", rows(4, 0)).id.writer != ids[0].writer
    assert commits_found(catalog) == {number: {0} for number in range(5)}


def test_a_catalog_made_again_gets_writers_of_its_own(tmp_path: Path) -> None:
    """A worker lives on while a catalog is deleted and made again: no number may start in the middle."""
    url = str(tmp_path / "lake")
    for _ in range(2):
        original = Catalog(url, upkeep=False)
        original.create_table("t", SCHEMA)
        for number in range(2):
            assert pickle.loads(pickle.dumps(original)).commit("t", rows(0, number)).id.seq == number + 1
        assert original.table("t").head().version == 2
        shutil.rmtree(url)


def _work(given: tuple[Table, int]) -> tuple[int, int, int]:
    table, number = given
    version = table.append(rows(number, 0))
    return os.getpid(), version.id.writer, version.id.seq


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing_pool(table: Table, method: str) -> None:
    table.append(rows(-1, 0))
    with multiprocessing.get_context(method).Pool(2) as pool:
        ids = pool.map(_work, [(table, number) for number in range(6)])
    writers = {process: writer for process, writer, _ in ids}
    assert len({writer for _, writer, _ in ids}) == len(writers)  # one writer for each process
    for process in writers:
        assert sorted(seq for pid, _, seq in ids if pid == process) == list(
            range(1, 1 + sum(pid == process for pid, _, _ in ids))
        )
    assert table.head().version == 7


def test_one_handle_shared_by_eight_threads(table: Table) -> None:
    def work(number: int) -> None:
        for commit in range(6):
            version = table.append(rows(number, commit))
            assert version.id in {each.id for each in table.history()}  # reads its own writes

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    history = list(table.history())
    assert len({version.id.writer for version in history}) == 1
    assert sorted(version.id.seq for version in history) == list(range(1, 49))
    assert commits_found(Catalog(table._session.store.url)) == {n: set(range(6)) for n in range(8)}


def test_threads_that_write_read_bundle_and_collect(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path / "c"), upkeep=False, grace_seconds=0).create_table("t", SCHEMA)

    def work(number: int) -> None:
        for commit in range(4):
            table.append(rows(number, commit))
            if number % 2:
                table.checkpoint()
                table.collect()
            else:
                assert table.read().num_rows >= 5 * (commit + 1)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert commits_found(Catalog(table._session.store.url)) == {n: set(range(4)) for n in range(6)}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_while_every_lock_is_held(table: Table) -> None:
    """Not by chance: another thread holds each lock of the handle while the child is made."""
    session = table._session
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with session._lock(), session.writer._lock(), session.clock._lock():
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        assert _in_a_fork_within(20, partial(_append_seq, table, 7)) == "1"
    finally:
        release.set()
        holder.join()
    assert table.head().row_count == 5


def test_cached_values_of_different_objects_do_not_wait_for_each_other() -> None:
    begun, release = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, wait: bool) -> None:
            self.wait = wait

        @cached_property
        def value(self) -> int:
            if self.wait:
                begun.set()
                release.wait(20)
            return 7

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(lambda: Slow(wait=True).value)
        begun.wait()
        assert Slow(wait=False).value == 7
        assert not waiting.done()
        release.set()
        assert waiting.result() == 7

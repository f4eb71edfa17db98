"""Upkeep beside the commits: nobody waits for it, and it is done before the process ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.clock import VersionId
from crdtcat.maintenance import beside
from crdtcat.maintenance.beside import WAITING_MAX, do_beside, settled
from crdtcat.maintenance.summaries import summaries_of
from crdtcat.protocol import is_bundle
from crdtcat.store.local import LocalStore
from crdtcat.store.values import Page

ROWS = pa.table({"n": [1]})
SECONDS = 30.0  # for what must happen; nothing waits this long where it does


class SlowToRead(LocalStore):
    """A store whose listings wait until they are allowed."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.asked, self.allowed = threading.Event(), threading.Event()
        self.allowed.set()

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        self.asked.set()
        assert self.allowed.wait(SECONDS)
        return super()._list_page(prefix, after, limit)


def id_of(number: int) -> VersionId:
    return VersionId(number, number, 1, bytes(16))


def bundles(catalog: Catalog) -> int:
    return sum(is_bundle(item.name) for item in catalog.store.list("tables/t/main/"))


def test_no_commit_waits_for_upkeep(tmp_path: Path) -> None:
    store = SlowToRead(tmp_path)
    catalog = Catalog(store, bundle_every=2)
    table = catalog.create_table("t", ROWS.schema)
    table.append(ROWS)
    settled()
    store.asked.clear()
    store.allowed.clear()
    commits = 1
    while not store.asked.is_set():  # the chance of each commit to be chosen is a half
        table.append(ROWS)
        commits += 1
        store.asked.wait(0.05)
    for _ in range(20):
        table.append(ROWS)  # returns, though nothing can be listed
    store.allowed.set()
    settled()
    assert bundles(catalog) >= 1
    assert table.scan().count() == commits + 20


def test_a_process_ends_when_its_upkeep_is_done(tmp_path: Path) -> None:
    program = """
import sys
import pyarrow as pa
from crdtcat import Catalog
rows = pa.table({"n": [1]})
catalog = Catalog(sys.argv[1], bundle_every=2)
table = catalog.create_table("t", rows.schema)
for _ in range(40):
    table.append(rows)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    catalog = Catalog(tmp_path)
    assert bundles(catalog) >= 1
    assert catalog.table("t").scan().count() == 40


@pytest.mark.parametrize("before", [0, 6])
@pytest.mark.parametrize(
    "outlive", ["threading.Thread(target=go_on).start()", "ThreadPoolExecutor().submit(go_on)"]
)
def test_threads_that_outlive_the_main_one_do_their_upkeep(tmp_path: Path, before: int, outlive: str) -> None:
    program = f"""
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import pyarrow as pa
from crdtcat import Catalog
rows = pa.table({{"n": [1]}})
catalog = Catalog(sys.argv[1], bundle_every=2)
table = catalog.create_table("t", rows.schema)

def go_on():
    threading.main_thread().join(1)
    for _ in range(40):
        table.append(rows)

for _ in range({before}):
    table.append(rows)
{outlive}
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    catalog = Catalog(tmp_path)
    table = catalog.table("t")
    assert bundles(catalog) >= 3
    assert table.checkpoint().newly_covered <= 20, "what was committed behind the last chosen one"
    assert table.scan().count() == before + 40


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work waits until somebody waits for it."""
    settled()
    monkeypatch.setattr(beside, "QUIET_SECONDS", 1000.0)
    monkeypatch.setattr(beside, "PATIENCE_SECONDS", 1000.0)


def test_work_waits_until_a_process_has_made_no_commit_for_a_while() -> None:
    piece = beside.Piece(lambda _: None, 50.0, [id_of(1)])
    assert piece.waits(50.0, 50.0) == pytest.approx(beside.QUIET_SECONDS)
    assert piece.waits(50.0 + 0.75 * beside.QUIET_SECONDS, 50.0) == pytest.approx(0.25 * beside.QUIET_SECONDS)
    assert piece.waits(50.5, 50.5) == pytest.approx(beside.QUIET_SECONDS)
    assert piece.waits(50.5 + beside.QUIET_SECONDS, 50.5) <= 1e-9


def test_work_waits_for_a_second_at_most_and_not_where_much_is_to_be_done() -> None:
    late = 50.0 + beside.PATIENCE_SECONDS
    piece = beside.Piece(lambda _: None, 50.0, [id_of(1)])
    assert piece.waits(late - 0.01, late - 0.01) == pytest.approx(0.01)
    assert piece.waits(late, late) <= 0
    piece.ids.extend(map(id_of, range(beside.AT_ONCE_MAX)))
    assert piece.waits(50.0, 50.0) <= 0


@pytest.mark.usefixtures("patient")
def test_work_for_one_table_is_done_once_for_all_that_ask() -> None:
    done: list[Sequence[VersionId]] = []
    for number in range(6):
        assert do_beside(number % 2, done.append, id_of(number))
    assert done == []
    settled()
    assert done == [[id_of(0), id_of(2), id_of(4)], [id_of(1), id_of(3), id_of(5)]]


@pytest.mark.usefixtures("patient")
def test_work_for_many_tables_waits_for_nothing() -> None:
    begun = threading.Event()
    for number in range(beside.MANY - 1):
        assert do_beside(number, lambda _: begun.set(), id_of(number))
    assert not begun.is_set()
    assert do_beside("one more", lambda _: begun.set(), id_of(9))
    assert begun.wait(SECONDS)
    settled()


@pytest.mark.usefixtures("patient")
def test_commits_without_a_break_are_bundled_together(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, bundle_every=8)
    table = catalog.create_table("t", ROWS.schema)
    chosen = 0
    while chosen < 3:
        id = table.append(ROWS).id
        chosen += int.from_bytes(id.digest[:8], "big") % 8 == 0
    assert bundles(catalog) == 0
    assert catalog.settle(SECONDS)
    (bundle,) = summaries_of(
        table._session,
        [item.name for item in catalog.store.list("tables/t/main/") if is_bundle(item.name)],
    ).values()
    assert bundle.last == id.to_bytes()
    assert bundle.versions == table.head().version


def test_ctrl_c_at_any_step_of_giving_work_locks_nobody_out() -> None:
    """As an interrupt does that arrives while a lock is taken or let go by Python's own code."""
    ways = {threading.Condition.__enter__.__code__, threading.Condition.__exit__.__code__}
    done = threading.Event()

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code in ways and event == "return":
            raise KeyboardInterrupt
        return interrupt

    def wait() -> None:
        if settled(SECONDS):
            done.set()

    assert do_beside("first", lambda _: None, id_of(0))
    settled()
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with suppress(KeyboardInterrupt):
            do_beside("interrupted", lambda _: None, id_of(0))
    finally:
        sys.settrace(before)
    other = threading.Thread(target=wait, daemon=True)
    other.start()
    other.join(SECONDS)
    assert done.is_set()


def test_what_comes_while_much_is_waiting_is_left_to_others() -> None:
    go_on = threading.Event()
    done: list[int] = []

    def work(number: int, ids: Sequence[VersionId]) -> None:
        assert go_on.wait(SECONDS)
        assert ids == [id_of(number)]
        done.append(number)

    settled()
    begun = [do_beside(number, partial(work, number), id_of(number)) for number in range(WAITING_MAX + 3)]
    assert begun == [True] * WAITING_MAX + [False] * 3
    go_on.set()
    settled()
    assert done == list(range(WAITING_MAX))
    assert do_beside("last", lambda _: done.append(-1), id_of(0))
    settled()
    assert done[-1] == -1


def test_a_store_that_does_not_answer_holds_no_process_up() -> None:
    program = """
import sys, threading
from crdtcat.maintenance import beside
beside.EXIT_SECONDS_MAX = 0.1
assert beside.do_beside("any", lambda _: threading.Event().wait(), None)
print("done")
"""
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=SECONDS)
    assert ended.stdout == b"done\n"


def test_names_can_be_looked_up_while_the_process_ends() -> None:
    """Upkeep at the end of a process may have to connect, for which event loops use pools of threads."""
    program = """
import asyncio, time
from crdtcat.maintenance.beside import do_beside

def work(ids):
    time.sleep(0.5)
    print(asyncio.run(look_up()))

async def look_up():
    return len(await asyncio.get_running_loop().getaddrinfo("localhost", 80)) > 0

import concurrent.futures.thread
assert do_beside("any", work, None)
"""
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=SECONDS)
    assert ended.stdout == b"True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_thread_of_its_own() -> None:
    assert do_beside("any", lambda _: None, id_of(0))
    settled()
    child = os.fork()
    if child == 0:
        done = threading.Event()
        os._exit(0 if do_beside("any", lambda _: done.set(), id_of(0)) and done.wait(SECONDS) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_synchronous_upkeep_is_done_when_the_commit_returns(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, upkeep="synchronous", bundle_every=2)
    table = catalog.create_table("t", ROWS.schema)
    threads = threading.active_count()
    for _ in range(40):
        table.append(ROWS)
    assert bundles(catalog) >= 1
    assert threading.active_count() <= threads


def test_failures_beside_fail_no_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Unlistable(LocalStore):
        listable = True

        def _list_page(self, prefix: str, after: str, limit: int) -> Page:
            if not self.listable:
                raise PermissionError(f"{prefix} is not to be listed")
            return super()._list_page(prefix, after, limit)

    store = Unlistable(str(tmp_path))
    catalog = Catalog(store, bundle_every=2)
    table = catalog.create_table("t", ROWS.schema)
    settled()
    store.listable = False
    for _ in range(40):
        table.append(ROWS)
    settled()
    assert "put off" in caplog.text
    assert Catalog(tmp_path).table("t").scan().count() == 40


def test_a_table_that_is_dropped_meanwhile_needs_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SlowToRead(tmp_path)
    catalog = Catalog(store, bundle_every=2)
    table = catalog.create_table("t", ROWS.schema)
    settled()
    store.asked.clear()
    store.allowed.clear()
    while not store.asked.is_set():
        table.append(ROWS)
        store.asked.wait(0.05)
    dropping = threading.Thread(target=Catalog(tmp_path).drop_table, args=("t",))
    dropping.start()
    dropping.join(SECONDS)
    store.allowed.set()
    assert catalog.settle(SECONDS)
    assert "put off" not in caplog.text


def test_a_folder_can_be_removed_once_its_catalog_is_settled(tmp_path: Path) -> None:
    for _ in range(5):
        catalog = Catalog(tmp_path / "lake", bundle_every=2, grace_seconds=0)
        table = catalog.create_table("t", ROWS.schema)
        for _ in range(10):
            table.append(ROWS)
        assert catalog.settle()
        shutil.rmtree(tmp_path / "lake")
        assert not (tmp_path / "lake").exists()


def test_a_folder_can_be_removed_behind_a_with_block(tmp_path: Path) -> None:
    for _ in range(5):
        with Catalog(tmp_path / "lake", bundle_every=2, grace_seconds=0) as catalog:
            table = catalog.create_table("t", ROWS.schema)
            for _ in range(10):
                table.append(ROWS)
        shutil.rmtree(tmp_path / "lake")
        assert not (tmp_path / "lake").exists()

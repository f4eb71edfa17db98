"""Upkeep beside the commits: nobody waits for it, and it is done before the process ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.maintenance.beside import WAITING_MAX, do_beside, settled
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


def test_what_comes_while_much_is_waiting_is_left_to_others() -> None:
    go_on = threading.Event()
    done: list[int] = []

    def work(number: int) -> None:
        assert go_on.wait(SECONDS)
        done.append(number)

    settled()
    begun = [do_beside(partial(work, number)) for number in range(WAITING_MAX + 3)]
    assert begun == [True] * WAITING_MAX + [False] * 3
    go_on.set()
    settled()
    assert done == list(range(WAITING_MAX))
    assert do_beside(lambda: done.append(-1))
    settled()
    assert done[-1] == -1


def test_a_store_that_does_not_answer_holds_no_process_up() -> None:
    program = """
import sys, threading
from crdtcat.maintenance import beside
beside.EXIT_SECONDS_MAX = 0.1
assert beside.do_beside(threading.Event().wait)
print("done")
"""
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=SECONDS)
    assert ended.stdout == b"done\n"


def test_names_can_be_looked_up_while_the_process_ends() -> None:
    """Upkeep at the end of a process may have to connect, for which event loops use pools of threads."""
    program = """
import asyncio, time
from crdtcat.maintenance.beside import do_beside

def work():
    time.sleep(0.5)
    print(asyncio.run(look_up()))

async def look_up():
    return len(await asyncio.get_running_loop().getaddrinfo("localhost", 80)) > 0

import concurrent.futures.thread
assert do_beside(work)
"""
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=SECONDS)
    assert ended.stdout == b"True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_thread_of_its_own() -> None:
    assert do_beside(lambda: None)
    settled()
    child = os.fork()
    if child == 0:
        done = threading.Event()
        os._exit(0 if do_beside(done.set) and done.wait(SECONDS) else 1)
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

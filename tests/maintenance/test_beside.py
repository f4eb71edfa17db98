"""Upkeep beside the commits: nobody waits for it, and it is done before the process ends."""

from __future__ import annotations

import os
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

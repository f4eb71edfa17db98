"""Processes killed with SIGKILL while they merge, expire, sync, compact and collect, again and again.

Writers append to a table and to a branch of it; others merge the branch, expire, compact, collect the log and
the catalog, and sync with a second catalog. All are killed at random moments. Then everything acknowledged is
there once, in both catalogs, no commit is there in part, and each verb, done again, goes through.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitUnknown, Expired, StoreUnavailable
from crdtcat.table import Table
from tests.processes.work import SCHEMA, commits_found, kill, reported, rows

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
ROUNDS = 40 if FULL else 2
ROUND_KILLS = 30
AT_ONCE = 4
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 30, "max_commit_delay_seconds": 1}
_context = multiprocessing.get_context("fork")


def append(url: str, branch: str, child: int, report: str) -> None:
    """Commit until killed; half of the commits are too large to be inlined."""
    options = {**OPTIONS, "inline_bytes": 0} if child % 2 else OPTIONS
    table = Catalog(url, **options).table("t", branch)
    descriptor = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for commit in itertools.count():
        os.write(descriptor, f"try {commit}\n".encode())
        try:
            table.append(rows(child, commit))
        except CommitUnknown:
            continue  # an expiry is under way: it may count or not
        os.write(descriptor, f"done {commit}\n".encode())


def keep_up(url: str, other: str, verb: str) -> None:
    """Do one thing over and over, until killed."""
    while True:
        VERBS[verb](Catalog(url, **OPTIONS), other)


def _merge(catalog: Catalog, _: str) -> None:
    try:
        catalog.table("t").merge("b")
    except (CommitUnknown, Expired):
        time.sleep(0.01)  # an expiry is beside it: merged again, it counts once


def _expire(catalog: Catalog, _: str) -> None:
    try:
        catalog.table("t").expire(older_than=timedelta(seconds=1))
    except StoreUnavailable:
        return  # other expiries were faster


def _compact(catalog: Catalog, _: str) -> None:
    catalog.table("t").compact(rows=1000)


def _collect(catalog: Catalog, _: str) -> None:
    table = catalog.table("t")
    table.checkpoint()
    table.collect()
    catalog.collect()


def _sync(catalog: Catalog, other: str) -> None:
    catalog.sync(other)


VERBS: dict[str, Callable[[Catalog, str], None]] = {
    "merge": _merge,
    "expire": _expire,
    "compact": _compact,
    "collect": _collect,
    "sync": _sync,
}


class Children:
    """Everybody at work, each with a report of its own."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.url, self.other = folder, str(folder / "one"), str(folder / "two")
        self.random = random.Random(seed)
        self.numbers = itertools.count()
        self.appenders: list[int] = []
        self.killed: dict[str, int] = dict.fromkeys(VERBS, 0)

    def run_and_kill(self, kills: int) -> None:
        running: list[tuple[float, str, Any]] = []
        for _ in range(kills):
            while len(running) < AT_ONCE:
                running.append((time.monotonic() + self.random.uniform(0.01, 0.25), *self._start()))
            running.sort(key=lambda item: item[0])
            moment, verb, process = running.pop(0)
            time.sleep(max(0.0, moment - time.monotonic()))
            assert process.exitcode is None, f"a child failed by itself: {verb}"
            kill(process)
            self.killed[verb] = self.killed.get(verb, 0) + 1
        for _, _, process in running:
            kill(process)

    def _start(self) -> tuple[str, Any]:
        number = next(self.numbers)
        if number % 2:
            self.appenders.append(number)
            branch = self.random.choice(("main", "b"))
            arguments: tuple[Any, ...] = (self.url, branch, number, str(self._report(number)))
            process = _context.Process(target=append, args=arguments)
            verb = "append"
        else:
            verb = self.random.choice(list(VERBS))
            process = _context.Process(target=keep_up, args=(self.url, self.other, verb))
        process.start()
        return verb, process

    def _report(self, number: int) -> Path:
        return self.folder / f"{number}.report"

    def check(self, url: str) -> int:
        """Every acknowledged commit is there once, whole, and nothing that was not begun."""
        found = commits_found(Catalog(url, **OPTIONS))
        for child in self.appenders:
            done, tried = reported(self._report(child))
            there = found.get(child, set())
            assert done <= there <= tried, f"child {child}: {sorted(done - there)} lost"
        return sum(map(len, found.values()))


@pytest.mark.timeout(3600 if FULL else 300)
def test_killed_while_they_merge_expire_sync_compact_and_collect(tmp_path: Path) -> None:
    children = Children(tmp_path, seed=7)
    table = Catalog(children.url, **OPTIONS).create_table("t", SCHEMA)
    Catalog(children.other, **OPTIONS)
    table.append(rows(-1, 0))
    table.branch("b")
    for _ in range(ROUNDS):
        children.run_and_kill(ROUND_KILLS)
        _again(children)
    assert min(children.killed.values()) > 0, children.killed
    assert children.check(children.url) > 10, "the children hardly got anywhere"


def _again(children: Children) -> None:
    """What was cut off is done again, by somebody who is not killed, and everything is there."""
    catalog = Catalog(children.url, **OPTIONS)
    table: Table = catalog.table("t")
    for _ in range(20):
        try:
            table.merge("b")
            break
        except CommitUnknown:  # of an expirer that was killed: the next one finishes it
            table.expire(older_than=timedelta(seconds=1))
    table.compact(rows=1000)
    table.checkpoint()
    table.collect()
    catalog.collect()
    assert children.check(children.url) > 0
    assert catalog.sync(children.other).ok
    children.check(children.other)
    for url in (children.url, children.other):
        assert Catalog(url, **OPTIONS).table("t").verify("content").ok

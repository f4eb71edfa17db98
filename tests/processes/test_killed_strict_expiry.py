"""Processes killed with SIGKILL while they append to a strict table, expire it, bundle and collect its log.

Then everything acknowledged is there once, whole; history is one line; and no number was used twice although
claims were deleted behind bases and boundaries.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitUnknown, StoreUnavailable
from crdtcat.protocol import is_boundary
from crdtcat.table import Table
from crdtcat.testing.invariants import check_claims
from tests.processes.work import SCHEMA, commits_found, kill_in_turn, reported, rows

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
KILLS = 400 if FULL else 24
AT_ONCE = 4
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 1, "max_commit_delay_seconds": 0.2}
_context = multiprocessing.get_context("fork")


def append(url: str, child: int, report: str) -> None:
    """Commit until killed."""
    table = Catalog(url, **OPTIONS).table("t")
    descriptor = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for commit in itertools.count():
        os.write(descriptor, f"try {commit}\n".encode())
        try:
            table.append(rows(child, commit))
        except (CommitUnknown, StoreUnavailable):
            continue  # so slow that nobody knows, or that nothing was begun
        os.write(descriptor, f"done {commit}\n".encode())


def _expire(table: Table) -> None:
    table.expire(older_than=timedelta(seconds=0.2))


def _bundle(table: Table) -> None:
    table.checkpoint()


def _collect(table: Table) -> None:
    table.collect()


VERBS: dict[str, Callable[[Table], None]] = {"expire": _expire, "bundle": _bundle, "collect": _collect}


def keep_up(url: str, verb: str) -> None:
    """Do one thing over and over, until killed."""
    while True:
        with suppress(StoreUnavailable):  # others were faster
            VERBS[verb](Catalog(url, **OPTIONS).table("t"))


@pytest.mark.timeout(3600 if FULL else 300)
def test_killed_while_they_append_expire_bundle_and_collect(tmp_path: Path) -> None:
    url, chance = str(tmp_path / "lake"), random.Random(11)
    Catalog(url, **OPTIONS).create_table("t", SCHEMA, mode="cas").append(rows(-1, 0))
    appenders: list[int] = []
    verbs = itertools.cycle(("expire", "append", "collect", "append", "bundle", "append"))
    numbers = itertools.count()

    def start() -> BaseProcess:
        verb, child = next(verbs), next(numbers)
        target: tuple[Any, ...] = (keep_up, url, verb)
        if verb == "append":
            appenders.append(child)
            target = (append, url, child, str(tmp_path / f"{child}.report"))
        process = _context.Process(target=target[0], args=target[1:])
        process.start()
        return process

    kill_in_turn(start, lambda: chance.uniform(0.05, 0.6), kills=KILLS, at_once=AT_ONCE)
    table = Catalog(url, **OPTIONS).table("t")
    _check(url, tmp_path, appenders)
    for _ in range(2):
        table.expire(keep_last=1)
        time.sleep(1.1)
        table.collect()
    _check(url, tmp_path, appenders)
    listed = [item.name for item in table._session.store.list("tables/t/main/")]
    assert any(map(is_boundary, listed)), "nothing was expired"


def _check(url: str, folder: Path, appenders: list[int]) -> None:
    catalog = Catalog(url, **OPTIONS)
    found = commits_found(catalog)
    for child in appenders:
        done, tried = reported(folder / f"{child}.report")
        there = found.get(child, set())
        assert done <= there <= tried, f"child {child}: {sorted(done - there)} lost"
    table = catalog.table("t")
    log = table.head().log
    check_claims(log, "a reader")
    assert int(log.number.max()) == len(log), "every version has a number of its own"
    assert table.verify("content").ok

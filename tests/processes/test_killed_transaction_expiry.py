"""Processes killed with SIGKILL while they commit over two tables at once, expire both, bundle and collect.

Then every transaction is in both tables or in neither, once, and whole; and those acknowledged are there.
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
from pathlib import Path
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitUnknown, StoreUnavailable
from crdtcat.protocol.names import TRANSACTIONS, closed_number
from tests.processes.work import PARTS, SCHEMA, kill, reported, rows

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
KILLS = 400 if FULL else 24
AT_ONCE = 4
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 1, "max_commit_delay_seconds": 0.2}
TABLES = ("a", "b")
_context = multiprocessing.get_context("fork")


def commit(url: str, child: int, report: str) -> None:
    """Commit transactions until killed."""
    catalog = Catalog(url, **OPTIONS)
    descriptor = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in itertools.count():
        os.write(descriptor, f"try {number}\n".encode())
        try:
            with catalog.transaction() as tx:
                for name in TABLES:
                    tx.append(name, rows(child, number))
        except (CommitUnknown, StoreUnavailable):
            continue  # so slow that nobody knows, or that nothing was begun
        os.write(descriptor, f"done {number}\n".encode())


def _expire(catalog: Catalog, name: str) -> None:
    catalog.table(name).expire(older_than=timedelta(seconds=0.2))


def _bundle(catalog: Catalog, name: str) -> None:
    catalog.table(name).checkpoint()


def _collect(catalog: Catalog, name: str) -> None:
    catalog.collect_transactions()
    catalog.table(name).collect()


VERBS: dict[str, Callable[[Catalog, str], None]] = {"expire": _expire, "bundle": _bundle, "collect": _collect}


def keep_up(url: str, verb: str, seed: int) -> None:
    """Do one thing over and over, to either table, until killed."""
    chance = random.Random(seed)
    while True:
        with suppress(StoreUnavailable):  # others were faster
            VERBS[verb](Catalog(url, **OPTIONS), chance.choice(TABLES))


@pytest.mark.timeout(3600 if FULL else 300)
def test_killed_while_they_commit_expire_bundle_and_collect(tmp_path: Path) -> None:
    url, chance = str(tmp_path / "lake"), random.Random(12)
    catalog = Catalog(url, **OPTIONS)
    for name in TABLES:
        catalog.create_table(name, SCHEMA)
    running: list[tuple[float, Any]] = []
    authors: list[int] = []
    verbs = itertools.cycle(("expire", "commit", "collect", "commit", "bundle", "expire", "commit"))
    for number in range(KILLS):
        while len(running) < AT_ONCE:
            verb, child = next(verbs), number * AT_ONCE + len(running)
            target: tuple[Any, ...] = (keep_up, url, verb, child)
            if verb == "commit":
                authors.append(child)
                target = (commit, url, child, str(tmp_path / f"{child}.report"))
            process = _context.Process(target=target[0], args=target[1:])
            process.start()
            running.append((time.monotonic() + chance.uniform(0.05, 0.6), process))
        running.sort(key=lambda item: item[0])
        moment, process = running.pop(0)
        time.sleep(max(0.0, moment - time.monotonic()))
        assert process.exitcode is None, "a child failed by itself"
        kill(process)
    for _, process in running:
        kill(process)
    _check(url, tmp_path, authors)
    for name in TABLES:
        time.sleep(0.3)
        catalog.table(name).expire(older_than=timedelta(0))
    time.sleep(1.1)
    for _ in range(2):
        catalog.collect_transactions()
        for name in TABLES:
            catalog.table(name).collect()
    _check(url, tmp_path, authors)
    assert any(closed_number(item.name) for item in catalog.store.list(TRANSACTIONS)), "nothing was closed"


def _check(url: str, folder: Path, authors: list[int]) -> None:
    catalog = Catalog(url, **OPTIONS)
    found = {name: _found(catalog, name) for name in TABLES}
    assert found["a"] == found["b"], "half of a transaction"
    for child in authors:
        done, tried = reported(folder / f"{child}.report")
        there = {number for author, number in found["a"] if author == child}
        assert done <= there <= tried, f"child {child}: {sorted(done - there)} lost"
    for name in TABLES:
        assert catalog.table(name).verify("content").ok


def _found(catalog: Catalog, name: str) -> set[tuple[int, int]]:
    """Every commit that is there, whole, once."""
    listed = [(row["child"], row["commit"], row["part"]) for row in catalog.read(name).to_pylist()]
    found = {(child, number) for child, number, _ in listed}
    assert sorted(listed) == sorted((*each, part) for each in found for part in range(PARTS))
    return found

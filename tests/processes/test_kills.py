"""Processes killed with SIGKILL at random moments, again and again: no acknowledged commit is lost.

Children are forked, so that one costs milliseconds; several work at once on one table, some appending, some
bundling and collecting without any grace. Each is killed a random few milliseconds after it began to work.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
from pathlib import Path
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.store.local_files import HIDDEN
from tests.processes.work import (
    SCHEMA,
    append_for_ever,
    commits_found,
    kill_in_turn,
    maintain_for_ever,
    reported,
    rows,
)

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
KILLS = 3000 if FULL else 120
"""Over all rounds of one test."""
AT_ONCE = 3
ROUND_KILLS = 60
"""Kills before everything is checked."""
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 0}
_context = multiprocessing.get_context("fork")


class Children:
    """Children at work on one table; each gets a report of its own."""

    def __init__(self, folder: Path, url: str, kind: str, seed: int) -> None:
        self.folder, self.url, self.kind = folder, url, kind
        self.random = random.Random(seed)
        self.numbers = itertools.count()
        self.appenders: list[int] = []

    def run_and_kill(self, kills: int) -> None:
        kill_in_turn(self._start, lambda: self.random.uniform(0.002, 0.06), kills=kills, at_once=AT_ONCE)

    def _start(self) -> Any:
        number = next(self.numbers)
        maintains = self.kind == "maintaining" and number % 3 == 0
        if maintains:
            process = _context.Process(target=maintain_for_ever, args=(self.url, OPTIONS))
        else:
            self.appenders.append(number)
            options = {**OPTIONS, "inline_bytes": 0} if self.kind == "segments" or number % 2 else OPTIONS
            arguments = (self.url, number, str(self._report(number)), options)
            process = _context.Process(target=append_for_ever, args=arguments)
        process.start()
        return process

    def _report(self, number: int) -> Path:
        return self.folder / f"{number}.report"

    def check(self) -> int:
        """Every acknowledged commit is there once, nothing that was not begun. How many there are."""
        found = commits_found(Catalog(self.url, **OPTIONS))
        for child in self.appenders:
            done, tried = reported(self._report(child))
            there = found.get(child, set())
            assert done <= there, f"child {child} lost {sorted(done - there)}"
            assert there <= tried
            assert len(there - done) <= 1  # at most the one in flight
        return sum(map(len, found.values()))


@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("kind", ["inlined", "segments", "maintaining"])
def test_killed_at_random_moments(tmp_path: Path, kind: str) -> None:
    url = str(tmp_path / "catalog")
    table = Catalog(url, **OPTIONS).create_table("t", SCHEMA)
    table.append(rows(-1, 0))
    tagged = table.tag("start")
    children = Children(tmp_path, url, kind, seed=len(kind))
    for _ in range(0, KILLS // 3, ROUND_KILLS):
        children.run_and_kill(ROUND_KILLS)
        children.check()
    assert children.check() > KILLS // 20, "the children hardly got anywhere"
    _check_afterwards(url, tagged.id)
    children.check()


def _check_afterwards(url: str, tagged: str) -> None:
    """Maintenance picks up what was left, the tag still holds, and nothing torn can be seen."""
    catalog = Catalog(url, **OPTIONS)
    table = catalog.table("t")
    before = table.head()
    table.checkpoint()
    table.collect()
    cold = Catalog(url, **OPTIONS).table("t")
    assert cold.head().snapshot == before.snapshot
    assert cold.head().root_hash == before.root_hash
    assert cold.head("start").snapshot.id == tagged
    assert table.append(rows(-2, 0)).id.seq == 1
    names = [item.name for item in catalog.store.list("tables/t/main/")]
    assert not [name for name in names if HIDDEN in name]

"""A table in CAS mode that is expired, bundled and collected all the time, beside writers that may be slow.

Processes append, count up one row, expire, bundle, collect, die and come back; while one waits for a request
others take their turn, and some requests take longer than a grace period. What was acknowledged is there
once, what failed is not, every count was one of its own, and history is one line: whatever was folded, no
number is used twice. With a horizon above the newest claim it fails within a few dozen seeds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitConflict, CommitContended, CommitUnknown, StoreUnavailable
from crdtcat.store.requests import Kind
from crdtcat.table import Table
from crdtcat.testing.invariants import check_claims
from crdtcat.testing.simulated_store import Crash, Objects, SimulatedStore, Trouble, VirtualClock, all_time
from crdtcat.testing.simulator import Broken
from tests.bounds import bounded

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
COUNTER: Final = -1
SHOWN: Final = 60  # last steps of one that failed
OPTIONS: dict[str, Any] = {
    "upkeep": "synchronous", "bundle_every": 3, "grace_seconds": 20, "max_commit_delay_seconds": 4,
    "max_clock_skew_seconds": 1e6, "retries": 20,
}  # fmt: skip
VERBS: Final = {
    "append": 8, "count": 5, "read": 3, "expire": 5, "checkpoint": 2, "collect": 4, "restart": 1, "wait": 3
}  # fmt: skip
TROUBLES: Final[dict[Trouble | None, float]] = {
    None: 1.0, "error": 0.005, "lost answer": 0.01, "transient": 0.01, "crash": 0.005, "crash after": 0.01
}  # fmt: skip


class Process:
    """One process, and its handle."""

    def __init__(self, name: str) -> None:
        self.name, self.busy = name, False
        self.table: Table | None = None


class Simulation:
    """One run, from one seed."""

    def __init__(self, seed: int) -> None:
        self.chance, self.clock = random.Random(seed), VirtualClock()
        self.objects: Objects = {}
        self.processes = [Process(f"process {at}") for at in range(3)]
        self.running = 0
        self.calm = True
        self.next = 0
        self.there: set[int] = set()
        self.unknown: set[int] = set()
        self.counted = self.maybe_counted = 0
        self.trace: list[str] = []

    def run(self) -> None:
        with all_time(self.clock, self.chance):
            first = Catalog(self._store(), **OPTIONS).create_table("t", SCHEMA, mode="cas")
            first.append([{"n": COUNTER, "x": 0}])
            self.calm = False
            try:
                for _ in range(26):
                    self._somebody_acts()
                self.calm = True
                self._check_end()
            except (Broken, AssertionError) as error:
                why = error.__cause__ or error
                last = self.trace[-SHOWN:]
                raise AssertionError("\n".join((f"{type(why).__name__}: {why}", *last))) from why

    def _store(self) -> SimulatedStore:
        return SimulatedStore(self.objects, self.clock, self._interfere, page_limit=4)

    def _interfere(self, kind: Kind, name: str) -> Trouble | None:
        if self.calm:
            return None
        slow = self.chance.random() < 0.03
        self.clock.now_ms += self.chance.randrange(25_000 if slow else 200)
        if self.running < 3 and self.chance.random() < 0.12:
            self._somebody_acts()
        trouble = self.chance.choices(list(TROUBLES), list(TROUBLES.values()))[0]
        self.trace.append(f"  {self.clock.now_ms % 10**7} {kind} {name} {trouble or ''}")
        return trouble

    def _table(self, process: Process) -> Table:
        if process.table is None:
            process.table = Catalog(self._store(), **OPTIONS).table("t")
        return process.table

    def _somebody_acts(self) -> None:
        free = [process for process in self.processes if not process.busy]
        if not free:
            return
        process = self.chance.choice(free)
        verb = self.chance.choices(list(VERBS), list(VERBS.values()))[0]
        self.trace.append(f"{process.name} {verb}")
        process.busy = True
        self.running += 1
        try:
            getattr(self, f"_{verb}")(process)
        except StoreUnavailable as error:
            self.trace.append(f"{process.name} {verb} gave up: {error}")
        except Crash:
            self.trace.append(f"{process.name} {verb} died")
            process.table = None
        except Exception as error:
            raise Broken from error
        finally:
            process.busy = False
            self.running -= 1

    def _commit(self, act: Callable[[], object]) -> bool | None:
        """Whether it was made; `None`: nobody knows."""
        try:
            act()
        except (CommitConflict, CommitContended, StoreUnavailable):
            return False
        except CommitUnknown:
            return None
        return True

    def _append(self, process: Process) -> None:
        self.next += 1
        mine = self.next
        self.unknown.add(mine)
        done = self._commit(lambda: self._table(process).append([{"n": mine, "x": 0}]))
        self.trace.append(f"{process.name} append of {mine}: {done}")
        if done is not None:
            self.unknown.remove(mine)
        if done:
            self.there.add(mine)

    def _count(self, process: Process) -> None:
        self.maybe_counted += 1
        done = self._commit(
            lambda: self._table(process).update(f"n = {COUNTER}", {"x": pc.add(pc.field("x"), 1)})
        )
        self.trace.append(f"{process.name} count: {done}")
        if done is not None:
            self.maybe_counted -= 1
        if done:
            self.counted += 1

    def _read(self, process: Process) -> None:
        there, counted = set(self.there), self.counted
        found = self._table(process).read()
        numbers = found["n"].to_pylist()
        assert len(numbers) == len(set(numbers)), f"a commit counts twice: {numbers}"
        assert there | {COUNTER} <= set(numbers) <= self.there | self.unknown | {COUNTER}, numbers
        count = found.filter(pc.field("n") == COUNTER)["x"].to_pylist()[0]
        assert counted <= count <= self.counted + self.maybe_counted, f"counted {counted}, and {count} there"

    def _expire(self, process: Process) -> None:
        if self.chance.random() < 0.5:
            self._table(process).expire(keep_last=self.chance.randint(1, 3))
        else:
            self._table(process).expire(older_than=timedelta(seconds=self.chance.choice((0, 5))))

    def _checkpoint(self, process: Process) -> None:
        self._table(process).checkpoint()

    def _collect(self, process: Process) -> None:
        self._table(process).collect()

    def _restart(self, process: Process) -> None:
        process.table = None

    def _wait(self, _: Process) -> None:
        self.clock.now_ms += self.chance.randrange(60_000)

    def _check_end(self) -> None:
        for process in (*self.processes, Process("newcomer")):
            self._read(process)
            self._table(process).expire(keep_last=1)
            self.clock.now_ms += 30_000
            for _ in range(2):
                self._table(process).collect()
                self.clock.now_ms += 30_000
            self._append(process)
            self._read(process)
            table = self._table(process)
            check_claims(table.head().log, process.name)
            assert int(table.head().log.number.min(initial=1, where=table.head().log.number > 0)) == 1
            assert table.verify("content").ok


@pytest.mark.parametrize("seed", range(bounded(300, 30)))
def test_nothing_is_lost_and_no_number_is_used_twice(seed: int) -> None:
    Simulation(seed).run()

"""Deterministic simulation: several processes use the real catalog on a faulty store, all from one seed.

Processes append, overwrite, read, travel back, bundle, collect, die and come back, with clocks that are
hours apart. While one waits for a request, others take their turn, so that operations interleave at every
store call. Requests fail before or after they took effect, for good or for a moment. Beside it a *ledger* of
plain intervals says which rows must be there, must not, or may: see `crdtcat.testing.ledger`.

A simulation that fails raises `SimulationFailed`, whose message is the call that does the same again, request
by request: the seed, and whatever else was not left as it is by default.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from crdtcat.catalog import Catalog
from crdtcat.errors import CommitUnknown, StoreUnavailable
from crdtcat.head import Snapshot
from crdtcat.store.requests import Kind
from crdtcat.table import Table
from crdtcat.testing.invariants import head_value
from crdtcat.testing.ledger import Ledger
from crdtcat.testing.simulated_store import (
    Crash,
    Objects,
    SimulatedStore,
    Trouble,
    VirtualClock,
    virtual_time,
)

OPERATIONS: Final = 24
PROCESSES: Final = 3
NESTED_MAX: Final = 2  # how deep operations may interrupt each other
INTERRUPTED: Final = 0.15  # of all requests
FAILS_AGAIN: Final = 2  # with the first failure, as often as a publisher tries
SCHEMA: Final = pa.schema([("row", pa.int64()), ("text", pa.string())])
VERBS: Final = {
    "append": 8,
    "append with a key": 3,
    "overwrite": 2,
    "read": 6,
    "travel": 3,
    "checkpoint": 3,
    "collect": 3,
    "upkeep": 3,
    "restart": 1,
    "wait": 2,
}
TROUBLES: Final[dict[Trouble | None, float]] = {
    None: 1.0,
    "error": 0.015,
    "lost answer": 0.01,
    "transient": 0.02,
    "transient lost answer": 0.01,
    "crash": 0.008,
    "crash after": 0.008,
}


class Broken(BaseException):
    """A promise was broken. Nothing that is meant to catch errors catches it: it may have happened to a
    process that acted during a request of another, which would take it for an answer of the store."""


class SimulationFailed(AssertionError):
    """A promise was broken. `replay(failed.seed, **failed.arguments)` does it again, and so does `call`.

    Attributes:
        seed: of the simulation.
        arguments: what else it was given, where that is not the default.
        call: both, as they would be written.
        why: what was broken.
        trace: every step and request until then.
    """

    def __init__(self, seed: int, arguments: dict[str, Any], why: str, trace: list[str]) -> None:
        given = "".join(f", {name}={value!r}" for name, value in arguments.items())
        self.call = f"replay({seed}{given})"
        last = "\n".join(trace[-25:])
        super().__init__(f"seed {seed}: {why}\n{self.call} does it again; its last steps:\n{last}")
        self.seed, self.arguments, self.why, self.trace = seed, arguments, why, trace


def simulate(seed: int, *, operations: int = OPERATIONS) -> list[str]:
    """Run one simulation; returns its trace. Raises `SimulationFailed`."""
    return Simulation(seed, operations).run()


replay = simulate


@dataclass
class Process:
    """One simulated process: its clock error, and the handle it has now."""

    name: str
    skew_ms: int
    options: dict[str, Any]
    table: Table | None = None
    busy: bool = False
    seen: Snapshot | None = None


class Simulation:
    """One run. See `simulate`."""

    def __init__(self, seed: int, operations: int = OPERATIONS) -> None:
        self.seed, self.operations = seed, operations
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.objects: Objects = {}
        self.ledger = Ledger()
        self.trace: list[str] = []
        self.snapshots: list[tuple[str, list[int]]] = []
        self.processes = [self._process(number) for number in range(PROCESSES)]
        self.running: list[Process] = []
        self.failing: dict[str, int] = {}
        self.calm = True

    def run(self) -> list[str]:
        """Everything, then a calm end in which all must agree."""
        try:
            with virtual_time(self.clock, self.chance):
                Catalog(self._store(), **self.processes[0].options).create_table("t", SCHEMA)
                self.calm = False
                for _ in range(self.operations):
                    self._somebody_acts()
                self.calm = True
                self._check_agreement()
        except Broken as broken:
            raise self._failed(broken.__cause__) from broken.__cause__
        except Exception as error:
            raise self._failed(error) from error
        return self.trace

    def _failed(self, error: BaseException | None) -> SimulationFailed:
        given = {"operations": self.operations} if self.operations != OPERATIONS else {}
        return SimulationFailed(self.seed, given, f"{type(error).__name__}: {error}", self.trace)

    def _process(self, number: int) -> Process:
        hours = self.chance.choice((0, 0, -3, 5))
        options = {
            "upkeep": "synchronous" if self.chance.random() < 0.7 else False,
            "bundle_every": self.chance.choice((2, 4)),
            "grace_seconds": self.chance.choice((0, 0, 20)),
            "inline_bytes": self.chance.choice((0, 4096)),
            "chunk_rows": 2,
            "max_clock_skew_seconds": 1e6,
        }
        return Process(f"process {number}", hours * 3_600_000, options)

    def _store(self) -> SimulatedStore:
        return SimulatedStore(self.objects, self.clock, self._interfere, page_limit=3)

    def _table(self, process: Process) -> Table:
        if process.table is None:
            process.table = Catalog(self._store(), **process.options).table("t")
            process.seen = None
        return process.table

    def _interfere(self, kind: Kind, name: str) -> Trouble | None:
        if self.calm:
            return None
        self.clock.now_ms += self.chance.randrange(50)
        if len(self.running) < NESTED_MAX and self.chance.random() < INTERRUPTED:
            self._somebody_acts()
        trouble = self._trouble(name)
        self.trace.append(f"{kind} {name} {trouble or ''}")
        return trouble

    def _trouble(self, name: str) -> Trouble | None:
        """Half of all failures last: the same request fails again, often enough that its maker gives up."""
        if self.failing.get(name, 0):
            self.failing[name] -= 1
            return "error"
        trouble = self.chance.choices(list(TROUBLES), list(TROUBLES.values()))[0]
        if trouble in ("error", "lost answer") and self.chance.random() < 0.5:
            self.failing[name] = FAILS_AGAIN
        return trouble

    def _somebody_acts(self) -> None:
        process = self.chance.choice([each for each in self.processes if not each.busy])
        verb = self.chance.choices(list(VERBS), list(VERBS.values()))[0]
        act: Callable[[Process], str] = {
            "append": self._append,
            "append with a key": self._append_with_key,
            "overwrite": self._overwrite,
            "read": self._read,
            "travel": self._travel,
            "checkpoint": self._checkpoint,
            "collect": self._collect,
            "upkeep": lambda process: f"{self._checkpoint(process)}, {self._collect(process)}",
            "restart": self._restart,
            "wait": self._wait,
        }[verb]
        self.trace.append(f"{process.name} {verb}")
        before, self.clock.skew_ms = self.clock.skew_ms, process.skew_ms
        process.busy = True
        self.running.append(process)
        try:
            outcome = act(process)
        except StoreUnavailable as error:
            outcome = f"gave up: {error}"
        except Crash as crash:
            process.table = None
            outcome = f"died: {crash}"
        except Exception as error:
            raise Broken from error
        finally:
            self.running.pop()
            process.busy = False
            self.clock.skew_ms = before
        self.trace.append(f"{process.name} {verb}: {outcome}")

    def _checkpoint(self, process: Process) -> str:
        return f"{self._table(process).checkpoint().versions} versions"

    def _collect(self, process: Process) -> str:
        return f"{self._table(process).collect().kept} files left"

    def _restart(self, process: Process) -> str:
        process.table = None
        return "a new handle"

    def _wait(self, process: Process) -> str:  # noqa: ARG002
        self.clock.now_ms += self.chance.randrange(60_000)
        return "time passes"

    def _append(self, process: Process) -> str:
        return self._commit(process, self.ledger.begin(self.chance.randint(1, 3)), None)

    def _append_with_key(self, process: Process) -> str:
        """A new task, or one done before by this process or another: it must count once."""
        key = f"task {self.chance.randrange(4)}"
        return self._commit(process, self.ledger.begin(self.chance.randint(1, 3), key=key), key)

    def _overwrite(self, process: Process) -> str:
        return self._commit(process, self.ledger.begin(self.chance.randint(1, 3), overwrite=True), None)

    def _commit(self, process: Process, number: int, key: str | None) -> str:
        entry = self.ledger.entries[number]
        rows = pa.table(
            [pa.array(entry.rows, pa.int64()), [f"row {row}" for row in entry.rows]], schema=SCHEMA
        )
        try:
            table = self._table(process)
            version = table.overwrite(rows) if entry.overwrite else table.append(rows, key=key)
        except StoreUnavailable:
            self.ledger.end(number, "nothing")
            raise
        except (CommitUnknown, Crash) as error:
            self.ledger.end(number, "unknown")
            if isinstance(error, Crash):
                raise
            return f"unknown: rows {entry.rows}"
        self.ledger.end(number, "done")
        return f"rows {entry.rows} as {version.id}"

    def _read(self, process: Process) -> str:
        began = self.ledger.now()
        scan = self._table(process).scan()
        found = scan.to_table()["row"].to_pylist()
        self.ledger.check(found, began)
        if process.seen is not None:
            assert process.seen.clock <= scan.snapshot.clock, "a handle saw less than before"
        process.seen = scan.snapshot
        self.snapshots.append((str(scan.snapshot), found))
        return f"{len(found)} rows, snapshot {scan.snapshot.id[:8]}"

    def _travel(self, process: Process) -> str:
        if not self.snapshots:
            return "no snapshot yet"
        token, expected = self.chance.choice(self.snapshots)
        found = self._table(process).read(at=token)["row"].to_pylist()
        assert found == expected, f"a snapshot read {expected}, and now reads {found}"
        return f"{len(found)} rows as before"

    def _check_agreement(self) -> None:
        """Old handles and new ones, before and after all upkeep there is: one head, and every snapshot."""
        for process in self.processes:
            self._read(process)
        heads = [head_value(self._table(process)._session.head()) for process in self.processes]
        assert all(head == heads[0] for head in heads), "processes that merged the same files disagree"
        for process in self.processes:
            self._table(process).checkpoint()
            self.clock.now_ms += 100_000_000
            self._table(process).collect()
        newcomer = self.processes[0]
        self._restart(newcomer)
        self._read(newcomer)
        assert head_value(self._table(newcomer)._session.head()) == heads[0], "upkeep changed a value"
        for token, expected in dict(self.snapshots).items():
            assert self._table(newcomer).read(at=token)["row"].to_pylist() == expected, "a snapshot changed"

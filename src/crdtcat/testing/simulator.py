"""Deterministic simulation: several processes use the real catalog on a faulty store, all from one seed.

Processes append, overwrite, update, delete, upsert, read, travel back, bundle, compact, expire, collect, die
and come back, with clocks that are hours apart (`simulated_verbs.py`), and do what users bring (`Workload`).
While one waits for a request, others take their turn, so that operations interleave at every store call.
Requests fail before or after they took effect, for good or for a moment, as often as `Faults` says.

A simulation that fails raises `SimulationFailed`, whose message is the call that does the same again, request
by request: the seed, and whatever else was not left as it is by default.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from crdtcat.catalog import Catalog
from crdtcat.errors import CommitUnknown, InvalidArgument, StoreUnavailable
from crdtcat.store.requests import Kind
from crdtcat.testing.simulated_store import Crash, SimulatedStore, Trouble, VirtualClock, all_time
from crdtcat.testing.simulated_verbs import VERBS, Process, Verbs
from crdtcat.testing.simulation_options import Faults, Workload, drawn

__all__ = ["VERBS", "Crash", "Faults", "SimulationFailed", "Workload", "replay", "simulate"]

OPERATIONS: Final = 24
PROCESSES: Final = 3
NESTED_MAX: Final = 2  # how deep operations may interrupt each other
FAILS_AGAIN: Final = 2  # with the first failure, as often as a publisher tries
FAULTS: Final = Faults()


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
        given = "".join(f", {name}={_written(value)}" for name, value in arguments.items())
        self.call = f"replay({seed}{given})"
        last = "\n".join(trace[-25:])
        super().__init__(f"seed {seed}: {why}\n{self.call} does it again; its last steps:\n{last}")
        self.seed, self.arguments, self.why, self.trace = seed, arguments, why, trace


def _written(value: object) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


def simulate(
    seed: int,
    *,
    operations: int = OPERATIONS,
    faults: Faults = FAULTS,
    verbs: Mapping[str, float] = VERBS,
    workload: type[Workload] = Workload,
) -> list[str]:
    """Run one simulation; returns its trace. No request leaves the process.

    Args:
        seed: everything follows from it and from the other arguments.
        operations: how many steps are taken, beside those that are taken during requests of others.
        faults: what goes wrong, and how often.
        verbs: built-in steps and how often each is taken, `{}` for none but the workload's. Their order is a
            part of what a seed means.
        workload: steps of your own.

    Raises:
        InvalidArgument: a verb or a step that is not there, or none at all.
        SimulationFailed: a promise was broken, or a step raised what it should not.
    """
    return Simulation(seed, operations, faults, verbs, workload).run()


replay = simulate


class Simulation(Verbs):
    """One run. See `simulate`."""

    def __init__(
        self,
        seed: int,
        operations: int = OPERATIONS,
        faults: Faults = FAULTS,
        verbs: Mapping[str, float] = VERBS,
        workload: type[Workload] = Workload,
    ) -> None:
        super().__init__()
        self.seed, self.operations, self.faults = seed, operations, faults
        self.workload = workload()
        # Steps are drawn in the order in which they are given: other orders are other simulations.
        given = {
            "operations": (operations, operations == OPERATIONS),
            "faults": (faults, faults == FAULTS),
            "verbs": (dict(verbs), list(verbs.items()) == list(VERBS.items())),
            "workload": (workload, workload is Workload),
        }
        self.arguments = {name: value for name, (value, usual) in given.items() if not usual}
        self.weights = {**verbs, **workload.steps}
        wrong = [
            *(verbs.keys() - VERBS.keys()),
            *(step for step in workload.steps if not hasattr(workload, step)),
        ]
        if wrong or not any(self.weights.values()):
            raise InvalidArgument(f"no such step: {wrong}" if wrong else "a simulation needs steps")
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.trace: list[str] = []
        self.processes = [self._process(number) for number in range(PROCESSES)]
        self.running: list[Process] = []
        self.failing: dict[str, int] = {}
        self.calm = True

    def run(self) -> list[str]:
        """Everything, then a calm end in which all must agree."""
        try:
            with all_time(self.clock, self.chance):
                first = Catalog(self._store(), **self.processes[0].options)
                self._create(first)
                self.workload.prepare(first)
                self.calm = False
                for _ in range(self.operations):
                    self._somebody_acts()
                self.calm = True
                self._check_agreement()
                self.workload.check(Catalog(self._store(), **self.processes[0].options))
        except Broken as broken:
            raise self._failed(broken.__cause__) from broken.__cause__
        except Exception as error:
            raise self._failed(error) from error
        return self.trace

    def _failed(self, error: BaseException | None) -> SimulationFailed:
        return SimulationFailed(self.seed, self.arguments, f"{type(error).__name__}: {error}", self.trace)

    def _process(self, number: int) -> Process:
        hours = self.chance.choice(self.faults.skews_hours)
        options = {
            "upkeep": "synchronous" if self.chance.random() < 0.7 else False,
            "bundle_every": self.chance.choice((2, 4)),
            "grace_seconds": self.chance.choice((0, 0, 20)),
            "inline_bytes": self.chance.choice((0, 4096)),
            "chunk_rows": 2,
            "max_clock_skew_seconds": 1e6,
            "max_commit_delay_seconds": 20,
        }
        return Process(f"process {number}", hours * 3_600_000, options)

    def _store(self) -> SimulatedStore:
        return SimulatedStore(self.objects, self.clock, self._interfere, page_limit=self.faults.page_limit)

    def _interfere(self, kind: Kind, name: str) -> Trouble | None:
        if self.calm:
            return None
        self.clock.now_ms += self.chance.randrange(self.faults.slow_ms)
        if len(self.running) < NESTED_MAX and self.chance.random() < self.faults.interrupted:
            self._somebody_acts()
        trouble = self._trouble(name)
        self.trace.append(f"{kind} {name} {trouble or ''}")
        return trouble

    def _trouble(self, name: str) -> Trouble | None:
        """Some failures last: the same request fails again, often enough that its maker gives up."""
        if self.failing.get(name, 0):
            self.failing[name] -= 1
            return "error"
        weights = self.faults.weights()
        trouble = self.chance.choices(list(weights), list(weights.values()))[0]
        if trouble in ("error", "lost answer") and self.chance.random() < self.faults.lasting:
            self.failing[name] = FAILS_AGAIN
        return trouble

    def _act(self, name: str) -> Callable[[Process], object]:
        if name in self.workload.steps:
            step = getattr(self.workload, name)
            return lambda process: step(self._catalog(process), self.chance)
        return self._verb(name)

    def _somebody_acts(self) -> None:
        process = self.chance.choice([each for each in self.processes if not each.busy])
        name = drawn(self.chance, self.weights)
        self.trace.append(f"{process.name} {name}")
        before, self.clock.skew_ms = self.clock.skew_ms, process.skew_ms
        process.busy = True
        self.running.append(process)
        outcome: object
        try:
            outcome = self._act(name)(process)
        except StoreUnavailable as error:
            outcome = f"gave up: {error}"
        except CommitUnknown as error:
            outcome = f"does not know: {error}"
        except Crash as crash:
            process.begin_anew()
            outcome = f"died: {crash}"
        except Exception as error:
            raise Broken from error
        finally:
            self.running.pop()
            process.busy = False
            self.clock.skew_ms = before
        self.trace.append(f"{process.name} {name}: {outcome}")

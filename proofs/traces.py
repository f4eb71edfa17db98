"""Traces: the real reader, writer, bundler and collector at work, in the terms of the TLA+ model `Log`.

Actors made of real steps are scheduled at random, request by request; what they do to the store, and what
one watched reader lists, fetches and returns, is written down as events. `check` holds a trace against the
rules of the model, restated here in Python independently of the library; `traces_runner.py` has TLC do the
same.

The reader's gets are one step in the model. If a pass succeeds, everything it fetched was there when its
first get was answered (it was listed before, and there later), so that is when the event happens; if a file
was gone, the event is when that was found out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from crdtcat.log import State
from crdtcat.log.serialize import decode_bundle
from crdtcat.protocol import Delete, Get, ListPage, Put, bundle_rank, is_bundle
from crdtcat.testing.scheduled_store import Effect
from proofs.schedule import Running, Schedule
from tests.protocol.scenes import FOLDER, reader, upkeep, version, writer

PAGE = 1
VERSIONS = (version(1, 1), version(2, 2), version(3, 3))
NUMBERS = {name: number for number, (name, _) in enumerate(VERSIONS, start=1)}


class File(NamedTuple):
    """A file as the model has it: rank 1 for a version, from 2 for bundles; and the versions in it."""

    rank: int
    holds: frozenset[int]


class Event(NamedTuple):
    """One step: land, bundle, delete (of a file), begin, page, get, again (of the watched reader)."""

    op: str
    holds: frozenset[int] = frozenset()
    rank: int = 0
    files: frozenset[File] = frozenset()
    last: bool = False


class Recorder(Schedule):
    """Runs actors in an order drawn from a seed and writes down what they do.

    Args:
        seed: decides the schedule.
        watched: makes the reader whose listings are part of the trace.
    """

    def __init__(self, seed: int, watched: Any = reader) -> None:
        draw = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        stored = draw.sample(VERSIONS, draw.randrange(1, 3))
        later = [file for file in VERSIONS if file not in stored]
        self.events = [Event("land", frozenset({NUMBERS[name]}), 1) for name, _ in stored]
        self._reader = watched("watched")
        actors = [self._reader, upkeep("first"), writer("writer", *later), upkeep("second")]
        super().__init__(draw, actors, dict(stored), faults=0, page=PAGE)
        self._first_get: int | None = None
        self._began = False

    def run(self) -> list[Event]:
        """The trace, until every actor is finished."""
        self._run()
        return self.events

    def next_to_act(self, running: Sequence[Running]) -> Running:
        """The watched reader is slow, so that much happens between two of its requests."""
        (chosen,) = self._draw.choices(running, [1 if one.actor is self._reader else 4 for one in running])
        return chosen

    def stepped(self, running: Running, before: Any) -> None:
        """A reader that found a file gone lists again."""
        if running.actor is self._reader and running.step.passes > before.passes:
            self.events.append(Event("again"))
            self._first_get = None

    def finished(self, running: Running) -> None:
        """What the watched reader has read is known."""
        if running.actor is self._reader:
            result = frozenset(NUMBERS[f"{FOLDER}{id}.v"] for id in _ids(running.step.state))
            at = len(self.events) if self._first_get is None else self._first_get
            self.events.insert(at, Event("get", result))

    def happened(self, running: Running, want: Any, effect: Effect) -> None:
        """Write it down in the model's words."""
        if isinstance(want, Put):
            file = self.file(want.name)
            self.events.append(Event("bundle" if file.rank > 1 else "land", file.holds, file.rank))
        elif isinstance(want, Delete):
            (name,) = effect.removed
            if name in self._objects:
                file = self.file(name)
                self.events.append(Event("delete", file.holds, file.rank))
        elif running.actor is self._reader and isinstance(want, ListPage):
            if not self._began:
                self.events.append(Event("begin"))
                self._began = True
            files = frozenset(self.file(item.name) for item in effect.answer.objects)
            self.events.append(Event("page", files=files, last=effect.answer.after is None))
        elif running.actor is self._reader and isinstance(want, Get) and self._first_get is None:
            self._first_get = len(self.events)

    def file(self, name: str) -> File:
        """A file of the store, as the model has it."""
        if not is_bundle(name):
            return File(1, frozenset({NUMBERS[name]}))
        held = decode_bundle(self._store.data[name], FOLDER, name).log
        ids = [str(held.id_at(at)) for at in range(len(held))]
        return File(bundle_rank(name) + 1, frozenset(NUMBERS[f"{FOLDER}{id}.v"] for id in ids))


def _ids(state: State) -> list[str]:
    return [str(state.log.id_at(at)) for at in range(len(state.log))]


def equal_ranks(trace: list[Event]) -> bool:
    """Whether two different bundles of one rank were made: names order those by hash, the model does not."""
    made: dict[int, frozenset[int]] = {}
    bundles = [event for event in trace if event.op == "bundle"]
    return any(made.setdefault(event.rank, event.holds) != event.holds for event in bundles)


def check(trace: list[Event]) -> None:
    """Raise AssertionError at the first event that the model does not allow; the rules are in tla/Log.tla."""
    files: set[File] = set()
    ever: set[File] = set()
    landed: set[int] = set()
    permits: set[File] = set()
    listed: set[File] = set()
    must: frozenset[int] = frozenset()
    cursor, phase = (0, 0), "idle"

    def position(file: File) -> tuple[int, int]:
        return (file.rank, sum(1 << number for number in file.holds))

    for at, event in enumerate(trace):
        file = File(event.rank, event.holds)
        words = f"event {at}, {event}"
        if event.op == "land":
            files.add(file)
            landed |= event.holds
        elif event.op == "bundle":
            lower = [other.holds for other in ever if other.rank < file.rank and other.holds <= file.holds]
            assert frozenset().union(*lower) == file.holds, f"{words}: holds what it cannot have read"
            files.add(file)
        elif event.op == "delete":
            assert file in permits, f"{words}: nobody may delete that"
            files.remove(file)
        elif event.op == "begin":
            phase, must = "list", frozenset(landed)
        elif event.op == "page":
            rest = sorted((other for other in files if position(other) > cursor), key=position)
            assert phase == "list", words
            assert event.files == frozenset(rest[:PAGE]), f"{words}: not the next names"
            assert event.last == (len(rest) <= PAGE), f"{words}: the end of a listing"
            listed |= event.files
            cursor = max([cursor, *map(position, event.files)])
            phase = "get" if event.last else "list"
        elif event.op == "again":
            assert phase == "get", words
            phase, cursor, listed = "list", (0, 0), set()
        else:
            needed = {
                one
                for one in listed
                if not any(two.rank > max(1, one.rank) and one.holds <= two.holds for two in listed)
            }
            assert phase == "get", words
            assert needed <= files, f"{words}: read what is not there"
            result = frozenset().union(*(one.holds for one in needed))
            assert event.holds == result, f"{words}: the model reads {sorted(result)}"
            assert must <= result, f"{words}: what was acknowledged is missing"
            phase = "done"
        ever |= files
        permits |= {
            one
            for one in files
            for two in files
            if two.rank >= 2 and one.rank < two.rank and one.holds <= two.holds
        }
        assert landed <= frozenset().union(*(one.holds for one in files)), f"{words}: a version is nowhere"
    assert phase == "done", "the reader did not finish"

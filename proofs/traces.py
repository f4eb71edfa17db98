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
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crdtcat.log import State
from crdtcat.log.serialize import decode_bundle
from crdtcat.protocol import Delete, Get, ListPage, Put, bundle_rank, is_bundle
from crdtcat.testing.scheduled_store import Deleting, ScheduledStore
from crdtcat.testing.scheduler import Actor
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


@dataclass
class _Running:
    """An actor on its way: its step, its answers so far, and the stages to come."""

    actor: Actor
    step: Any
    stages: list[Any]
    answers: list[Any] = field(default_factory=list)
    deleting: Deleting | None = None


class Recorder:
    """Runs actors in an order drawn from a seed and writes down what they do.

    Args:
        seed: decides the schedule.
        watched: makes the reader whose listings are part of the trace.
    """

    def __init__(self, seed: int, watched: Any = reader) -> None:
        self._draw = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        stored = self._draw.sample(VERSIONS, self._draw.randrange(1, 3))
        later = [file for file in VERSIONS if file not in stored]
        self._objects = frozenset(name for name, _ in stored)
        self._store = ScheduledStore(dict(VERSIONS), PAGE)
        self.events = [Event("land", frozenset({NUMBERS[name]}), 1) for name, _ in stored]
        self._reader = watched("watched")
        actors = [self._reader, upkeep("first"), writer("writer", *later), upkeep("second")]
        self._running = [_Running(one, one.first, list(one.stages)) for one in actors]
        self._first_get: int | None = None
        self._began = False

    def run(self) -> list[Event]:
        """The trace, until every actor is finished."""
        while self._running:
            # The watched reader is slow, so that much happens between two of its requests.
            weights = [1 if one.actor is self._reader else 4 for one in self._running]
            (running,) = self._draw.choices(self._running, weights)
            self._one_request(running)
            while running in self._running and not running.step.wants:
                self._advance(running)
        return self.events

    def _one_request(self, running: _Running) -> None:
        want = running.step.wants[len(running.answers)]
        effects = list(self._store.effects(self._objects, want, running.deleting, faults=False))
        effect = self._draw.choice(effects)
        self._write_down(running, want, effect)
        self._objects = (self._objects | effect.added) - effect.removed
        running.deleting = effect.answer if isinstance(effect.answer, Deleting) else None
        if running.deleting is not None:
            return
        running.answers.append(effect.answer)
        if len(running.answers) == len(running.step.wants):
            before_step, running.step = running.step, running.step.take(running.answers)
            running.answers = []
            if running.actor is self._reader and running.step.passes > before_step.passes:
                self._listed_again()

    def _advance(self, running: _Running) -> None:
        if running.actor is self._reader:
            result = frozenset(NUMBERS[f"{FOLDER}{id}.v"] for id in _ids(running.step.state))
            at = len(self.events) if self._first_get is None else self._first_get
            self.events.insert(at, Event("get", result))
        following = running.stages.pop(0)(running.step) if running.stages else None
        if following is None:
            self._running.remove(running)
        else:
            running.step = following

    def _write_down(self, running: _Running, want: Any, effect: Any) -> None:
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

    def _listed_again(self) -> None:
        self.events.append(Event("again"))
        self._first_get = None

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

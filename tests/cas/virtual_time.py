"""Handles of one table at a store that is far away, in time that only passes when everybody waits.

Each actor has a thread, and one of them runs at a time: the one whose request or pause is over first. A run
is decided by its seed, and takes as long as its work does.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

import crdtcat.cas.claiming
import crdtcat.cas.cold_claims
import crdtcat.cas.pauses
import crdtcat.cas.standing_back
import crdtcat.session
from crdtcat.drive import elapsed_clock
from crdtcat.store.memory import MemoryStore
from crdtcat.store.requests import Kind

T = TypeVar("T")
REQUEST_SECONDS = 0.02


class Timeline:
    """Runs actors in virtual time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._began = elapsed_clock()
        self.now = 0.0
        self._waiting: list[tuple[float, int, threading.Semaphore]] = []
        self._order = itertools.count()
        self._back = threading.Semaphore(0)
        self._running = False

    def clock(self) -> float:
        """What `elapsed_clock` says."""
        return self._began + self.now

    def sleep(self, seconds: float) -> None:
        """Called by an actor; before anybody runs, time just passes."""
        if not self._running:
            self.now += seconds
            return
        turn = threading.Semaphore(0)
        heapq.heappush(self._waiting, (self.now + seconds, next(self._order), turn))
        self._back.release()
        turn.acquire()

    def run(self, actors: Sequence[Callable[[], None]]) -> None:
        """All of them, to their end. Raises what the first one raised."""
        failures: list[BaseException] = []
        done: list[int] = []

        def body(actor: Callable[[], None], turn: threading.Semaphore) -> None:
            turn.acquire()
            try:
                actor()
            except BaseException as error:  # noqa: BLE001 (raised again below)
                failures.append(error)
            done.append(1)
            self._back.release()

        self._running = True
        threads = []
        for actor in actors:
            turn = threading.Semaphore(0)
            heapq.heappush(self._waiting, (self.now, next(self._order), turn))
            threads.append(threading.Thread(target=body, args=(actor, turn)))
            threads[-1].start()
        while len(done) < len(threads):
            self.now, _, turn = heapq.heappop(self._waiting)
            turn.release()
            self._back.acquire()
        for thread in threads:
            thread.join()
        self._running = False
        if failures:
            raise failures[0]

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the library live in this time, and take its chances from the seed."""
        cas = crdtcat.cas
        for module in (cas.claiming, cas.cold_claims, cas.standing_back, crdtcat.session):
            monkeypatch.setattr(module, "elapsed_clock", self.clock)
        for module in (cas.claiming, cas.standing_back):
            monkeypatch.setattr(module, "time", SimpleNamespace(sleep=self.sleep))
        monkeypatch.setattr(crdtcat.cas.pauses, "random", self.random)


class FarStore(MemoryStore):
    """A store in memory whose requests take time: half of it before they take effect. GETs of one call go out
    together."""

    timeline: Timeline
    noise = 0.3
    _together = False

    def _attempt(self, kind: Kind, name: str, call: Callable[[], T]) -> T:
        if self._together:
            return super()._attempt(kind, name, call)
        with self._far(1):
            return super()._attempt(kind, name, call)

    def _get_many(self, ranges: Any) -> Any:
        with self._far(len(ranges)):
            self._together = True
            try:
                return super()._get_many(ranges)
            finally:
                self._together = False

    @contextmanager
    def _far(self, requests: int) -> Iterator[None]:
        draw = self.timeline.random
        half = max(draw.lognormvariate(0, self.noise) for _ in range(max(1, requests))) * REQUEST_SECONDS / 2
        self.timeline.sleep(half)
        yield
        self.timeline.sleep(half)

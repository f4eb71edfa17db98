"""Real library calls side by side, of which one goes on at a time: request by request, as a seed says.

Each actor is a thread with handles of its own on one simulated store. Before every request, and while it
sleeps, it waits for its turn; whose turn it is is drawn. Time is a number: it passes with requests, and jumps
to the end of a sleep now and then, or when everybody sleeps. So whatever the threads do is a function of the
seed, and what is recorded of one request is about one moment.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from crdtcat.store.requests import Kind
from crdtcat.testing.simulated_store import Objects, SimulatedStore, VirtualClock, all_time

REQUEST_MS_MAX = 40
PAGE = 1000  # names in a page: a listing is one moment
SECONDS_MAX = 60
_T = TypeVar("_T")


class Death(BaseException):
    """An actor is no more."""


class Turns:
    """Runs actors. A subclass records: it is told what `happened`, was `missed` or `refused`, and who `woke`.

    Args:
        seed: decides everything.

    Attributes:
        wakes: how often time jumps to the end of somebody's sleep although others could act; if never, a
            request takes a few turns at most, however long others sleep.
    """

    wakes = 0.15

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        self.clock = VirtualClock()
        self.objects: Objects = {}
        self._turn: dict[str, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)
        self._wakes: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._running = ""
        self.mortal: set[str] = set()  # they die when they would sleep
        self.asked_ms = 0  # when the request that happens now was made
        self._failed: BaseException | None = None

    def store(self) -> SimulatedStore:
        """A way to the objects, for one actor."""
        return _WatchedStore(self)

    @contextmanager
    def simulated(self) -> Iterator[None]:
        """While this lasts, time and chance are the seed's."""
        with all_time(self.clock, self.draw, self._sleep):
            yield

    def perform(self, actors: Mapping[str, Callable[[], None]]) -> None:
        """Run actors to their ends. Raises what one of them raised."""
        threads = [threading.Thread(target=self._act, args=item, daemon=True) for item in actors.items()]
        for name in actors:
            self._turn[name] = threading.Semaphore(0)
            self._waiting.add(name)
        for thread in threads:
            thread.start()
        while self._waiting and self._failed is None:
            self._next()
        self._running = ""
        if self._failed is not None:
            raise self._failed

    def happened(self, actor: str, kind: Kind, name: str) -> None:
        """A request has taken effect."""

    def may_happen(self, actor: str, kind: Kind, name: str) -> bool:  # noqa: ARG002
        """Whether a request may be carried out now; else it waits for another turn."""
        return True

    def missed(self, actor: str, name: str) -> None:
        """A GET found nothing."""

    def refused(self, actor: str, name: str) -> None:
        """A creation found its name taken."""

    def woke(self, actor: str) -> None:
        """A sleep is over."""

    def _next(self) -> None:
        awake = sorted(name for name in self._waiting if name not in self._wakes)
        asleep = sorted(name for name in self._waiting if name in self._wakes)
        if asleep and (not awake or self.draw.random() < self.wakes):
            awake = [min(asleep, key=lambda name: self._wakes[name])]
        chosen = self.draw.choice(awake)
        if chosen in self._wakes:
            self.clock.now_ms = max(self.clock.now_ms, self._wakes.pop(chosen))
            self.woke(chosen)
        self.clock.now_ms += self.draw.randrange(REQUEST_MS_MAX)
        self._running = chosen
        self._waiting.remove(chosen)
        self._turn[chosen].release()
        assert self._back.acquire(timeout=SECONDS_MAX), f"{chosen} does not give back its turn"

    def _act(self, name: str, work: Callable[[], None]) -> None:
        self._turn[name].acquire()
        try:
            work()
        except Death:
            pass
        except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
            self._failed = error
        self._back.release()

    def wait(self) -> str:
        """Wait for the turn; whose it was."""
        name, asked_ms = self._running, self.clock.now_ms
        if name:
            self._waiting.add(name)
            self._back.release()
            self._turn[name].acquire()
        self.asked_ms = asked_ms
        return name

    def _sleep(self, seconds: float) -> None:
        if self._running in self.mortal:
            raise Death
        self._wakes[self._running] = self.clock.now_ms + int(seconds * 1000) + 1
        self.wait()


class _WatchedStore(SimulatedStore):
    """Every request waits for its turn, and is told of."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns.objects, turns.clock, lambda _kind, _name: None, page_limit=PAGE)
        self._turns = turns

    def _request(self, kind: Kind, name: str, effect: Callable[[], _T]) -> _T:
        actor = self._turns.wait()
        while not self._turns.may_happen(actor, kind, name):
            self._turns.wait()
        try:
            done = effect()
        except FileExistsError:
            self._turns.refused(actor, name)
            raise
        except FileNotFoundError:
            self._turns.missed(actor, name)
            raise
        self._turns.happened(actor, kind, name)
        return done

    def _pause(self, seconds: float) -> None:
        self._turns._sleep(seconds)

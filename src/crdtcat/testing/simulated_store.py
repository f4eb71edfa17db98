"""A store in which everything that can go wrong does, as one seed says, and time is a number.

Objects live in a dict that several `SimulatedStore`s share, one for each simulated process. Every request
first asks `interfere` what becomes of it. That is also where other processes get their turn: a request that
takes long is one during which somebody else does something. One thread; nothing waits.

`virtual_time` replaces the process's clock, its random numbers and its threads for as long as a simulation
runs, so that the real code, unchanged, is a function of the seed. `all_time` does so for those who count
seconds or sleep, too. Threads that were there before have nothing to do with it: their time goes on, and
they draw nothing from the seed.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeVar
from unittest import mock

import numpy.random  # noqa: F401 (draws a seed when first imported, which must not be within a simulation)

from crdtcat.errors import StoreUnavailable
from crdtcat.store.base import Store
from crdtcat.store.requests import Kind
from crdtcat.store.values import Answers, Data, Names, ObjectInfo, Page, Range
from crdtcat.support import pools

Trouble = Literal["error", "lost answer", "transient", "transient lost answer", "crash", "crash after"]
"""What becomes of a request: whether it takes effect first, and whether the caller is told, or is no more."""
Objects = dict[str, tuple[bytes, int]]
"""Bytes and the store's time of every object."""
_T = TypeVar("_T")


class Crash(BaseException):
    """The simulated process died at this instruction. Nothing that is meant to catch errors catches it."""


class VirtualClock:
    """Time in a simulation: the store's, and that of whichever process is running."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms
        self.skew_ms = 0

    def time_ns(self) -> int:
        """The running process's idea of the time."""
        return (self.now_ms + self.skew_ms) * 1_000_000


@contextmanager
def replaced(*wanted: tuple[Any, Mapping[str, Callable[..., Any]]]) -> Iterator[None]:
    """While this lasts, functions of modules are others, except to threads that were there before.

    Args:
        wanted: modules, and by the names of their functions what stands for them.
    """
    strangers = set(threading.enumerate()) - {threading.current_thread()}

    def chosen(real: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return (real if threading.current_thread() in strangers else instead)(*args, **kwargs)

        return call

    with ExitStack() as stack:
        for module, functions in wanted:
            for name, instead in functions.items():
                real = getattr(module, name)
                stack.enter_context(mock.patch.object(module, name, chosen(real, instead)))
        yield


@contextmanager
def virtual_time(clock: VirtualClock, chance: random.Random) -> Iterator[None]:
    """While this lasts, the wall clock is `clock`, every random number comes from `chance`, and what would
    be done in a thread is done at once."""
    with replaced(
        (pools, {"threads_can_start": lambda: False}),
        (time, {"time_ns": clock.time_ns}),
        (secrets, {"randbits": chance.getrandbits, "token_bytes": chance.randbytes}),
        (random, {"uniform": chance.uniform}),
    ):
        yield


@contextmanager
def all_time(
    clock: VirtualClock, chance: random.Random, sleep: Callable[[float], None] | None = None
) -> Iterator[None]:
    """Virtual time, also for those who count seconds and those who sleep.

    Args:
        clock: the time.
        chance: where random numbers come from.
        sleep: what sleeping is; by default time passes at once.
    """

    def now(_: int = 0) -> float:
        return clock.now_ms / 1000

    def passes(seconds: float) -> None:
        clock.now_ms += int(seconds * 1000) + 1

    with (
        virtual_time(clock, chance),
        replaced((time, {"clock_gettime": now, "monotonic": now, "sleep": sleep or passes})),
    ):
        yield


class SimulatedStore(Store):
    """One process's way to shared objects.

    Args:
        objects: shared by all stores of a simulation.
        clock: the store's time.
        interfere: asked before each request; may do other things first, and names the trouble, if any.
        page_limit: names in a page of a listing.
    """

    can_create_exclusively = True
    is_remote = False

    def __init__(
        self,
        objects: Objects,
        clock: VirtualClock,
        interfere: Callable[[Kind, str], Trouble | None],
        *,
        page_limit: int = 3,
    ) -> None:
        super().__init__("memory://simulated")
        self.objects, self.clock, self.interfere = objects, clock, interfere
        self.page_limit = page_limit

    def skew_ms(self) -> int | None:
        """Known exactly: every answer of a simulated store carries the time."""
        return -self.clock.skew_ms

    def _request(self, kind: Kind, name: str, effect: Callable[[], _T]) -> _T:
        trouble = self.interfere(kind, name)
        if trouble is None:
            return effect()
        if "lost answer" in trouble or trouble == "crash after":
            effect()
        what = f"simulated {trouble}: {kind} of {name}"
        if trouble.startswith("crash"):
            raise Crash(what)
        raise ConnectionResetError(what) if trouble.startswith("transient") else StoreUnavailable(what)

    def _put(self, name: str, data: Data) -> None:
        self._request("put", name, lambda: self._store(name, data))

    def _store(self, name: str, data: Data) -> None:
        self.objects[name] = bytes(data), self.clock.now_ms

    def _put_if_absent(self, name: str, data: Data) -> None:
        def create() -> None:
            if name in self.objects:
                raise FileExistsError(name)
            self._store(name, data)

        self._request("put", name, create)

    def _get(self, name: str, start: int, stop: int | None) -> bytes:
        def read() -> bytes:
            if name not in self.objects:
                raise FileNotFoundError(name)
            return self.objects[name][0][start:stop]

        return self._request("get", name, read)

    def _get_many(self, ranges: Sequence[Range]) -> Answers:
        return [self._get_or_none(each) for each in ranges]

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        def page() -> Page:
            names = sorted(
                name
                for name in self.objects
                if name.startswith(prefix) and name > after and "/" not in name[len(prefix) :]
            )
            found = tuple(self._info(name) for name in names[:limit])
            return Page(found, found[-1].name if len(names) > limit else None)

        return self._request("list", prefix, page)

    def _info(self, name: str) -> ObjectInfo:
        data, modified_ms = self.objects[name]
        return ObjectInfo(name, len(data), modified_ms)

    def _folders(self, prefix: str) -> Names:
        def find() -> Names:
            inside = (name[len(prefix) :].split("/") for name in self.objects if name.startswith(prefix))
            return sorted({parts[0] for parts in inside if len(parts) > 1})

        return self._attempt("list", prefix, lambda: self._request("list", prefix, find))

    def _delete(self, names: Names) -> None:
        for name in names:  # one by one: others may look in between
            self._attempt("delete", name, self._forget(name))

    def _forget(self, name: str) -> Callable[[], Any]:
        return lambda: self._request("delete", name, lambda: self.objects.pop(name, None))

    def _pause(self, seconds: float) -> None:  # noqa: ARG002 (drawn at random, so not for a simulation)
        self.clock.now_ms += 1

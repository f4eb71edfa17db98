"""What threads and processes do to a store: one winner of every exclusive creation, no torn reads, forks.

The other half of `StoreConformance`, which see.
"""

# ruff: noqa: D102 (a test's name says what it shows)

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from unittest import mock

import pytest

from crdtcat.store import Missing, Store
from crdtcat.support.object_bytes import ObjectBytes

OVERLAPPING = 8
"""How many GETs of one `get_many` have to be under way at once."""
_CHILD_SECONDS_MAX = 120
_MEETING_SECONDS_MAX = 10


class StoreConcurrency:
    """What a store promises to threads and processes."""

    exclusion_rounds: int = 25
    """How many exclusive creations are raced."""
    exclusion_racers: int = 8
    torn_seconds: float = 0.3
    """How long an object is read while it is replaced again and again."""
    not_exclusive: str | None = None
    """Why `put_if_absent` of this store may have two winners; the race is then not run."""
    gets_in_turn: str | None = None
    """Why `get_many` of this store fetches one range after the other; that it does not is then not asked."""
    shared_by_processes: bool = True
    """Whether a forked child writes to the same objects as its parent."""

    @pytest.fixture
    def store(self) -> Store:
        """An empty store; subclasses say which."""
        raise NotImplementedError("override the fixture `store`")

    def test_exclusive_creation_keeps_the_first(self, store: Store) -> None:
        if not store.can_create_exclusively:
            pytest.skip("the store says that it cannot create exclusively")
        assert store.put_if_absent("x/1", b"first") is True
        assert store.put_if_absent("x/1", b"second") is False
        assert store.put_if_absent("x/1", b"first and more") is False
        assert store.get("x/1") == b"first"
        store.delete(["x/1"])
        assert store.put_if_absent("x/1", b"third") is True

    def test_exclusive_creation_recognises_its_own_bytes(self, store: Store) -> None:
        if not store.can_create_exclusively:
            pytest.skip("the store says that it cannot create exclusively")
        assert store.put_if_absent("x/own", b"mine, answer lost") is True
        assert store.put_if_absent("x/own", memoryview(b"mine, answer lost")) is True

    def test_exclusive_creation_has_one_winner(self, store: Store) -> None:
        if self.not_exclusive or not store.can_create_exclusively:
            pytest.skip(self.not_exclusive or "the store says that it cannot create exclusively")
        racers = self.exclusion_racers
        with ThreadPoolExecutor(racers) as threads:
            for number in range(self.exclusion_rounds):
                barrier = threading.Barrier(racers)

                def race(
                    racer: int, name: str = f"race/{number}", barrier: threading.Barrier = barrier
                ) -> bool:
                    barrier.wait()
                    return store.put_if_absent(name, b"racer %d" % racer)

                winners = [racer for racer, won in enumerate(threads.map(race, range(racers))) if won]
                assert len(winners) == 1
                assert store.get(f"race/{number}") == b"racer %d" % winners[0]

    def test_threads_do_not_disturb_each_other(self, store: Store) -> None:
        def work(number: int) -> list[ObjectBytes]:
            got = []
            for i in range(10):
                store.put(f"t{number}/{i}", b"%d %d" % (number, i))
                got.append(store.get(f"t{number}/{i}"))
            assert len(list(store.list(f"t{number}/"))) == 10
            store.delete([f"t{number}/{i}" for i in range(5)])
            return got

        before = store.requests.snapshot()
        with ThreadPoolExecutor(8) as threads:
            for number, got in enumerate(threads.map(work, range(8))):
                assert got == [b"%d %d" % (number, i) for i in range(10)]
        counted = store.requests.since(before)
        assert (counted.put, counted.get, counted.list, counted.delete) == (80, 80, 8, 8)

    def test_many_ranges_are_fetched_at_once(self, store: Store) -> None:
        """No GET is answered before all of them have been asked: one after the other would never end."""
        if self.gets_in_turn:
            pytest.skip(self.gets_in_turn)
        names = [f"many/{number}" for number in range(OVERLAPPING)]
        for name in names:
            store.put(name, name.encode())
        with self.gets_meet(store, len(names)):
            assert store.get_many([(name, 0, None) for name in names]) == [name.encode() for name in names]

    @contextmanager
    def gets_meet(self, store: Store, count: int) -> Iterator[None]:
        """While this lasts, no GET of a store goes on before so many have begun. For stores that carry out
        `_get` in threads; others say how."""
        barrier, get = threading.Barrier(count, timeout=_MEETING_SECONDS_MAX), store._get

        def wait_and_get(name: str, start: int, stop: int | None) -> ObjectBytes:
            barrier.wait()
            return get(name, start, stop)

        with mock.patch.object(store, "_get", wait_and_get):
            yield

    def test_a_reader_never_sees_half_an_object(self, store: Store) -> None:
        values = [bytes([letter]) * size for letter, size in ((65, 200_000), (66, 50_000), (67, 1))]
        store.put("torn", values[0])
        enough = threading.Event()

        def write() -> None:
            for number in itertools.count():
                store.put("torn", values[number % 3])
                if enough.is_set():
                    return

        with ThreadPoolExecutor(1) as threads:
            writing = threads.submit(write)
            interval = sys.getswitchinterval()
            sys.setswitchinterval(1e-6)  # or a store in memory is read many times between two steps of a put
            try:
                until = time.monotonic() + self.torn_seconds
                while time.monotonic() < until:
                    assert store.get("torn") in values
            finally:
                enough.set()
                sys.setswitchinterval(interval)
            writing.result()

    def test_a_forked_child_can_use_it(self, store: Store) -> None:
        store.put("fork/before", b"parent")
        store.get_many([("fork/before", 0, None)] * 3)

        def child() -> None:
            assert store.get("fork/before") == b"parent"
            assert store.get_many([("fork/before", 0, None), ("fork/none", 0, None)]) == [b"parent", None]
            store.put("fork/child", b"child")
            assert store.put_if_absent("fork/child", b"other") is False
            assert [info.name for info in store.list("fork/")] == ["fork/before", "fork/child"]

        assert run_in_fork(child) == 0
        if self.shared_by_processes:
            assert store.get("fork/child") == b"child"
        else:
            with pytest.raises(Missing):
                store.get("fork/child")
        store.put("fork/after", b"parent again")
        assert store.get("fork/after") == b"parent again"


def run_in_fork(work: Callable[[], None]) -> int:
    """The exit status of a forked child that does `work`: 0 if it raised nothing. It cannot hang for ever."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is shown to work
        child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        signal.alarm(_CHILD_SECONDS_MAX)
        work()
        status = 0
    except BaseException:  # noqa: BLE001 (whatever it is, the child must not return into the test)
        traceback.print_exc()
    finally:
        os._exit(status)

"""Creating and dropping one name from several processes at once, request by request.

Actors are threads of which exactly one runs at a time; each stops before every request until it is chosen.
Each operation uses a catalog that knows nothing yet, as a new process does, so the one documented loss (blind
appends of a handle that nobody told of a drop) has no part in it.
"""

from __future__ import annotations

import itertools
import random
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.errors import AlreadyExists, Corrupt, NotFound
from crdtcat.store.memory import MemoryStore
from crdtcat.store.requests import Kind
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, objects, rows

_T = TypeVar("_T")


class Stage:
    """Runs actors one request at a time, in an order drawn from a seed.

    `bursts`: how many requests an actor makes before another is drawn, each as likely. Some are slow, some do
    much at once; whoever makes more at once than a transaction needs meets nobody in it.
    """

    def __init__(self, seed: int, bursts: Sequence[int] = (1, 1, 1, 4, 30)) -> None:
        self._random = random.Random(seed)
        self._bursts = bursts
        self._back = threading.Semaphore(0)
        self._turns: dict[int, threading.Semaphore] = {}

    def pause(self) -> None:
        """Called by an actor before each request; elsewhere it does nothing."""
        mine = self._turns.get(threading.get_ident())
        if mine is not None:
            self._back.release()
            mine.acquire()

    def run(self, actors: Sequence[Callable[[], None]]) -> None:
        failures: list[BaseException] = []
        living: dict[threading.Thread, threading.Semaphore] = {}

        def body(actor: Callable[[], None], turn: threading.Semaphore) -> None:
            self._turns[threading.get_ident()] = turn
            turn.acquire()
            try:
                actor()
            except BaseException as error:  # noqa: BLE001 (raised again below)
                failures.append(error)
            del self._turns[threading.get_ident()]
            done.add(threading.current_thread())
            self._back.release()

        done: set[threading.Thread] = set()
        for actor in actors:
            turn = threading.Semaphore(0)
            thread = threading.Thread(target=body, args=(actor, turn))
            thread.start()
            living[thread] = turn
        while living:
            thread = self._random.choice(list(living))
            for _ in range(self._random.choice(self._bursts)):
                living[thread].release()
                self._back.acquire()
                if thread in done:
                    thread.join()
                    del living[thread]
                    break
        if failures:
            raise failures[0]


class StagedStore(MemoryStore):
    """A store in memory whose requests wait for their turn."""

    stage: Stage

    def _attempt(self, kind: Kind, name: str, call: Callable[[], _T]) -> _T:
        self.stage.pause()
        return super()._attempt(kind, name, call)


@dataclass
class Did:
    """One operation that succeeded: what, from when to when, and what it wrote or saw."""

    kind: str
    began: int
    ended: int
    value: Any


@dataclass
class Play:
    """What everybody did, with one clock for all."""

    url: str
    stage: Stage
    now: Iterator[int] = field(default_factory=itertools.count)
    done: list[Did] = field(default_factory=list)

    def catalog(self) -> Catalog:
        store = StagedStore(self.url)
        store.stage = self.stage
        return Catalog(store, upkeep=False)

    def acts(self, program: Sequence[str]) -> None:
        for kind in program:
            self.act(kind)

    def act(self, kind: str) -> None:
        began = next(self.now)
        value: Any = began
        catalog = self.catalog()
        if kind == "commit":
            catalog.commit("t", [{"n": value}])
        elif kind == "read":
            value = seen(catalog)
        else:
            try:
                if kind == "drop":
                    catalog.drop_table("t")
                else:
                    catalog.create_table("t", pa.schema([("n", pa.int64()), (f"c{began}", pa.string())]))
            except (NotFound, AlreadyExists):
                return
        self.done.append(Did(kind, began, next(self.now), value))

    def check(self) -> None:
        drops = [did for did in self.done if did.kind == "drop"]
        for read in (did for did in self.done if did.kind == "read"):
            values, columns = read.value
            for did in self.done:
                if did.ended > read.began or did.kind not in ("commit", "create"):
                    continue
                there = did.value in values if did.kind == "commit" else f"c{did.value}" in columns
                dropped = any(did.ended < drop.began and drop.ended < read.began for drop in drops)
                perhaps = any(did.began < drop.ended and drop.began < read.ended for drop in drops)
                assert not (there and dropped), f"{did} was dropped, and is seen by {read}: {self.done}"
                assert there or perhaps, f"{did} is not seen by {read}: {self.done}"


def seen(catalog: Catalog) -> tuple[set[int], set[str]]:
    """The numbers in the table, and its columns; nothing at all if it is not there."""
    try:
        found = catalog.read("t")
    except NotFound:
        return set(), set()
    return {row["n"] for row in rows(found)}, set(found.column_names)


KINDS = st.sampled_from(["commit", "drop", "commit", "drop", "create", "read"])
PROGRAMS = st.lists(st.lists(KINDS, min_size=2, max_size=6), min_size=2, max_size=3)


@settings(max_examples=bounded(100, 2), deadline=None)
@given(PROGRAMS, st.integers(0, 2**32), st.integers(0, 5))
def test_no_interleaving_loses_a_commit_or_shows_a_dropped_row(
    programs: list[list[str]], seed: int, before: int
) -> None:
    play = Play(f"memory://races-{secrets.token_hex(8)}", Stage(seed))
    play.acts(["commit", "drop", "commit", "drop", "commit"][:before])

    play.stage.run([partial(play.acts, program) for program in programs])
    play.act("read")
    play.act("commit")
    play.act("read")
    play.check()


def _before_first(catalog: Catalog, method: str, part: str, action: Callable[[], Any]) -> None:
    """Run `action` just before the catalog's first request of that kind and name."""
    plain = getattr(catalog.store, method)
    waiting = [action]

    def patched(name: str, data: bytes) -> Any:
        if part in name and waiting:
            waiting.pop()()
        return plain(name, data)

    setattr(catalog.store, method, patched)


def _two() -> tuple[str, Catalog, Catalog]:
    url = f"memory://races-{secrets.token_hex(8)}"
    return url, Catalog(url, upkeep=False), Catalog(url, upkeep=False)


@pytest.mark.parametrize("part", ["settings.json", "/dropped"])
@pytest.mark.parametrize("lives", [0, 1, 3])
def test_a_slow_drop_does_not_take_the_next_table_with_it(part: str, lives: int) -> None:
    url, slow, quick = _two()
    for n in range(lives):
        slow.commit("t", [{"earlier": n}])
        slow.drop_table("t")
    slow.commit("t", [{"old": 1}])

    def meanwhile() -> None:
        with suppress(NotFound):  # the slow one has decided it already
            quick.drop_table("t")
        quick.commit("t", [{"new": 1}])

    _before_first(slow, "put", part, meanwhile)
    slow.drop_table("t")
    assert rows(Catalog(url).read("t")) == [{"new": 1}]
    assert Catalog(url).tables() == ["t"]
    Catalog(url).drop_table("t")
    assert Catalog(url).create_table("t").read().num_rows == 0


@pytest.mark.parametrize("lives", [0, 1, 3])
def test_of_two_creators_with_different_settings_one_wins(lives: int) -> None:
    url, slow, quick = _two()
    for n in range(lives):
        quick.commit("t", [{"earlier": n}])
        quick.drop_table("t")
    wanted, other = pa.schema([("a", pa.int64())]), pa.schema([("b", pa.string())])
    _before_first(slow, "put_if_absent", "settings", lambda: quick.create_table("t", wanted))
    with pytest.raises(AlreadyExists):
        slow.create_table("t", other)
    assert Catalog(url).table("t").schema == wanted
    with pytest.raises(AlreadyExists, match="other settings"):
        slow.create_table("t", other, exist_ok=True)
    slow.create_table("t", wanted, exist_ok=True).append([{"a": 5}])
    assert rows(quick.read("t")) == rows(Catalog(url).read("t")) == [{"a": 5}]


@pytest.mark.parametrize("lives", [0, 1, 3])
def test_a_slow_creator_is_not_given_a_table_dropped_meanwhile(lives: int) -> None:
    url, slow, quick = _two()
    for n in range(lives):
        quick.commit("t", [{"earlier": n}])
        quick.drop_table("t")

    def meanwhile() -> None:
        quick.commit("t", [{"gone": 1}])
        quick.drop_table("t")

    _before_first(slow, "put_if_absent", "settings", meanwhile)
    slow.commit("t", [{"mine": 1}])
    assert rows(slow.read("t")) == rows(Catalog(url).read("t")) == [{"mine": 1}]


@pytest.mark.parametrize("lives", [0, 2])
@pytest.mark.parametrize("part", ["settings.json", "/dropped"])
def test_a_drop_that_is_cut_off_is_completed(part: str, lives: int) -> None:
    url, killed, other = _two()
    for n in range(lives):
        other.commit("t", [{"earlier": n}])
        other.drop_table("t")
    other.commit("t", [{"old": 1}])
    handle = other.table("t")

    def die() -> None:
        raise KeyboardInterrupt

    _before_first(killed, "put", part, die)
    with pytest.raises(KeyboardInterrupt):
        killed.drop_table("t")
    with suppress(NotFound):  # it took effect, or it did not
        Catalog(url).drop_table("t")
    Catalog(url).commit("t", [{"new": 1}])
    with pytest.raises(NotFound, match="dropped"):
        handle.read()
    assert rows(Catalog(url).read("t")) == rows(other.read("t")) == [{"new": 1}]


def test_later_settings_that_are_lost_or_swapped_are_noticed() -> None:
    catalog = lake()
    for n in range(3):
        catalog.commit("t", [{"n": n}])
        if n < 2:
            catalog.drop_table("t")
    assert "tables/t/settings~3.json" in objects(catalog)
    good = catalog.store.get("tables/t/settings~3.json")
    catalog.store.put("tables/t/settings~3.json", catalog.store.get("tables/t/settings~2.json"))
    assert another(catalog).tables() == ["t"]
    with pytest.raises(Corrupt, match="settings~3"):
        another(catalog).read("t")
    catalog.store.delete(["tables/t/settings~3.json"])
    assert another(catalog).tables() == []
    with pytest.raises(Corrupt, match="settings~3"):
        another(catalog).commit("t", [{"n": 9}])
    catalog.store.put("tables/t/settings~3.json", good)
    assert rows(another(catalog).read("t")) == [{"n": 2}]

"""Two writers, two compactors, an expiry and a collection, in every order there is, over the real code.

Each writer and each compactor reads at one moment and commits at a later one; everybody else may act in
between. The expiry forgets all history there is. The collection condemns, and deletes when two spells of
time have gone by, each as long as a commit may take: who is slower than that gives up. Worlds that are alike
are visited once. What somebody does depends only on what it had read, the time, and what it is told of what
is there, so it is done once for all worlds that agree in that, whatever the others are about to do, and what
it stored is stored in all of them (`recorded_store`). Of what it had read only the log counts, not which
files it was in: bundles and lists of garbage make no other past of the same log, nor another cold reader.

In every world a cold reader finds the rows that a row-by-row model has: a dict of rows with a stamp on every
cell, in which there is no compaction, no expiry and no collection.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pytest
from blake3 import blake3

from crdtcat import Catalog, Version
from crdtcat.cached import cached_property
from crdtcat.drive import run
from crdtcat.errors import Expired
from crdtcat.log import State
from crdtcat.protocol import Reader
from crdtcat.table import Table
from crdtcat.testing.paused_store import PausedStore
from crdtcat.testing.simulated_store import Objects, VirtualClock, virtual_time
from tests.simulation.recorded_store import RecordedStore, Step, replayed

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
HOURS = os.environ.get("CRDTCAT_SLOW") == "orders"
GRACE_SECONDS: Final = 7200
SPELL_MS: Final = 3_660_000  # two of them are longer than the grace period, one is half of it
SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
OPTIONS: dict[str, Any] = {
    "upkeep": False, "inline_bytes": 0, "grace_seconds": 0, "max_commit_delay_seconds": 0, "chunk_rows": 4
}  # fmt: skip
OLD: Final = [(1, 0), (2, 0), (3, 0), (4, 0)]  # what was overwritten, and only history holds
FIRST: Final = [(5, 0), (6, 0)]
THEN: Final = [(7, 0), (8, 0)]
WRITTEN: Final = {6: 0, 7: 30, 9: 0}

FOLDER: Final = "tables/t/main/"
COMPACTORS: Final = ("compactor 0", "compactor 1")

RowId = tuple[Any, int]
Cell = tuple[Any, int]


@dataclass(frozen=True)
class Model:
    """Rows by id (the version that added them, and n), each with a stamped cell, and what was said of it."""

    cells: Mapping[RowId, Cell] = field(default_factory=dict)
    gone: frozenset[RowId] = frozenset()
    overwrites: frozenset[Any] = frozenset()

    @property
    def alive(self) -> dict[RowId, int]:
        """The rows there are. Of overwrites that did not know each other the greatest stands."""
        last = max(self.overwrites, default=None)
        return {
            row: value
            for row, (_, value) in self.cells.items()
            if row not in self.gone and (row[0] not in self.overwrites or row[0] == last)
        }

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted((row[1], value) for row, value in self.alive.items())

    def added(self, id: Any, rows: list[tuple[int, int]]) -> Model:
        return replace(self, cells={**self.cells, **{(id, n): (id, x) for n, x in rows}})

    def deleted(self, rows: Iterator[RowId]) -> Model:
        return replace(self, gone=self.gone.union(rows))

    def updated(self, id: Any, values: Mapping[RowId, int]) -> Model:
        cells = dict(self.cells)
        for row, value in values.items():
            cells[row] = max(cells[row], (id, value))
        return replace(self, cells=cells)


Said = Callable[[Model, Model, Any], Model]
"""From what is, what its author had seen, and its id, to what is then."""


@dataclass(frozen=True)
class Verb:
    """One thing that a writer does, and what it means."""

    name: str
    act: Callable[[Table, Any], Version]
    means: Said


def _update(now: Model, seen: Model, id: Any) -> Model:
    return now.updated(id, {row: 10 for row in seen.alive if row[1] in (5, 7)})


def _update_other(now: Model, seen: Model, id: Any) -> Model:
    return now.updated(id, {row: 20 for row in seen.alive if row[1] in (5, 6)})


def _delete(now: Model, seen: Model, id: Any) -> Model:
    return now.deleted(row for row in seen.alive if row[1] in (5, 8))


def _restore(now: Model, seen: Model, id: Any) -> Model:
    there = now.deleted(iter(seen.alive)).added(id, OLD)
    return replace(there, overwrites=there.overwrites | {id})


def _overwrite(now: Model, seen: Model, id: Any) -> Model:
    there = now.deleted(iter(seen.alive)).added(id, FIRST)
    return replace(there, overwrites=there.overwrites | {id})


def _write(now: Model, seen: Model, id: Any) -> Model:
    """Rows that stay keep their identity."""
    known = {row[1] for row in seen.alive}
    now = now.deleted(row for row in seen.alive if row[1] not in WRITTEN)
    changed = {row: WRITTEN[row[1]] for row, x in seen.alive.items() if WRITTEN.get(row[1], x) != x}
    return now.updated(id, changed).added(id, [(n, x) for n, x in WRITTEN.items() if n not in known])


def _rows(rows: list[tuple[int, int]]) -> pa.Table:
    return pa.table({"n": [n for n, _ in rows], "x": [x for _, x in rows]}, schema=SCHEMA)


UPDATE = Verb("update", lambda table, _: table.update("n in (5, 7)", {"x": 10}), _update)
UPDATE_OTHER = Verb("update", lambda table, _: table.update("n in (5, 6)", {"x": 20}), _update_other)
DELETE = Verb("delete", lambda table, _: table.delete("n in (5, 8)"), _delete)
RESTORE = Verb("restore", lambda table, old: table.restore(old), _restore)
OVERWRITE = Verb("overwrite", lambda table, _: table.overwrite(_rows(FIRST)), _overwrite)
WRITE = Verb("write", lambda table, _: table.write(_rows([*WRITTEN.items()]), on=["n"]), _write)


@dataclass(frozen=True, eq=False)
class Moment:
    """What was there, and the rows it meant. There is one for all that are alike: numbers tell them apart."""

    number: int
    objects: Objects
    model: Model

    @cached_property
    def log(self) -> bytes:
        """Equal for moments of the same log: versions, horizon, and where rows are."""
        store = PausedStore(dict(self.objects), VirtualClock())
        log = run(Reader(FOLDER, State(FOLDER)), store).state.log
        name = log.segment_name
        places = (log.place_chunk.tobytes(), name[log.place_segment].tobytes(), log.place_group.tobytes())
        return blake3(repr((log.id_bytes, log.horizon, *places)).encode()).digest()

    @cached_property
    def segments(self) -> frozenset[str]:
        """Names of the segments there are; a name has the hash of what it holds in it."""
        return frozenset(name for name in self.objects if name.startswith("data/"))


class Moments:
    """All moments there have been."""

    def __init__(self) -> None:
        self._found: dict[bytes, Moment] = {}
        self._read: dict[bytes, Moment] = {}

    def read(self, now: Moment) -> Moment:
        """What whoever reads now has read: the first moment of the same log."""
        found = self._read.setdefault(now.log, now)
        assert found.model.rows == now.model.rows, "two moments of the same log, which mean different rows"
        return found

    def of(self, objects: Objects, model: Model) -> Moment:
        listed = sorted((name, blake3(data).digest(), at) for name, (data, at) in objects.items())
        key = blake3(repr(listed).encode()).digest()
        found = self._found.setdefault(key, Moment(len(self._found), objects, model))
        assert found.model.rows == model.rows, "two ways to the same objects, which mean different rows"
        return found


@dataclass(frozen=True, eq=False)
class World:
    """A moment, the time, how far the collection is, and per actor: nothing, what it has read, or done.

    `began` of an actor that has read is how many spells had gone by then.
    """

    now: Moment
    clock_ms: int
    reading: tuple[Moment | None, ...]
    began: tuple[int, ...]
    done: frozenset[str] = frozenset()
    spells: int = 0
    way: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for worlds that are alike."""
        numbers = (-1 if each is None else each.number for each in self.reading)
        return (self.done, self.spells, self.clock_ms, self.began, self.now.number, *numbers)


class Orders:
    """All that can happen, from a table with some history."""

    def __init__(self, writers: tuple[Verb, ...], compactors: int, *, most: int) -> None:
        self.writers, self.most = writers, most
        self.clock = VirtualClock()
        self.chance = random.Random(0)
        names = (*(f"writer {at}" for at in range(len(writers))), *COMPACTORS[:compactors])
        self.actors: tuple[str, ...] = names
        self.idle: tuple[None, ...] = (None,) * len(names)
        self.moments = Moments()
        self.done: dict[tuple[Any, ...], tuple[Moment, str]] = {}
        self.acts: dict[tuple[Any, ...], list[tuple[list[Step], Any]]] = {}
        self.checked: set[tuple[Any, ...]] = set()

    def explore(self) -> int:
        """Visit every world, or so many, drawn by chance; how many."""
        with virtual_time(self.clock, self.chance):
            first = self._first()
            found, waiting, order = {first.key}, [first], random.Random(len(self.writers[0].name))
            while waiting:
                world = waiting.pop(order.randrange(len(waiting)) if self.most < 10**6 else -1)
                for then in self._next(world):
                    if then.key not in found:
                        found.add(then.key)
                        self._check(then)
                        waiting.append(then)
                if len(found) > self.most:
                    break
        return len(found)

    def _catalog(self, world: World, past: Moment | None, who: str) -> tuple[Catalog, RecordedStore]:
        """Somebody's catalog, over a copy of what is there: what it makes depends on who, and on what it has
        read, and on nothing else."""
        objects = dict(world.now.objects)
        self.clock.now_ms = world.clock_ms
        self.chance.seed(who)
        store = RecordedStore(objects, self.clock, past.objects if past else objects)
        return Catalog(store, **OPTIONS), store

    def _first(self) -> World:
        nothing = self.moments.of({}, Model())
        start = World(nothing, self.clock.now_ms, self.idle, (0,) * len(self.idle))
        catalog, store = self._catalog(start, None, "first")
        table, model = catalog.create_table("t", SCHEMA), Model()
        self.old = table.append(_rows(OLD)).id
        model = model.added(self.old, OLD)
        self.clock.now_ms += 1
        id = table.overwrite(_rows(FIRST)).id
        model = _overwrite(model, model, id)
        self.clock.now_ms += 1
        model = model.added(table.append(_rows(THEN)).id, THEN)
        self.clock.now_ms += 1
        id = table.update("n = 6", {"x": 1}).id
        model = model.updated(id, {row: 1 for row in model.alive if row[1] == 6})
        self.clock.now_ms += 3 * SPELL_MS
        now = self.moments.of(store.objects, model)
        return World(now, self.clock.now_ms, self.idle, (0,) * len(self.idle))

    def _next(self, world: World) -> Iterator[World]:
        for at, who in enumerate(self.actors):
            if who in world.done:
                continue
            past = world.reading[at]
            if past is None:
                before = self.actors[at - 1]
                if who == COMPACTORS[1] and world.reading[at - 1] is None and before not in world.done:
                    continue  # compactors are alike: the first begins first
                yield self._changed(world, at, self.moments.read(world.now), f"{who} reads")
            else:
                yield self._acted(world, at, past, who)
        if "expiry" not in world.done:
            yield self._kept_up(world, "expiry", _expire)
        if "condemning" not in world.done:
            yield self._kept_up(world, "condemning", _collect)
        elif not world.spells:
            yield self._later(world, "a spell")
        elif "deleting" not in world.done:
            yield self._kept_up(self._later(world, "a spell"), "deleting", _collect)

    def _changed(self, world: World, at: int, past: Moment | None, words: str) -> World:
        reading, began = list(world.reading), list(world.began)
        reading[at], began[at] = past, world.spells if past else 0
        return replace(world, reading=tuple(reading), began=tuple(began), way=(*world.way, words))

    def _acted(self, world: World, at: int, past: Moment, who: str) -> World:
        now, words = self._once(world, who, past, lambda: self._act(world, at, past, who))
        then = self._changed(world, at, None, words)
        return replace(then, now=now, done=world.done | {who})

    def _once(
        self, world: World, who: str, past: Moment | None, act: Callable[[], tuple[Moment, str]]
    ) -> tuple[Moment, str]:
        """What somebody makes depends on what is there, what it has read, and the time: it is run once for
        all worlds in which these are the same, whatever the others are about to do."""
        key = (who, world.now.number, past.number if past else -1, world.clock_ms)
        if key not in self.done:
            self.done[key] = act()
        return self.done[key]

    def _act(self, world: World, at: int, past: Moment, who: str) -> tuple[Moment, str]:
        """Done as it was done in another world, where it would be told the same; else, done."""
        known = self.acts.setdefault((who, past.number, world.clock_ms), [])
        for steps, id in known:
            objects = replayed(steps, world.now.objects)
            if objects is not None:
                return self._meant(world, at, past, objects, id)
        catalog, store = self._catalog(world, past, who)
        id = None
        if at < len(self.writers):
            with suppress(Expired):
                id = self.writers[at].act(catalog.table("t"), self.old).id
        else:
            catalog.table("t").compact(rows=8)
        known.append((store.steps, id))
        return self._meant(world, at, past, store._present, id)

    def _meant(self, world: World, at: int, past: Moment, objects: Objects, id: Any) -> tuple[Moment, str]:
        who, model = self.actors[at], world.now.model
        words = f"{who} commits"
        if at < len(self.writers):
            verb = self.writers[at]
            words = f"{who} finds that what it would restore is expired"
            if id is not None:
                words, model = f"{who} commits its {verb.name}", verb.means(model, past.model, id)
        return self.moments.of(objects, model), words

    def _kept_up(self, world: World, name: str, act: Callable[[Catalog], object]) -> World:
        world = replace(world, clock_ms=world.clock_ms + 1)

        def once() -> tuple[Moment, str]:
            catalog, store = self._catalog(world, None, name)
            act(catalog)
            return self.moments.of(store.objects, world.now.model), name

        now, _ = self._once(world, name, None, once)
        return replace(world, now=now, done=world.done | {name}, way=(*world.way, name))

    def _later(self, world: World, words: str) -> World:
        """Time goes by; who has been at it for a spell already is too late, and gives up."""
        then = replace(world, clock_ms=world.clock_ms + SPELL_MS, spells=world.spells + 1)
        then = replace(then, way=(*world.way, words))
        for at, who in enumerate(self.actors):
            if world.reading[at] is not None and world.began[at] < world.spells:
                then = self._changed(then, at, None, f"{who} gives up")
                then = replace(then, done=then.done | {who})
        return then

    def _check(self, world: World) -> None:
        """What a cold reader finds depends on the log, and on which segments are there."""
        over = len(world.done) == len(self.actors) + 3
        key = (world.now.number,) if over else (world.now.log, world.now.segments)
        if key in self.checked:
            return
        self.checked.add(key)
        catalog, _ = self._catalog(world, None, "reader")
        try:
            found = catalog.read("t", ["n", "x"])
            rows = sorted(zip(found["n"].to_pylist(), found["x"].to_pylist(), strict=True))
            assert rows == world.now.model.rows
            if over:
                assert catalog.table("t").verify("content").ok
        except Exception as error:
            raise AssertionError("\n".join((str(error), "after:", *world.way))) from error


def _expire(catalog: Catalog) -> None:
    catalog.table("t").expire(older_than=timedelta(0))


def _collect(catalog: Catalog) -> None:
    catalog.table("t").checkpoint()
    catalog.table("t").collect()
    catalog.collect(grace=GRACE_SECONDS)


PAIRS = [
    (RESTORE, UPDATE),
    (UPDATE, UPDATE_OTHER),
    (UPDATE, DELETE),
    (RESTORE, OVERWRITE),
    (WRITE, UPDATE_OTHER),
    (WRITE, RESTORE),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name} and {pair[1].name}")
def test_every_order(pair: tuple[Verb, Verb]) -> None:
    """A sample of the worlds, drawn at random: there are hundreds of thousands."""
    most = 20_000 if FULL else 120
    orders = Orders(pair, 2, most=most)
    assert orders.explore() > most
    assert len(orders.checked) > most // (16 if FULL else 10)  # each a table that was read


@pytest.mark.skipif(not FULL, reason="takes minutes; a sample of larger ones is above")
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name} and {pair[1].name}")
@pytest.mark.parametrize("compactors", [0, 1])
def test_every_order_to_the_last(pair: tuple[Verb, Verb], compactors: int) -> None:
    """1,061 worlds of restore and update without a compactor, 13,274 with one, in 100 seconds of one core."""
    orders = Orders(pair, compactors, most=10**7)
    assert orders.explore() > 100


@pytest.mark.timeout(0)
@pytest.mark.skipif(not HOURS, reason="takes hours: CRDTCAT_SLOW=orders")
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name} and {pair[1].name}")
def test_every_order_with_two_compactors_to_the_last(pair: tuple[Verb, Verb]) -> None:
    """127,581 worlds of restore and update, in 570 seconds of one core."""
    orders = Orders(pair, 2, most=10**8)
    assert orders.explore() > 10_000

"""Everything that two writers, compactors, an expiry and a collection can do, in every order there is.

Each writer and each compactor reads at one moment and commits at a later one; everybody else may act in
between. The expiry forgets all history there is. The collection condemns, and deletes when two spells of
time have gone by, each as long as a commit may take: who is slower than that gives up.

What makes it few enough:

- Worlds that are alike are visited once (`moments` says which are). Of what somebody had read only the log
  counts: bundles and lists of garbage make no other past of the same log. Compactors of one size are alike:
  the first begins first.
- What somebody does depends on what it had read, its clock, and what it is told from its first write on, so
  it is done once for all worlds that agree in that, whatever the others are about to do, and what it stored
  is stored in all of them (`recorded_store`). Of the log it is told the horizon: whether it came too late is
  all that it wants to know. That is looked at again: one in `AGAIN` is done for real.
- A cold reader is told the log, and opens some segments: where these are there, it finds the same.
- Of the time, the store's counts in spells: whether something is old enough to go changes with these alone.
  A process's clock decides how ids sort, and nothing else, so it goes only where an order depends on it: see
  `Clocks`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from crdtcat import Catalog
from crdtcat.errors import Expired
from crdtcat.testing.simulated_store import Objects, VirtualClock, virtual_time
from tests.simulation.moments import FOLDER, Asked, Moment, Moments, remembered_joins
from tests.simulation.recorded_store import Questions, RecordedStore, Step
from tests.simulation.row_model import SCHEMA, Verb, as_begun
from tests.simulation.worlds import World

GRACE_SECONDS: Final = 7200
SPELL_MS: Final = 3_660_000  # two of them are longer than the grace period, one is half of it
BEHIND_MS: Final = 1000  # processes' clocks are behind the store's: an expiry waits for nothing
OPTIONS: Final[dict[str, Any]] = {
    "upkeep": False, "inline_bytes": 0, "grace_seconds": 0, "max_commit_delay_seconds": 0, "chunk_rows": 4,
    "max_clock_skew_seconds": 86_400,
}  # fmt: skip
AGAIN: Final = 16  # one in so many that were told the same is done for real, and has to do the same
COMPACTORS: Final = ("compactor 0", "compactor 1")

Sizes = tuple[int, ...]
"""For each compactor, of at most two, the rows that it wants a chunk to have. With 8 changed chunks become
one; with 16 all chunks do; with 2 each that changed is written by itself."""

Clocks = Literal["ticking", "in step", "standing"]
"""How ids of commits sort that do not know each other; whoever knows another's commit sorts after it.

- ticking: as upkeep and spells lie between them; without any between them, by who they are.
- in step: as they were committed.
- standing: by who they are. So what is committed late may sort into the past.
"""


class Orders:
    """All that can happen, from a table with some history.

    Args:
        writers: what the two writers do.
        compactors: for each, the rows that it wants a chunk to have.
        clocks: how ids sort.
        files: whether the same log in other files is another moment.
    """

    def __init__(
        self, writers: tuple[Verb, Verb], compactors: Sizes, *, clocks: Clocks, files: bool = False
    ) -> None:
        self.writers, self.compactors, self.clocks, self.files = writers, compactors, clocks, files
        self.clock, self.chance = VirtualClock(), random.Random(0)
        self.actors = (*(f"writer {at}" for at in range(len(writers))), *COMPACTORS[: len(compactors)])
        self.moments = Moments(files=files)
        self.questions = Questions(FOLDER, None if files else lambda it: self.moments.log_of(it).horizon)
        self.of_verify = Questions(FOLDER, None if files else lambda it: self.moments.log_of(it).digest)
        self.again = random.Random(0)
        self.done: dict[tuple[Any, ...], tuple[Moment, str]] = {}
        self.acts: dict[tuple[Any, ...], list[tuple[list[Step], Any]]] = {}
        self.opened: dict[bytes, list[frozenset[str]]] = {}
        self.verified: dict[bytes, list[list[Step]]] = {}

    @property
    def tables_read(self) -> int:
        """How many tables were read, each another one."""
        return sum(map(len, self.opened.values()))

    def explore(self, most: int | None = None) -> int:
        """Visit every world, or so many, drawn by chance; how many."""
        with virtual_time(self.clock, self.chance), remembered_joins():
            first = self._first()
            found, waiting, order = {first.key}, [first], random.Random(len(self.writers[0].name))
            while waiting and (most is None or len(found) <= most):
                world = waiting.pop(-1 if most is None else order.randrange(len(waiting)))
                for then in self._next(world):
                    key = then.key
                    if key not in found:
                        found.add(key)
                        self._check(then)
                        waiting.append(then)
        return len(found)

    def _catalog(
        self, world: World, past: Moment | None, who: str, questions: Questions | None = None
    ) -> tuple[Catalog, RecordedStore]:
        """Somebody's catalog, over a copy of what is there: what it makes depends on who, and on what it has
        read, and on nothing else."""
        objects = dict(world.now.objects)
        self.clock.now_ms = self._store_ms(world)
        self.clock.skew_ms = self._process_ms(world) - self.clock.now_ms
        self.chance.seed(who)
        seen = past.objects if past else objects
        store = RecordedStore(objects, self.clock, seen, questions or self.questions)
        return Catalog(store, **OPTIONS), store

    def _store_ms(self, world: World) -> int:
        return self.began_ms + world.spells * SPELL_MS

    def _process_ms(self, world: World) -> int:
        return self.began_ms + world.stamp - BEHIND_MS

    def _first(self) -> World:
        def tick() -> None:
            self.clock.now_ms += 1

        objects: Objects = {}
        self.chance.seed("first")
        catalog = Catalog(RecordedStore(objects, self.clock, objects, self.questions), **OPTIONS)
        model, self.old = as_begun(catalog.create_table("t", SCHEMA), tick)
        self.began_ms = self.clock.now_ms + 3 * SPELL_MS
        idle = len(self.actors)
        return World(self.moments.of(objects, model, "all"), (None,) * idle, (0,) * idle)

    def _next(self, world: World) -> Iterator[World]:
        for at, who in enumerate(self.actors):
            if who in world.done:
                continue
            past = world.reading[at]
            if past is None:
                before = self.actors[at - 1]
                if self._has_twin(who) and world.reading[at - 1] is None and before not in world.done:
                    continue
                yield self._changed(world, at, self.moments.read(world.now), f"{who} reads")
            else:
                yield self._acted(world, at, past, who)
        if "expiry" not in world.done:
            yield self._kept_up(replace(world, stamp=world.stamp + 1), "expiry", self._expire)
        if "condemning" not in world.done:
            yield self._kept_up(self._ticked(world), "condemning", _collect)
        elif not world.spells:
            yield self._later(world, "a spell")
        elif "deleting" not in world.done:
            now = self.moments.of(world.now.objects, world.now.model, "garbage")
            later = self._ticked(self._later(world, "a spell"))
            yield self._kept_up(replace(later, now=now), "deleting", _collect)

    def _has_twin(self, who: str) -> bool:
        """Whether the compactor before it does the same: then that one begins first."""
        return who == COMPACTORS[1] and self.compactors[0] == self.compactors[1]

    def _ticked(self, world: World) -> World:
        return replace(world, stamp=world.stamp + 1) if self.clocks == "ticking" else world

    def _changed(self, world: World, at: int, past: Moment | None, words: str) -> World:
        reading, began = list(world.reading), list(world.began)
        reading[at], began[at] = past, world.spells if past else 0
        return replace(world, reading=tuple(reading), began=tuple(began), before=world, words=words)

    def _acted(self, world: World, at: int, past: Moment, who: str) -> World:
        later = replace(world, stamp=world.stamp + 1) if self.clocks == "in step" else world
        now, words = self._once(later, who, past, lambda: self._act(later, at, past, who))
        stamp = later.stamp if now is not world.now else world.stamp
        return replace(self._changed(world, at, None, words), now=now, done=world.done | {who}, stamp=stamp)

    def _once(
        self, world: World, who: str, past: Moment | None, act: Callable[[], tuple[Moment, str]]
    ) -> tuple[Moment, str]:
        """What somebody makes depends on what is there, what it has read, and the time: it is run once for
        all worlds in which these are the same, whatever the others are about to do."""
        key = (who, world.now.number, past.number if past else -1, world.spells, world.stamp)
        if key not in self.done:
            self.done[key] = act()
        return self.done[key]

    def _act(self, world: World, at: int, past: Moment, who: str) -> tuple[Moment, str]:
        """Done as it was done in another world, where it would be told the same; else, done."""
        known = self.acts.setdefault((who, past.number, world.stamp), [])
        for steps, id in known:
            objects = self.questions.replayed(steps, world.now.objects, self._store_ms(world))
            if objects is not None:
                found = self._meant(world, at, past, objects, id)
                if not self.again.randrange(AGAIN):
                    real = self._meant(world, at, past, *self._done(world, at, past, who)[:2])
                    assert found == real, "told the same, and done otherwise"
                return found
        objects, id, steps = self._done(world, at, past, who)
        known.append((steps, id))
        return self._meant(world, at, past, objects, id)

    def _done(self, world: World, at: int, past: Moment, who: str) -> tuple[Objects, Any, list[Step]]:
        catalog, store = self._catalog(world, past, who)
        id = None
        if at < len(self.writers):
            with suppress(Expired):
                id = self.writers[at].act(catalog.table("t"), self.old).id
        else:
            catalog.table("t").compact(rows=self.compactors[at - len(self.writers)])
        return store._present, id, store.steps

    def _meant(self, world: World, at: int, past: Moment, objects: Objects, id: Any) -> tuple[Moment, str]:
        who, model = self.actors[at], world.now.model
        words = f"{who} commits"
        if at < len(self.writers):
            verb = self.writers[at]
            words = f"{who} finds that what it would restore is expired"
            if id is not None:
                words, model = f"{who} commits its {verb.name}", verb.means(model, past.model, id)
        return self.moments.of(objects, model, _asked(world.done)), words

    def _kept_up(self, world: World, name: str, act: Callable[[Catalog, World], object]) -> World:
        def once() -> tuple[Moment, str]:
            catalog, store = self._catalog(world, None, name)
            act(catalog, world)
            return self.moments.of(store.objects, world.now.model, _asked(world.done | {name})), name

        now, _ = self._once(world, name, None, once)
        return replace(world, now=now, done=world.done | {name}, before=world, words=name)

    def _expire(self, catalog: Catalog, world: World) -> None:
        now = datetime.fromtimestamp(self._process_ms(world) / 1000, UTC)
        catalog.table("t").expire(older_than=now)

    def _later(self, world: World, words: str) -> World:
        """Time goes by; who has been at it for a spell already is too late, and gives up."""
        then = replace(self._ticked(world), spells=world.spells + 1, before=world, words=words)
        for at, who in enumerate(self.actors):
            if world.reading[at] is not None and world.began[at] < world.spells:
                then = self._changed(then, at, None, f"{who} gives up")
                then = replace(then, done=then.done | {who})
        return then

    def _check(self, world: World) -> None:
        """A cold reader finds the rows of the model, and in the end everything is whole."""
        try:
            if not any(opened <= world.now.segments for opened in self.opened.get(world.now.log, ())):
                self._read(world)
            if len(world.done) == len(self.actors) + 3:
                self._verify(world)
        except Exception as error:
            raise AssertionError("\n".join((str(error), "after:", *world.way))) from error

    def _read(self, world: World) -> None:
        catalog, store = self._catalog(world, None, "reader")
        found = catalog.read("t", ["n", "x"])
        rows = sorted(zip(found["n"].to_pylist(), found["x"].to_pylist(), strict=True))
        assert rows == world.now.model.rows
        opened = frozenset(name for kind, name, *_ in store.steps if kind == "get") & world.now.segments
        self.opened.setdefault(world.now.log, []).append(opened)

    def _verify(self, world: World) -> None:
        known = self.verified.setdefault(world.now.log, [])
        if any(self.of_verify.replayed(steps, world.now.objects) is not None for steps in known):
            return
        catalog, store = self._catalog(world, None, "verifier", self.of_verify)
        assert catalog.table("t").verify("content").ok
        known.append(store.steps)


def _asked(done: frozenset[str]) -> Asked:
    return "nothing" if "deleting" in done else "garbage" if "expiry" in done else "all"


def _collect(catalog: Catalog, _: World) -> None:
    catalog.table("t").checkpoint()
    catalog.table("t").collect()
    catalog.collect(grace=GRACE_SECONDS)

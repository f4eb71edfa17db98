"""A small model of a log folder: one reader that lists page by page, beside bundlers and collectors.

Objects are versions, transactions and bundles; each has the set of versions it covers, and a page holds one
object, so that everything can happen between any two. `Protocol` holds the choices of the design that a
counterexample replaces. A *schedule* is a list of steps, played by `play`; `search` tries every schedule of a
small scope and returns one in which the reader misses a version that was there before it began.

The reader's later GETs are not modelled here: within the grace period they find what was listed.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Step = tuple[str, ...]
Schedule = tuple[Step, ...]


class Thing(NamedTuple):
    """An object in the folder: `t` transaction, `v` version, `b` bundle. `salt`: its random or hash part."""

    kind: str
    rank: int
    salt: str
    covers: frozenset[str]

    @property
    def label(self) -> str:
        return self.kind + self.salt


def by_rank(thing: Thing) -> Any:
    return (thing.rank, thing.salt)


@dataclass(frozen=True)
class Protocol:
    """The order in which a reader lists, what sorts where, and what may be deleted in favour of what."""

    regions: tuple[str, ...] = ("t", "vb")  # listed one after the other; kinds in one region by `place`
    place: Callable[[Thing], Any] = lambda thing: (thing.kind == "b", *by_rank(thing))
    may_replace: Callable[[Thing, Thing], bool] = lambda old, new: new.rank > old.rank
    rank: Callable[[tuple[Thing, ...]], int] = lambda parts: max(part.rank for part in parts) + 1


RIGHT = Protocol()


class World(NamedTuple):
    """The folder, and how far the reader is: region, place of the last object listed, versions covered."""

    things: frozenset[Thing]
    region: int = 0
    cursor: Any = None
    seen: frozenset[str] = frozenset()

    @property
    def done(self) -> bool:
        return self.region < 0


def page(world: World, protocol: Protocol) -> World:
    """The next object after the cursor, or the end of the region."""
    kinds = protocol.regions[world.region]
    rest = sorted(
        (protocol.place(thing), thing.label, thing.covers)
        for thing in world.things
        if thing.kind in kinds and (world.cursor is None or protocol.place(thing) > world.cursor)
    )
    if rest:
        place, _, covers = rest[0]
        return world._replace(cursor=place, seen=world.seen | covers)
    last = world.region == len(protocol.regions) - 1
    return world._replace(region=-1 if last else world.region + 1, cursor=None)


def bundle(world: World, protocol: Protocol, salt: str, parts: tuple[Thing, ...]) -> World:
    covers = frozenset().union(*(part.covers for part in parts))
    return world._replace(things=world.things | {Thing("b", protocol.rank(parts), salt, covers)})


def deletable(world: World, protocol: Protocol) -> Iterator[Thing]:
    """What a collector may delete: all it covers is covered by one bundle that may replace it."""
    for old, new in itertools.permutations(world.things, 2):
        if new.kind == "b" and old.covers <= new.covers and protocol.may_replace(old, new):
            yield old


def start(*labels: str) -> World:
    """A folder of versions and transactions, none bundled."""
    return World(frozenset(Thing(label[0], 0, label[1:], frozenset({label})) for label in labels))


def play(world: World, schedule: Schedule, protocol: Protocol) -> World:
    """Carry out the steps, then let the reader finish. Steps that are not allowed are errors of the test."""
    for step in schedule:
        named = {thing.label: thing for thing in world.things}
        if step[0] == "page":
            world = page(world, protocol)
        elif step[0] == "bundle":
            world = bundle(world, protocol, step[1], tuple(named[label] for label in step[2:]))
        else:
            assert named[step[1]] in set(deletable(world, protocol)), f"{step} is not allowed here"
            world = world._replace(things=world.things - {named[step[1]]})
    while not world.done:
        world = page(world, protocol)
    return world


def search(world: World, protocol: Protocol, *, bundles: int = 2) -> Schedule | None:
    """The shortest schedule in which the reader misses something, of all with at most so many bundles."""
    needed = frozenset().union(*(thing.covers for thing in world.things))
    queue: deque[tuple[World, int, Schedule]] = deque([(world, 0, ())])
    known = {(world, 0)}
    while queue:
        now, made, schedule = queue.popleft()
        if now.done:
            if not needed <= now.seen:
                return schedule
            continue
        steps: list[tuple[World, int, Step]] = [(page(now, protocol), made, ("page",))]
        steps += [
            (now._replace(things=now.things - {gone}), made, ("delete", gone.label))
            for gone in deletable(now, protocol)
        ]
        if made < bundles:
            # Salts are random: one that sorts before everything and one that sorts after.
            for parts in itertools.combinations(sorted(now.things), 2):
                for salt in (f"!{made}", f"~{made}"):
                    step = ("bundle", salt, *(part.label for part in parts))
                    steps.append((bundle(now, protocol, salt, parts), made + 1, step))
        for then, count, step in steps:
            if (then, count) not in known:
                known.add((then, count))
                queue.append((then, count, (*schedule, step)))
    return None

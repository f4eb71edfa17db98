"""An exhaustive scheduler: the real protocol steps through every interleaving of their store calls.

Actors are chains of sans-I/O steps (a reader; a reader, then a publisher: a bundler; a reader, then a
collector). The scheduler holds a small map of objects and lets any actor make any of the requests it wants
next, in every order there is: pages of one or two names, deletions one name at a time, PUTs that are stored,
lost, or stored with a lost answer, now or later. Steps are values, so worlds that are alike are visited once,
and a few actors give thousands of worlds rather than millions of schedules.

No actor has to be crashed on purpose: one that is not scheduled again *is* a crashed one, and what must hold
is checked in every world, by a cold read among other things.

Checked, always:

- what was acknowledged before a reader made its first request is in that reader's result;
- a result is causally whole, holds nothing nobody wrote, and every chunk in it has bytes to be read;
- a cold read of any world that is ever reached holds everything acknowledged;
- no step ever reports damage, or gives up.

The search is breadth-first, so the schedule reported for a broken rule is a shortest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from crdtcat.chunks.segment import segment_name
from crdtcat.errors import CrdtcatError
from crdtcat.log import State
from crdtcat.protocol import (
    Answer,
    Delete,
    Deleted,
    Get,
    Got,
    Listed,
    ListPage,
    Object,
    Outcome,
    Publish,
    Put,
    Reader,
    Request,
    Stored,
    is_version,
)
from crdtcat.protocol.names import TRANSACTIONS

Stage = Callable[[Any], Any]
"""From a finished step to the next one, or to `None`: nothing more to do."""
_H = TypeVar("_H", bound=Hashable)


@dataclass(frozen=True)
class Actor:
    """One process: a first step, and what follows when a step is finished."""

    name: str
    first: Any
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class Exploration:
    """What a search found.

    Attributes:
        worlds: how many different worlds were reached.
        problem: the broken rule, or `None`.
        schedule: a shortest way to it.
    """

    worlds: int
    problem: str | None = None
    schedule: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.problem is None:
            return f"no rule broken in {self.worlds:,} worlds"
        return "\n".join((f"{self.problem}, after:", *self.schedule))


def explore(
    actors: Sequence[Actor],
    objects: Mapping[str, bytes],
    folder: str,
    *,
    page: int = 1,
    faults: int = 0,
    worlds_max: int = 1_000_000,
) -> Exploration:
    """Visit every world that the actors can reach.

    Args:
        actors: who is at work.
        objects: what is stored at the beginning; versions in it, by file or bundle, count as acknowledged.
        folder: the log folder of cold reads.
        page: names in a page of a listing.
        faults: how many PUTs may go wrong, in all.
        worlds_max: a limit; a larger scope raises `OverflowError` rather than run for hours.
    """
    return _Explorer(actors, dict(objects), folder, page).run(faults, worlds_max)


class _Broken(Exception):
    """A rule was broken."""


class _Numbers(Generic[_H]):
    """Values and their numbers: worlds are made of numbers, because numbers hash at once."""

    def __init__(self) -> None:
        self._number: dict[_H, int] = {}
        self._values: list[_H] = []

    def of(self, value: _H) -> int:
        number = self._number.setdefault(value, len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number

    def __getitem__(self, number: int) -> _H:
        return self._values[number]


class _Deleting(NamedTuple):
    """A deletion of several names, under way."""

    left: tuple[str, ...]


class _Place(NamedTuple):
    """Where an actor is: stage, step, answers so far, and what was acknowledged when the stage began."""

    stage: int
    step: int
    answers: tuple[int, ...]
    began: int = -1


class _World(NamedTuple):
    """`objects`, `acknowledged` and `late` (PUTs still under way) are numbers of sets of names."""

    objects: int
    acknowledged: int
    late: int
    faults: int
    places: tuple[_Place | None, ...]


class _Effect(NamedTuple):
    """One way a request can go: in words, its answer, and what it does."""

    words: str
    answer: Any
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    faults: int = 0


class _Explorer:
    def __init__(self, actors: Sequence[Actor], data: dict[str, bytes], folder: str, page: int) -> None:
        self.actors, self.data, self.folder, self.page = actors, data, folder, page
        self.sets: _Numbers[frozenset[str]] = _Numbers()
        self.steps: _Numbers[Any] = _Numbers()
        self.answers: _Numbers[Any] = _Numbers()
        self.unanswered = self.answers.of(None)
        self.taken: dict[tuple[int, tuple[int, ...]], int] = {}
        self.followed: dict[tuple[int, int, int], _Place | None] = {}
        self.cold: dict[int, tuple[State, frozenset[str]]] = {}
        self.pages: dict[tuple[int, ListPage], Listed] = {}

    def run(self, faults: int, worlds_max: int) -> Exploration:
        stored = frozenset(self.data)
        places = tuple(self._placed(at, 0, actor.first) for at, actor in enumerate(self.actors))
        nothing = self.sets.of(frozenset())
        world = _World(self.sets.of(stored), nothing, nothing, faults, places)
        self._check_cold(world)
        there = frozenset(f"{self.folder}{id}.v" for id in self.cold[world.objects][1])
        world = world._replace(acknowledged=self.sets.of(there | frozenset(filter(is_version, stored))))
        came: dict[_World, tuple[_World, str] | None] = {world: None}
        queue = deque([world])
        while queue:
            now = queue.popleft()
            try:
                self._check_cold(now)
                for words, then in self._moves(now):
                    if then not in came:
                        came[then] = (now, words)
                        queue.append(then)
            except _Broken as broken:
                return Exploration(len(came), str(broken), _way(came, now))
            if len(came) > worlds_max:
                raise OverflowError(f"more than {worlds_max:,} worlds: fewer actors, objects or faults")
        return Exploration(len(came))

    def _moves(self, world: _World) -> Iterator[tuple[str, _World]]:
        for name in sorted(self.sets[world.late]):
            stored, late = self.sets[world.objects] | {name}, self.sets[world.late] - {name}
            yield (
                f"a late PUT is stored: {name}",
                world._replace(objects=self.sets.of(stored), late=self.sets.of(late)),
            )
        for at, place in enumerate(world.places):
            if place is None:
                continue
            if place.began < 0:
                place = place._replace(began=world.acknowledged)  # noqa: PLW2901
            for index, want in enumerate(self.steps[place.step].wants):
                before = self.answers[place.answers[index]]
                if before is not None and not isinstance(before, _Deleting):
                    continue
                for effect in self._effects(world, want, before):
                    words = f"{self.actors[at].name}: {effect.words}"
                    yield words, self._after(world, at, place, index, effect)

    def _effects(self, world: _World, want: Request, before: _Deleting | None) -> Iterator[_Effect]:
        objects = self.sets[world.objects]
        match want:
            case ListPage():
                page = self._page(world.objects, want)
                names = ", ".join(item.name for item in page.objects) or "nothing"
                yield _Effect(f"lists {names}", page)
            case Get(name):
                data = self.data[name] if name in objects else None
                yield _Effect(f"gets {name}{'' if data else ', which is gone'}", Got(data))
            case Put(name, data):
                if self.data.setdefault(name, bytes(data)) != data:
                    raise _Broken(f"two different objects of one name: {name}")
                yield from _puts(name, faults=world.faults > 0)
            case Delete(names):
                left = names if before is None else before.left
                for name in left:
                    rest = tuple(other for other in left if other != name)
                    answer = _Deleting(rest) if rest else Deleted()
                    yield _Effect(f"deletes {name}", answer, removed=frozenset({name}))

    def _page(self, objects: int, want: ListPage) -> Listed:
        key = (objects, want)
        if key not in self.pages:
            names = sorted(
                name
                for name in self.sets[objects]
                if name.startswith(want.prefix) and name > want.after and "/" not in name[len(want.prefix) :]
            )
            listed = tuple(Object(name, len(self.data[name])) for name in names[: self.page])
            self.pages[key] = Listed(listed, listed[-1].name if len(names) > self.page else None)
        return self.pages[key]

    def _after(self, world: _World, at: int, place: _Place, index: int, effect: _Effect) -> _World:
        objects = (self.sets[world.objects] | effect.added) - effect.removed
        world = world._replace(
            objects=self.sets.of(objects),
            late=self.sets.of(self.sets[world.late] | effect.late),
            faults=world.faults - effect.faults,
        )
        answers = list(place.answers)
        answers[index] = self.answers.of(effect.answer)
        place = place._replace(answers=tuple(answers))
        moved: _Place | None = place
        if not any(self._is_open(number) for number in answers):
            step = self._take(place.step, place.answers)
            world = self._acknowledged(world, self.steps[place.step], step)
            answers = [self.unanswered] * len(step.wants)
            moved = place._replace(step=self.steps.of(step), answers=tuple(answers))
            if not step.wants:
                self._check_finished(world, step, place.began)
                moved = self._follow(at, place.stage, moved.step)
        places = (*world.places[:at], moved, *world.places[at + 1 :])
        return world._replace(places=places)

    def _is_open(self, number: int) -> bool:
        answer = self.answers[number]
        return answer is None or isinstance(answer, _Deleting)

    def _take(self, step: int, answers: tuple[int, ...]) -> Any:
        key = (step, answers)
        if key not in self.taken:
            given: list[Answer] = [self.answers[number] for number in answers]
            try:
                self.taken[key] = self.steps.of(self.steps[step].take(given))
            except CrdtcatError as error:
                raise _Broken(f"a step raised {type(error).__name__}: {error}") from error
        return self.steps[self.taken[key]]

    def _follow(self, at: int, stage: int, step: int) -> _Place | None:
        key = (at, stage, step)
        if key not in self.followed:
            stages = self.actors[at].stages
            following = stages[stage](self.steps[step]) if stage < len(stages) else None
            self.followed[key] = None if following is None else self._placed(at, stage + 1, following)
        return self.followed[key]

    def _placed(self, at: int, stage: int, step: Any) -> _Place | None:
        number = self.steps.of(step)
        if not step.wants:
            return self._follow(at, stage, number)
        return _Place(stage, number, (self.unanswered,) * len(step.wants))

    def _acknowledged(self, world: _World, before: Any, after: Any) -> _World:
        if not isinstance(after, Publish) or after.outcome is not Outcome.DONE:
            return world
        name = before.puts[-1].name
        if not is_version(name):
            return world
        return world._replace(acknowledged=self.sets.of(self.sets[world.acknowledged] | {name}))

    def _check_finished(self, world: _World, step: Any, began: int) -> None:
        if isinstance(step, Reader):
            self._check_result(step.state, self.sets[began], self.sets[world.objects], "a reader")

    def _check_cold(self, world: _World) -> None:
        if world.objects not in self.cold:
            reader: Any = Reader(self.folder, State(self.folder))
            while wants := reader.wants:
                given = [effect.answer for want in wants for effect in self._effects(world, want, None)]
                try:
                    reader = reader.take(given)
                except CrdtcatError as error:
                    raise _Broken(f"a cold read raised {type(error).__name__}: {error}") from error
            self._check_result(reader.state, frozenset(), self.sets[world.objects], "a cold read")
            self.cold[world.objects] = reader.state, _versions(reader.state)
        _check_whole(*self.cold[world.objects], self.sets[world.acknowledged], "a cold read")

    def _check_result(self, state: State, must: frozenset[str], objects: frozenset[str], who: str) -> None:
        _check_whole(state, _versions(state), must, who)
        if state.gaps():
            raise _Broken(f"{who} holds a version without those before it")
        names = state.log.segment_name.tobytes()
        titles = [names[at : at + 24] for at in range(0, len(names), 24)]
        for chunk in range(state.log.chunk_count):
            version = int(state.log.chunk_version[chunk])
            id, ordinal = state.log.id_at(version), chunk - int(state.log.chunk_start[version])
            places = state.log.place_segment[state.log.place_chunk == chunk].tolist()
            stored = any(segment_name(titles[at][:16], titles[at][16:]) in objects for at in places)
            if not stored and (id.to_bytes(), ordinal) not in state.log.inline:
                raise _Broken(f"{who} shows version {id}, whose rows are nowhere")


def _check_whole(state: State, found: frozenset[str], must: frozenset[str], who: str) -> None:
    """A version counts where it belongs; a transaction unless the reader found it is not for its log."""
    lost = {
        name
        for name in must - state.elsewhere
        if name.startswith((state.folder, TRANSACTIONS)) and _id(name) not in found
    }
    if lost:
        raise _Broken(f"{who} misses what was acknowledged: {', '.join(sorted(lost))}")


def _versions(state: State) -> frozenset[str]:
    return frozenset(str(state.log.id_at(at)) for at in range(len(state.log)))


def _id(name: str) -> str:
    return name.rsplit("/", 1)[-1].removesuffix(".v")


def _puts(name: str, *, faults: bool) -> Iterator[_Effect]:
    this = frozenset({name})
    yield _Effect(f"puts {name}", Stored(), added=this)
    if faults:
        unclear = Stored(clear=False)
        yield _Effect(f"puts {name}, and the answer is lost", unclear, added=this, faults=1)
        yield _Effect(f"fails to put {name}", unclear, faults=1)
        yield _Effect(f"puts {name}, which will take a while", unclear, late=this, faults=1)


def _way(came: Mapping[_World, tuple[_World, str] | None], world: _World) -> tuple[str, ...]:
    way: list[str] = []
    step = came[world]
    while step is not None:
        before, words = step
        way.append(words)
        step = came[before]
    return tuple(reversed(way))

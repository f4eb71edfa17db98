"""An exhaustive scheduler: the real protocol steps through every interleaving of their store calls.

Actors are chains of sans-I/O steps (a reader; a reader, then a publisher: a bundler; a reader, then a
collector). The scheduler holds a small map of objects and lets any actor make any of the requests it wants
next, in every order there is: pages of one or two names, deletions one name at a time, and perhaps again
later, PUTs that are stored, lost, or stored with a lost answer, now or later. Steps are values, so worlds
that are alike are visited once, and a few actors give thousands of worlds rather than millions of schedules.

No actor has to be crashed on purpose: one that is not scheduled again *is* a crashed one, and what must hold
is checked in every world, by a cold read among other things.

Checked, always:

- what was acknowledged before a reader made its first request is in that reader's result;
- a result is causally whole, holds nothing nobody wrote, and every chunk in it has bytes to be read;
- a cold read of any world that is ever reached holds everything acknowledged;
- cold reads of several logs have a transaction in all of those it touches, or in none;
- no step ever reports damage, or gives up.

The search is breadth-first, so the schedule reported for a broken rule is a shortest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from crdtcat.errors import CrdtcatError
from crdtcat.log import State
from crdtcat.protocol import Answer, Outcome, Publish, Reader, is_version
from crdtcat.testing.invariants import check_acknowledged, check_read, check_whole
from crdtcat.testing.scheduled_store import Deleting, Effect, ScheduledStore

Stage = Callable[[Any], Any]
"""From a finished step to the next one, or to `None`: nothing more to do."""
_H = TypeVar("_H", bound=Hashable)


@runtime_checkable
class Acknowledging(Protocol):
    """A step that tells by itself which versions it has acknowledged."""

    @property
    def acknowledges(self) -> tuple[str, ...]:
        """Names of versions, as if each were in a version file of its own."""
        ...


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
    others: Sequence[str] = (),
    page: int = 1,
    faults: int = 0,
    worlds_max: int = 1_000_000,
) -> Exploration:
    """Visit every world that the actors can reach.

    Args:
        actors: who is at work.
        objects: what is stored at the beginning; versions in it, by file or bundle, count as acknowledged.
        folder: the log folder of cold reads.
        others: more log folders that are read in every world, for transactions.
        page: names in a page of a listing.
        faults: how many PUTs and deletions may go wrong, in all.
        worlds_max: a limit; a larger scope raises `OverflowError` rather than run for hours.
    """
    return _Explorer(actors, dict(objects), (folder, *others), page).run(faults, worlds_max)


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


class _Place(NamedTuple):
    """Where an actor is: stage, step, answers so far, and what was acknowledged when the stage began."""

    stage: int
    step: int
    answers: tuple[int, ...]
    began: int = -1


class _World(NamedTuple):
    """`objects`, `acknowledged` and `late` (requests still under way) are numbers of sets of names."""

    objects: int
    acknowledged: int
    late: int
    faults: int
    places: tuple[_Place | None, ...]


class _Explorer:
    def __init__(
        self, actors: Sequence[Actor], data: dict[str, bytes], folders: Sequence[str], page: int
    ) -> None:
        self.actors, self.store = actors, ScheduledStore(data, page)
        self.folder, *self.others = folders
        self.sets: _Numbers[frozenset[str]] = _Numbers()
        self.steps: _Numbers[Any] = _Numbers()
        self.answers: _Numbers[Any] = _Numbers()
        self.unanswered = self.answers.of(None)
        self.taken: dict[tuple[int, tuple[int, ...]], int] = {}
        self.followed: dict[tuple[int, int, int], _Place | None] = {}
        self.cold: dict[int, tuple[State, frozenset[str]]] = {}

    def run(self, faults: int, worlds_max: int) -> Exploration:
        stored = frozenset(self.store.data)
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
            except AssertionError as broken:
                return Exploration(len(came), str(broken), _way(came, now))
            if len(came) > worlds_max:
                raise OverflowError(f"more than {worlds_max:,} worlds: fewer actors, objects or faults")
        return Exploration(len(came))

    def _moves(self, world: _World) -> Iterator[tuple[str, _World]]:
        for name in sorted(self.sets[world.late]):
            stored = self.store.landed(self.sets[world.objects], name)
            late = self.sets[world.late] - {name}
            yield (
                f"a late request arrives: {name}",
                world._replace(objects=self.sets.of(stored), late=self.sets.of(late)),
            )
        for at, place in enumerate(world.places):
            if place is None:
                continue
            if place.began < 0:
                place = place._replace(began=world.acknowledged)  # noqa: PLW2901
            for index, want in enumerate(self.steps[place.step].wants):
                before = self.answers[place.answers[index]]
                if before is not None and not isinstance(before, Deleting):
                    continue
                objects = self.sets[world.objects]
                for effect in self.store.effects(objects, want, before, faults=world.faults > 0):
                    words = f"{self.actors[at].name}: {effect.words}"
                    yield words, self._after(world, at, place, index, effect)

    def _after(self, world: _World, at: int, place: _Place, index: int, effect: Effect) -> _World:
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
        return answer is None or isinstance(answer, Deleting)

    def _take(self, step: int, answers: tuple[int, ...]) -> Any:
        key = (step, answers)
        if key not in self.taken:
            given: list[Answer] = [self.answers[number] for number in answers]
            try:
                self.taken[key] = self.steps.of(self.steps[step].take(given))
            except CrdtcatError as error:
                raise AssertionError(f"a step raised {type(error).__name__}: {error}") from error
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
        if isinstance(after, Acknowledging):
            names = self.sets[world.acknowledged] | frozenset(after.acknowledges)
            return world._replace(acknowledged=self.sets.of(names))
        if not isinstance(after, Publish) or after.outcome is not Outcome.DONE:
            return world
        name = before.puts[-1].name
        if not is_version(name):
            return world
        return world._replace(acknowledged=self.sets.of(self.sets[world.acknowledged] | {name}))

    def _check_finished(self, world: _World, step: Any, began: int) -> None:
        if isinstance(step, Reader):
            check_read(step.state, self.sets[began], self.sets[world.objects], "a reader")

    def _check_cold(self, world: _World) -> None:
        if world.objects not in self.cold:
            objects = self.sets[world.objects]
            state = self._cold_read(self.folder, objects)
            check_read(state, frozenset(), objects, "a cold read")
            logs = {self.folder: state.log}
            logs |= {folder: self._cold_read(folder, objects).log for folder in self.others}
            check_whole(logs, "a cold read")
            found = frozenset(str(state.log.id_at(at)) for at in range(len(state.log)))
            self.cold[world.objects] = state, found
        check_acknowledged(*self.cold[world.objects], self.sets[world.acknowledged], "a cold read")

    def _cold_read(self, folder: str, objects: frozenset[str]) -> State:
        reader: Any = Reader(folder, State(folder))
        while wants := reader.wants:
            given = [next(self.store.effects(objects, want, None, faults=False)).answer for want in wants]
            try:
                reader = reader.take(given)
            except CrdtcatError as error:
                raise AssertionError(f"a cold read raised {type(error).__name__}: {error}") from error
        state: State = reader.state
        return state


def _way(came: Mapping[_World, tuple[_World, str] | None], world: _World) -> tuple[str, ...]:
    way: list[str] = []
    step = came[world]
    while step is not None:
        before, words = step
        way.append(words)
        step = came[before]
    return tuple(reversed(way))

"""The bundler: fetch what a new bundle is to hold, make it, publish it; and the choice of what it takes in.

Bundles form a log-structured merge. A new bundle takes in, from the smallest up, every live bundle that is
less than `RATIO` times what has been gathered so far. Each bundle left is then at least `RATIO` times the
next, so there are at most log base RATIO of n of them: under 2 log8 n. A version is copied each time its
bundle is taken in: O(log n) times in all.

Two that bundle the same versions at once publish two bundles; coverage is an exact set of ids, so a reader
of both has every version once, and the next bundle takes in both. A bundle of `BUNDLE_VERSIONS_MAX` is left
alone: that bounds memory.

What is in the files is the plan's to know; here is the order of requests. No clock: the driver says `aged`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from crdtcat.protocol.claimer import NO_CLAIM, Parent
from crdtcat.protocol.names import bundle_rank, is_base
from crdtcat.protocol.publish import Publish
from crdtcat.protocol.requests import Answer, Get, Got, Put, Request
from crdtcat.support.object_bytes import ObjectBytes

RATIO: Final = 3
BUNDLE_VERSIONS_MAX: Final = 1_000_000


class Sized(Protocol):
    """What the choice asks of a bundle."""

    @property
    def versions(self) -> int:
        """How many versions it holds."""
        ...

    @property
    def replaces(self) -> frozenset[str]:
        """The bundles that it takes the place of."""
        ...


Z = TypeVar("Z", bound=Sized)


def live_bundles(bundles: Mapping[str, Z]) -> dict[str, Z]:
    """Those bundles that no other replaces."""
    gone = {name for bundle in bundles.values() for name in bundle.replaces}
    return {name: bundle for name, bundle in bundles.items() if name not in gone}


def taken_in(live: Mapping[str, Sized], gathered: int) -> list[str]:
    """The bundles that a new one of `gathered` versions takes in, smallest first."""
    taken: list[str] = []
    bundles = [name for name in live if not is_base(name)]
    for name in sorted(bundles, key=lambda name: (live[name].versions, name)):
        size = live[name].versions
        if size >= RATIO * gathered or size + gathered > BUNDLE_VERSIONS_MAX:
            break
        taken.append(name)
        gathered += size
    return taken


def replaced_by(taken: Sequence[str], live: Mapping[str, Sized], listed: Iterable[str]) -> list[str]:
    """The bundles that one which takes in `taken` stands for: those, and what they replace of what is listed.

    A name that is not listed is left out: it is gone, and names would add up for ever.
    """
    gone = {name for bundle in taken for name in (bundle, *live[bundle].replaces)}
    return sorted(gone.intersection(listed))


def rank_above(taken: Iterable[str]) -> int:
    """The rank of a bundle that takes in others: above each, so that it is listed after all of them."""
    return 1 + max(map(bundle_rank, taken), default=0)


@dataclass(frozen=True, slots=True)
class Made:
    """A bundle to be published.

    Attributes:
        puts: segments for rows that were inlined, then the bundle.
        versions: versions in it.
        newly_covered: how many of them no bundle covered before.
        taken: bundles that it takes in.
        newest: the newest claim in it, where the next may follow it.
    """

    puts: tuple[Put, ...]
    versions: int
    newly_covered: int = 0
    taken: tuple[str, ...] = ()
    newest: Parent = NO_CLAIM

    @property
    def name(self) -> str:
        """The bundle's name."""
        return self.puts[-1].name


class Plan(Protocol):
    """What is to be bundled. An immutable value."""

    @property
    def at_once(self) -> int:
        """How many files to ask for at a time."""
        ...

    def wanted(self, files: Sequence[tuple[str, ObjectBytes]]) -> Sequence[str]:
        """The files it has to see, given those that were found. What was asked for is not asked for again."""
        ...

    def made(self, files: Sequence[tuple[str, ObjectBytes]], *, old: bool) -> Made | None:
        """The bundle of what was found; `None`: nothing to do. `old`: it took longer than half a grace
        period to find it."""
        ...


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True)
class Bundler(Generic[P]):
    """Fetch, make, publish. Begin with `Bundler.begin`. Theorem: `bundle_decodes_to_join`.

    Attributes:
        plan: what is to be bundled.
        fetching: names to be asked for.
        asked: names that were.
        files: what was found. A file that is gone was collected: a bundle of higher rank has it.
        old: whether that took longer than half a grace period.
        bundle: what is published, once it is made.
        publish: its publication.
    """

    plan: P
    fetching: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()
    files: tuple[tuple[str, ObjectBytes], ...] = ()
    old: bool = False
    bundle: Made | None = None
    publish: Publish | None = None

    @classmethod
    def begin(cls, plan: P) -> Bundler[P]:
        """A bundler that follows `plan`."""
        return cls(plan)._next()

    @property
    def wants(self) -> tuple[Request, ...]:
        """Files to fetch, or the next PUT."""
        if self.publish is not None:
            return self.publish.wants
        return tuple(Get(name) for name in self.fetching[: self.plan.at_once])

    def aged(self) -> Bundler[P]:
        """More than half a grace period has passed. To be said before answers are taken that came so late."""
        return replace(self, old=True)

    def take(self, answers: Sequence[Answer]) -> Bundler[P]:
        """The next step. Raises `Corrupt` where a file is damaged."""
        if self.publish is not None:
            return replace(self, publish=self.publish.take(answers))
        names, rest = self.fetching[: self.plan.at_once], self.fetching[self.plan.at_once :]
        found = tuple(
            (name, answer.data)
            for name, answer in zip(names, answers, strict=True)
            if isinstance(answer, Got) and answer.data is not None
        )
        step = replace(self, fetching=rest, asked=self.asked.union(names), files=self.files + found)
        return step if rest else step._next()

    def _next(self) -> Bundler[P]:
        names = tuple(name for name in self.plan.wanted(self.files) if name not in self.asked)
        if names:
            return replace(self, fetching=names)
        bundle = self.plan.made(self.files, old=self.old)
        publish = None if bundle is None else Publish(bundle.puts)
        return replace(self, files=(), bundle=bundle, publish=publish)

"""What a run was asked for: how large, and which engines. Suites take their sizes from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.engines import ENTRANTS, Entrant
from benchmarks.peers import absent
from benchmarks.report import progress

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        size: `tiny` (the tests), `short` (`make bench`) or `full` (`make bench-full`).
        engines: names of those that take part.
    """

    size: str = "short"
    engines: tuple[str, ...] = tuple(ENTRANTS)

    def pick(self, tiny: T, short: T, full: T) -> T:
        """The value for this size."""
        return {"tiny": tiny, "short": short, "full": full}[self.size]

    @property
    def overtime(self) -> float:
        """Seconds that a commit under way is waited for after a point's time; then its process is ended."""
        return self.pick(60.0, 2.0, 10.0)

    def entrants(self, *, in_database: bool = False) -> Iterator[Entrant]:
        """Engines that can take part; with `in_database`, those whose catalog lives in one, too: where many
        write at once, that is how they are meant to be used."""
        for name in self.engines:
            entrant = ENTRANTS[name]
            if entrant.in_database and not in_database:
                continue
            if reason := absent(entrant):
                progress(f"{name} does not take part: {reason}")
            else:
                yield entrant

    def variants(self, entrant: Entrant) -> tuple[str, ...]:
        """An engine's settings where the short run has its defaults only."""
        return self.pick(entrant.variants, entrant.variants[:1], entrant.variants)

    def absent(self) -> str:
        """A sentence about engines that do not take part; empty if all do."""
        reasons = {name: absent(ENTRANTS[name]) for name in self.engines}
        return " ".join(f"{name} did not take part: {reason}." for name, reason in reasons.items() if reason)


def label(entrant: Entrant, variant: str) -> str:
    """How tables and plots name an engine with settings other than its defaults."""
    return entrant.name if variant == "default" else f"{entrant.name}, {variant}"

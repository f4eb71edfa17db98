"""A world of an exploration: what is there, and how far everybody is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.simulation.moments import Moment


@dataclass(frozen=True, eq=False, slots=True)
class World:
    """A moment, the times, how far the collection is, and per actor: nothing, what it has read, or done.

    `began` of an actor that has read is how many spells had gone by then; `stamp` is what processes' clocks
    show; `before` and `words` tell the way here.
    """

    now: Moment
    reading: tuple[Moment | None, ...]
    began: tuple[int, ...]
    done: frozenset[str] = frozenset()
    spells: int = 0
    stamp: int = 0
    before: World | None = None
    words: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for worlds that are alike."""
        numbers = tuple([-1 if each is None else each.number for each in self.reading])
        return (self.done, self.spells, self.stamp, self.began, self.now.number, numbers)

    @property
    def way(self) -> list[str]:
        """What happened."""
        found, at = [], self
        while at.before is not None:
            found.append(at.words)
            at = at.before
        return found[::-1]

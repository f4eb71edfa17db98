"""Actors made of real protocol steps, run in an order drawn from a seed, request by request.

What is common to the recorders of traces: each says what its actors are, what may happen, and how what
happened is called in its model.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crdtcat.testing.scheduled_store import Deleting, Effect, ScheduledStore
from crdtcat.testing.scheduler import Actor

PAGE = 100  # names in a page: most models list a folder in one step


@dataclass
class Running:
    """An actor on its way: its step, its answers so far, and the stages to come."""

    actor: Actor
    step: Any
    stages: list[Any]
    answers: list[Any] = field(default_factory=list)
    deleting: Deleting | None = None


class Schedule:
    """Runs actors until all are finished.

    Args:
        draw: decides who acts next, and what becomes of a request.
        actors: who.
        objects: what the store holds at the beginning.
        faults: how many requests may go wrong.
        page: names in a page of a listing.
    """

    def __init__(
        self,
        draw: random.Random,
        actors: Sequence[Actor],
        objects: Mapping[str, bytes],
        *,
        faults: int,
        page: int = PAGE,
    ) -> None:
        self._draw, self._faults = draw, faults
        self._store = ScheduledStore(dict(objects), page)
        self._objects = frozenset(objects)
        self._running = [Running(one, one.first, list(one.stages)) for one in actors]

    def _run(self) -> None:
        while self._running:
            running = self.next_to_act(self._running)
            self._one_request(running)
            while running in self._running and not running.step.wants:
                self._advance(running)

    def _one_request(self, running: Running) -> None:
        want = running.step.wants[len(running.answers)]
        every = self._store.effects(self._objects, want, running.deleting, faults=self._faults > 0)
        effects = [one for one in every if not one.late and self.may_happen(want, one)]
        if not effects:
            return
        effect = self._draw.choice(effects)
        self._faults -= effect.faults
        self.happened(running, want, effect)
        self._objects = (self._objects | effect.added) - effect.removed
        running.deleting = effect.answer if isinstance(effect.answer, Deleting) else None
        if running.deleting is not None:
            return
        running.answers.append(effect.answer)
        if len(running.answers) == len(running.step.wants):
            before, running.step = running.step, running.step.take(running.answers)
            running.answers = []
            self.stepped(running, before)

    def _advance(self, running: Running) -> None:
        self.finished(running)
        following = running.stages.pop(0)(running.step) if running.stages else None
        if following is None:
            self._running.remove(running)
        else:
            running.step = following

    def next_to_act(self, running: Sequence[Running]) -> Running:
        """Who makes the next request."""
        return self._draw.choice(running)

    def stepped(self, running: Running, before: Any) -> None:
        """When an actor has all the answers that a step wanted."""

    def may_happen(self, want: Any, effect: Effect) -> bool:  # noqa: ARG002 - for those who forbid something
        """Whether the request may go this way now; one that may not waits."""
        return True

    def happened(self, running: Running, want: Any, effect: Effect) -> None:
        """Before a request takes effect."""
        raise NotImplementedError

    def finished(self, running: Running) -> None:
        """When an actor has finished a step."""
        raise NotImplementedError

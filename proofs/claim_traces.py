"""Traces of claims: the real claimer, upkeep and reader at work, in the terms of the TLA+ model `Claims`.

Actors made of real steps are scheduled at random, request by request, with lost answers; what they do is
written down as the model's actions. `claim_rules.py` holds a trace against the model's rules, restated in
Python; `traces_runner.py` has TLC do the same.

Where the two differ in words: a look at a number that is taken is, in the model, one more PUT that finds it
taken; a request that never arrived is nothing at all. Time is the model's: while somebody claims, nothing
above the number it began from is collected, which is what the grace period is for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from crdtcat.protocol import Delete, Get, ListPage, Put
from crdtcat.protocol.claimer import Claimer, ClaimOutcome
from crdtcat.protocol.names import bundle_number, claim_number, is_claim
from crdtcat.protocol.requests import PutIfAbsent
from crdtcat.testing.scheduled_store import Deleting, ScheduledStore
from crdtcat.testing.scheduler import Actor
from proofs.claim_rules import ClaimEvent
from tests.protocol.claims import FIRST_FILE, SECOND, SECOND_FILE, Setting, resumed
from tests.protocol.scenes import FOLDER, reader, upkeep

PAGE = 100  # the model lists claims in one step, and bundles in another
FAULTS = 2
BEFORE = ("c101", "c102")
WRITERS = (1, 2, 3)


@dataclass
class _Running:
    """An actor on its way: its step, its answers so far, and the stages to come."""

    actor: Actor
    step: Any
    stages: list[Any]
    answers: list[Any] = field(default_factory=list)
    deleting: Deleting | None = None
    is_refused: bool = False

    @property
    def who(self) -> str:
        return f"c{self.step.change.writer}" if isinstance(self.step, Claimer) else ""


class ClaimRecorder:
    """Runs claimers, upkeep and a reader in an order drawn from a seed and writes down what they do.

    Args:
        seed: decides who takes part, and the schedule.
        kind: the claimer's class.
    """

    def __init__(self, seed: int, kind: Any = Claimer) -> None:
        self._draw = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        self._store = ScheduledStore(dict([FIRST_FILE, SECOND_FILE]), PAGE)
        self._objects = frozenset(self._store.data)
        self._faults = FAULTS
        writers = self._draw.sample(WRITERS, self._draw.randrange(2, 4))
        claimers = [
            Actor(
                f"c{one}",
                kind.begin(FOLDER, Setting(one, "shared" if one in (1, 2) else ""), SECOND, 20),
                (resumed,) * 4,
            )
            for one in writers
        ]
        self._reader = reader("watched")
        actors = [*claimers, self._reader, upkeep("upkeep")]
        self._running = [_Running(one, one.first, list(one.stages)) for one in actors]
        self.events = [ClaimEvent(op, who) for who in BEFORE for op in ("start", "put", "created")] + [
            ClaimEvent("start", one.name) for one in claimers
        ]

    def run(self) -> list[ClaimEvent]:
        """The trace, until every actor is finished."""
        while self._running:
            running = self._draw.choice(self._running)
            self._one_request(running)
            while running in self._running and not running.step.wants:
                self._advance(running)
        return self.events

    def _one_request(self, running: _Running) -> None:
        want = running.step.wants[len(running.answers)]
        effects = list(self._store.effects(self._objects, want, running.deleting, faults=self._faults > 0))
        if isinstance(want, Delete) and any(other.who for other in self._running):
            effects = [one for one in effects if self._may_go(one.removed)]
            if not effects:
                return  # the grace period is not over
        effect = self._draw.choice([one for one in effects if not one.late])
        self._faults -= effect.faults
        self._write_down(running, want, effect)
        self._objects = (self._objects | effect.added) - effect.removed
        running.deleting = effect.answer if isinstance(effect.answer, Deleting) else None
        if running.deleting is not None:
            return
        running.answers.append(effect.answer)
        if len(running.answers) == len(running.step.wants):
            running.step = running.step.take(running.answers)
            running.answers = []

    def _may_go(self, names: frozenset[str]) -> bool:
        plain = [name.split("\0")[0] for name in names]
        return all(is_claim(name) and claim_number(name) <= SECOND.number for name in plain)

    def _advance(self, running: _Running) -> None:
        step = running.step
        if running.actor is self._reader:
            log = step.state.log
            pairs = {(int(log.number[at]), f"c{log.id_at(at).writer}") for at in range(len(log))}
            self._add("result", result=frozenset(pairs))
        elif isinstance(step, Claimer):
            if step.outcome is ClaimOutcome.DONE:
                self._add("ended", running.who, step.number)
            elif step.outcome is ClaimOutcome.CONFLICT:
                self._add("ended", running.who)
        following = running.stages.pop(0)(step) if running.stages else None
        if following is None:
            self._running.remove(running)
        else:
            running.step = following

    def _write_down(self, running: _Running, want: Any, effect: Any) -> None:
        if isinstance(want, PutIfAbsent):
            self._created(running, effect)
        elif isinstance(want, Get) and running.who:
            if effect.answer.data is not None:
                if not running.is_refused:
                    self._add("put", running.who)
                self._add("exists", running.who)
                running.is_refused = False
        elif isinstance(want, Put) and effect.added - self._objects:
            self._add("bundle", number=bundle_number(want.name))
        elif isinstance(want, Delete):
            for name in (one.split("\0")[0] for one in effect.removed & self._objects):
                self._add("collect", number=claim_number(name))
        elif isinstance(want, ListPage) and running.actor is self._reader:
            self._add("begin")
            self._add("listed")

    def _created(self, running: _Running, effect: Any) -> None:
        if effect.answer.created:
            self._add("put", running.who)
            self._add("created", running.who)
        elif effect.answer.clear:
            self._add("put", running.who)
            running.is_refused = True
        elif effect.added:
            (key,) = effect.added
            number = claim_number(key.split("\0")[0])
            self._add("unanswered", running.who)
            self._add("late", running.who, number)

    def _add(self, op: str, who: str = "", number: int = 0, **more: Any) -> None:
        self.events.append(ClaimEvent(op, who, number, **more))

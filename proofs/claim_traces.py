"""Traces of claims: the real claimer, upkeep and reader at work, in the terms of the TLA+ model `Claims`.

Actors made of real steps are scheduled at random, request by request, with lost answers; what they do is
written down as the model's actions. `claim_rules.py` holds a trace against the model's rules, restated in
Python; `traces_runner.py` has TLC do the same.

Where the two differ in words: a look at a number that is taken is, in the model, one more PUT that finds it
taken, once the claimer has all that it looked at together; and so is one at a claim that carries it, for
while a claimer is fresh, what is carried is what is there. A listing of names, and a request that never
arrived, are nothing at all. Time is the model's: while somebody claims, nothing above the number it began
from is collected, which is what the grace period is for.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from crdtcat.protocol import Delete, Get, ListPage, Put
from crdtcat.protocol.claimer import Claimer, ClaimOutcome
from crdtcat.protocol.names import bundle_number, claim_number, is_claim
from crdtcat.protocol.requests import PutIfAbsent
from crdtcat.testing.scheduler import Actor
from proofs.claim_rules import ClaimEvent
from proofs.schedule import Running, Schedule
from tests.protocol.claims import FIRST_FILE, SECOND, SECOND_FILE, Setting, resumed
from tests.protocol.scenes import FOLDER, reader, upkeep

FAULTS = 2
BEFORE = ("c101", "c102")
WRITERS = (1, 2, 3)


class ClaimRecorder(Schedule):
    """Runs claimers, upkeep and a reader in an order drawn from a seed and writes down what they do.

    Args:
        seed: decides who takes part, and the schedule.
        kind: the claimer's class.
    """

    def __init__(self, seed: int, kind: Any = Claimer) -> None:
        draw = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        writers = draw.sample(WRITERS, draw.randrange(2, 4))
        claimers = [Actor(f"c{one}", _begun(kind, one, draw.randrange(4)), (resumed,) * 4) for one in writers]
        self._reader = reader("watched")
        actors = [*claimers, self._reader, upkeep("upkeep")]
        super().__init__(draw, actors, dict([FIRST_FILE, SECOND_FILE]), faults=FAULTS)
        self._refused: set[str] = set()
        self.events = [ClaimEvent(op, who) for who in BEFORE for op in ("start", "put", "created")]
        self.events += [ClaimEvent("start", one.name) for one in claimers]

    def run(self) -> list[ClaimEvent]:
        """The trace, until every actor is finished."""
        self._run()
        return self.events

    def may_happen(self, want: Any, effect: Any) -> bool:
        """While somebody claims, only what it began from is collected: the grace period."""
        if not isinstance(want, Delete) or not any(map(_who, self._running)):
            return True
        names = [name.split("\0")[0] for name in effect.removed]
        return all(is_claim(name) and claim_number(name) <= SECOND.number for name in names)

    def happened(self, running: Running, want: Any, effect: Any) -> None:
        """One request, as the model's actions."""
        who = _who(running)
        if isinstance(want, PutIfAbsent):
            self._created(who, effect)
        elif isinstance(want, Put) and effect.added - self._objects:
            self._add("bundle", number=bundle_number(want.name))
        elif isinstance(want, Delete):
            for name in (one.split("\0")[0] for one in effect.removed & self._objects):
                self._add("collect", number=claim_number(name))
        elif isinstance(want, ListPage) and running.actor is self._reader:
            self._add("begin")
            self._add("listed")

    def stepped(self, running: Running, before: Any) -> None:
        """What was looked at: every claim that was judged, and one's own."""
        who, step = _who(running), running.step
        if not who or not isinstance(before.wants[0], Get):
            return
        while step.outcome is ClaimOutcome.CONTENDED:
            step = step.resumed()
        met = step.outcome in (ClaimOutcome.CONFLICT, ClaimOutcome.DONE)
        for _ in range(step.passed - before.passed + met):
            if who not in self._refused:
                self._add("put", who)
            self._add("exists", who)
            self._refused.discard(who)

    def finished(self, running: Running) -> None:
        """What came out."""
        step = running.step
        if running.actor is self._reader:
            log = step.state.log
            pairs = {(int(log.number[at]), f"c{log.id_at(at).writer}") for at in range(len(log))}
            self._add("result", result=frozenset(pairs))
        elif isinstance(step, Claimer) and step.outcome is ClaimOutcome.DONE:
            self._add("ended", _who(running), step.number)
        elif isinstance(step, Claimer) and step.outcome is ClaimOutcome.CONFLICT:
            self._add("ended", _who(running))

    def _created(self, who: str, effect: Any) -> None:
        if effect.answer.created:
            self._add("put", who)
            self._add("created", who)
        elif effect.answer.clear:
            self._add("put", who)
            self._refused.add(who)
        elif effect.added:
            (key,) = effect.added
            self._add("unanswered", who)
            self._add("late", who, claim_number(key.split("\0")[0]))

    def _add(self, op: str, who: str = "", number: int = 0, **more: Any) -> None:
        self.events.append(ClaimEvent(op, who, number, **more))


def _begun(kind: Any, one: int, window: int) -> Any:
    """A claimer that lists first, or looks at several numbers after the first race that it loses."""
    begun = kind.begin(FOLDER, Setting(one, "shared" if one in (1, 2) else ""), SECOND, 20)
    return replace(begun, window=window) if window else replace(begun, listing=True)


def _who(running: Running) -> str:
    """The commit of a claimer; nothing of others."""
    return f"c{running.step.change.writer}" if isinstance(running.step, Claimer) else ""

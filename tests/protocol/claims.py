"""Claimers for the scheduler: small changes to one log, what becomes of them, and wrong variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.format.ops import Ops
from crdtcat.format.version import decode_version, encode_version
from crdtcat.log import State
from crdtcat.protocol import Request
from crdtcat.protocol.claimer import Claimer, ClaimOutcome, Parent, Verdict
from crdtcat.protocol.reader import Reader
from crdtcat.protocol.requests import Created
from crdtcat.testing.scheduler import Actor
from tests.protocol.scenes import FOLDER


@dataclass(frozen=True)
class Setting:
    """A change that sets one property; two that set the same one conflict."""

    writer: int
    name: str = ""

    @property
    def property(self) -> str:
        return self.name or f"of writer {self.writer}"

    def sealed(self, parent: Parent, hlc: int) -> tuple[VersionId, bytes]:
        return encode_version(
            {
                "h": hlc,
                "w": self.writer,
                "s": 1,
                "l": FOLDER,
                "o": 4,
                "#": parent.number + 1,
                "p": None if parent.id is None else parent.id.to_bytes(),
                "c": {},
                "x": Ops(properties={self.property: self.writer}).encode(),
            }
        )

    def judged(self, number: int, data: bytes) -> Verdict:
        id, body = decode_version(data, str(number))
        assert body["#"] == number
        return Verdict(id, (f"{number} sets it too",) if self.property.encode() in body["x"] else ())


def claimed(change: Setting, parent: Parent, hlc: int) -> tuple[Parent, tuple[str, bytes]]:
    """A claim that is there already, and the next one's parent."""
    id, data = change.sealed(parent, hlc)
    return Parent(parent.number + 1, id), (f"{FOLDER}{parent.number + 1:016d}.c", data)


FIRST, FIRST_FILE = claimed(Setting(101), Parent(), 11)
SECOND, SECOND_FILE = claimed(Setting(102), FIRST, 12)


def resumed(step: Claimer[Setting]) -> Claimer[Setting] | None:
    return step.resumed() if step.outcome is ClaimOutcome.CONTENDED else None


def claimer(
    writer: int, parent: Parent = FIRST, *, tries: int = 4, kind: Any = Claimer, looking: bool = False
) -> Actor:
    """Claims the number after `parent`, again and again while others are faster."""
    begun = kind.begin(FOLDER, Setting(writer), parent, 20, looking=looking)
    return Actor(f"writer {writer}", begun, (resumed,) * tries)


@dataclass(frozen=True)
class Verified:
    """A claimer whose parent may be old: once its claim is created it reads the log, and begins again above
    whatever has its number there."""

    claim: Claimer[Setting]
    reader: Reader[State] | None = None
    acknowledged: bool = False
    rounds: int = 0

    @property
    def acknowledges(self) -> tuple[str, ...]:
        return self.claim.acknowledges if self.acknowledged else ()

    @property
    def wants(self) -> tuple[Request, ...]:
        if self.acknowledged:
            return ()
        return self.claim.wants if self.reader is None else self.reader.wants

    def take(self, answers: Sequence[Any]) -> Verified:
        if self.reader is not None:
            reader = self.reader.take(answers)
            return (
                replace(self, reader=reader)._settled() if not reader.wants else replace(self, reader=reader)
            )
        claim = self.claim.take(answers)
        while claim.outcome is ClaimOutcome.CONTENDED:
            claim = claim.resumed()
        if claim.outcome in (ClaimOutcome.DONE, ClaimOutcome.STALE):
            return replace(self, claim=claim, reader=Reader(FOLDER, State(FOLDER)))
        return replace(self, claim=claim)

    def _settled(self) -> Verified:
        assert self.reader is not None
        log, claim = self.reader.state.log, self.claim
        here = np.flatnonzero(log.number == claim.number)
        if claim.outcome is ClaimOutcome.DONE and len(here) and log.id_at(int(here[0])) == claim.id:
            return replace(self, acknowledged=True)
        top = int(np.argmax(log.number))
        parent = Parent(int(log.number[top]), log.id_at(top))
        change = Setting(claim.change.writer + 1000)  # under another identity: this one's number is used up
        again: Claimer[Setting] = Claimer.begin(FOLDER, change, parent, claim.hlc + 100)
        return Verified(again, rounds=self.rounds + 1)


def verified(writer: int, parent: Parent) -> Actor:
    return Actor(f"sleeper {writer}", Verified(Claimer.begin(FOLDER, Setting(writer), parent, 20)))


@dataclass(frozen=True, slots=True)
class AnswersAreCertain(Claimer[Setting]):
    """Takes a lost answer for a lost race, and moves on to the next number."""

    def take(self, answers: Sequence[Any]) -> Any:
        (answer,) = answers
        if isinstance(answer, Created) and not answer.clear:
            parent = Parent(self.number, self.id)
            id, data = self.change.sealed(parent, self.hlc + 1)
            return replace(self, parent=parent, hlc=self.hlc + 1, id=id, data=data)
        return Claimer.take(self, answers)


@dataclass(frozen=True, slots=True)
class StampsOnce(Claimer[Setting]):
    """Keeps its first stamp when it moves past others."""

    def _moved_past(self, found: Verdict | None) -> Any:
        step: Any = Claimer._moved_past(self, found)
        id, data = step.change.sealed(step.parent, 20)
        return replace(step, hlc=20, id=id, data=data)


@dataclass(frozen=True, slots=True)
class Overwrites(Claimer[Setting]):
    """Takes "taken" for "created", as on a store that ignores the condition."""

    def take(self, answers: Sequence[Any]) -> Any:
        (answer,) = answers
        if isinstance(answer, Created) and answer.clear:
            return replace(self, outcome=ClaimOutcome.DONE)
        return Claimer.take(self, answers)

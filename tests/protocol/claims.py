"""Claimers for the scheduler: small changes to one log, what becomes of them, and wrong variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from crdtcat.cas.cold_claims import holds, newest
from crdtcat.clock import VersionId
from crdtcat.format.ops import Ops
from crdtcat.format.version import decode_version, encode_version
from crdtcat.log import State
from crdtcat.protocol import Collector, Request
from crdtcat.protocol.claimer import Claimer, ClaimOutcome, Parent, Verdict
from crdtcat.protocol.committer import Committer
from crdtcat.protocol.reader import Reader
from crdtcat.protocol.requests import Created
from crdtcat.support.object_bytes import ObjectBytes
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

    def judged(self, number: int, data: ObjectBytes) -> Verdict:
        id, body = decode_version(data, str(number))
        assert body["#"] == number
        found = (f"{number} sets it too",) if self.property.encode() in body["x"] else ()
        return Verdict(id, found, follows=body.get("p"))


def claimed(change: Setting, parent: Parent, hlc: int) -> tuple[Parent, tuple[str, bytes]]:
    """A claim that is there already, and the next one's parent."""
    id, data = change.sealed(parent, hlc)
    return Parent(parent.number + 1, id), (f"{FOLDER}{parent.number + 1:016d}.c", data)


FIRST, FIRST_FILE = claimed(Setting(101), Parent(), 11)
SECOND, SECOND_FILE = claimed(Setting(102), FIRST, 12)
THIRD, THIRD_FILE = claimed(Setting(103), SECOND, 13)


def resumed(step: Claimer[Setting]) -> Claimer[Setting] | None:
    return step.resumed() if step.outcome is ClaimOutcome.CONTENDED else None


def claimer(
    writer: int,
    parent: Parent = FIRST,
    *,
    tries: int = 4,
    kind: Any = Claimer,
    listing: bool = False,
    window: int = 1,
) -> Actor:
    """Claims the number after `parent`, again and again while others are faster. With `listing` it lists
    first; `window`: how many numbers it looks at together after the first race that it loses."""
    begun = kind.begin(FOLDER, Setting(writer), parent, 20, listing=listing)
    begun = replace(begun, window=window)
    return Actor(f"writer {writer}", begun, (resumed,) * tries)


@dataclass(frozen=True)
class Sleeping:
    """A committer that sleeps for longer than a grace period before every answer. It reads the log when the
    step asks for it, as `crdtcat.cas.claiming` does; unless `reads`, it dies then."""

    step: Committer[Setting]
    reads: bool = True
    reader: Reader[State] | None = None

    @property
    def acknowledges(self) -> tuple[str, ...]:
        return self.step.acknowledges

    @property
    def wants(self) -> tuple[Request, ...]:
        return self.step.wants if self.reader is None else self.reader.wants

    def take(self, answers: Sequence[Any]) -> Sleeping:
        if self.reader is not None:
            reader = self.reader.take(answers)
            return replace(self, reader=reader) if reader.wants else self._read(reader.state)
        step = self.step.aged().take(answers)
        while step.outcome is ClaimOutcome.CONTENDED:
            step = step.resumed()
        stale = step.outcome is ClaimOutcome.STALE
        reading = Reader(FOLDER, State(FOLDER)) if stale and self.reads else None
        return replace(self, step=step, reader=reading)

    def _read(self, state: State) -> Sleeping:
        step = self.step.read(held=holds(state, self.step.claim))
        if step.outcome is ClaimOutcome.VOID:
            claim = step.claim
            # What was created for nothing has used up its sequence number: another identity's first one.
            change = Setting(claim.change.writer + 1000) if step.created else claim.change
            step = type(step).begin(FOLDER, change, newest(state.log), claim.hlc + 100)
        return Sleeping(step)


class BaseIsEnough(Collector[State]):
    """Deletes claims that a base has, although nothing tells that their numbers are taken."""

    def _is_bounded(self, since: Sequence[Any]) -> bool:
        return True


def sleeper(
    writer: int,
    parent: Parent,
    *,
    kind: Any = Committer,
    old: bool = False,
    reads: bool = True,
    listing: bool = False,
) -> Actor:
    """One that knows `parent`; with `old`, knows that this was long ago; with `listing`, one that lists
    before it tries."""
    begun = kind.begin(FOLDER, Setting(writer), parent, 20, listing=listing, old=old)
    return Actor(f"sleeper {writer}", Sleeping(begun, reads))


@dataclass(frozen=True, slots=True)
class BuildsOnWhatItMet(Committer[Setting]):
    """Creates above claims that it read late, which may stand under names that were used before."""

    def _looked_after(self) -> Any:
        step: Any = Committer._looked_after(self)
        return replace(step, reading=False) if self.claim.outcome is ClaimOutcome.PENDING else step


@dataclass(frozen=True, slots=True)
class CreatedIsEnough(Committer[Setting]):
    """Does not look whether a number that it created was used before."""

    def aged(self) -> Any:
        return self


@dataclass(frozen=True, slots=True)
class LooksBeforeOnly(Committer[Setting]):
    """Lists the bundles before it claims, and not after."""

    def _looked_after(self) -> Any:
        return self


@dataclass(frozen=True, slots=True)
class AnyoneHoldsIt(Committer[Setting]):
    """Takes its number in the log for its own, whoever has it there."""

    def read(self, *, held: bool) -> Any:
        return Committer.read(self, held=held or self.created)


@dataclass(frozen=True, slots=True)
class AnswersAreCertain(Claimer[Setting]):
    """Takes a lost answer for a lost race, and moves on to the next number."""

    def take(self, answers: Sequence[Any]) -> Any:
        answer = answers[0]
        if isinstance(answer, Created) and not answer.clear:
            parent = Parent(self.number, self.id)
            id, data = self.change.sealed(parent, self.hlc + 1)
            return replace(self, parent=parent, hlc=self.hlc + 1, id=id, data=data)
        return Claimer.take(self, answers)


@dataclass(frozen=True, slots=True)
class StampsOnce(Claimer[Setting]):
    """Keeps its first stamp when it moves past others."""

    def _moved_past(self, found: Verdict) -> Any:
        step: Any = Claimer._moved_past(self, found)
        id, data = step.change.sealed(step.parent, 20)
        return replace(step, hlc=20, id=id, data=data)


@dataclass(frozen=True, slots=True)
class Overwrites(Claimer[Setting]):
    """Takes "taken" for "created", as on a store that ignores the condition."""

    def take(self, answers: Sequence[Any]) -> Any:
        answer = answers[0]
        if isinstance(answer, Created) and answer.clear:
            return replace(self, outcome=ClaimOutcome.DONE)
        return Claimer.take(self, answers)

"""Committing to a table in CAS mode: claim the next number, rebase past whoever was faster, or say why not.

Warm, a commit is one PUT, or two with a segment: the handle knows the last claim and tries the next number.
What it may not do is trust an old parent for ever. Once the successors of a claim are bundled and collected
their names are free again, and creating one would succeed. So a handle whose knowledge is older than half a
grace period first lists the bundles, whose names tell which numbers are taken; and a claim whose PUT took
that long is looked up after it: it stands if its number is above all of them, or the log has it under that
number. Else it is void, and the commit begins again.

The knowledge that counts is "nothing was above this number": it comes from one's own creation of that number,
or from a listing, and is as old as the request that brought it. Walking up from there does not renew it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crdtcat.cached import cached_property
from crdtcat.clock import VersionId
from crdtcat.cold_claims import newest, newest_by_hint, taken_numbers
from crdtcat.conflicts import Answer, Overlap, WriteSet, overlaps, write_set
from crdtcat.conflicts.resolve import Policy, settled
from crdtcat.drive import answers, run
from crdtcat.errors import CommitConflict, CommitContended, CommitUnknown, StoreUnavailable
from crdtcat.format.version import encode_version
from crdtcat.log import Log, State
from crdtcat.options import Options
from crdtcat.protocol import Outcome, Publish, Put, PutIfAbsent, claim_name
from crdtcat.protocol.claimer import Claimer, ClaimOutcome, Parent, Verdict
from crdtcat.writing.writer import Slot, advice

if TYPE_CHECKING:
    from crdtcat.head import Head
    from crdtcat.session import Session

_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_clock() -> float:
    """Seconds by a clock that goes on while the machine sleeps, where there is one."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


@dataclass
class Chain:
    """What a handle knows of a log's claims.

    Attributes:
        parent: the newest claim it knows; `None`: it knows nothing yet.
        known_at: when that was known to be the newest, by `elapsed_clock`.
    """

    parent: Parent | None = None
    known_at: float = 0.0

    def saw(self, parent: Parent, known_at: float) -> None:
        """A listing or a creation begun at `known_at` showed that `parent` was the newest."""
        if self.parent is None or parent.number >= self.parent.number:
            self.parent, self.known_at = parent, known_at


@dataclass(frozen=True, eq=False)
class LogChange:
    """A version to be committed under the next number. Implements `crdtcat.protocol.claimer.Change`.

    Attributes:
        folder: the log's folder.
        body: the version's keys, without stamp, number and clock.
        beyond: what its author had seen besides the claims.
        slot: writer and sequence number.
        policy: what is to be done about conflicts.
    """

    folder: str
    body: Mapping[str, Any]
    beyond: Mapping[int, int]
    slot: Slot
    policy: Policy = field(default_factory=Policy)

    def sealed(self, parent: Parent, hlc: int) -> tuple[VersionId, bytes]:
        """The file for the number after `parent`."""
        stamp = {"h": hlc, "w": self.slot.writer, "s": self.slot.seq, "l": self.folder}
        clock = {"p": None if parent.id is None else parent.id.to_bytes(), "c": dict(self.beyond)}
        return encode_version({**self.body, **clock, **stamp, "#": parent.number + 1})

    @cached_property
    def writes(self) -> WriteSet:
        """What it writes."""
        _, data = self.sealed(Parent(), 1)
        return write_set(log_of(self.folder, 1, data), 0)

    def judged(self, number: int, data: bytes) -> Verdict:
        """Somebody else's claim of a number, from its file."""
        return self.judged_in(log_of(self.folder, number, data), 0)

    def judged_in(self, log: Log, index: int) -> Verdict:
        """The same, for a claim that is in a log."""
        theirs = write_set(log, index)
        found = [
            item for item in overlaps(self.writes, theirs) if self.policy.answer(item) is not Answer.BOTH
        ]
        return Verdict(theirs.id, tuple(found))


def log_of(folder: str, number: int, data: bytes) -> Log:
    """The log of one claim."""
    return State(folder).joined([(claim_name(folder, number), data)]).log


def commit_claim(
    session: Session, body: Mapping[str, Any], puts: Sequence[Put], seen: Head | None
) -> tuple[VersionId, int, int]:
    """Commit a version under the next number. Its id, its number, how often it was rebased.

    Raises:
        CommitConflict: another commit touched the same, and the policy says to fail; nothing was committed.
        CommitContended: others were faster `retries` times in a row; nothing was committed.
        CommitUnknown: the store gave no clear answer.
        StoreUnavailable, ClockSkew, LimitExceeded: nothing became visible.
    """
    if puts and run(Publish(tuple(puts)), session.store).outcome is not Outcome.DONE:
        raise StoreUnavailable(
            f"{session.folder}: the rows could not be stored; nothing is visible, try again"
        )
    with session.writer.reserved(session.store) as slot:
        parent, known_at = _begin(session, seen)
        beyond = {} if seen is None else _beyond(seen, parent)
        policy = Policy.of(session.options.on_conflict)
        change = LogChange(session.folder, body, beyond, slot, policy)
        return _Committing(session, slot).run(change, parent, known_at)


class _Committing:
    """One commit, from the first try to the last."""

    def __init__(self, session: Session, slot: Slot) -> None:
        self.session, self.slot = session, slot
        self.rebases = 0
        self.created_at = -np.inf

    def run(self, change: LogChange, parent: Parent, known_at: float) -> tuple[VersionId, int, int]:
        session = self.session
        while True:
            if self._is_old(known_at):
                began = elapsed_clock()
                if taken_numbers(session) > parent.number:
                    session.refresh()
                    change, parent = self._caught_up(change, parent), newest(session.state.log)
                known_at = began
            step = self._claimed(change, parent, known_at)
            change = step.change
            if step.outcome is ClaimOutcome.DONE and (not self._is_old(known_at) or self._stands(step)):
                break
            if step.outcome is ClaimOutcome.DONE:  # void: nobody will ever read it, nor its sequence number
                self.slot = self.slot.renewed()
                change = LogChange(change.folder, change.body, change.beyond, self.slot, change.policy)
            began = elapsed_clock()
            session.refresh()
            change, parent, known_at = self._caught_up(change, parent), newest(session.state.log), began
        self.slot.settle(used=True)
        session.clock.observe(step.id.hlc)
        session.chain.saw(Parent(step.number, step.id), self.created_at)
        return step.id, step.number, self.rebases

    def _stands(self, step: Claimer[LogChange]) -> bool:
        """Whether a claim that took long is the one the log has: its number may have been used before."""
        if taken_numbers(self.session) < step.number:
            return True
        self.session.refresh()
        return _id_of(self.session.state.log, step.number) == step.id

    def _is_old(self, known_at: float) -> bool:
        return elapsed_clock() - known_at > self.session.options.grace_seconds / 2

    def _claimed(self, change: LogChange, parent: Parent, known_at: float) -> Claimer[LogChange]:
        """Try until it is there, or cannot be."""
        session = self.session
        step = Claimer.begin(session.folder, change, parent, session.clock.tick())
        while True:
            self.created_at = elapsed_clock()
            self.slot.in_doubt()
            step = self._stepped(step, known_at)
            if step.outcome in (ClaimOutcome.DONE, ClaimOutcome.STALE):
                self.rebases += step.rebases
                return step
            if step.outcome is ClaimOutcome.UNKNOWN:
                raise CommitUnknown(
                    f"{claim_name(session.folder, step.number)}: the store gave no clear answer; the commit "
                    f"may stand: {advice(change.body.get('k'))}"
                )
            self.slot.settle(used=False)
            if step.outcome is ClaimOutcome.CONFLICT:
                assert step.found is not None
                step = step.resumed(self._settled(step.change, step.found.conflicts))
                continue
            if step.rebases > session.options.retries:
                raise CommitContended(
                    f"{session.folder}: other commits were faster {step.rebases} times in a row; nothing was "
                    "committed and nothing is wrong: try again, or allow more `retries`"
                )
            time.sleep(pause_seconds(step.rebases, session.options))
            step = step.resumed()

    def _stepped(self, step: Claimer[LogChange], known_at: float) -> Claimer[LogChange]:
        """Run a step to its end. What was read too late is not built on: it may be under a used number."""
        unclear: set[str] = set()
        while wants := step.wants:
            if step.passed and isinstance(wants[0], PutIfAbsent) and self._is_old(known_at):
                return replace(step, outcome=ClaimOutcome.STALE)
            step = step.take(answers(self.session.store, wants, unclear))
        return step

    def _settled(self, change: LogChange, conflicts: Sequence[Overlap]) -> LogChange:
        """The change as the policy says, or `CommitConflict`."""
        body = settled(change.body, change.writes, conflicts, change.policy)
        if body is None:
            raise CommitConflict(self._message(conflicts), conflicts=tuple(conflicts), change=change.body)
        return LogChange(change.folder, body, change.beyond, change.slot, change.policy)

    def _message(self, conflicts: Sequence[Overlap]) -> str:
        listed = "\n  ".join(map(str, conflicts[:10]))
        return (
            f"table {self.session.table!r}: another commit touched the same; nothing was committed. Read "
            f"again and repeat, or say what shall win with on_conflict=...\n  {listed}"
        )

    def _caught_up(self, change: LogChange, parent: Parent) -> LogChange:
        """Judge every claim above `parent` that the log has."""
        log = self.session.state.log
        for index in np.flatnonzero(log.number > parent.number).tolist():
            found = change.judged_in(log, index)
            if found.conflicts:
                change = self._settled(change, found.conflicts)
        self.rebases += 1
        return change


def pause_seconds(tries: int, options: Options) -> float:
    """How long to wait after losing so many times: doubling, capped, a random part of it."""
    longest: float = min(options.max_delay, options.base_delay * 2 ** min(tries - 1, 32))
    return random.uniform(0, longest) if options.jitter else longest  # noqa: S311 - spreads load, no secret


def _id_of(log: Log, number: int) -> VersionId | None:
    at = np.flatnonzero(log.number == number)
    return log.id_at(int(at[0])) if len(at) else None


def _begin(session: Session, seen: Head | None) -> tuple[Parent, float]:
    """The claim to follow. For a change made from a head, that head's newest; else the newest known."""
    chain = session.chain
    if seen is not None:
        parent = newest(seen.log)
        return parent, chain.known_at if chain.parent == parent else -np.inf
    if chain.parent is None:
        began = elapsed_clock()
        found = newest_by_hint(session)
        if found is None or found.id is None:
            session.refresh()
        else:
            session.clock.observe(found.id.hlc)
            chain.saw(found, began)
    assert chain.parent is not None
    return chain.parent, chain.known_at


def _beyond(seen: Head, parent: Parent) -> dict[int, int]:
    """What a head has seen that its newest claim had not: versions without a number."""
    if parent.id is None:
        return dict(seen.clock)
    at = seen.log.index_of(parent.id)
    return dict(seen.clock.beyond(seen.folded.clocks.of(at)))

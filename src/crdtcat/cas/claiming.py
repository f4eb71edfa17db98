"""Committing to a table in CAS mode: claim the next number, rebase past whoever was faster, or say why not.

Warm, a commit is one PUT, or two with a segment: the handle knows the last claim and tries the next number;
one whose last commit had to pass others lists first, and its file carries theirs. After a lost race it
reads who was faster and tries again at once, except after the second, when it pauses; whoever has won lets
others go first (`crdtcat.cas.pauses`). Everything that is done again is done because a number was taken, so
`retries` bounds it.

What to ask for and what to make of the answers is `crdtcat.protocol.committer`; here are the clock, the
pauses, the reading of the log, and what the table's policy says about conflicts. The knowledge whose age
counts comes from one's own creation of a number, or from a listing, and is as old as the request that
brought it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from crdtcat.cas.changes import KnownKeys, LogChange, judged_at_once
from crdtcat.cas.cold_claims import begin, beyond_claims, holds, newest
from crdtcat.cas.decisions import decide, read_decision
from crdtcat.cas.key_reading import key_reader
from crdtcat.cas.modes import ModeSwitched, knows_switch
from crdtcat.cas.pauses import PAUSED_RACE, losers_pause_seconds, pause_seconds
from crdtcat.cas.reading import Note, asked_of, claimed_above
from crdtcat.cas.resolving import resolved
from crdtcat.cas.seen_rows import SeenRows
from crdtcat.cas.standing_back import stand_back
from crdtcat.cas.telling import conflict, named
from crdtcat.clock import VersionId
from crdtcat.conflicts import Overlap
from crdtcat.conflicts.resolve import Policy
from crdtcat.drive import Unclear, answers, cause, elapsed_clock, put_all, reason
from crdtcat.errors import CommitContended, CommitUnknown, CrdtcatError, StoreError, StoreUnavailable
from crdtcat.format.version import TO_CAS, TO_MERGE
from crdtcat.log import Log
from crdtcat.log.transactions import at_once
from crdtcat.protocol import Created, Put, PutIfAbsent, claim_name
from crdtcat.protocol.claimer import Claimer, ClaimOutcome, Parent
from crdtcat.protocol.committer import Committer
from crdtcat.writing.own_commits import Own
from crdtcat.writing.writer import Slot, advice

if TYPE_CHECKING:
    from crdtcat.head import Head
    from crdtcat.session import Session


def commit_claim(
    session: Session,
    body: Mapping[str, Any],
    puts: Sequence[Put],
    seen: Head | None,
    *,
    policy: Policy | None = None,
    notes: Sequence[Note] = (),
    since: Parent | None = None,
) -> tuple[VersionId, int, int]:
    """Commit a version under the next number. Its id, its number, how often it was rebased.

    Theorem: `cas_claim_stands`.

    `notes`: what was read for it, where that counts; no commit since may have changed any of it. `since`: for
    another try, the claim that the first one followed: what came later is held against it again.

    Raises:
        CommitConflict: another commit touched the same, and the policy says to fail; nothing was committed.
        CommitContended: others were faster more than `retries` times; nothing was committed.
        CommitUnknown: the store gave no clear answer.
        StoreUnavailable, ClockSkew, LimitExceeded: nothing became visible.
        ModeSwitched: the table is in merge mode by now; nothing was committed.
    """
    put_all(puts, session.store, f"{session.folder}: the rows", "nothing is visible, try again")
    with session.writer.reserved(session.store) as slot:
        log = seen.log if seen is not None else session.state.log if notes else None
        parent, known_at = begin(session, log, since)
        beyond = {} if seen is None else beyond_claims(seen, parent)
        asked = asked_of(session, log, notes) if log is not None else None
        change, work = (
            LogChange(
                session.folder, body, beyond, slot, policy or Policy.of(session.options.on_conflict),
                keys=session.settings.key, asked=asked, key_reader=key_reader(session), since=parent,
                known=KnownKeys(session.state.log, lambda: session.refresh().state.log),
                seen_rows=SeenRows(seen),
            ),
            Committing(session, slot, seen),
        )  # fmt: skip
        work.require_unchanged(change, notes, log)
        if seen is not None and not knows_switch(session.state.log, seen.log):
            change, parent, known_at = work.from_merge_mode(change, seen)
        return work.run(change, parent, known_at)


class Committing:
    """One commit, from the first try to the last."""

    def __init__(self, session: Session, slot: Slot, seen: Head | None) -> None:
        self.session, self.slot, self.seen = session, slot, seen
        self.rebases = self.lost = 0
        self.created_at = self.known_at = -np.inf
        self.tried_at = -np.inf
        self.unclear: Unclear = {}
        self.step: Claimer[Any] | None = None

    def run(self, change: LogChange, parent: Parent, known_at: float) -> tuple[VersionId, int, int]:
        """Claim the number after `parent`, or a later one. Raises as `commit_claim` does.

        What the handle has read of the log since is judged first, for no request: it is no race that was
        lost.
        """
        session = self.session
        self.known_at = known_at
        log = session.state.log
        if (known := newest(log)).number > parent.number:
            change, parent = self._caught_up(change, parent, log), known
            self.known_at = session.chain.known_at if session.chain.parent == known else -np.inf
        while (step := self._claimed(change, parent)).outcome is not ClaimOutcome.DONE:
            # Names that it met may have been used before: what it was settled with since counts for nothing.
            change = change.again_from(parent)
            if step.created:  # void: nobody will ever read it, nor its sequence number
                self.slot = self.slot.renewed()
                change = change.under(self.slot)
            self.lost += step.claim.rebases
            log = session.state.log  # once: others may refresh the handle meanwhile
            change, parent = self._caught_up(change, parent, log), newest(log)
        self.slot.settle(used=True)
        self.step = step.claim
        session.clock.observe(step.claim.id.hlc)
        session.chain.made(step.claim)
        if step.claim.change.stands:
            session.chain.saw(Parent(step.claim.number, step.claim.id), self.created_at)
            session.writer.last = Own(step.claim.id, claim_name(session.folder, step.claim.number))
        return step.claim.id, step.claim.number, self.rebases

    def from_merge_mode(self, change: LogChange, seen: Head) -> tuple[LogChange, Parent, float]:
        """A change made from a head of before the table was switched: judged by all that came since, what
        took no number too. Then where to go on. Costs a refresh."""
        began = elapsed_clock()
        self.session.refresh()
        if self.session.settings.mode != "cas":
            raise ModeSwitched
        log = self.session.state.log
        standing = self.session.head(refresh=False).folded.standing  # its own first try may be void there
        since = standing & (seen.log.find(log.ids) < 0) & ~np.isin(log.operation, (TO_CAS, TO_MERGE))
        return self.judged(change, log, np.flatnonzero(since).tolist()), newest(log), began

    @property
    def claimed(self) -> int:
        """The number that it has taken."""
        assert self.step is not None
        return self.step.number

    def require_unchanged(self, change: LogChange, notes: Sequence[Note], log: Log | None) -> None:
        """Hold what was read some time ago against the claims that this commit has seen since."""
        if log is None or change.asked is None or not notes:
            return
        oldest = min((seen for _, seen in notes), key=lambda seen: seen.number)
        for index in np.flatnonzero(claimed_above(log, oldest)).tolist():
            if found := change.asked.judged(log, index):
                self._settled(change, found)

    def _is_old(self) -> bool:
        return elapsed_clock() - self.known_at > self.session.options.grace_seconds / 2

    def _claimed(self, change: LogChange, parent: Parent) -> Committer[LogChange]:
        """Try until it is there, or cannot be, or has to begin again; then the log was read just now."""
        session = self.session
        if change.stands:  # not with claims of other tables in hand
            stand_back(session)
        hlc, more = session.clock.tick(), session.chain.before(parent)
        step = Committer.begin(session.folder, change, parent, hlc, old=self._is_old(), **more)
        while True:
            self.created_at = elapsed_clock()
            step = self._stepped(step)
            claim = step.claim
            if step.outcome in (ClaimOutcome.DONE, ClaimOutcome.STALE):
                self.rebases += claim.rebases or min(1, claim.passed)
                session.chain.crowded = claim.passed > 0
                if step.outcome is ClaimOutcome.STALE:
                    return self._read(step)
                now, pace = elapsed_clock(), session.chain.pace
                met = session.chain.met_since(claim, session.state.log)
                session.chain.pace = pace.committed(now, now - self.tried_at, *met)
                return step
            if step.outcome is ClaimOutcome.UNKNOWN:
                raise self._unclear(claim) from cause(self.unclear)
            self.slot.settle(used=False)
            if step.outcome is ClaimOutcome.CONFLICT:
                assert claim.found is not None
                session.chain.crowded = True  # whatever becomes of it, the next try lists first
                step = step.resumed(self._settled(claim.change, claim.found.conflicts))
                continue
            if step.outcome is ClaimOutcome.UNDECIDED:
                assert claim.found is not None
                assert claim.found.undecided is not None
                change.decisions[claim.found.undecided] = self._decided(claim.found.undecided)
                step = (step.aged() if self._is_old() else step).resumed()
                continue
            if (lost := self.lost + claim.rebases) > session.options.retries:
                session.chain.crowded = True  # the next try lists first: these it has not lost to again
                raise CommitContended(
                    f"{session.folder}: other commits were faster {lost} times in a row; nothing was "
                    "committed and nothing is wrong: try again, or allow more `retries`"
                )
            step = (step.aged() if self._is_old() else step).resumed()

    def _unclear(self, claim: Claimer[LogChange]) -> CrdtcatError:
        """For a claim without an answer. One that waits for a decision will get none."""
        name, why = claim_name(claim.folder, claim.number), reason(self.unclear)
        if not claim.change.stands:
            return StoreUnavailable(f"{name} could not be stored ({why}); nothing was committed: try again")
        text = f"{name}: the store gave no clear answer ({why}); the commit may stand"
        return CommitUnknown(f"{text}: {advice(claim.change.key)}")

    def _read(self, step: Committer[LogChange]) -> Committer[LogChange]:
        self.known_at = elapsed_clock()
        with _unknown_if_tried(step):
            self.session.refresh()
        return step.read(held=holds(self.session.state, step.claim))

    def _decided(self, transaction: int) -> bool:
        """Whether a transaction that is in the way was committed; after its lease it is aborted."""
        store, options = self.session.store, self.session.options
        began, tries = elapsed_clock(), 0
        while (found := read_decision(store, transaction)) is None:
            if elapsed_clock() - began >= options.lease_seconds:
                return decide(store, transaction, committed=False)
            tries += 1
            time.sleep(pause_seconds(tries, options))
        return found

    def _stepped(self, step: Committer[LogChange]) -> Committer[LogChange]:
        """Run a step until it waits for something, or is over."""
        self.unclear = {}
        chain, folder = self.session.chain, self.session.folder
        if step.listing:
            self.known_at = elapsed_clock()
        while wants := step.wants:
            if isinstance(wants[0], PutIfAbsent):
                self.slot.in_doubt()
                self.tried_at = elapsed_clock()
            with _unknown_if_tried(step):
                found = answers(self.session.store, wants, self.unclear)
            if isinstance(found[0], Created) and found[0].clear and not found[0].created:
                self._pause(self.lost + step.claim.rebases + 1)
            old = self._is_old()
            chain.looked(folder, wants, found, young=not old)
            before, step = step, (step.aged() if old else step).take(found)
            if step.created and not before.created:
                chain.meet(folder, step.claim.number, step.claim.data)
        return step

    def _pause(self, lost: int) -> None:
        """After a race was lost, the how manieth: before what came since is read, so that it is read late."""
        request = elapsed_clock() - self.tried_at
        if lost == PAUSED_RACE and (pause := losers_pause_seconds(request, self.session.options)):
            time.sleep(pause)

    def _settled(self, change: Any, conflicts: Sequence[Overlap]) -> Any:
        """The change as the policy says, or `CommitConflict`."""
        found = named(self.session, conflicts, self.seen)
        patched = resolved(self.session, change, self.seen, found)
        if patched is None:
            raise conflict(self.session, change, self.seen, found)
        return patched

    def _caught_up(self, change: LogChange, parent: Parent, log: Log) -> LogChange:
        """Judge every claim above `parent` that the log has."""
        return self.judged(change, log, np.flatnonzero(claimed_above(log, parent)).tolist())

    def judged(self, change: LogChange, log: Log, indexes: Sequence[int]) -> LogChange:
        """The change, past some versions of a log. Raises `CommitConflict`."""
        for versions in at_once(log, indexes):
            found = judged_at_once(change, log, versions)
            if found.conflicts:
                change = self._settled(change, found.conflicts)
        self.rebases += 1
        return change


@contextmanager
def _unknown_if_tried(step: Committer[LogChange]) -> Iterator[None]:
    """Once a claim was tried and may be there, a store that cannot be asked whether it is, or whether it
    stands, leaves that unknown. "Taken" says nothing before one has looked: what took it may be an earlier
    try of one's own. A claim that waits for a decision is not in doubt: that will not be made then."""
    claim = step.claim
    try:
        yield
    except StoreError as error:
        if not claim.change.stands or not (step.created or claim.taken or claim.unclear):
            raise
        why = "is stored, and its number may have been used before" if step.created else "may be stored"
        raise CommitUnknown(
            f"{claim_name(claim.folder, claim.number)} {why}: {error.args[0]}; {advice(claim.change.key)}"
        ) from error

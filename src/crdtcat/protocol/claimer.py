"""The claimer: make a commit by creating the next number of a log, in CAS mode.

The claim *is* the commit. Whoever creates `<n + 1>.c` after having seen n has made commit n + 1; there is no
pointer to swap, and nothing to repair. Warm, it is one PUT: no list, no read.

    create n + 1    created                    done
                    taken                      look at n + 1
                    no clear answer            look at n + 1
    look at n + 1   my own bytes               done: it was ours, and the answer had been lost
                    somebody else's            judge it; if it and mine touch nothing in common, it is the
                                               parent now, and the next number is tried
                    nothing, the PUT unclear   the same PUT again: same name, same bytes
                    nothing, though taken      collected meanwhile: the caller is far behind, and reads first

Every claim between the first parent and the last is judged, not only the newest: the one in between may be
the one that touched the same rows. A claim that is rebased is stamped anew, later than all it passed, so ids
rise with numbers.

Requests. A try that is refused and a look that finds nothing are wasted; everything else is one look for each
of the k claims between, and the creation. Whoever looks before the first try wastes one look: k + 2. Whoever
tries first wastes nothing if nobody came, and one try if one did: it looks at that one and tries again, 3.
(Both cannot be had: 3 requests past one claim can only be try, look, try; so past two they are at least 5.
docs/design/008-cas.md has the proofs, also of what lost races cost.)

No clock, no store, no randomness: pauses between tries, whether to look or to try after them, and whether
the parent was seen recently enough for the claim to stand, are the driver's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from crdtcat.clock import VersionId
from crdtcat.protocol.names import claim_name, version_name
from crdtcat.protocol.requests import Answer, Created, Get, Got, PutIfAbsent, Request

TRIES: Final = 3  # answers without meaning, in a row, before it is given up; on top of the store's own


class ClaimOutcome(Enum):
    """How claiming ended, or why it waits."""

    PENDING = "pending"
    DONE = "done"
    CONTENDED = "contended"  # others were faster and touched nothing of ours: go on with `resumed`
    CONFLICT = "conflict"  # one of them touched the same: go on with `resumed`, or give up
    UNDECIDED = "undecided"  # the number is held by a transaction that is not decided yet
    STALE = "stale"  # the parent is so old that its successors were collected: read, then begin again
    VOID = "void"  # the log was read, and has something else under the number: begin again
    UNKNOWN = "unknown"  # it may or may not be there


class Parent(NamedTuple):
    """The last claim known: its number, 0 for none, and its version id."""

    number: int = 0
    id: VersionId | None = None


NO_CLAIM: Final = Parent()


class Verdict(NamedTuple):
    """What was found under a number.

    Attributes:
        id: the version there.
        conflicts: what it and the change both touched; empty: nothing.
        undecided: the transaction that holds the number, if it is not decided.
        void: the number is taken by one that was aborted: nothing of it is there to follow.
    """

    id: VersionId
    conflicts: tuple[Any, ...] = ()
    undecided: int | None = None
    void: bool = False


class Change(Protocol):
    """What is to be committed. An immutable value."""

    def sealed(self, parent: Parent, hlc: int) -> tuple[VersionId, bytes]:
        """The file for the number after `parent`, stamped with at least `hlc`."""
        ...

    def judged(self, number: int, data: bytes) -> Verdict:
        """What somebody else's file under a number means for this change."""
        ...


C = TypeVar("C", bound=Change)


@dataclass(frozen=True, slots=True)
class Claimer(Generic[C]):
    """Commit `change` under the next free number. Begin with `Claimer.begin`. Theorem: `cas_one_winner`.

    Attributes:
        folder: the log's folder.
        change: what is to be committed.
        parent: the last claim judged, or known at the beginning.
        hlc: the least stamp that is above everything seen.
        id, data: the claim as it is tried now.
        looking: whether the next request is a look at the number rather than its creation.
        taken: whether that number was refused to us.
        unclear: whether a try of this number had no clear answer.
        tries: answers without meaning, in a row.
        rebases: how often it was moved past others.
        passed: claims that were judged on the way.
        found: the latest verdict.
        met: the file that it was about, while it waits for a decision.
        outcome: how it ended, or why it waits.
    """

    folder: str
    change: C
    parent: Parent
    hlc: int
    id: VersionId
    data: bytes
    looking: bool
    taken: bool = False
    unclear: bool = False
    tries: int = 0
    rebases: int = 0
    passed: int = 0
    found: Verdict | None = None
    met: bytes = b""
    outcome: ClaimOutcome = ClaimOutcome.PENDING

    @classmethod
    def begin(cls, folder: str, change: C, parent: Parent, hlc: int, *, looking: bool = False) -> Claimer[C]:
        """A claim of the number after `parent`; with `looking`, one that looks before it tries."""
        return cls(folder, change, parent, hlc, *change.sealed(parent, hlc), looking=looking)

    @property
    def number(self) -> int:
        """The number tried now."""
        return self.parent.number + 1

    @property
    def acknowledges(self) -> tuple[str, ...]:
        """The version that is committed, named as a file of its own would be; none before it is done."""
        return (version_name(self.folder, self.id),) if self.outcome is ClaimOutcome.DONE else ()

    @property
    def wants(self) -> tuple[Request, ...]:
        """The creation, or a look at what is there."""
        if self.outcome is not ClaimOutcome.PENDING:
            return ()
        name = claim_name(self.folder, self.number)
        return (Get(name),) if self.looking else (PutIfAbsent(name, self.data),)

    def take(self, answers: Sequence[Answer]) -> Claimer[C]:
        """The next step."""
        (answer,) = answers
        if isinstance(answer, Created):
            if answer.created:
                return replace(self, outcome=ClaimOutcome.DONE)
            return replace(self, looking=True, taken=answer.clear, unclear=self.unclear or not answer.clear)
        assert isinstance(answer, Got)
        if answer.data is None:
            return self._nothing_there()
        if answer.data == self.data:
            return replace(self, outcome=ClaimOutcome.DONE)
        return self._judge(answer.data)

    def resumed(self, change: C | None = None, *, looking: bool = True) -> Claimer[C]:
        """Go on; with `change`, a patched one for which the latest verdict is settled. Without `looking` the
        next number is tried at once: right where it is free, which whoever has just lost one may hope. What
        waited for a decision is judged again, and not asked for again: a file never changes."""
        if change is not None:
            step = replace(self, change=change, found=None, outcome=ClaimOutcome.PENDING)
            return step._moved_past(self.found)
        if self.outcome is ClaimOutcome.UNDECIDED:
            return replace(self, met=b"", outcome=ClaimOutcome.PENDING)._judge(self.met)
        return replace(self, looking=looking, outcome=ClaimOutcome.PENDING)

    def _nothing_there(self) -> Claimer[C]:
        if not self.taken and not self.unclear:  # looked ahead: this number is free
            return replace(self, looking=False)
        if self.tries + 1 < TRIES:
            return replace(self, looking=False, tries=self.tries + 1)
        return replace(self, outcome=ClaimOutcome.UNKNOWN if self.unclear else ClaimOutcome.STALE)

    def _judge(self, data: bytes) -> Claimer[C]:
        found = self.change.judged(self.number, data)
        if found.undecided is not None:
            return replace(self, found=found, met=data, outcome=ClaimOutcome.UNDECIDED)
        if found.conflicts:
            return replace(self, found=found, outcome=ClaimOutcome.CONFLICT)
        return self._moved_past(found)

    def _moved_past(self, found: Verdict | None) -> Claimer[C]:
        assert found is not None
        parent = Parent(self.number, self.parent.id if found.void else found.id)
        hlc = max(self.hlc, found.id.hlc + 1)
        lost = self.taken or self.unclear  # as opposed to having looked ahead
        rebases = self.rebases + lost
        id, data = self.change.sealed(parent, hlc)
        return replace(
            self,
            parent=parent,
            hlc=hlc,
            id=id,
            data=data,
            looking=True,
            taken=False,
            unclear=False,
            tries=0,
            rebases=rebases,
            passed=self.passed + 1,
            found=None,
            outcome=ClaimOutcome.CONTENDED if lost else ClaimOutcome.PENDING,
        )

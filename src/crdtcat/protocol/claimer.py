"""The claimer: make a commit by creating the next number of a log, in CAS mode.

The claim *is* the commit. Whoever creates `<n + 1>.c` after having seen n has made commit n + 1; there is no
pointer to swap, and nothing to repair. Warm, it is one PUT: no list, no read.

    create n + 1    created                    done
                    taken                      look at n + 1, and perhaps at some after it
                    no clear answer            look at n + 1
    look at n + 1   my own bytes               done: it was ours, and the answer had been lost
                    somebody else's            judge it; if it and mine touch nothing in common, it is the
                                               parent now, and the next number is tried
                    nothing, the PUT unclear   the same PUT again: same name, same bytes
                    nothing, though taken      collected meanwhile: the caller is far behind, and reads first
    list            claims above the parent    look at all of them at once, then try
                    none                       try

Every claim between the first parent and the last is judged, not only the newest: the one in between may be
the one that touched the same rows. A claim that is rebased is stamped anew, later than all it passed, so ids
rise with numbers. A listing tells which names to look at, and nothing else: that one is missing from it means
no more than that a look found nothing.

Requests. A try that is refused, a look that finds nothing and a listing are wasted; everything else is one
look for each of the k claims between, and the creation. Whoever looks before the first try wastes one: k + 2.
Whoever tries first wastes nothing if nobody came, and one try if one did: it looks at that one and tries
again, 3. (Both cannot be had: 3 requests past one claim can only be try, look, try; so past two they are at
least 5. docs/design/008-cas.md has the proofs, also of what lost races cost.)

Time. Looks go out together, so that whoever is behind catches up however fast others commit: after a lost
race as many as were found the last time, and one more if all of them were there. Who finds more than a few
lists. Between two tries there are at most two rounds of looks and one listing, and one of each more for every
`BATCH_MAX` claims, so whoever bounds the lost races bounds everything.

No clock, no store, no randomness: pauses between tries, how many races may be lost, and whether the parent
was seen recently enough for the claim to stand, are the driver's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from crdtcat.clock import VersionId
from crdtcat.protocol.names import claim_name, version_name
from crdtcat.protocol.requests import Answer, Created, Get, Got, Listed, ListPage, PutIfAbsent, Request
from crdtcat.support.object_bytes import ObjectBytes

TRIES: Final = 3  # answers without meaning, in a row, before it is given up; on top of the store's own
LOOKS_MIN: Final = 2  # looks together that all find something, before the first listing
LOOKS_MAX: Final = 4  # ... and before another one: a listing is older than looks by the time of the try
BATCH_MAX: Final = 1000  # claims that are held in memory at once


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

    def judged(self, number: int, data: ObjectBytes) -> Verdict:
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
        looking: how many numbers are looked at next, together; none: the number is created.
        listing: whether the names above the parent are listed next.
        window: how many numbers are looked at after a lost race.
        listed: whether names were listed.
        ahead: files that were found under this number and those after it, to be judged.
        taken: whether that number was refused to us.
        unclear: whether a try of this number had no clear answer.
        tries: answers without meaning, in a row.
        rebases: how often it lost a race and was moved past others.
        passed: claims that were judged on the way.
        writers: who made them.
        found: the latest verdict.
        outcome: how it ended, or why it waits.
    """

    folder: str
    change: C
    parent: Parent
    hlc: int
    id: VersionId
    data: bytes
    looking: int
    listing: bool = False
    window: int = 1
    listed: bool = False
    ahead: tuple[ObjectBytes, ...] = ()
    taken: bool = False
    unclear: bool = False
    tries: int = 0
    rebases: int = 0
    passed: int = 0
    writers: frozenset[int] = frozenset()
    found: Verdict | None = None
    outcome: ClaimOutcome = ClaimOutcome.PENDING

    @classmethod
    def begin(cls, folder: str, change: C, parent: Parent, hlc: int, *, looking: bool = False) -> Claimer[C]:
        """A claim of the number after `parent`; with `looking`, one that looks before it tries."""
        return cls(folder, change, parent, hlc, *change.sealed(parent, hlc), looking=int(looking))

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
        """The creation, looks at what is there, or a page of names."""
        if self.outcome is not ClaimOutcome.PENDING:
            return ()
        if self.listing:
            return (ListPage(self.folder, claim_name(self.folder, self.parent.number)),)
        names = [claim_name(self.folder, self.number + at) for at in range(max(1, self.looking))]
        return tuple(map(Get, names)) if self.looking else (PutIfAbsent(names[0], self.data),)

    @property
    def creating(self) -> bool:
        """Whether the next request is the creation."""
        return self.outcome is ClaimOutcome.PENDING and not self.looking and not self.listing

    def take(self, answers: Sequence[Answer]) -> Claimer[C]:
        """The next step."""
        answer = answers[0]
        if isinstance(answer, Created):
            if answer.created:
                return replace(self, outcome=ClaimOutcome.DONE)
            looks = self.window if answer.clear and not self.unclear else 1  # it may be ours
            return replace(self, looking=looks, taken=answer.clear, unclear=self.unclear or not answer.clear)
        if isinstance(answer, Listed):
            return self.named(answer)
        files: list[ObjectBytes] = []
        for answer in answers:
            assert isinstance(answer, Got)
            if answer.data is None:  # whatever is above is not known to be next
                break
            files.append(answer.data)
        if not files:
            return self._nothing_there()
        if files[0] == self.data:
            return replace(self, outcome=ClaimOutcome.DONE)
        return self._found(tuple(files), full=len(files) == len(answers))

    def resumed(self, change: C | None = None) -> Claimer[C]:
        """Go on; with `change`, a patched one for which the latest verdict is settled. What waited for a
        decision is judged again, and not asked for again: a file never changes."""
        step = replace(self, outcome=ClaimOutcome.PENDING)
        if change is not None:
            assert self.found is not None
            step = replace(step, change=change)._moved_past(self.found)
        return step._judged()

    def named(self, page: Listed) -> Claimer[C]:
        """Names were listed: the claims that follow the parent without a gap are looked at next."""
        names, count = {item.name for item in page.objects}, 0
        while count < BATCH_MAX and claim_name(self.folder, self.number + count) in names:
            count += 1
        return replace(self, looking=count, listing=False, listed=True, window=1)

    def _nothing_there(self) -> Claimer[C]:
        if not self.taken and not self.unclear:  # looked ahead: this number is free
            return replace(self, looking=0)
        if self.tries + 1 < TRIES:
            return replace(self, looking=0, tries=self.tries + 1)
        return replace(self, outcome=ClaimOutcome.UNKNOWN if self.unclear else ClaimOutcome.STALE)

    def _found(self, files: tuple[ObjectBytes, ...], *, full: bool) -> Claimer[C]:
        """Claims were found; `full`: under every number looked at, so that there may be more."""
        lost = self.taken or self.unclear  # as opposed to having looked ahead
        step = replace(self, ahead=files, looking=0)
        if not lost and self.listed:  # all that was listed: now it is tried, unless no more were asked for
            return replace(step, listing=len(files) == BATCH_MAX)._judged()
        few = LOOKS_MAX if self.listed else LOOKS_MIN
        listing = full and (not lost or self.looking >= few)
        return replace(step, listing=listing, window=len(files) + full)._judged()

    def _judged(self) -> Claimer[C]:
        """What was found is judged, one by one, until somebody has to decide something."""
        step = self
        while step.ahead and step.outcome is ClaimOutcome.PENDING:
            found = step.change.judged(step.number, step.ahead[0])
            if found.undecided is not None:
                step = replace(step, found=found, outcome=ClaimOutcome.UNDECIDED)
            elif found.conflicts:
                step = replace(step, found=found, outcome=ClaimOutcome.CONFLICT)
            else:
                step = step._moved_past(found)
        return step

    def _moved_past(self, found: Verdict) -> Claimer[C]:
        parent = Parent(self.number, self.parent.id if found.void else found.id)
        hlc = max(self.hlc, found.id.hlc + 1)
        lost = self.taken or self.unclear
        ahead = self.ahead[1:]
        id, data = (self.id, self.data) if ahead else self.change.sealed(parent, hlc)  # only what is tried
        return replace(
            self,
            parent=parent,
            hlc=hlc,
            id=id,
            data=data,
            ahead=ahead,
            taken=False,
            unclear=False,
            tries=0,
            rebases=self.rebases + lost,
            passed=self.passed + 1,
            writers=self.writers | {found.id.writer},
            found=None,
            outcome=ClaimOutcome.CONTENDED if lost else ClaimOutcome.PENDING,
        )

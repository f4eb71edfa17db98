"""The claimer: make a commit by creating the next number of a log, in CAS mode.

The claim *is* the commit. Whoever creates `<n + 1>.c` after having seen n has made commit n + 1; there is no
pointer to swap, and nothing to repair. Warm, it is one PUT: no list, no read.

    create n + 1    created                    done
                    taken                      look at n + 1, and perhaps at some after it; or list
                    no clear answer            look at n + 1
    look at n + 1   my own                     done: it was ours, and the answer had been lost
                    somebody else's            judge it; if it and mine touch nothing in common, it is the
                                               parent now, and the next number is tried
                    ... above another n        the n that is known is not the log's: the caller reads it
                    nothing, the PUT unclear   the same PUT again: same name, same bytes
                    nothing, though taken      collected meanwhile: the caller is far behind, and reads first
    list            claims above the parent    look at the newest, and what it does not carry, then try
                    none                       try

Every claim between the first parent and the last is judged, not only the newest: the one in between may be
the one that touched the same rows. A claim that is rebased is stamped anew, later than all it passed, so ids
rise with numbers. A listing tells which names to look at, and nothing else.

Carrying. Whoever had to pass others stores their version files with its own (`crdtcat.format.carried`), so a
look at the newest claim shows those before it, too, also if it is void: they were judged while they were
known to be the log's, each names the one below it, and none changes.

Requests. Past one 3, for whoever tries first; for whoever lists first past however many that carry each
other, and k + 2 past k that do not. (Both cannot be had: docs/design/008-cas.md.)

Time. Whoever is behind catches up: after the second lost race it lists; after others it looks at as many
together as were found the last time, and one more if all were there. Between two tries are at most a round of
looks, a listing, and three rounds of looks at what it names, as much again for every `BATCH_MAX` claims.

No clock, store or randomness: pauses, how many races may be lost, and how old knowledge is are the driver's.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from crdtcat.clock import VersionId
from crdtcat.format.carried import carrying, own_frame, proven_frames
from crdtcat.limits import CARRIED_CLAIMS_MAX
from crdtcat.protocol.gathering import Gathering
from crdtcat.protocol.names import claim_name, version_name
from crdtcat.protocol.requests import Answer, Created, Get, Got, Listed, ListPage, PutIfAbsent, Request
from crdtcat.support.object_bytes import ObjectBytes

TRIES: Final = 3  # answers without meaning, in a row, before it is given up; on top of the store's own
LISTED_RACE: Final = 2  # the race lost after which it lists: one guess, that one came, is enough
LOOKS_MAX: Final = 4  # looks together that all find something, before another listing: that is older by a try
BATCH_MAX: Final = 1000  # claims that are held in memory at once


class ClaimOutcome(Enum):
    """How claiming ended, or why it waits."""

    PENDING = "pending"
    DONE = "done"
    CONTENDED = "contended"  # others were faster and touched nothing of ours: go on with `resumed`
    CONFLICT = "conflict"  # one of them touched the same: go on with `resumed`, or give up
    UNDECIDED = "undecided"  # the number is held by a transaction that is not decided yet
    STALE = "stale"  # the parent is old, or is not the log's, by what follows: read, then begin again
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
        follows: the id, in bytes, that it names as the one before it, if it does.
    """

    id: VersionId
    conflicts: tuple[Any, ...] = ()
    undecided: int | None = None
    void: bool = False
    follows: bytes | None = None


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
        id, data: the claim as it is tried now, and its file.
        listing: whether the names above the parent are listed next.
        below: version files of claims right below the number, as far as they are known, the highest first.
        looking: how many numbers are looked at next, together; none: the number is created.
        gathering: what was listed, while it is looked at.
        window: how many numbers are looked at after a lost race.
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
    listing: bool
    looking: int = 0
    below: tuple[ObjectBytes, ...] = ()
    gathering: Gathering | None = None
    window: int = 1
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
    def begin(
        cls, folder: str, change: C, parent: Parent, hlc: int, *,
        listing: bool = False, below: Sequence[ObjectBytes] = (), crowded: bool = False,
    ) -> Claimer[C]:  # fmt: skip
        """A claim of the number after `parent`; with `listing`, one that lists before it tries. `below`: the
        version files of that claim and those before it, as far as known; `crowded`: it carries them."""
        id, own = change.sealed(parent, hlc)
        data = carrying(own, below) if crowded else own
        return cls(folder, change, parent, hlc, id, data, listing, below=tuple(below))

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
        if not self.looking and self.gathering is None:
            return (PutIfAbsent(claim_name(self.folder, self.number), self.data),)
        places = range(self.looking) if self.gathering is None else self.gathering.asked
        return tuple(Get(claim_name(self.folder, self.number + place)) for place in places)

    @property
    def creating(self) -> bool:
        """Whether the next request is the creation."""
        return any(isinstance(want, PutIfAbsent) for want in self.wants)

    def take(self, answers: Sequence[Answer]) -> Claimer[C]:
        """The next step."""
        answer = answers[0]
        if isinstance(answer, Created):
            return replace(self, outcome=ClaimOutcome.DONE) if answer.created else self._refused(answer)
        if isinstance(answer, Listed):
            return self.named(answer)
        found: list[Sequence[ObjectBytes]] = []
        for want, answer in zip(self.wants, answers, strict=True):
            assert isinstance(want, Get)
            assert isinstance(answer, Got)
            found.append(() if answer.data is None else proven_frames(answer.data, want.name))
        if self.gathering is not None:
            return self._gathered(self.gathering.take(found))
        files = tuple(frames[0] for frames in itertools.takewhile(len, found))
        full = len(files) == len(found)  # there may be more
        return self._found(files, listing=full and len(files) >= LOOKS_MAX, window=len(files) + full)

    def _refused(self, answer: Created) -> Claimer[C]:
        """The number is taken, or that is not known."""
        if not answer.clear or self.unclear:  # it may be ours
            return replace(self, looking=1, taken=answer.clear, unclear=self.unclear or not answer.clear)
        if self.rebases + 1 == LISTED_RACE and not self.tries:
            return replace(self, listing=True, taken=True)
        return replace(self, looking=self.window, taken=True)

    def resumed(self, change: C | None = None) -> Claimer[C]:
        """Go on; with `change`, a patched one for which the latest verdict is settled."""
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
        step = replace(self, listing=False, window=1)
        return replace(step, gathering=Gathering.of(count)) if count else step._nothing_there()

    def _nothing_there(self) -> Claimer[C]:
        if not self.taken and not self.unclear:  # nobody came
            return replace(self, looking=0)
        if self.tries + 1 < TRIES:
            return replace(self, looking=0, tries=self.tries + 1)
        return replace(self, outcome=ClaimOutcome.UNKNOWN if self.unclear else ClaimOutcome.STALE)

    def _gathered(self, gathering: Gathering) -> Claimer[C]:
        """Some of what was listed was found, or is gone."""
        if gathering.asked:
            return replace(self, gathering=gathering)
        files = gathering.found  # all that was listed: now it is tried, unless no more were asked for
        return replace(self, gathering=None)._found(files, listing=len(files) == BATCH_MAX, window=1)

    def _found(self, files: tuple[ObjectBytes, ...], *, listing: bool, window: int) -> Claimer[C]:
        """Version files of claims were found, under this number and those after it."""
        if not files:
            return self._nothing_there()
        if files[0] == own_frame(self.data, claim_name(self.folder, self.number)):
            return replace(self, outcome=ClaimOutcome.DONE)
        return replace(self, ahead=files, looking=0, listing=listing, window=window)._judged()

    def _judged(self) -> Claimer[C]:
        """What was found is judged, one by one, until somebody has to decide something."""
        step = self
        while step.ahead and step.outcome is ClaimOutcome.PENDING:
            found = step.change.judged(step.number, step.ahead[0])
            if found.follows and step.parent.id and found.follows != step.parent.id.to_bytes():
                return replace(step, outcome=ClaimOutcome.STALE)
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
        ahead, below = self.ahead[1:], (self.ahead[0], *self.below[: CARRIED_CLAIMS_MAX - 1])
        id, own = (self.id, self.data) if ahead else self.change.sealed(parent, hlc)  # only what is tried
        return replace(
            self,
            parent=parent,
            hlc=hlc,
            id=id,
            data=own if ahead else carrying(own, below),
            below=below,
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

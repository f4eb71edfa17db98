"""Prepared claims: versions that hold a number and count once a decision says so.

What a transaction commits to one table, and what a merge brings from a branch: several versions under one
number. All tables are claimed, one after the other, then the decision is created. Whoever dies before that
leaves claims that the next writer aborts; whoever dies after it has committed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

from crdtcat.cas.changes import LogChange
from crdtcat.cas.claiming import Committing
from crdtcat.cas.decisions import decide, read_decision
from crdtcat.cas.modes import ModeSwitched
from crdtcat.clock import VersionId
from crdtcat.conflicts import WriteSet, write_set
from crdtcat.drive import elapsed_clock
from crdtcat.errors import (
    CommitConflict,
    CommitContended,
    CommitUnknown,
    LimitExceeded,
    StoreError,
    StoreUnavailable,
)
from crdtcat.format.version import OPERATIONS, decode_version, encode_version
from crdtcat.log import Log, join
from crdtcat.protocol.claimer import Parent
from crdtcat.session import Session
from crdtcat.store import Store
from crdtcat.support.cached import cached_property
from crdtcat.writing.restamp import StagedVersion, restamped, staged_log
from crdtcat.writing.writer import Slot, Writer, check_clock


@dataclass(frozen=True, eq=False)
class TransactionChange(LogChange):
    """What a transaction commits to one table: several versions under one number.

    Attributes:
        staged: the versions.
        folders: all logs it changes.
    """

    staged: tuple[StagedVersion, ...] = ()
    folders: tuple[str, ...] = ()

    stands: ClassVar[bool] = False  # not before it is decided

    def under(self, slot: Slot) -> TransactionChange:  # noqa: ARG002 (a void claim is read by nobody)
        """The same: a transaction has one writer."""
        return self

    def parts(self, parent: Parent, hlc: int) -> list[StagedVersion]:
        """Its versions, stamped to follow `parent`."""
        before = None if parent.id is None else parent.id.to_bytes()
        return restamped(self.staged, self.slot.writer, hlc, follow=True, parent=before)

    def sealed(self, parent: Parent, hlc: int) -> tuple[VersionId, bytes]:
        """The prepared claim of the number after `parent`."""
        made = self.parts(parent, hlc)
        return encode_version(
            {
                "h": hlc + len(made),
                "w": self.slot.writer,
                "s": 1,
                "l": self.folder,
                "#": parent.number + 1,
                "o": OPERATIONS.index("transaction"),
                "D": list(self.folders),
                "t": {self.folder: [part.data for part in made]},
            }
        )

    def body_of(self, part: int) -> Mapping[str, Any]:
        """The body of one of its versions, with its stamp."""
        item = self.staged[part]
        return decode_version(item.data, str(item.id))[1]

    def with_body(self, part: int, body: Mapping[str, Any]) -> TransactionChange:
        """The same with another body of one of its versions, which the others know by its id of before."""
        _, data = encode_version(dict(body))
        made = StagedVersion(self.staged[part].id, data)
        return replace(self, staged=(*self.staged[:part], made, *self.staged[part + 1 :]))

    def upto(self, part: int) -> TransactionChange:
        """One of its versions and those before it."""
        return replace(self, staged=self.staged[: part + 1])

    def log_with_part(self, seen: Log, part: int) -> Log:
        """What a log becomes with one of its versions and those before it. No request."""
        return join(seen, staged_log(self.folder, self.staged[: part + 1]))

    @cached_property
    def writes(self) -> tuple[WriteSet, ...]:
        """What each of its versions writes, under the ids by which they name each other."""
        return tuple(write_set(staged_log(self.folder, [item]), 0, self.keys) for item in self.staged)

    def _log(self, parent: Parent, hlc: int) -> Log:
        return staged_log(self.folder, self.parts(parent, hlc))


class Prepared(NamedTuple):
    """A claim that is to be made: who makes it, what is in it, and the claim that it follows, known since."""

    work: Committing
    change: TransactionChange
    parent: Parent
    known_at: float


class Switched(Exception):
    """A table is in another mode by now, or dropped; nothing was committed. No error: acted on."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.table)
        self.session = session


class Superseded(Exception):
    """What came between makes the change another one: it has to be made anew. No error: acted on."""


_REFUSED: Final = (CommitConflict, CommitContended, LimitExceeded, ModeSwitched, Superseded)


def transaction_slot(session: Session) -> Slot:
    """An identity for one transaction. Raises `ClockSkew`."""
    check_clock(session.store, session.options.max_clock_skew_seconds * 1000)
    slot = Slot(Writer("", session.clock, 0))
    slot.writer = secrets.randbits(64)
    return slot


def commit_prepared(
    store: Store,
    slot: Slot,
    claims: Iterable[Prepared],
    prepared: Callable[[int], None] | None = None,
    aborted: Callable[[int | None], None] | None = None,
) -> dict[str, Committing]:
    """Make claims, one after the other, then the decision. By log folder, the work done.

    One PUT each. `prepared` is told the transaction's number before it is decided; `aborted` if it comes to
    nothing before that: `None` where nothing of it is in the store.

    Raises:
        CommitConflict, CommitContended, CommitUnknown: as a commit does; nothing is visible of any of them.
        StoreError: a claim, or the decision, was refused, or has no clear answer and is not waited for;
            nothing is visible.
        Switched: a table is in another mode by now.
        Superseded: a change said so when it was judged.
    """
    done: dict[str, Committing] = {}
    young_seconds = 0.0
    try:
        for work, change, parent, known_at in claims:
            done[change.folder], young_seconds = work, work.session.options.grace_seconds / 2
            work.run(change, parent, known_at)
    except BaseException as error:
        made = {folder: work.step.number for folder, work in done.items() if work.step is not None}
        refused = isinstance(error, _REFUSED)  # clearly: no claim but these is there, nor will be
        left = bool(made) or (bool(done) and not refused)
        if aborted is not None:
            aborted(slot.writer if left else None)
        _look_first(done)
        if left:
            with suppress(StoreError):  # then the lease will do it
                decide(store, slot.writer, committed=False, claims=made if refused else None)
        if isinstance(error, ModeSwitched):
            raise Switched(work.session) from error
        raise
    if prepared is not None:
        prepared(slot.writer)
    made = {folder: work.claimed for folder, work in done.items()}
    try:
        _decide(store, slot.writer, made, young_seconds)
    except CommitContended:
        _look_first(done)
        raise
    except StoreError:  # refused, clearly: it was not committed, and will not be
        if aborted is not None:
            aborted(slot.writer)
        _look_first(done)
        with suppress(StoreError):
            decide(store, slot.writer, committed=False, claims=made)
        raise
    return done


def _look_first(done: Mapping[str, Committing]) -> None:
    """Its own claims are in its way if it is tried again: not as races that it lost, so it looks first."""
    for work in done.values():
        if work.step is not None:
            work.session.chain.crowded = True


def _decided(store: Store, writer: int, claims: Mapping[str, int]) -> bool:
    """Decide, and look once where the answer was lost: who is to know whether a commit stands, if not its
    author. Where nothing is there the same PUT is made again. Raises `StoreUnavailable`: nobody knows; any
    other `StoreError`: it was refused, and nothing is decided."""
    try:
        return decide(store, writer, committed=True, claims=claims)
    except StoreUnavailable:
        pass
    try:
        found = read_decision(store, writer)
        return decide(store, writer, committed=True, claims=claims) if found is None else found
    except StoreError as error:  # whatever it is: the first PUT may have been stored
        raise StoreUnavailable(str(error.args[0])) from error


def _decide(store: Store, writer: int, claims: Mapping[str, int], young_seconds: float) -> None:
    began = elapsed_clock()
    try:
        committed = _decided(store, writer, claims)
    except StoreUnavailable as error:
        raise CommitUnknown(
            f"transaction {writer:016x}: the store gave no clear answer to its decision ({error.args[0]}); "
            "it may stand: ask catalog.transaction_status(transaction.id) before you repeat it"
        ) from error
    if not committed and elapsed_clock() - began > young_seconds:
        # Its own may have been there, copied and collected, and this one made by somebody who slept.
        raise CommitUnknown(
            f"transaction {writer:016x}: the answer to its decision took more than half of grace_seconds; it "
            "may stand: ask catalog.transaction_status(transaction.id) before you repeat it"
        )
    if not committed:
        raise CommitContended(
            f"transaction {writer:016x}: somebody waited longer than lease_seconds for it and aborted it; "
            "nothing was committed: repeat it, or allow a longer lease"
        )

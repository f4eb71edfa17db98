"""Committing a transaction over tables in CAS mode: a prepared claim in each, then one decision.

Tables are claimed in the order of their folders, so that two transactions meet in the first they share. A
prepared claim holds its number and counts for nothing: readers leave it out, and writers who find it wait, at
most for a lease, and then decide it aborted. Once all are prepared the decision is created. Whoever dies
before that leaves claims that the next writer aborts; whoever dies after it has committed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crdtcat.cached import cached_property
from crdtcat.changes import LogChange
from crdtcat.claiming import Committing
from crdtcat.clock import VersionId
from crdtcat.cold_claims import newest
from crdtcat.conflicts import WriteSet, write_set
from crdtcat.conflicts.resolve import Policy
from crdtcat.decisions import decide
from crdtcat.drive import elapsed_clock
from crdtcat.errors import CommitConflict, CommitContended, CommitUnknown, StoreError, StoreUnavailable
from crdtcat.format.version import OPERATIONS, decode_version, encode_version
from crdtcat.head import Head, Version
from crdtcat.log import Log
from crdtcat.log.build import LogBuilder
from crdtcat.modes import ModeSwitched
from crdtcat.protocol.claimer import Parent
from crdtcat.reading import claimed_above
from crdtcat.staged import StagedSession
from crdtcat.store import Store
from crdtcat.transaction.commit import committed_versions, switched_meanwhile
from crdtcat.writing.restamp import StagedVersion, restamped
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
    patchable: ClassVar[bool] = False  # of several versions: it stands as it is, or fails as a whole

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

    @cached_property
    def writes(self) -> tuple[WriteSet, ...]:
        """What each of its versions writes."""
        log = self._log(Parent(), 1)
        return tuple(write_set(log, index, self.keys) for index in range(len(log)))

    def _log(self, parent: Parent, hlc: int) -> Log:
        builder = LogBuilder(self.folder)
        for item in self.parts(parent, hlc):
            builder.add(item.id, decode_version(item.data, str(item.id))[1], str(item.id))
        return builder.build()


def commit_cas(
    sessions: Sequence[StagedSession], *, serializable: bool, prepared: Callable[[int], None]
) -> list[tuple[Version, ...]]:
    """Commit what is staged, in all logs at once. One PUT for each table, and one for the decision.

    A serializable transaction also claims tables that it only read: until it is decided, nobody changes them.
    `prepared` is told the transaction's number once all tables are claimed.

    Raises:
        CommitConflict: a commit that came between touched the same; nothing was committed.
        CommitContended: others were faster too often, or waited longer than the lease and aborted it.
        CommitUnknown: the store gave no clear answer.
        StoreUnavailable, ClockSkew, LimitExceeded: nothing became visible.
    """
    store, options = sessions[0].store, sessions[0].options
    check_clock(store, options.max_clock_skew_seconds * 1000)
    slot = Slot(Writer("", sessions[0].clock, 0))
    slot.writer = secrets.randbits(64)
    # Logs that it only read are claimed, and have nothing of it: nobody may look for it there.
    folders = tuple(sorted(session.folder for session in sessions if session.staged))
    done: dict[str, Committing] = {}
    try:
        for session in sorted(sessions, key=lambda session: session.folder):
            session.base.require_not_dropped()
            change = TransactionChange(
                session.folder, {}, {}, slot, Policy.of(options.on_conflict), keys=session.settings.key,
                staged=tuple(session.staged), folders=folders,
                asked=session.asked if serializable else None,
            )  # fmt: skip
            parent, chain = newest(session.pinned), session.base.chain
            known_at = chain.known_at if chain.parent == parent else -np.inf
            done[session.folder] = Committing(
                session.base, slot, Head(session.table, session.pinned, session.settings)
            )
            done[session.folder].run(change, parent, known_at)
    except BaseException as error:
        if not _nothing_claimed(done, error):
            with suppress(StoreError):  # then the lease will do it
                decide(store, slot.writer, committed=False)
        if isinstance(error, ModeSwitched):
            session.base.refresh()  # or dropped: it says so
            raise switched_meanwhile(session.table) from error
        raise
    prepared(slot.writer)
    claims = {folder: work.claimed for folder, work in done.items()}
    _decide(store, slot.writer, claims, options.grace_seconds / 2)
    return [_versions(session, done[session.folder]) for session in sessions]


def _nothing_claimed(done: Mapping[str, Committing], error: BaseException) -> bool:
    """Whether no claim waits for a decision, so that none is left behind: it was refused its first number."""
    return not done or (len(done) == 1 and isinstance(error, CommitConflict | CommitContended | ModeSwitched))


def require_unchanged(sessions: Sequence[StagedSession]) -> None:
    """Whether what was read of several tables was so at one moment: none of it changed until all was read.

    For serializable transactions that change nothing. A refresh of each table. Raises `CommitConflict`.
    """
    for session in sessions:
        session.base.refresh()
        log, asked = session.base.state.log, session.asked
        for index in np.flatnonzero(claimed_above(log, newest(session.pinned))).tolist():
            found = asked.judged(log, index)
            if found:
                listed = "\n  ".join(map(str, found))
                raise CommitConflict(
                    f"table {session.table!r}: another commit changed what this transaction had read there "
                    f"while it read other tables; it changes nothing: repeat it\n  {listed}",
                    conflicts=found,
                )


def _decide(store: Store, writer: int, claims: Mapping[str, int], young_seconds: float) -> None:
    began = elapsed_clock()
    try:
        committed = decide(store, writer, committed=True, claims=claims)
    except StoreUnavailable as error:
        raise CommitUnknown(
            f"transaction {writer:016x}: the store gave no clear answer to its decision; it may stand: ask "
            "catalog.transaction_status(transaction.id) before you repeat it"
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


def _versions(session: StagedSession, work: Committing) -> tuple[Version, ...]:
    step = work.step
    assert step is not None
    _, body = decode_version(step.data, str(step.id))
    parts = [StagedVersion(decode_version(data, "")[0], data) for data in body["t"][session.folder]]
    session.base.clock.observe(step.id.hlc)
    if not parts:
        return ()
    session.base.chain.saw(Parent(step.number, parts[-1].id), work.created_at)
    made = committed_versions(session, parts, rebases=work.rebases)
    return (*made[:-1], replace(made[-1], number=step.number))

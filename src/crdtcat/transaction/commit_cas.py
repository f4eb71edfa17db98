"""Committing a transaction over tables in CAS mode: a prepared claim in each, then one decision.

Tables are claimed in the order of their folders, so that two transactions meet in the first they share. A
prepared claim holds its number and counts for nothing: readers leave it out, and writers who find it wait, at
most for a lease, and then decide it aborted. Once all are prepared the decision is created. Whoever dies
before that leaves claims that the next writer aborts; whoever dies after it has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from crdtcat.cas.changes import KnownKeys
from crdtcat.cas.claiming import Committing
from crdtcat.cas.cold_claims import newest
from crdtcat.cas.key_reading import key_reader
from crdtcat.cas.preparing import Prepared, Switched, TransactionChange, commit_prepared, transaction_slot
from crdtcat.cas.reading import claimed_above
from crdtcat.cas.seen_rows import SeenRows
from crdtcat.cas.telling import SHOWN_MAX, Stand, named, tell_all
from crdtcat.conflicts import Overlap
from crdtcat.conflicts.resolve import Policy
from crdtcat.errors import CommitConflict
from crdtcat.format.carried import own_frame
from crdtcat.format.version import decode_version
from crdtcat.head import Head, Version
from crdtcat.limits import CONFLICTS_MAX
from crdtcat.protocol.claimer import Parent
from crdtcat.transaction.commit import committed_versions, switched_meanwhile
from crdtcat.transaction.staged import StagedSession
from crdtcat.writing.restamp import StagedVersion
from crdtcat.writing.writer import Slot


def commit_cas(
    sessions: Sequence[StagedSession],
    *,
    serializable: bool,
    policy: Policy | None,
    prepared: Callable[[int], None],
    aborted: Callable[[int | None], None],
) -> list[tuple[Version, ...]]:
    """Commit what is staged, in all logs at once. One PUT for each table, and one for the decision.

    A serializable transaction also claims tables that it only read: until it is decided, nobody changes them.
    `policy`: what is to be done about conflicts, instead of what the catalog's options say. `prepared` is
    told the transaction's number once all tables are claimed, `aborted` where it comes to nothing before: the
    number if something of it may be in the store.

    Raises:
        CommitConflict: commits that came between touched the same; nothing was committed. It tells of every
            table, which costs a refresh of each.
        CommitContended: others were faster too often, or waited longer than the lease and aborted it.
        CommitUnknown: the store gave no clear answer.
        StoreUnavailable, ClockSkew, LimitExceeded: nothing became visible.
    """
    store = sessions[0].store
    slot = transaction_slot(sessions[0])
    # Logs that it only read are claimed, and have nothing of it: nobody may look for it there.
    folders = tuple(sorted(session.folder for session in sessions if session.staged))
    policy = policy or Policy.of(sessions[0].options.on_conflict)
    claims = _claims(sessions, slot, folders, policy, serializable=serializable)
    try:
        done = commit_prepared(store, slot, claims, prepared, aborted)
    except CommitConflict as error:
        again = _claims(sessions, slot, folders, policy, serializable=serializable)
        tell_all(error, (Stand(work.session, change, work.seen, above) for work, change, above, _ in again))
        raise
    except Switched as error:
        error.session.refresh()  # or dropped: it says so
        raise switched_meanwhile(error.session.table) from error
    return [_versions(session, done[session.folder]) for session in sessions]


def _claims(
    sessions: Sequence[StagedSession],
    slot: Slot,
    folders: tuple[str, ...],
    policy: Policy,
    *,
    serializable: bool,
) -> Iterator[Prepared]:
    for session in sorted(sessions, key=lambda session: session.folder):
        session.base.require_not_dropped()
        seen = Head(session.table, session.pinned, session.settings)
        change = TransactionChange(
            session.folder, {}, {}, slot, policy,
            keys=session.settings.key, staged=tuple(session.staged), folders=folders,
            asked=session.asked if serializable else None, key_reader=key_reader(session.base),
            known=KnownKeys(session.base.state.log), seen_rows=SeenRows(seen),
        )  # fmt: skip
        parent, chain = newest(session.pinned), session.base.chain
        known_at = chain.known_at if chain.parent == parent else -np.inf
        yield Prepared(Committing(session.base, slot, seen), change, parent, known_at)


def require_unchanged(sessions: Sequence[StagedSession]) -> None:
    """Whether what was read of several tables was so at one moment: none of it changed until all was read.

    For serializable transactions that change nothing. A refresh of each table. Raises `CommitConflict`.
    """
    found: list[Overlap] = []
    for session in sessions:
        session.base.refresh()
        log, asked = session.base.state.log, session.asked
        for index in np.flatnonzero(claimed_above(log, newest(session.pinned))).tolist():
            found += named(session.base, asked.judged(log, index))
    if found:
        tables = ", ".join(dict.fromkeys(repr(item.table) for item in found))
        listed = "\n  ".join(map(str, found[:SHOWN_MAX]))
        raise CommitConflict(
            f"{tables}: other commits changed what this transaction had read there while it read other "
            f"tables; it changes nothing: repeat it\n  {listed}",
            conflicts=tuple(found[:CONFLICTS_MAX]),
            complete=len(found) <= CONFLICTS_MAX,
        )


def _versions(session: StagedSession, work: Committing) -> tuple[Version, ...]:
    step = work.step
    assert step is not None
    name = str(step.id)
    _, body = decode_version(own_frame(step.data, name), name)
    parts = [StagedVersion(decode_version(data, "")[0], data) for data in body["t"][session.folder]]
    session.base.clock.observe(step.id.hlc)
    if not parts:
        return ()
    session.base.chain.saw(Parent(step.number, parts[-1].id), work.created_at)
    made = committed_versions(session, parts, rebases=work.rebases)
    return (*made[:-1], replace(made[-1], number=step.number))

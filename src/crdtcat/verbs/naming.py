"""What of main's log a named snapshot needs: a tag's, or the start of a branch, wherever it was taken.

What is folded is read as a whole, so a snapshot is readable as long as it holds all of it. Only main's log is
folded, and a branch of a branch has it, too, through the one that it starts from: so every name is judged by
main's log, whichever handle it was given by.

Naming and expiring race. An expirer proposes, lists, looks for names, and writes its base; whoever names a
snapshot stores the name and then looks for proposals. An expirer that did not see the name had listed before
it was stored, so all that it may fold is in a listing made now: the name is good, or it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from crdtcat.clock import hlc
from crdtcat.drive import store_now_ms
from crdtcat.errors import Expired, NotFound
from crdtcat.head import Snapshot
from crdtcat.head.snapshot import versions_of
from crdtcat.lifecycle.horizons import ABANDONED_MS, Proposal, proposals
from crdtcat.log import Log
from crdtcat.log.files import ids_of
from crdtcat.log.log import ID_FIELDS
from crdtcat.protocol import Object, is_version
from crdtcat.session import Session

FOREVER: Final = 2**64 - 1
Holds = Callable[[Log, Snapshot], int]


def main_of(session: Session) -> Session:
    """The session on main that a branch's goes back to."""
    while session.source is not None:
        session = session.source[0]
    return session


def tag_holds(log: Log, snapshot: Snapshot) -> int:
    """The greatest horizon of main's log below which a snapshot has every commit.

    Upkeep is no part of a snapshot, and holds nothing: it is later than what it had seen, so below that
    horizon it goes by commits which the snapshot has.
    """
    times = log.id_fields["hlc"][~(snapshot.members(log) | log.is_upkeep)]
    return int(times.min()) if len(times) else FOREVER


def branch_holds(log: Log, snapshot: Snapshot) -> int:
    """The same for the start of a branch, and not beyond its beginning: what is committed on the branch is
    later than that, so that it can be merged."""
    times = log.id_fields["hlc"][snapshot.members(log)]
    began = int(times.max()) if len(times) else 0
    return min(tag_holds(log, snapshot), began + 1)


def require_held(session: Session, snapshot: Snapshot, done: int, holds: Holds) -> None:
    """That no expiry takes what a name needs that was just stored: for a snapshot that was read when main's
    horizon was `done`. One LIST, and a refresh of main where a greater one was proposed since.

    Raises:
        Expired: it was passed, or may be by one that is under way.
    """
    main = main_of(session)
    found = proposals(main.store, main.table, main.settings.incarnation)
    found = [item for item in found if item.horizon > done]
    if not found:
        return
    reader = main.refresh(described=True)
    log = reader.state.log
    try:
        if session is main:
            versions_of(log, snapshot, main.table)
    except NotFound as error:
        raise Expired(f"some of snapshot {snapshot.id[:12]} was passed by an expiry") from error
    hold = holds(log, snapshot)
    if hold < log.horizon > done:
        raise Expired(f"table {main.table!r} was expired just now, beyond snapshot {snapshot.id[:12]}")
    oldest_ms = store_now_ms(main.store) - ABANDONED_MS
    waiting = [item for item in found if item.horizon > log.horizon and item.modified_ms > oldest_ms]
    under = max((item.horizon for item in waiting), default=0)
    brings = any(item.brings for item in waiting)
    if hold < under or brings or _may_be_passed_by(reader.listing, waiting, log.horizon):
        raise Expired(
            f"history of table {main.table!r} that snapshot {snapshot.id[:12]} needs is being expired, up to "
            f"{hlc.to_datetime(under).isoformat()}"
        )


def _may_be_passed_by(listing: Iterable[Object], waiting: Iterable[Proposal], done: int) -> bool:
    """Whether a version that is read now was stored after a proposal above it: its author was slow, or by a
    clock that is behind, and the expirer may not have seen it."""
    files = [item for item in listing if is_version(item.name)]
    times = ids_of([item.name for item in files]).view(ID_FIELDS)["hlc"].tolist()
    return any(
        done <= time < proposal.horizon and file.modified_ms >= proposal.modified_ms
        for proposal in waiting
        for time, file in zip(times, files, strict=True)
    )

"""Closing transactions in merge mode below a time, so that tables they touch can be expired up to it.

What a closed time means, and why nothing is lost, is in `crdtcat.protocol.closer`. Here is who closes: an
expiry, before its horizon; and whoever reads a transaction that somebody is closing at that moment, or was
when he died. Nobody builds on such a one before it is settled whether it counts, and nobody waits: whoever
reads it settles it. A handle that may not write reads on; what it shows may be gone a moment later, as with
any commit that took too long and was never acknowledged.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from crdtcat.clock import VersionId
from crdtcat.drive import run
from crdtcat.errors import (
    AccessDenied,
    CapabilityMissing,
    CommitUnknown,
    NotFound,
    StoreError,
    StoreUnavailable,
)
from crdtcat.lifecycle.horizons import is_late
from crdtcat.log import State
from crdtcat.protocol import Reader
from crdtcat.protocol.closer import PASSES_MAX, Closer
from crdtcat.protocol.names import closing_name, closing_until, transaction_of
from crdtcat.store import Store

if TYPE_CHECKING:
    from crdtcat.session import Session


def close(store: Store, until: int) -> None:
    """Settle which transactions below a time count. What `Closer` costs.

    Raises:
        CapabilityMissing: the store cannot create exclusively, or lists in no order.
        StoreUnavailable: nothing was closed, or nobody knows; run it again.
    """
    if not store.lists_in_order or not store.can_create_exclusively:
        raise CapabilityMissing(
            f"{store.url} cannot create a file exclusively and list in order: expiring tables that took part "
            "in transactions needs both"
        )
    run(Closer(closing_name(until, secrets.token_bytes(8)), until), store)


def settled(store: Store, read: Callable[[], Reader[State]]) -> tuple[Reader[State], bool]:
    """Read a log, and settle what was read of transactions that are being closed. A `close` and a reading
    more where there is such a one. False: this handle may not, and what it read may not be built on.

    Raises `StoreUnavailable` where others closed further each time; and as reading does.
    """
    for _ in range(PASSES_MAX):
        reader = read()
        if not reader.state.loose:
            return reader, True
        until = max((closing_until(item.name) or 0 for item in reader.listing), default=0)
        if not any(transaction_of(name)[0] < until for name in reader.state.loose):
            return reader, True
        try:
            close(store, until)
        except AccessDenied:
            return reader, False
    raise StoreUnavailable(f"transactions of {store.url} were closed {PASSES_MAX} times meanwhile; try again")


def require_settled(session: Session) -> None:
    """For whoever builds on what a handle has read. No request. Raises `AccessDenied` if that had a
    transaction which was being closed, and the handle was not allowed to settle whether it counts."""
    if not session.is_settled:
        raise AccessDenied(
            f"table {session.table!r}: a transaction that this handle has read was being closed, and it may "
            "not write to transactions/: whether it counts could not be settled; open another handle"
        )


def is_passed_by(held: Sequence[tuple[Session, VersionId]], id: VersionId) -> bool:
    """Whether a transaction that was just stored, and holds these versions of tables, counts for nothing.

    No request unless that took long; then what `is_counted` costs. Raises `CommitUnknown`.
    """
    session = held[0][0]
    if not is_late(session.store, id.hlc, session.options.max_commit_delay_seconds):
        return False
    return not is_counted(held, id)


def is_counted(held: Iterable[tuple[Session, VersionId]], id: VersionId) -> bool:
    """Whether a transaction that holds these versions of tables is there, and counts.

    A refresh of one table, which settles it for all: of the first that was not dropped. Where all were,
    nobody reads it in any case: true. Raises `CommitUnknown`.
    """
    for session, version in held:
        try:
            log = session.refresh().state.log
            require_settled(session)
        except NotFound:  # dropped: nothing of it counts there in any case
            continue
        except StoreError as error:
            raise CommitUnknown(f"{id} may be stored, and passed by meanwhile: {error}") from error
        return log.index_of(version) >= 0
    return True

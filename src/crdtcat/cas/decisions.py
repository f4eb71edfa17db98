"""Decisions: whether a transaction over tables in CAS mode counts. Made once, by whoever comes first.

A transaction prepares a claim in each of its tables; none of them counts before `<transaction>.decision` says
"committed". The object is created exclusively, so of a coordinator that wants to commit and a bystander that
has waited long enough to abort, one wins, and everybody reads the same.

A decision that its coordinator made says which claims wait for it. Once all of them are in bundles that are
older than the grace period it is deleted (`crdtcat.maintenance.decisions`): whoever could still ask for it
has thrown away what it knew by then. One to abort that somebody else made stays: the coordinator may still
be claiming, and would commit what was aborted.
(Model: `Decisions` in proofs/tla.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crdtcat.errors import StoreUnavailable
from crdtcat.format.decision import decode_decision, encode_decision
from crdtcat.format.version import UPKEEP
from crdtcat.log import State
from crdtcat.log.transactions import transactions_in
from crdtcat.protocol.names import decision_name
from crdtcat.store import Missing, Store
from crdtcat.support.object_bytes import ObjectBytes

if TYPE_CHECKING:
    from crdtcat.session import Session


def read_decision(store: Store, transaction: int) -> bool | None:
    """Whether a transaction was committed; `None`: it is not decided. One GET."""
    name = decision_name(transaction)
    try:
        return decode_decision(store.get(name), name)
    except Missing:
        return None


def decide(
    store: Store, transaction: int, *, committed: bool, claims: Mapping[str, int] | None = None
) -> bool:
    """Decide a transaction, if nobody has; what was decided. One PUT, and one or two GETs if somebody had.

    `claims`: by log folder, every claim that waits for it, where that is known.

    Raises:
        StoreUnavailable: it may or may not be decided; or it was, and that was collected meanwhile.
    """
    name = decision_name(transaction)
    if store.put_if_absent(name, encode_decision(committed=committed, claims=claims)):
        return committed
    found = read_decision(store, transaction)
    if found is None and not committed:  # by its coordinator, one way or the other: the tables' bundles know
        raise StoreUnavailable(
            f"{name}: it was decided long ago, and that was collected meanwhile; try again"
        )
    return found is not False  # the coordinator's own, of which the answer was lost: those of others stay


def decisions_for(store: Store, state: State) -> list[tuple[str, ObjectBytes]]:
    """The decisions that a state waits for and that were made, as files. One GET for each."""
    names = state.undecided()
    answers = store.get_many([(name, 0, None) for name in names])
    return [(name, data) for name, data in zip(names, answers, strict=True) if data is not None]


def status_in(session: Session, transaction: int) -> str | None:
    """What a log knows of a transaction: "prepared" or "committed"; "passed": a number that it took there
    counts for nothing, because it was aborted, or because it only read that table; `None`: nothing. A
    refresh."""
    state = session.refresh().state
    if decision_name(transaction) in state.undecided():
        return "prepared"
    if transaction in transactions_in(state.log):
        return "committed"
    log = state.log
    is_its = (log.number > 0) & (log.id_fields["writer"] == transaction)
    return "passed" if (is_its & (log.operation == UPKEEP)).any() else None

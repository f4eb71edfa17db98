"""Decisions: whether a transaction over tables in CAS mode counts. Made once, by whoever comes first.

A transaction prepares a claim in each of its tables; none of them counts before `<transaction>.decision` says
"committed". The object is created exclusively, so of a coordinator that wants to commit and a bystander that
has waited long enough to abort, one wins, and everybody reads the same.
"""

from __future__ import annotations

from crdtcat.errors import Corrupt
from crdtcat.format.decision import decode_decision, encode_decision
from crdtcat.log import State
from crdtcat.protocol.names import decision_name
from crdtcat.store import Missing, Store


def read_decision(store: Store, transaction: int) -> bool | None:
    """Whether a transaction was committed; `None`: it is not decided. One GET."""
    name = decision_name(transaction)
    try:
        return decode_decision(store.get(name), name)
    except Missing:
        return None


def decide(store: Store, transaction: int, *, committed: bool) -> bool:
    """Decide a transaction, if nobody has; what was decided. One PUT, and one or two GETs if somebody had.

    Raises:
        StoreUnavailable: it may or may not be decided.
    """
    name = decision_name(transaction)
    if store.put_if_absent(name, encode_decision(committed=committed)):
        return committed
    found = read_decision(store, transaction)
    if found is None:
        raise Corrupt(name, "was there, and is gone: decisions are for ever")
    return found


def with_decisions(store: Store, state: State) -> State:
    """A state with every decision that it waits for and that was made. One GET for each."""
    return state.joined(decisions_for(store, state))


def decisions_for(store: Store, state: State) -> list[tuple[str, bytes]]:
    """The decisions that a state waits for and that were made, as files. One GET for each."""
    names = state.undecided()
    answers = store.get_many([(name, 0, None) for name in names])
    return [(name, data) for name, data in zip(names, answers, strict=True) if data is not None]

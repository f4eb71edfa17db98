"""Proposed horizons: what an expiry says before it looks, so that whoever is late can find out.

An expirer puts a proposal, then lists the log, then writes a base with all it found. So a version that was
stored before the proposal is in the base. One that was stored after it may not be; its writer looks here if
it was slow, and knows from the base whether its version counts (model: proofs/tla/Horizon.tla). Only the
greatest proposal matters, so lesser ones may be deleted, and an expirer that gives up takes its own back.

Whoever names a snapshot (a tag, the start of a branch) looks here after it has said so. The expirer looks for
such names after it has proposed. One of the two sees the other (`crdtcat.verbs.naming`).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from crdtcat.clock import VersionId, hlc
from crdtcat.drive import store_now_ms
from crdtcat.errors import CommitUnknown, StoreError
from crdtcat.store import Store

if TYPE_CHECKING:
    from crdtcat.session import Session

ABANDONED_MS: Final = 1_200_000  # a proposal this old, without a base, is of somebody who died


_BRINGS: Final = "-brings"


class Proposal(NamedTuple):
    """A proposed horizon and the file that says so."""

    horizon: int
    name: str = ""
    modified_ms: int = 0

    @property
    def brings(self) -> bool:
        """Whether what is folded comes from another catalog: then no listing here shows all of it."""
        return self.name.endswith(_BRINGS)


def _folder(table: str, incarnation: int) -> str:
    return f"tables/{table}/refs/horizons{'' if incarnation == 1 else f'~{incarnation}'}/"


def propose(store: Store, table: str, incarnation: int, horizon: int, *, brings: bool = False) -> Proposal:
    """Propose a horizon. One PUT."""
    unique = f"{secrets.token_hex(8)}{_BRINGS if brings else ''}"
    name = f"{_folder(table, incarnation)}{horizon:016x}-{unique}"
    store.put(name, b"")
    return Proposal(horizon, name)


def propose_instead(store: Store, table: str, incarnation: int, horizon: int, mine: Proposal) -> Proposal:
    """Propose another horizon, or the same anew, and then take back what was proposed. A PUT and a DELETE."""
    found = propose(store, table, incarnation, horizon, brings=mine.brings)
    withdraw(store, [mine.name])
    return found


def proposals(store: Store, table: str, incarnation: int) -> list[Proposal]:
    """All proposals. One LIST."""
    found = []
    for item in store.list(_folder(table, incarnation)):
        digits = item.name.rsplit("/", 1)[-1].partition("-")[0]
        if len(digits) == 16 and not digits.strip("0123456789abcdef"):
            found.append(Proposal(int(digits, 16), item.name, item.modified_ms))
    return found


def greatest(store: Store, table: str, incarnation: int) -> int:
    """The greatest horizon that was proposed, or 0. One LIST."""
    return max((item.horizon for item in proposals(store, table, incarnation)), default=0)


def withdraw(store: Store, names: list[str]) -> None:
    """Take proposals back. One DELETE, none for none."""
    if names:
        store.delete(names)


def is_late(store: Store, timestamp: int, delay_seconds: float) -> bool:
    """Whether something stamped so took long enough for an expirer to have passed it. No request.

    By the store's clock, which counts the time that this machine was suspended. Expirers keep twice this
    distance, so that the two may be wrong about that clock by half of it together.
    """
    return store_now_ms(store) - hlc.milliseconds(timestamp) > delay_seconds * 500


def is_dead(session: Session, id: VersionId) -> bool:
    """Whether an expiry has passed a version that was just stored. Theorem: `below_horizon_dead`.

    No request unless that took long; then one LIST, and a refresh if an expiry was proposed meanwhile. Raises
    `CommitUnknown`: it is stored, and nobody knows yet whether it counts.
    """
    store = session.store
    if not is_late(store, id.hlc, session.options.max_commit_delay_seconds):
        return False
    try:
        if greatest(store, session.table, session.settings.incarnation) <= id.hlc:
            return False
        log = session.refresh().state.log
    except StoreError as error:
        raise CommitUnknown(f"{id} is stored, and may have been expired meanwhile: {error}") from error
    if log.horizon > id.hlc:
        return log.index_of(id) < 0
    raise CommitUnknown(
        f"{id}: storing it took so long that an expiry may have passed it by; look for it in history() "
        "once that is done"
    )

"""Short names for snapshots that branches start with, however many have committed to their source.

A snapshot's clock has an entry for every writer, and blind writers are many. But whoever has read the log and
commits says in its version what it had seen, as a difference to another version that said so, and that stays
in the log. So a start names such a version, of upkeep, and what is beyond. Where there is none that had seen
enough, one is written that says nothing else: every writer is named once, not by every branch.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from crdtcat.head import Snapshot
from crdtcat.session import Session

TOKEN_CHARS_MAX: Final = 600  # of a snapshot in a branch's start, which is to be below 1 KB with all else
LOOKED_AT: Final = 8  # versions of upkeep that may have seen most of it: the latest ones


def short_snapshot(session: Session, snapshot: Snapshot) -> Snapshot:
    """The same snapshot of the log that was read last, under a short name.

    No request where its own name, or one beyond a version of upkeep, is short. Else one PUT, of some 10 bytes
    for each writer that no such version had seen, and a refresh. Raises as committing does.
    """
    if len(str(snapshot)) <= TOKEN_CHARS_MAX:
        return snapshot
    shortest = _shortest(session, snapshot)
    if len(str(shortest)) <= TOKEN_CHARS_MAX:
        return shortest
    parent = {"p": shortest.seen_by} if shortest.seen_by else {}
    seen = {**parent, "c": dict(shortest.clock)}
    made = session.commit("compact", body=seen, writer=session.upkeep_writer())
    log = session.refresh().state.log
    return snapshot.beyond(log, log.index_of(made.id))


def _shortest(session: Session, snapshot: Snapshot) -> Snapshot:
    log = session.state.log
    observing = np.flatnonzero(log.is_upkeep & np.asarray(log.clock.is_valid()))
    found = [snapshot, *(snapshot.beyond(log, at) for at in observing[-LOOKED_AT:].tolist())]
    return min(found, key=lambda each: len(each.clock))

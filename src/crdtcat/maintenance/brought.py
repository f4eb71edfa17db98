"""What another catalog has expired, to be taken over by this one: versions, as they were folded there.

That is right where neither side has a commit below the horizon that the other's base passed by. Then the
base to be written here is what an expiry here would have made, had this log had those versions. Upkeep of
both sides counts in it, whoever has expired without it: rows that one side has let go are where its
compactions put them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.log import Log, join, select
from crdtcat.log.horizon import below
from crdtcat.log.order import without_unused
from crdtcat.maintenance.carried import GO_ON
from crdtcat.session import Session


@dataclass(frozen=True)
class Brought:
    """What another catalog has folded below a horizon, to be folded here as it was there.

    Attributes:
        log: the versions that this log lacks, or has without all their places, with places here.
        admitted: the ids of all of them: nothing else below that horizon counts there.
        url: where it comes from, for messages.
    """

    log: Log
    admitted: Array
    url: str

    def over(self, log: Log) -> Log:
        """A log with what is brought, which is not folded there yet."""
        return join(self.log, log).with_(horizon=log.horizon)

    def refusal(self, session: Session, possible: int, horizon: int, held_by: Sequence[str]) -> str:
        """Why it cannot be folded here up to a horizon, or nothing; tags and branches allow `possible`."""
        known, url = session.state.log, session.store.url
        passed = (known.find(self.log.ids) < 0) & (self.log.id_fields["hlc"] < known.horizon)
        passed &= ~self.log.is_upkeep
        if passed.any():
            first = self.log.id_at(int(np.flatnonzero(passed)[0]))
            return (
                f"an expiry of {url} was faster, and passed {int(passed.sum())} versions of {self.url} by, "
                f"the first is {first}"
            )
        ours = below(known, horizon)
        lost = ~np.isin(ours.ids, self.admitted) & ~ours.is_upkeep
        if lost.any():
            first = ours.id_at(int(np.flatnonzero(lost)[0]))
            return (
                f"{int(lost.sum())} versions of {url} lie below the horizon of {self.url}, which does not "
                f"have them, the first is {first} ({GO_ON})"
            )
        if possible < horizon:
            who = ", ".join(held_by[:5])
            return f"{self.url} has expired what {who} of {url} need; delete those, and sync again"
        return self._torn(session, horizon)

    def _torn(self, session: Session, horizon: int) -> str:
        """Why rows would be nowhere, or nothing. A clustering may rest on upkeep of both sides, and have been
        let go by both, for neither had all of it; with all of it, rows would be read from there."""
        log = below(self.over(session.state.log), horizon)
        read = Head(session.table, log, session.settings).rows.chunks_read
        nowhere = np.flatnonzero(read & ~log.is_placed)
        if not len(nowhere):
            return ""
        first = log.id_at(int(log.chunk_version[nowhere[0]]))
        return (
            f"{self.url} and {session.store.url} have both let go of what {first} wrote, of which each now "
            "brings what the other lacked: make one of them anew from the other"
        )


def lacked(folded: Log, session: Session) -> Log:
    """Of what another catalog has folded, the versions that a log lacks, or has without places that it needs;
    with no other places than those it needs. O(versions + chunks), and a fold of both together."""
    known = session.state.log
    both = below(join(folded, known), folded.horizon)
    needed = Head(session.table, both, session.settings).rows.chunks_to_keep & ~_there(both, known)
    kept = _there(folded, both, needed)[folded.place_chunk]
    placed = folded.with_(
        place_chunk=folded.place_chunk[kept],
        place_segment=folded.place_segment[kept],
        place_group=folded.place_group[kept],
    )
    wanted = known.find(folded.ids) < 0
    wanted[folded.chunk_version[placed.place_chunk]] = True
    return select(without_unused(placed), wanted)


def _there(log: Log, other: Log, flags: Array | None = None) -> Array:
    """Per chunk of a log, whether another has it with a flag; if none are given, with a place."""
    there = np.append(other.is_placed if flags is None else flags, False)  # the last: it lacks the version
    version = other.find(log.ids)[log.chunk_version]
    ordinal = np.arange(log.chunk_count) - log.chunk_start[log.chunk_version]
    found: Array = there[np.where(version >= 0, other.chunk_start[version] + ordinal, other.chunk_count)]
    return found

"""What another catalog has expired, to be taken over by this one: versions, as they were folded there.

That is right where neither side has a version below the horizon that the other's base passed by. Then the
base to be written here is what an expiry here would have made, had this log had those versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.log import Log, join
from crdtcat.log.horizon import below
from crdtcat.session import Session


@dataclass(frozen=True)
class Brought:
    """What another catalog has folded below a horizon, to be folded here as it was there.

    Attributes:
        log: the versions that this log lacks, with places here.
        admitted: the ids of all of them: nothing else below that horizon counts there.
        url: where it comes from, for messages.
    """

    log: Log
    admitted: Array
    url: str

    def over(self, log: Log) -> Log:
        """A log with what is brought, which is not folded there yet."""
        return join(log, self.log).with_(horizon=log.horizon)

    def refusal(self, session: Session, possible: int, horizon: int, held_by: Sequence[str]) -> str:
        """Why it cannot be folded here up to a horizon, or nothing; tags and branches allow `possible`."""
        ours, url = below(session.state.log, horizon), session.store.url
        lost = ~np.isin(ours.ids, self.admitted)
        if lost.any():
            first = ours.id_at(int(np.flatnonzero(lost)[0]))
            return (
                f"{int(lost.sum())} versions of {url} lie below the horizon of {self.url}, which does not "
                f"have them, the first is {first}"
            )
        if possible < horizon:
            who = ", ".join(held_by[:5])
            return f"{self.url} has expired what {who} of {url} need; delete those, and sync again"
        return ""

"""What one catalog's log has and another's lacks, as far as it can be carried there.

Commits below the other's horizon cannot: they are dead there. Upkeep below a horizon need not: it changes no
value, and whoever has expired without it reads from elsewhere. So it stays behind, with what rests on it: in
a log that lacks what it folded, a compaction counts for nothing. It travels only with a horizon that is taken
over, where rows may be nowhere else (`crdtcat.maintenance.brought`).

Which versions one transaction brought is not carried: its other tables may not be synced at all, or have
another folder there, and whoever read several tables would wait for the rest of it for ever. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from crdtcat.errors import Expired
from crdtcat.format.ops import decode_ops
from crdtcat.format.sections import Array, blobs
from crdtcat.log import Log, select
from crdtcat.log.gaps import clock_of

GO_ON: Final = "docs/contracts/sync.md says how to go on"
"""What to do about commits that cannot be carried is too long for a message."""


@dataclass(frozen=True, eq=False)
class Carried:
    """What is to be carried.

    Attributes:
        folded: all that the source has folded, where the target lacks a commit of it and has to take over the
            horizon; else nothing.
        others: versions to be published as they are.
        versions: how many of all these the target lacks.
    """

    folded: Log
    others: Log
    versions: int


def carried(theirs: Log, known: Log, url: str) -> Carried:
    """What of `theirs` goes to the log `known`, in the catalog at `url`. Raises `Expired`, naming the first
    commit that cannot be carried. O(versions + chunks), and O(upkeep) in Python where some stays behind."""
    lacking = known.find(theirs.ids) < 0
    commits = lacking & ~theirs.is_upkeep
    passed = commits & (theirs.id_fields["hlc"] < known.horizon)
    if passed.any():
        first = theirs.id_at(int(np.flatnonzero(passed)[0]))
        raise Expired(
            f"{int(passed.sum())} versions lie below the horizon of {url} and cannot be "
            f"carried, the first is {first} ({GO_ON}); nothing of this table was carried that way"
        )
    if (commits & theirs.is_folded).any():
        folded, others = theirs.is_folded, lacking & ~theirs.is_folded
    else:
        folded, others = np.zeros(len(theirs), bool), _founded(theirs, lacking, known.horizon)
    versions = int((lacking & (folded | others)).sum())
    return Carried(_alone(select(theirs, folded)), _alone(select(theirs, others)), versions)


def _alone(log: Log) -> Log:
    return log.with_(transaction=blobs([None] * len(log)))


def _founded(theirs: Log, lacking: Array, horizon: int) -> Array:
    """What is lacking, without upkeep below either horizon, and without what rests on such upkeep."""
    below = theirs.id_fields["hlc"] < max(horizon, theirs.horizon)
    left = lacking & theirs.is_upkeep & below
    if not left.any():
        return lacking
    gone = {theirs.id_at(at).to_bytes() for at in np.flatnonzero(left).tolist()}
    writers = set(theirs.id_fields["writer"][left].tolist())
    for at in np.flatnonzero(lacking & theirs.is_upkeep & ~left).tolist():
        writer = int(theirs.id_fields["writer"][at])
        if writer in writers or not gone.isdisjoint(_rests_on(theirs, at)):
            left[at] = True
            gone.add(theirs.id_at(at).to_bytes())
            writers.add(writer)  # a writer's numbers have no gap: nothing it wrote later is taken either
    founded: Array = lacking & ~left
    return founded


def _rests_on(log: Log, at: int) -> list[bytes]:
    """The ids of what a version of upkeep has folded, and of the version that its clock begins with."""
    id = log.id_at(at)
    found: list[bytes] = []
    if log.ops[at].is_valid:
        folded = decode_ops(log.ops[at].as_py(), id, str(id)).rows.folded
        found += [bytes(row) for row in folded.view("V36")]  # as bytes they would lose zeros at their ends
    if log.clock[at].is_valid:
        parent, _ = clock_of(log.clock[at].as_py(), str(id))
        found += [parent] if parent is not None else []
    return found

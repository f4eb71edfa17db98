"""Merging one branch into another: one bundle, one PUT, everything or nothing.

A version's delta means the same wherever it lies: it is keyed by its id, its clock names versions, its rows
have ids for life. So a merge puts into the target's log a bundle of the versions it lacks, under their own
ids and stamps, and the head does the rest as for any versions that had not seen each other. Nothing is
re-issued, so merging again, from both sides, or by two at once, changes nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from crdtcat.errors import CommitUnknown, Expired, InvalidArgument
from crdtcat.format.kinds import ROWS
from crdtcat.head import Conflict
from crdtcat.horizons import greatest
from crdtcat.log import Log, select
from crdtcat.maintenance.bundling import publish_bundle
from crdtcat.session import Session


@dataclass(frozen=True)
class MergeResult:
    """What a merge brought over.

    Attributes:
        source: the branch merged from.
        target: the branch merged into.
        versions: versions that the target did not have.
        rows: rows those had added.
        bytes: size of the bundle that holds them.
        conflicts: encounters that the target did not list before.
        seconds: how long it took.
    """

    source: str
    target: str
    versions: int = 0
    rows: int = 0
    bytes: int = 0
    conflicts: tuple[Conflict, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.versions:
            return f"merge: {self.target} has everything that {self.source} has"
        summary = (
            f"merge: {self.versions:,} versions that added {self.rows:,} rows came from {self.source} to "
            f"{self.target} in one bundle of {self.bytes:,} bytes, {len(self.conflicts)} conflicts, "
            f"in {self.seconds:.2f} s"
        )
        more = ["..."] if len(self.conflicts) > 20 else []
        return "\n".join([summary, *map(str, self.conflicts[:20]), *more])


def merge(target: Session, source: Session) -> MergeResult:
    """Bring every version of `source` that `target` lacks into its log.

    Costs a refresh of both, then 1 PUT, and one before it for each segment of rows that were inlined; then a
    refresh to list the conflicts. Safe beside any number of readers, writers, bundlers and mergers.

    Raises:
        InvalidArgument: the table is in CAS mode.
        NotFound: the target or the source was dropped or deleted.
        StoreUnavailable: nothing was merged, or nobody knows; merge again, it counts once.
    """
    if target.settings.mode == "cas":
        raise InvalidArgument(
            f"table {target.table!r} is in CAS mode, where history is one line: merge needs merge mode"
        )
    began = time.monotonic()
    theirs = source.head().log  # first: what reaches the target meanwhile need not be carried
    before = target.head()
    carried = select(theirs, before.log.find(theirs.ids) < 0)
    result = MergeResult(source.branch, target.branch)
    if not len(carried):
        return replace(result, seconds=time.monotonic() - began)
    target.require_not_dropped()
    _require_above(target, source, carried)
    published = publish_bundle(target, carried, (), ())
    after = target.head()
    if target.source is None:
        require_counted(target, carried)
    known = set(before.conflicts)
    return replace(
        result,
        versions=len(carried),
        rows=int(carried.rows[carried.kind == ROWS].sum(dtype=np.uint64)),
        bytes=published.bytes,
        conflicts=tuple(item for item in after.conflicts if item not in known),
        seconds=time.monotonic() - began,
    )


def _require_above(target: Session, source: Session, carried: Log) -> None:
    """What a horizon has passed cannot be carried, and is named. Raises `Expired`."""
    horizon = target.state.log.horizon if target.state.base else 0
    passed = carried.is_folded | (carried.id_fields["hlc"] < horizon)
    if passed.any():
        first = carried.id_at(int(np.flatnonzero(passed)[0]))
        raise Expired(
            f"merge of {source.branch!r} into {target.branch!r}: {int(passed.sum())} versions lie below a "
            f"horizon and cannot be carried over, the first is {first}; nothing was merged"
        )


def require_counted(target: Session, carried: Log) -> None:
    """Whether what was put into a log counts there: an expiry that ran beside it may have passed it by.

    One LIST, and a refresh if an expiry was proposed above it. Raises `Expired`, `CommitUnknown`.
    """
    least = int(carried.id_fields["hlc"].min())
    if greatest(target.store, target.table, target.settings.incarnation) <= least:
        return
    log = target.refresh().state.log
    lost = log.find(carried.ids) < 0
    if lost.any():
        first = carried.id_at(int(np.flatnonzero(lost)[0]))
        raise Expired(f"an expiry passed {int(lost.sum())} of these versions by, the first is {first}")
    if log.horizon <= least:
        raise CommitUnknown(
            "an expiry is under way that may pass these versions by; repeat it when that is done"
        )

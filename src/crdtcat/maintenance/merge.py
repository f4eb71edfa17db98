"""Merging one branch into another: one bundle, one PUT, everything or nothing.

A version's delta means the same wherever it lies: it is keyed by its id, its clock names versions, its rows
have ids for life. So a merge puts into the target's log a bundle of the versions it lacks, under their own
ids and stamps, and the head does the rest as for any versions that had not seen each other. Nothing is
re-issued, so merging again, from both sides, or by two at once, changes nothing. In CAS mode history is one
line, and a merge is a commit: `crdtcat.maintenance.merge_strict`.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import CommitUnknown, Expired, InvalidArgument, StoreError
from crdtcat.format.kinds import ROWS
from crdtcat.lifecycle.closing import require_settled
from crdtcat.lifecycle.horizons import greatest
from crdtcat.log import Log, select
from crdtcat.log.gaps import require
from crdtcat.maintenance.bundling import publish_bundle
from crdtcat.maintenance.merge_result import MergeResult
from crdtcat.maintenance.merge_strict import is_strict, merge_strict
from crdtcat.session import Session
from crdtcat.writing.staged import require_in_time


def merge(target: Session, source: Session) -> MergeResult:
    """Bring every version of `source` that `target` lacks into its log; in CAS mode as `merge_strict` says.

    Theorem: `strong_eventual_consistency`.

    Costs a refresh of both, then 1 PUT, and one before it for each segment of rows that were inlined; then a
    refresh to list the conflicts. Safe beside any number of readers, writers, bundlers and mergers.

    Raises:
        InvalidArgument: the branch has commits of CAS mode, and the target is in merge mode; or a part of a
            transaction that changed the target, too, which none does any more.
        LimitExceeded: it took so long that what it refers to may be garbage by now; nothing was merged.
        NotFound: the target or the source was dropped or deleted.
        StoreUnavailable: nothing was merged, or nobody knows; merge again, it counts once.
    """
    if is_strict(target):
        return merge_strict(target, source)
    began, since_ms = time.monotonic(), wall_ms()
    theirs = source.head().log  # first: what reaches the target meanwhile need not be carried
    require_settled(source)
    before = target.head()
    if is_strict(target):  # switched since this handle listed
        return merge_strict(target, source)
    carried = founded(select(theirs, before.log.find(theirs.ids) < 0), before.log)
    result = MergeResult(source.branch, target.branch, keyed=bool(target.settings.key))
    if carried.number.any():
        raise InvalidArgument(f"branch {source.branch!r} has commits of CAS mode: only merge mode is merged")
    if not len(carried):
        return replace(result, seconds=time.monotonic() - began)
    target.require_not_dropped()
    _require_above(target, source, carried)
    _require_apart(target, source, carried)
    require_in_time(since_ms)
    published = publish_bundle(target, carried)
    try:
        after = target.head()
        if target.source is None:
            require_counted(target, carried)
    except StoreError as error:
        raise CommitUnknown(
            f"the merge of branch {source.branch!r} is stored, and the store could not be asked whether it "
            f"counts: repeat it ({error})"
        ) from error
    known = set(before.conflicts)
    return replace(
        result,
        versions=len(carried),
        rows=int(carried.rows[carried.kind == ROWS].sum(dtype=np.uint64)),
        bytes=published.bytes,
        conflicts=tuple(item for item in after.conflicts if item not in known),
        seconds=time.monotonic() - began,
    )


def founded(carried: Log, known: Log) -> Log:
    """What is carried, without upkeep that had seen versions which are in neither log.

    A branch starts with its source's upkeep, which may be younger than what it starts with. It changes no
    value, so it can stay behind; in a log without what it had seen, readers would take that for lost.
    """
    if not (carried.is_upkeep & np.asarray(carried.clock.is_valid())).any():
        return carried
    latest: dict[int, int] = {}
    for log in (known, carried):
        fields = log.id_fields[~log.is_upkeep]
        for writer, seq in zip(fields["writer"].tolist(), fields["seq"].tolist(), strict=True):
            latest[writer] = max(latest.get(writer, 0), seq)
    unfounded: set[int] = set()
    for at in np.flatnonzero(carried.is_upkeep).tolist():
        needs: dict[int, int] = {}
        require(needs, select(carried, np.arange(len(carried)) == at), "clock")
        if any(latest.get(writer, 0) < seq for writer, seq in needs.items()):
            unfounded.add(carried.id_at(at).writer)  # all of it: its numbers must have no gap
    kept = ~np.isin(carried.id_fields["writer"], np.array([*unfounded], np.uint64))
    return select(carried, kept | ~carried.is_upkeep)


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


def _require_apart(target: Session, source: Session, carried: Log) -> None:
    """One writer makes one transaction, and counts in each log: a target that was changed by the same one has
    other versions under these numbers, and readers could not tell one from the other. Transactions change one
    branch of a table, but there may be older ones. Raises `InvalidArgument`."""
    parts = carried.id_fields[np.asarray(carried.transaction.is_valid())]
    known = target.state.log.id_fields
    own = known[np.isin(known["writer"].astype(np.uint64), parts["writer"].astype(np.uint64))]
    numbers = set(zip(parts["writer"].tolist(), parts["seq"].tolist(), strict=True))
    for number in zip(own["writer"].tolist(), own["seq"].tolist(), strict=True):
        if number in numbers:
            raise InvalidArgument(
                f"merge of {source.branch!r} into {target.branch!r}: transaction {number[0]:016x} changed "
                "both, under the same numbers, as none does any more; nothing was merged: write() what is to "
                "be kept"
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

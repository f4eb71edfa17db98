"""Merging a branch of a strict table: its commits are made again under one number, if nothing is in the way.

History is one line, and every commit was told of everything below its number. So versions of a branch cannot
come in under their own ids, which sort into the past: they are stamped anew, in their order, and held against
every commit that the target has and they had not seen, as any commit is that was moved past others. One
claim has them all, and counts once its decision is there.

Each says which version it repeats, its *origin*. So whoever merges again, or merges a branch of that branch,
knows what the target has, and under which name: wherever a version that is carried names one that the target
has under another id, it gets that id instead. Two who merge the same at once find out when the second meets
the claim of the first, and begin again.

What a branch had read is not looked at, only what it wrote; what the merging handle has read is, as always,
if its isolation is serializable. Upkeep of the branch stays behind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from crdtcat.cas.changes import judged_by
from crdtcat.cas.claiming import Committing
from crdtcat.cas.cold_claims import newest
from crdtcat.cas.key_reading import key_reader
from crdtcat.cas.preparing import (
    Prepared,
    Superseded,
    Switched,
    TransactionChange,
    commit_prepared,
    transaction_slot,
)
from crdtcat.cas.reading import Note, asked_of
from crdtcat.cas.seen_rows import SeenRows
from crdtcat.cas.telling import tell_rest
from crdtcat.clock.hlc import wall_ms
from crdtcat.conflicts.resolve import Policy
from crdtcat.drive import elapsed_clock
from crdtcat.errors import (
    CommitConflict,
    CommitContended,
    CommitUnknown,
    Expired,
    InvalidArgument,
    StoreError,
)
from crdtcat.format.kinds import ROWS
from crdtcat.format.ops import origin_of, with_origin
from crdtcat.format.sections import Array
from crdtcat.format.version import TO_CAS, TO_MERGE, encode_version
from crdtcat.head import Head
from crdtcat.log import Log, select
from crdtcat.log.bodies import bodies_of
from crdtcat.maintenance.merge_result import MergeResult
from crdtcat.protocol.claimer import Verdict
from crdtcat.session import Session
from crdtcat.writing.restamp import StagedVersion, renamed
from crdtcat.writing.staged import require_in_time


class Pinned(NamedTuple):
    """A branch as a merge found it, and when: after too long its rows may be garbage.

    Attributes:
        head: the branch.
        since_ms: when it was read.
        notes: what the merging handle had read by then, where that counts.
    """

    head: Head
    since_ms: int
    notes: list[Note]


@dataclass(frozen=True, eq=False)
class MergedChange(TransactionChange):
    """What a merge commits.

    Attributes:
        places: per version, its place in the branch's log.
        seen: by origin, the place in the branch's log of every version that the branch has.
        origins: of the versions themselves.
    """

    places: tuple[int, ...] = ()
    seen: Mapping[bytes, int] = field(default_factory=dict)
    origins: frozenset[bytes] = frozenset()

    patchable: ClassVar[bool] = False  # its versions repeat others: they stand as they are, or all fail

    def judged_in(self, log: Log, index: int) -> Verdict:
        """A version of the target: nothing to those that had seen it. Raises `Superseded`: it is one of them,
        merged by somebody else."""
        origin = origins(log)[index : index + 1].tobytes()
        if origin in self.origins:
            raise Superseded
        place = self.seen.get(origin, len(self.seen))
        unaware = [mine for at, mine in zip(self.places, self.writes, strict=True) if at < place]
        return judged_by(self, unaware, log, index)


def merge_strict(
    target: Session, source: Session, on_conflict: Any = None, pinned: Pinned | None = None
) -> MergeResult:
    """Commit what a branch has and the target lacks, under the target's next number. Theorems:
    `repeat_is_union`, `repeat_once`, `repeat_again`, `repeat_extends`; of what is in nobody's way
    `line_any_order`.

    Costs a refresh of both, 2 PUTs, and a refresh; more where others commit meanwhile, as any commit.
    `on_conflict`: instead of what the target's options say. `pinned`: for another try, the branch as the
    first one found it; it may have gone on, or be deleted.

    Raises:
        CommitConflict: a commit that the branch has not seen touched the same, and the policy says to fail;
            nothing was merged.
        CommitContended: others were faster too often, or aborted it after `lease_seconds`; nothing was
            merged.
        CommitUnknown: the store gave no clear answer; merge again, it counts once.
        Expired: what the branch has was folded; nothing was merged.
        InvalidArgument: the branch is in merge mode, or was switched.
        LimitExceeded: the versions do not fit into one file: `checkpoint()` the branch, so that their rows
            are in segments; or it took so long that their rows may be garbage.
        NotFound: the target or the source was dropped or deleted.
    """
    began, since_ms = time.monotonic(), wall_ms()
    pinned = pinned or Pinned(source.head(), since_ms, target.notes.all())
    policy = Policy.of(target.options.on_conflict if on_conflict is None else on_conflict)
    try:
        done = _repeated(target, source, pinned, policy)
    except CommitConflict as error:
        error.again = lambda answers: merge_strict(target, source, policy.amended(answers), pinned)
        tell_rest(error, target, error.sides[0].seen)
        raise
    finally:
        target.notes.forget()  # what was read for it
    return replace(done, seconds=time.monotonic() - began)


def _repeated(target: Session, source: Session, pinned: Pinned, policy: Policy) -> MergeResult:
    """Merge; again, where others merged some of it meanwhile."""
    for _ in range(target.options.retries + 1):
        try:
            return _merged(target, source, pinned, policy)
        except Superseded:
            continue
        except Switched as error:
            error.session.refresh()  # or dropped: it says so
            raise CommitContended(
                f"table {target.table!r} is in another mode by now; nothing was merged: repeat it"
            ) from error
    raise CommitContended(f"others merged branch {source.branch!r} again and again meanwhile: repeat it")


def is_strict(session: Session) -> bool:
    """Whether a branch is in CAS mode, as far as its handle knows. No request."""
    return session.settings.mode == "cas"


def origins(log: Log) -> Array:
    """Per version, the one that it repeats, else itself. O(versions of transactions)."""
    found = log.ids.copy()
    for at in np.flatnonzero(
        np.asarray(log.transaction.is_valid()) & np.asarray(log.ops.is_valid())
    ).tolist():
        origin = origin_of(log.ops[at].as_py(), str(log.id_at(at)))
        if origin is not None:
            found[at] = origin
    return found


def _merged(target: Session, source: Session, pinned: Pinned, policy: Policy) -> MergeResult:
    theirs, known_at = pinned.head, elapsed_clock()
    before = target.head()
    target.require_not_dropped()
    if not is_strict(target):
        raise Switched(target)
    if not is_strict(source):
        raise InvalidArgument(
            f"branch {source.branch!r} is in merge mode, and table {target.table!r} in CAS mode: "
            'switch_mode("cas") the branch before it goes its own way'
        )
    named, known = origins(theirs.log), origins(before.log)
    lacking = ~np.isin(named, known) & theirs.folded.standing & ~theirs.log.is_upkeep
    result = MergeResult(source.branch, target.branch, keyed=bool(target.settings.key))
    if not lacking.any():
        return result
    carried = select(theirs.log, lacking)
    _require_carriable(source, carried)
    require_in_time(pinned.since_ms)
    slot, notes = transaction_slot(target), pinned.notes
    staged = _again(carried, named[lacking], _names(theirs.log, before.log, named, known), target.folder)
    common, base = (
        Head(target.table, select(before.log, np.isin(known, some)), target.settings)
        for some in (named, named[: int(np.argmax(lacking))])
    )
    change = MergedChange(
        target.folder, {}, {}, slot, policy, keys=target.settings.key,
        asked=asked_of(target, before.log, notes), key_reader=key_reader(target),
        staged=staged, folders=(target.folder,), seen_rows=SeenRows(base, births=common),
        places=tuple(np.flatnonzero(lacking).tolist()),
        seen={named[at : at + 1].tobytes(): at for at in range(len(named))},
        origins=frozenset(named[at : at + 1].tobytes() for at in np.flatnonzero(lacking).tolist()),
    )  # fmt: skip
    work = Committing(target, slot, common)
    commits = before.folded.standing & ~before.log.is_upkeep
    commits &= ~np.isin(before.log.operation, (TO_CAS, TO_MERGE))
    work.require_unchanged(change, notes, before.log)
    settled = work.judged(change, before.log, np.flatnonzero(commits).tolist())
    assert isinstance(settled, MergedChange)
    commit_prepared(target.store, slot, [Prepared(work, settled, newest(before.log), known_at)])
    assert work.step is not None
    try:
        after = target.head()
    except StoreError as error:
        raise CommitUnknown(
            f"the merge of branch {source.branch!r} is stored, under number {work.claimed}, and the store "
            f"could not be asked what it met: repeat it, it counts once ({error.args[0]})"
        ) from error
    listed = set(before.conflicts)
    return replace(
        result,
        versions=len(carried),
        rows=int(carried.rows[carried.kind == ROWS].sum(dtype=np.uint64)),
        bytes=len(work.step.data),
        conflicts=tuple(item for item in after.conflicts if item not in listed),
    )


def _require_carriable(source: Session, carried: Log) -> None:
    if np.isin(carried.operation, (TO_CAS, TO_MERGE)).any():
        raise InvalidArgument(
            f"branch {source.branch!r} was switched to another mode since it began: only a branch that was "
            "in CAS mode all the time is merged into a table in CAS mode"
        )
    if carried.is_folded.any():
        first = carried.id_at(int(np.flatnonzero(carried.is_folded)[0]))
        raise Expired(
            f"merge of {source.branch!r}: {int(carried.is_folded.sum())} versions lie below a horizon and "
            f"cannot be carried over, the first is {first}; nothing was merged"
        )


def _names(theirs: Log, mine: Log, named: Array, known: Array) -> dict[bytes, bytes]:
    """By its id in the branch, the target's id of everything that both have under ids of their own."""
    order = np.argsort(known)
    first = np.searchsorted(known, named, sorter=order)
    here = np.flatnonzero(np.isin(named, known))
    at = order[first[here]]
    pairs = zip(here.tolist(), at.tolist(), (mine.ids[at] != theirs.ids[here]).tolist(), strict=True)
    return {theirs.id_at(i).to_bytes(): mine.id_at(j).to_bytes() for i, j, differ in pairs if differ}


def _again(
    carried: Log, named: Array, names: Mapping[bytes, bytes], folder: str
) -> tuple[StagedVersion, ...]:
    """Versions as they are to be committed to another log: each says which one it repeats."""
    made = []
    for at, body in enumerate(bodies_of(carried)):
        id, origin = carried.id_at(at), named[at : at + 1].tobytes()
        body["x"] = with_origin(renamed(body.get("x"), names), origin, str(id))
        body["f"] = renamed(body.get("f"), names)
        _, data = encode_version({**body, "l": folder, "h": id.hlc, "w": id.writer, "s": id.seq})
        made.append(StagedVersion(id, data))  # by the name that those after it have for it
    return tuple(made)

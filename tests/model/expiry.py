"""The reference model, part 10: snapshots, expiry, and exchange between logs.

The model's base keeps every admitted version and hides it from history; fast code folds them, and must read
the same. What this file adds is who is admitted, and what happens to those who are not.

Decisions:
- A snapshot is a clock. Reading it takes the data versions in the clock, and the compactions that folded
  nothing else; compactions are invisible, so taking fewer would read the same.
- A snapshot that lacks something a base admitted is below the horizon: `Expired`.
- A re-issued version is a new commit: new id, new stamps, the old id as idempotency key beside the keys it
  had, and the row ids it had. So whatever deleted or rewrote its rows elsewhere still finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from crdtcat.clock import VectorClock, VersionId
from crdtcat.errors import Expired
from tests.model.standing import view
from tests.model.versions import Base, State, Version


def at(state: State, clock: VectorClock) -> State:
    """The snapshot `clock` of a state: the same for ever, whatever arrives later."""
    admitted = {version for base in state.bases for version in base.admitted}
    missing = [v for v in admitted if v.compaction is None and not clock.saw(v.id.writer, v.id.seq)]
    if missing:
        raise Expired(f"the snapshot is below the horizon: it lacks {len(missing)} versions the base folded")
    chosen = {
        version
        for version in state.versions
        if version.compaction is None and clock.saw(version.id.writer, version.id.seq)
    }
    known = {version.id for version in chosen | admitted}
    for version in sorted(state.versions, key=lambda version: version.id):
        if version.compaction is not None and version.compaction.folded <= known:
            chosen.add(version)
            known.add(version.id)
    return State(frozenset(chosen), state.bases)


def resolve(state: State, timestamp: int) -> VectorClock:
    """The token for a moment, resolved once: what of the known versions is not later than it."""
    seen: dict[int, int] = {}
    for version in view(state).data:
        if version.id.hlc <= timestamp:
            seen[version.id.writer] = max(seen.get(version.id.writer, 0), version.id.seq)
    return VectorClock(seen)


def expire(state: State, horizon: int, *, keys_forgotten_below: int = 0) -> State:
    """Fold what is below the horizon into a base. `state` is what was listed *after* proposing it."""
    judged = view(state)
    below = frozenset(
        version
        for version in (*judged.data, *judged.compactions)
        if version.id.hlc < horizon or version.id in judged.expired
    )
    base = Base(horizon, below, keys_forgotten_below)
    return State(state.versions - below, state.bases | {base})


def is_dead(state: State, version: Version) -> bool:
    """Whether a base passed this version by."""
    horizon = max((base.horizon for base in state.bases), default=0)
    return version.id.hlc < horizon and not any(version in base.admitted for base in state.bases)


def reissue(version: Version, new_id: VersionId) -> Version:
    """The same delta as a new commit, for a log whose horizon has passed the old one."""
    adds = tuple(replace(chunk, tag=version.tag(index)) for index, chunk in enumerate(version.adds))
    clock = version.clock.merge(VectorClock({new_id.writer: new_id.seq}))
    return replace(version, id=new_id, clock=clock, adds=adds, keys=version.keys | {str(version.id)})


def sync(target: State, source: State, next_id: Callable[[], VersionId]) -> State:
    """Bring everything of `source` into `target`; what `target`'s horizon has passed is re-issued."""
    merged = State(target.versions | source.versions, target.bases)
    judged = view(source)
    for version in judged.data:
        if version.id in {known.id for known in view(merged).data}:
            continue
        if is_dead(target, version):
            merged = merged.join(State(frozenset({reissue(version, next_id())})))
        else:
            merged = merged.join(State(frozenset({version})))
    return State(frozenset(v for v in merged.versions if not is_dead(merged, v)), merged.bases)

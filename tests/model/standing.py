"""The reference model, part 2: which versions count (rules 6 and 7, and expiry).

Decisions:
- Bases join as (greatest horizon, union of what was admitted): what one base admitted, no other makes dead.
- Versions are judged in id order: one is void if a standing version before it holds one of its keys. A void
  version holds no key against others.
- A stream's batch is void if a base admitted that batch or a later one of the same query.
- A compaction stands when every version it folded is there and stands. So a compaction never shows a row
  whose author is unknown, void or dead, and never hides one whose deleter turned out void: in every state,
  with every subset of the versions, reading through compactions equals reading without them.
- Compactions are no part of history, counts, clock or snapshot: the root hash is all they change.
"""

from __future__ import annotations

from dataclasses import dataclass

from crdtcat.clock import VectorClock, VersionId
from tests.model.versions import State, Version


@dataclass(frozen=True)
class View:
    """A state, judged. All tuples are in id order."""

    data: tuple[Version, ...]  # every data version that is not dead, void ones too
    standing: tuple[Version, ...]  # data versions that count
    compactions: tuple[Version, ...]  # compactions that count
    expired: frozenset[VersionId]  # folded into a base: they count, and are not listed

    @property
    def history(self) -> tuple[VersionId, ...]:
        return tuple(version.id for version in self.standing if version.id not in self.expired)

    @property
    def snapshot(self) -> frozenset[VersionId]:
        """What was merged. Fast code uses a hash of this set; the model uses the set."""
        return frozenset(version.id for version in self.data)

    @property
    def clock(self) -> VectorClock:
        merged: dict[int, int] = {}
        for version in self.data:
            merged[version.id.writer] = max(merged.get(version.id.writer, 0), version.id.seq)
        return VectorClock(merged)

    def by_id(self) -> dict[VersionId, Version]:
        return {version.id: version for version in self.standing}


def view(state: State) -> View:
    """Judge every version: dead, void or standing."""
    horizon = max((base.horizon for base in state.bases), default=0)
    forgotten = max((base.keys_forgotten_below for base in state.bases), default=0)
    admitted = frozenset(version for base in state.bases for version in base.admitted)
    alive = sorted(
        (
            version
            for version in state.versions | admitted
            if version in admitted or version.id.hlc >= horizon
        ),
        key=lambda version: version.id,
    )
    data = [version for version in alive if version.compaction is None]
    standing = [version for version in data if version in admitted]
    standing = _settle(standing, taken={}, last_batch={})
    taken = {key: version.id for version in standing if version.id.hlc >= forgotten for key in version.keys}
    last_batch: dict[str, int] = {}
    for version in standing:
        if version.stream is not None:
            query, batch = version.stream
            last_batch[query] = max(batch, last_batch.get(query, batch))
    standing += _settle([version for version in data if version not in admitted], taken, last_batch)

    counted = {version.id for version in standing}
    compactions = []
    for version in alive:
        if version.compaction is not None and version.compaction.folded <= counted:
            compactions.append(version)
            counted.add(version.id)
    expired = frozenset(version.id for version in admitted)
    return View(tuple(data), tuple(standing), tuple(compactions), expired)


def _settle(
    versions: list[Version], taken: dict[str, VersionId], last_batch: dict[str, int]
) -> list[Version]:
    """Of those with one key, the first in id order stands. `taken` and `last_batch` come from the base."""
    standing = []
    taken = dict(taken)
    batches: set[tuple[str, int]] = set()
    for version in versions:
        if any(key in taken for key in version.keys):
            continue
        if version.stream is not None:
            query, batch = version.stream
            if version.stream in batches or batch <= last_batch.get(query, batch - 1):
                continue
            batches.add(version.stream)
        taken.update(dict.fromkeys(version.keys, version.id))
        standing.append(version)
    return standing

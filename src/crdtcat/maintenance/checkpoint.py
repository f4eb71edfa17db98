"""Bundling: many small files into few, so that a cold start stays cheap.

Bundles form a log-structured merge. A new bundle takes in all versions that no bundle covers, then, from the
smallest up, every bundle that is less than `RATIO` times what has been gathered so far. Each bundle left is
then at least `RATIO` times the next, so there are at most log base RATIO of n of them: under 2 log8 n. A
version is copied each time its bundle is taken in, O(log n) times in all.

Nobody decides who bundles. Two that bundle the same versions at once publish two bundles; coverage is an
exact set of ids, so a reader of both has every version once, and the next bundle takes in both. A bundle of
`BUNDLE_VERSIONS_MAX` is left alone: that bounds memory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import numpy as np
from blake3 import blake3

from crdtcat.drive import run
from crdtcat.errors import StoreUnavailable
from crdtcat.format.sections import Array
from crdtcat.log import Log, State, encode_bundle, select
from crdtcat.protocol import Outcome, Publish, Put, bundle_name, bundle_rank, is_bundle
from crdtcat.session import Session
from crdtcat.writing.inlined import moved_to_segments

RATIO: Final = 3
BUNDLE_VERSIONS_MAX: Final = 1_000_000
INLINE_BYTES_AT_ONCE: Final = 64 * 2**20  # rows moved to segments in one go: bounds memory


@dataclass(frozen=True)
class CheckpointResult:
    """What a checkpoint did.

    Attributes:
        versions: versions in the new bundle; 0 where there was nothing to do.
        newly_covered: how many of them no bundle covered before.
        replaced: bundles it takes the place of.
        bytes: its size.
        segments: segments written for rows that had been inlined.
        name: the new bundle's name.
        seconds: how long it took.
    """

    versions: int = 0
    newly_covered: int = 0
    replaced: int = 0
    bytes: int = 0
    segments: int = 0
    name: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.versions:
            return "checkpoint: every version is in a bundle already"
        return (
            f"checkpoint: {self.versions:,} versions in one bundle of {self.bytes:,} bytes "
            f"({self.newly_covered:,} newly covered, {self.replaced} bundles replaced, "
            f"{self.segments} segments written) in {self.seconds:.2f} s"
        )


def checkpoint(session: Session, *, at_least: int = 1) -> CheckpointResult:
    """Bundle what is not bundled. Costs a refresh, one GET per live bundle, and 1 PUT, or 2 where rows were
    inlined; nothing where fewer than `at_least` versions wait.

    Raises:
        StoreUnavailable: nothing was published, or nobody knows; either way nothing is lost.
    """
    began = time.monotonic()
    reader = session.refresh()
    listed = [item.name for item in reader.listing if is_bundle(item.name)]
    live = _coverage(session, reader.state, listed)
    log = reader.state.log
    covered = np.zeros(len(log), bool)
    for bundle in live:
        covered |= bundle.covers
    waiting = _bounded(log, ~covered)
    if int(waiting.sum()) < at_least:
        return CheckpointResult(seconds=time.monotonic() - began)
    taken, chosen = _taken_in(live, waiting)
    moved = moved_to_segments(select(log, chosen))
    gone = {name for bundle in taken for name in (bundle.name, *bundle.replaces)}
    data = encode_bundle(moved.log, session.folder, sorted(gone & set(listed)))
    rank = 1 + max((bundle_rank(bundle.name) for bundle in taken), default=0)
    name = bundle_name(session.folder, rank, blake3(data).digest(length=16))
    outcome = run(Publish((*moved.puts, Put(name, data))), session.store).outcome
    if outcome is not Outcome.DONE:
        raise StoreUnavailable(f"{name}: the bundle could not be stored; nothing is lost, try again later")
    return CheckpointResult(
        versions=int(chosen.sum()),
        newly_covered=int(waiting.sum()),
        replaced=len(taken),
        bytes=len(data),
        segments=len(moved.puts),
        name=name,
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True, eq=False)
class _Live:
    """A bundle that no other replaces: which versions of the state it covers, and what it replaced."""

    name: str
    covers: Array
    replaces: frozenset[str]

    @property
    def size(self) -> int:
        return int(self.covers.sum())


def _coverage(session: Session, state: State, listed: list[str]) -> list[_Live]:
    live = [name for name in listed if name not in state.replaced]
    found = []
    for name, data in zip(live, session.store.get_many([(name, 0, None) for name in live]), strict=True):
        if data is None:
            continue  # collected since: a bundle of higher rank covers it, and will be taken in next time
        bundle = state.read((name, data))
        covers = np.zeros(len(state.log), bool)
        covers[state.log.find(bundle.log.ids)] = True
        found.append(_Live(name, covers, bundle.replaces))
    return found


def _bounded(log: Log, waiting: Array) -> Array:
    """As many waiting versions, from the oldest on, as fit in memory with their inlined rows."""
    waiting = waiting.copy()
    waiting[np.flatnonzero(waiting)[BUNDLE_VERSIONS_MAX:]] = False
    if log.inline:
        sizes = np.zeros(len(log), np.int64)
        at = log.find(np.array([id for id, _ in log.inline], log.ids.dtype))
        np.add.at(sizes, at, [len(data) for data in log.inline.values()])
        waiting &= np.cumsum(np.where(waiting, sizes, 0)) <= max(INLINE_BYTES_AT_ONCE, int(sizes.max()))
    return waiting


def _taken_in(live: list[_Live], waiting: Array) -> tuple[list[_Live], Array]:
    chosen = waiting.copy()
    taken: list[_Live] = []
    for bundle in sorted(live, key=lambda bundle: (bundle.size, bundle.name)):
        gathered, both = int(chosen.sum()), chosen | bundle.covers
        if bundle.size >= RATIO * gathered or int(both.sum()) > BUNDLE_VERSIONS_MAX:
            break
        taken.append(bundle)
        chosen = both
    return taken, chosen

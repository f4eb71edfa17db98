"""Bundling everything that is not in a bundle yet, from a full view of the log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from crdtcat.cas.cold_claims import write_hint
from crdtcat.drive import Unclear, run
from crdtcat.format.sections import Array
from crdtcat.lifecycle.closing import require_settled
from crdtcat.log import Log, State, Summary, select
from crdtcat.log.files import ids_of
from crdtcat.maintenance.bundling import (
    INLINE_BYTES_AT_ONCE,
    CheckpointResult,
    FilesPlan,
    made_bundle,
    result_of,
)
from crdtcat.protocol import is_base, is_bundle, is_version
from crdtcat.protocol.bundler import (
    BUNDLE_VERSIONS_MAX,
    Bundler,
    Made,
    live_bundles,
    replaced_by,
    taken_in,
)
from crdtcat.session import Session
from crdtcat.support.object_bytes import ObjectBytes

BLOCK_VERSIONS: Final = 4096  # version files bundled by one task


def unbundled(session: Session) -> list[list[str]]:
    """Version files that no bundle covers, in blocks, by rising id. A listing, and one GET per live bundle.

    Blocks are bounded by bytes, too: rows may be inlined. For a log in merge mode.
    """
    listed = list(session.store.list(session.folder))
    session.check_not_dropped([item.name for item in listed])
    versions = [item for item in listed if is_version(item.name)]
    state = State(session.folder)
    names = [item.name for item in listed if is_bundle(item.name)]
    covered: set[bytes] = set()
    for name, data in zip(names, session.store.get_many([(name, 0, None) for name in names]), strict=True):
        if data is not None:
            covered.update(state.read((name, data)).log.ids.tolist())
    blocks: list[list[str]] = [[]]
    size = 0
    ids = ids_of([item.name for item in versions])
    for item, id in zip(versions, ids.tolist(), strict=True):
        if id in covered:
            continue
        if len(blocks[-1]) == BLOCK_VERSIONS or size + item.size > INLINE_BYTES_AT_ONCE:
            blocks.append([])
            size = 0
        blocks[-1].append(item.name)
        size += item.size
    return [block for block in blocks if block]


def bundle_files(session: Session, names: Sequence[str]) -> CheckpointResult:
    """Bundle some version files, and nothing else. One GET for each, and 1 PUT, or 2 where rows were inlined.

    Files that are gone were collected, so a bundle covers them. Raises `StoreUnavailable`.
    """
    unclear: Unclear = {}
    step = Bundler.begin(FilesPlan(session.folder, tuple(names)))
    return result_of(run(step, session.store, unclear=unclear), unclear)


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """Bundle whatever no bundle has, from a full view. Implements `crdtcat.protocol.bundler.Plan`.

    Attributes:
        state: a state that holds everything listed.
        listed: the names that its reader listed.
        start: for a branch, the versions that it starts with: they lie in its source's log.
        made_for_it: bundles to take in, however large they are.
        at_once: how many files to ask for at a time.
    """

    state: State
    listed: tuple[str, ...]
    start: Log | None = None
    made_for_it: tuple[str, ...] = ()
    at_once: int = 2**31

    def wanted(self, files: Sequence[tuple[str, ObjectBytes]]) -> Sequence[str]:
        """Every bundle that no other replaces, read back; a base is never taken in."""
        del files
        bundles = [name for name in self.listed if is_bundle(name) and not is_base(name)]
        return [name for name in bundles if name not in self.state.replaced]

    def made(self, files: Sequence[tuple[str, ObjectBytes]], *, old: bool) -> Made | None:
        """What waits, with the bundles that are chosen to be taken in. A bundle that is gone was collected:
        one of higher rank covers it, and will be taken in next time. What is decided is in the state."""
        del old
        log = self.state.log
        covers: dict[str, Array] = {}
        summaries: dict[str, Summary] = {}
        for name, data in files:
            bundle = self.state.read((name, data))
            found = log.find(bundle.log.ids)
            found = found[found >= 0]  # some may be dead below the horizon
            covers[name] = found[~log.is_folded[found]]  # a base has these, without the chunks it let go
            summaries[name] = Summary(len(bundle.log), b"", b"", bundle.replaces)
        waiting = self._waiting(covers.values())
        fresh = int(waiting.sum())
        live = live_bundles(summaries)
        taken = []
        for name in self.made_for_it:
            if name in live and fresh + live[name].versions <= BUNDLE_VERSIONS_MAX:
                fresh += live[name].versions
                taken.append(name)
        if not fresh:
            return None
        taken += taken_in({name: one for name, one in live.items() if name not in taken}, fresh)
        for name in taken:
            waiting[covers[name]] = True
        replaces = replaced_by(taken, live, self.listed)
        return made_bundle(self.state.folder, select(log, waiting), replaces, taken, fresh)

    def _waiting(self, covers: Iterable[Array]) -> Array:
        """Per version, whether it is to be bundled: no bundle and no base has it, nor a branch's source."""
        log = self.state.log
        waiting = np.ones(len(log), bool)
        if self.start is not None and len(self.start):
            waiting[log.find(self.start.ids)] = False
        waiting[log.is_folded] = False
        for index in covers:
            waiting[index] = False
        return _bounded(log, waiting)


def checkpoint(session: Session, made: Sequence[str] = ()) -> CheckpointResult:
    """Bundle what is not bundled, and take in bundles that were just `made` for it, if there are any.

    Costs a refresh, one GET per live bundle, and 1 PUT, or 2 where rows were inlined; all of that for each
    64 MiB of them. Raises `StoreUnavailable`: what was published stands, and nothing is lost.
    """
    began, total = time.monotonic(), CheckpointResult()
    while True:
        reader = session.refresh()
        require_settled(session)
        listed = tuple(item.name for item in reader.listing)
        plan = CheckpointPlan(reader.state, listed, session.start, tuple(made))
        unclear: Unclear = {}
        step = run(Bundler.begin(plan), session.store, unclear=unclear)
        if step.bundle is not None:
            total = total.then(result_of(step, unclear))
            write_hint(session, step.bundle.newest, step.bundle.name)
        inlined = sum(map(len, reader.state.log.inline.values()))
        if step.bundle is None or inlined <= INLINE_BYTES_AT_ONCE:  # all of it was bundled in one go
            return replace(total, seconds=time.monotonic() - began)


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

"""Bundling everything that is not in a bundle yet, from a full view of the log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from crdtcat.cold_claims import write_hint
from crdtcat.format.sections import Array
from crdtcat.log import Log, State, Summary, select
from crdtcat.log.state import ids_of
from crdtcat.maintenance.bundling import (
    BUNDLE_VERSIONS_MAX,
    INLINE_BYTES_AT_ONCE,
    CheckpointResult,
    live_bundles,
    publish_bundle,
    taken_in,
)
from crdtcat.protocol import is_base, is_bundle, is_version
from crdtcat.session import Session

BLOCK_VERSIONS: Final = 4096  # version files bundled by one task
GETS_AT_ONCE: Final = 256


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
    files: list[tuple[str, bytes]] = []
    for start in range(0, len(names), GETS_AT_ONCE):
        some = names[start : start + GETS_AT_ONCE]
        answers = session.store.get_many([(name, 0, None) for name in some])
        files += [(name, data) for name, data in zip(some, answers, strict=True) if data is not None]
    if not files:
        return CheckpointResult()
    return publish_bundle(session, State(session.folder).joined(files).log, (), ())


def checkpoint(session: Session, made: Sequence[str] = ()) -> CheckpointResult:
    """Bundle what is not bundled, and take in bundles that were just `made` for it, if there are any.

    Costs a refresh, one GET per live bundle, and 1 PUT, or 2 where rows were inlined. Raises
    `StoreUnavailable`: nothing was published, or nobody knows; either way nothing is lost.
    """
    began = time.monotonic()
    reader = session.refresh()
    log = reader.state.log
    names = [item.name for item in reader.listing if is_bundle(item.name)]
    covers: dict[str, Array] = {}
    summaries: dict[str, Summary] = {}
    unreplaced = [name for name in names if name not in reader.state.replaced and not is_base(name)]
    answers = session.store.get_many([(name, 0, None) for name in unreplaced])
    for name, data in zip(unreplaced, answers, strict=True):
        if data is None:
            continue  # collected since: a bundle of higher rank covers it, and will be taken in next time
        bundle = reader.state.read((name, data))
        found = log.find(bundle.log.ids)
        found = found[found >= 0]  # some may be dead below the horizon
        covers[name] = found[~log.is_folded[found]]  # a base has these, without the chunks that it let go
        summaries[name] = Summary(len(bundle.log), b"", b"", bundle.replaces)
    waiting = np.ones(len(log), bool)
    if session.start is not None and len(session.start):  # the start of a branch lies in its source's log
        waiting[log.find(session.start.ids)] = False
    waiting[log.is_folded] = False  # a base has them
    for index in covers.values():
        waiting[index] = False
    waiting = _bounded(log, waiting)
    fresh = int(waiting.sum())
    live = live_bundles(summaries)
    taken = []
    for name in made:
        if name in live and fresh + live[name].versions <= BUNDLE_VERSIONS_MAX:
            fresh += live[name].versions
            taken.append(name)
    if not fresh:
        return CheckpointResult(seconds=time.monotonic() - began)
    taken += taken_in({name: one for name, one in live.items() if name not in taken}, fresh)
    for name in taken:
        waiting[covers[name]] = True
    gone = {name for bundle in taken for name in (bundle, *live[bundle].replaces)}
    result = publish_bundle(session, select(log, waiting), gone & set(names), taken)
    write_hint(session, log)
    return replace(result, newly_covered=fresh, seconds=time.monotonic() - began)


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

"""Bundling everything that is not in a bundle yet, from a full view of the log."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from crdtcat.cold_claims import write_hint
from crdtcat.format.sections import Array
from crdtcat.log import Log, Summary, select
from crdtcat.maintenance.bundling import (
    BUNDLE_VERSIONS_MAX,
    INLINE_BYTES_AT_ONCE,
    CheckpointResult,
    live_bundles,
    publish_bundle,
    taken_in,
)
from crdtcat.protocol import is_base, is_bundle
from crdtcat.session import Session


def checkpoint(session: Session) -> CheckpointResult:
    """Bundle what is not bundled.

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
        covers[name] = found[found >= 0]  # some may be dead below the horizon
        summaries[name] = Summary(len(bundle.log), b"", b"", bundle.replaces)
    waiting = np.ones(len(log), bool)
    if session.start is not None and len(session.start):  # the start of a branch lies in its source's log
        waiting[log.find(session.start.ids)] = False
    waiting[log.is_folded] = False  # a base has them
    for index in covers.values():
        waiting[index] = False
    waiting = _bounded(log, waiting)
    fresh = int(waiting.sum())
    if not fresh:
        return CheckpointResult(seconds=time.monotonic() - began)
    live = live_bundles(summaries)
    taken = taken_in(live, fresh)
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

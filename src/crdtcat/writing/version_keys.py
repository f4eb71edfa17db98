"""The keys of a version file: what a verb has made, what its author had seen, and how it is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.format.version import OPERATIONS, pack, unpack
from crdtcat.head import Head, Version
from crdtcat.head.row_counts import row_counts
from crdtcat.head.version import time_range
from crdtcat.log.log import Log


def version_body(
    operation: str, body: Mapping[str, Any], metadata: Mapping[str, Any] | None, key: str | None
) -> dict[str, Any]:
    """The keys of a version, but for stamp and clock."""
    return {
        **body,
        "o": OPERATIONS.index(operation),
        "k": key,
        "m": unpack(pack(dict(metadata)), "metadata") if metadata else None,  # as readers will see it
    }


def seen_clock(head: Head) -> dict[str, Any]:
    """What a version says it had seen: the difference to the latest version in the head that says so too."""
    log = head.log
    observing = np.flatnonzero(np.asarray(log.clock.is_valid()) & ~log.is_upkeep)
    if not len(observing):
        return {"c": dict(head.clock)}
    parent = int(observing[-1])
    beyond = head.clock.beyond(head.folded.clocks.of(parent))
    return {"p": log.id_at(parent).to_bytes(), "c": dict(beyond)}


def version_of(id: VersionId, operation: str, body: Mapping[str, Any], log: Log) -> Version:
    """A commit as its author sees it, who knows a log."""
    times = body.get("r")
    counts = row_counts(log, id, body.get("b") or (), body.get("n") or (), body.get("x"))
    return Version(
        id=id,
        operation=operation,
        rows=sum(body.get("n") or ()),
        bytes=sum(body.get("z") or ()),
        chunks=len(body.get("n") or ()),
        metadata=body.get("m") or {},
        key=body.get("k"),
        time_range=None if times is None else time_range(*times),
        rows_added=counts.added,
        rows_updated=counts.updated,
        rows_deleted=counts.deleted,
    )

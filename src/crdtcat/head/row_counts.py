"""How many rows a version added, updated and deleted, as its own file tells.

Reads nothing but the version and, for chunks it removed whole, how many rows those had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.format.kinds import GONE, OVERLAY, ROWS
from crdtcat.format.ops import Ops, decode_ops
from crdtcat.format.row_ids import Tags
from crdtcat.head.tags import TagIndex
from crdtcat.log.log import Log


class RowCounts(NamedTuple):
    """Rows added (in a keyed table: upserted), updated, deleted."""

    added: int = 0
    updated: int = 0
    deleted: int = 0


def row_counts(
    log: Log | None, id: VersionId, kinds: Sequence[int], rows: Sequence[int], ops: bytes | None
) -> RowCounts:
    """Counts of one version. O(its chunks and intervals, and the chunks it removes).

    Args:
        log: knows the chunks it removed; without one they count as none.
        id: the version.
        kinds: of its chunks; none: all are rows.
        rows: of its chunks.
        ops: its ops, packed.
    """
    by_kind = dict.fromkeys((ROWS, OVERLAY, GONE), 0)
    for kind, count in zip(kinds or [ROWS] * len(rows), rows, strict=True):
        by_kind[kind] = by_kind.get(kind, 0) + count
    deleted = by_kind[GONE]
    if ops is None:
        return RowCounts(by_kind[ROWS], by_kind[OVERLAY], deleted)
    done = decode_ops(ops, id, str(id))
    if not done.is_overwrite:  # what an overwrite takes away is replaced, and some of it may be gone already
        deleted += 0 if done.rows.deletes is None else _listed(log, done)
        deleted += 0 if log is None else _removed(log, done)
    return RowCounts(by_kind[ROWS], by_kind[OVERLAY], deleted)


def _listed(log: Log | None, done: Ops) -> int:
    """Rows deleted one by one: what is listed as a whole chunk has as many as that has."""
    assert done.rows.deletes is not None
    if log is None:
        return done.rows.deletes.rows
    _, start, stop = _index(log).rows(done.rows.deletes)
    return int((stop - start).sum())


def _removed(log: Log, done: Ops) -> int:
    tags = Tags(done.removed_versions, done.removed_ordinals, done.removed_keyed)
    chunks = _index(log).chunks(tags) if len(tags) else np.empty(0, np.int64)
    return int(log.rows[chunks[chunks >= 0]].sum())


def _index(log: Log) -> TagIndex:
    """Of versions with one idempotency key any will do: a tag names content, too."""
    return TagIndex(log, np.ones(len(log), bool))

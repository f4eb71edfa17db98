"""Folding a log below a horizon: what a base keeps of the versions it stands for.

A base is a log in which every version below the horizon that its maker found has been emptied of what no
longer counts. Its id stays: coverage is an exact set, snapshots are named by it, and a version below the
horizon that is not in the base is dead. Its clock stays: later versions name it. What decides rows, columns
and properties stays, so that the fold of base and later versions is the fold of all of them. Gone are
metadata, time ranges, and, for every chunk that nothing reads any more, its places and statistics: those are
what a log is large by, and what holds segments.

Bases form a chain: each is made from the one before. So a base of a higher number stands for all that one of
a lower number does, and states join by the highest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crdtcat.errors import Corrupt
from crdtcat.format.sections import Array, blobs
from crdtcat.log.join import select
from crdtcat.log.log import NO_TIME, Log
from crdtcat.log.order import without_unused
from crdtcat.protocol.names import claim_name


def above(log: Log, horizon: int) -> Log:
    """The versions that are not below a horizon. O(versions + chunks), O(versions) where all are.

    Theorem: `below_horizon_dead`.
    """
    return select(log, log.id_fields["hlc"] >= horizon) if horizon and len(log) else log


def below(log: Log, horizon: int) -> Log:
    """The versions that a base with this horizon stands for."""
    return select(log, log.id_fields["hlc"] < horizon)


def require_claims_above(fresh: Log, horizon: int, folder: str) -> None:
    """No horizon passes a claim by (`crdtcat.maintenance.expire`): its number would be nobody's."""
    passed = fresh.number[(fresh.id_fields["hlc"] < horizon) & (fresh.number > 0)]
    if len(passed):
        raise Corrupt(
            claim_name(folder, int(passed[0])), "a claim below the horizon that the base does not have"
        )


def emptied(log: Log, horizon: int, needed: Array) -> Log:
    """A log for a base: without metadata and times, and without places of chunks that are not needed.

    Theorem: `base_folds`.

    Args:
        log: the versions below the horizon.
        horizon: the horizon.
        needed: per chunk, whether its rows may still be read.
    """
    kept = needed[log.place_chunk]
    nothing = np.full(len(log), NO_TIME, np.int64)
    changes: dict[str, Any] = {
        "time_min": nothing,
        "time_max": nothing,
        "metadata": blobs([None] * len(log)),
        "place_chunk": log.place_chunk[kept],
        "place_segment": log.place_segment[kept],
        "place_group": log.place_group[kept],
        "statistics": log.statistics.moved(np.where(needed, np.arange(log.chunk_count), -1)),
        "inline": {tag: data for tag, data in log.inline.items() if needed[_chunk(log, tag)]},
        "horizon": horizon,
    }
    return without_unused(log.with_(**changes))


def _chunk(log: Log, tag: tuple[bytes, int]) -> int:
    version, ordinal = tag
    return int(log.chunk_start[int(log.find(np.array([version], log.ids.dtype))[0])]) + ordinal

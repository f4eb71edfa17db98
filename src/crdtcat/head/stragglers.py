"""Versions that are void because they met a switch to CAS mode: see `crdtcat.log.modes`. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crdtcat.format.version import TO_CAS
from crdtcat.head.clocks import Clocks, seen_by
from crdtcat.head.conflicts import Conflict
from crdtcat.log.log import Log
from crdtcat.log.modes import may_straggle


def stragglers(log: Log, clocks: Clocks) -> dict[int, int]:
    """Versions that are void, each with the switch that it met. Nothing to do in a log without a switch;
    else O(n) for each, and a clock for each version that the switch had not seen."""
    switches = np.flatnonzero(log.operation == TO_CAS).tolist()
    if not switches:
        return {}
    found: dict[int, int] = {}
    possible = may_straggle(log)
    for switch in switches:
        unseen = np.flatnonzero(possible & ~seen_by(clocks.of(switch), log))
        for at in clocks.unaware(unseen, switch).tolist():
            found.setdefault(at, switch)
    return found


def lost_stragglers(log: Log, straggling: Mapping[int, int]) -> list[Conflict]:
    """Each of them as a conflict."""
    return [
        Conflict(
            "straggler",
            "",
            log.id_at(switch),
            log.id_at(at),
            f"{log.id_at(at)} rests on what was there before the switch to CAS mode: not applied",
        )
        for at, switch in straggling.items()
    ]

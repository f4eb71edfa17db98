"""The mode of a log, and what was committed by somebody who did not know of it.

Switching a table between merge mode and CAS mode is itself a claim, of an operation of its own, so the log
decides which mode it is in: that of the switch with the highest number. A switch to CAS mode says in its
clock what it had seen. What a writer in merge mode commits beside it is a *straggler*:

- one that read nothing (an append, an upsert) merges as always: no change of rows that are there rests on it;
- one that read something, and neither saw the switch nor was seen by it, is void. It would change what strict
  commits rest on, behind their backs. Its writer finds out, and commits it again as a claim.

Versions of a transaction are never void by this: other tables have the rest of it. Pure.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.format.version import TO_CAS, TO_MERGE
from crdtcat.log.log import Log

Mode = Literal["merge", "cas"]


def switch_of(log: Log) -> int:
    """The index of the switch that counts, or -1. O(n)."""
    found = np.flatnonzero((log.operation == TO_CAS) | (log.operation == TO_MERGE))
    return int(found[np.argmax(log.number[found])]) if len(found) else -1


def mode_of(log: Log) -> Mode | None:
    """The mode that the log says it is in; `None`: it was never switched. O(n)."""
    at = switch_of(log)
    return None if at < 0 else "cas" if log.operation[at] == TO_CAS else "merge"


def may_straggle(log: Log) -> Array:
    """Per version whether it would be void if it met a switch: it took no number, and read something."""
    observing = np.asarray(log.clock.is_valid()) & np.asarray(log.transaction.is_null())
    possible: Array = observing & (log.number == 0) & ~log.is_upkeep
    return possible

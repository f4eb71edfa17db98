"""Finding out whether a store really creates exclusively.

Some servers ignore `If-None-Match`, and many filesystems look first and write then. Nothing that follows from
an exclusive creation is true on them, so it is tried: several callers create one name at once, with different
bytes, in a few rounds. Exactly one must win each time, and its bytes must be there.

A probe can show that a store does not exclude. That it passed is no proof, so it is asked only of stores that
are meant to: servers that speak S3, and filesystems known to leave the decision to their server.
"""

from __future__ import annotations

import secrets
import threading

from crdtcat.errors import CapabilityMissing
from crdtcat.store.base import Store
from crdtcat.support.pools import ThreadPool

PROBE_ROUNDS = 8
PROBE_RACERS = 8


def creates_exclusively(store: Store, rounds: int = PROBE_ROUNDS, racers: int = PROBE_RACERS) -> bool:
    """Whether every round has one winner. At most `rounds` x (2 `racers` + 1) requests and one DELETE.

    Its objects have names of their own in the root, `exclusion-probe-...`, and are removed.
    """
    names = [f"exclusion-probe-{secrets.token_hex(8)}" for _ in range(rounds)]
    try:
        return all(_one_wins(store, name, racers) for name in names)
    except CapabilityMissing:
        return False
    finally:
        store.delete(names)


def _one_wins(store: Store, name: str, racers: int) -> bool:
    barrier = threading.Barrier(racers)

    def race(number: int) -> bool:
        barrier.wait()
        return store.put_if_absent(name, _bytes(number))

    with ThreadPool(racers, "crdtcat-probe") as threads:
        winners = [number for number, won in enumerate(threads.map(race, range(racers))) if won]
    # A late one must lose too: a server that ignores the condition lets whoever comes last win.
    late = store.put_if_absent(name, _bytes(racers))
    return len(winners) == 1 and not late and store.get(name) == _bytes(winners[0])


def _bytes(number: int) -> bytes:
    return b"racer %d" % number

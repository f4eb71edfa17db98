"""Handles that act on what they saw when they last looked, over one simulated store.

Each handle's store shows it the objects of that moment until it writes; others act in between. So a verb
that reads and commits in one call rests on a head that is as old as the machine wants it, and no thread is
needed for that. See `crdtcat.testing.paused_store`. Clocks of handles are hours apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from crdtcat import Catalog
from crdtcat.table import Table
from crdtcat.testing.paused_store import PausedStore
from crdtcat.testing.simulated_store import Objects, VirtualClock, all_time

HOUR_MS: Final = 3_600_000
OPTIONS: Final[dict[str, Any]] = {
    "grace_seconds": 0, "bundle_every": 2, "chunk_rows": 2, "max_commit_delay_seconds": 0,
    "max_clock_skew_seconds": 86_400,
}  # fmt: skip
KINDS: Final[tuple[tuple[int, dict[str, Any]], ...]] = (
    (0, {"upkeep": False}),
    (HOUR_MS, {"upkeep": "synchronous", "inline_bytes": 0}),
    (-2 * HOUR_MS, {"upkeep": "synchronous"}),
)
"""How far each handle's clock is off, and what it is told."""


class Handle:
    """One process: what it saw when it last looked, and the catalog that it has."""

    def __init__(self, objects: Objects, clock: VirtualClock, number: int) -> None:
        self.number, self.skew_ms = number, KINDS[number][0]
        self.store = PausedStore(objects, clock)
        self.catalog = Catalog(self.store, **OPTIONS, **KINDS[number][1])

    def look(self) -> None:
        """From now on it sees what is there now, until it looks again."""
        self.store.objects = dict(self.store._present)

    def table(self, name: str, branch: str = "main") -> Table:
        return self.catalog.table(name, branch=branch)


class Lake:
    """What is stored, the time, and who is there."""

    def __init__(self) -> None:
        self.objects: Objects = {}
        self.clock, self.chance = VirtualClock(), random.Random(0)
        self.handles = [Handle(self.objects, self.clock, number) for number in range(len(KINDS))]

    @contextmanager
    def time_of(self, handle: Handle) -> Iterator[None]:
        """While this lasts, the time is what a handle takes it for, and goes on a little."""
        self.clock.now_ms += 1
        self.clock.skew_ms = handle.skew_ms
        with all_time(self.clock, self.chance):
            yield

    def newcomer(self) -> Handle:
        """Somebody who has seen nothing yet, and sees what is there now."""
        return Handle(self.objects, self.clock, 0)

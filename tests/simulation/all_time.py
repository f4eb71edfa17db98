"""Virtual time for everything that asks what time it is, not only for those who ask for the date."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from crdtcat.testing.simulated_store import VirtualClock, virtual_time


@contextmanager
def all_time(clock: VirtualClock, chance: random.Random) -> Iterator[None]:
    """Virtual time, also for those who count seconds and those who sleep."""

    def now(_: int = 0) -> float:
        return clock.now_ms / 1000

    def slept(seconds: float) -> None:
        clock.now_ms += int(seconds * 1000) + 1

    with (
        virtual_time(clock, chance),
        mock.patch.object(time, "clock_gettime", now),
        mock.patch.object(time, "monotonic", now),
        mock.patch.object(time, "sleep", slept),
        mock.patch.object(random, "uniform", chance.uniform),
    ):
        yield

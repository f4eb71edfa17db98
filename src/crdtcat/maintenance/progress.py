"""How long maintenance tells how far it is: one small value, handed to whoever asked."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from crdtcat.errors import InvalidArgument
from crdtcat.support.showing import shown

EVERY_SECONDS: Final = 1.0  # between two lines of the printer


@dataclass(frozen=True, slots=True)
class Progress:
    """How far something is.

    Attributes:
        what: what is being done.
        done, total: how many of how many; `total` may grow.
        unit: of what.
        bytes: how many bytes were looked at or moved so far.
        found: problems, or garbage, found so far.
    """

    what: str
    done: int
    total: int
    unit: str
    bytes: int = 0
    found: int = 0

    def __str__(self) -> str:
        size = f", {self.bytes / 1e6:,.1f} MB" if self.bytes else ""
        found = f", {self.found:,} found" if self.found else ""
        return f"{self.what}: {self.done:,} of {self.total:,} {self.unit}{size}{found}"


Tell = Callable[[Progress], object]
"""Takes progress. What it raises ends the work and reaches the caller."""


def teller(progress: bool | Tell | None) -> Tell:
    """What to tell progress to: nobody, standard error about once a second, or a function.

    Raises:
        InvalidArgument: none of these.
    """
    if progress is None or progress is False:
        return lambda _: None
    if progress is True:
        return _Printer()
    if not callable(progress):
        raise InvalidArgument(
            f"progress={shown(progress)}: pass True to print it, a function to get it, or None"
        )
    return progress


class _Printer:
    def __init__(self) -> None:
        self._last, self._what = 0.0, ""
        self._lock = threading.Lock()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        with self._lock:
            new = progress.what != self._what
            if new or progress.done >= progress.total or now - self._last >= EVERY_SECONDS:
                self._last, self._what = now, progress.what
                sys.stderr.write(f"{progress}\n")
                sys.stderr.flush()

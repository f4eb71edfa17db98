"""Hybrid logical clock: timestamps near wall time that never go backwards.

Theory. A timestamp is one 64-bit integer: 48 bits of milliseconds since 1970, then 16 bits of counter. Two
rules move the clock, and both give a value strictly greater than everything it has seen:

    tick:     max(last + 1, physical << 16)
    receive:  max(max(last, remote) + 1, physical << 16)

Packing makes the usual special cases vanish. Equal milliseconds compare by counter. A full counter carries
into the milliseconds by ordinary addition, so it runs at most a little ahead of the wall. A wall clock that
jumps back loses to `last + 1`. Nothing is ever rejected here: a rule that depends on the reader's clock
would break convergence (how far a *writer's* physical clock may stray is checked where it commits).

Pure functions and one small mutable holder; no I/O.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from crdtcat.errors import LimitExceeded
from crdtcat.support.locks import ForkSafeLock

COUNTER_BITS = 16
HLC_MAX = 2**64 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def pack(milliseconds: int, counter: int = 0) -> int:
    """The timestamp of a moment: `milliseconds` since 1970 and a `counter` below 65,536."""
    if not (0 <= milliseconds < 2**48 and 0 <= counter < 2**COUNTER_BITS):
        raise LimitExceeded(f"({milliseconds} ms, counter {counter}) does not fit 48 + 16 bits")
    return milliseconds << COUNTER_BITS | counter


def milliseconds(timestamp: int) -> int:
    """The wall-clock part of a timestamp."""
    return timestamp >> COUNTER_BITS


def to_datetime(timestamp: int) -> datetime:
    """The wall-clock part as a UTC datetime, exact to the millisecond.

    48 bits reach the year 10889, `datetime` only 9999: what lies beyond is shown as the last moment there is,
    because a version stamped by a broken clock must still be listed.
    """
    return _EPOCH + min(timedelta(milliseconds=milliseconds(timestamp)), _LAST - _EPOCH)


def from_datetime(moment: datetime) -> int:
    """The greatest timestamp within the millisecond of `moment` (naive means UTC)."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return pack((moment - _EPOCH) // timedelta(milliseconds=1), 2**COUNTER_BITS - 1)


def tick(last: int, physical_ms: int) -> int:
    """The next timestamp for a local event: strictly above `last`. Theorem: `hlc_tick_monotone`."""
    return _within(max(last + 1, physical_ms << COUNTER_BITS))


def receive(last: int, remote: int, physical_ms: int) -> int:
    """The next timestamp after seeing `remote`: strictly above both. Theorem: `hlc_receive_monotone`."""
    return _within(max(max(last, remote) + 1, physical_ms << COUNTER_BITS))


def _within(timestamp: int) -> int:
    if timestamp > HLC_MAX:
        raise LimitExceeded("the hybrid clock ran past the year 10889")
    return timestamp


def wall_ms() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


class HybridClock:
    """One process's clock. Thread-safe; every value it returns is greater than all before.

    Theorem: `hlc_extends_process_order`.

    Args:
        physical_ms: where wall time comes from; tests and simulations pass their own.
    """

    def __init__(self, physical_ms: Callable[[], int] = wall_ms) -> None:
        self._physical_ms = physical_ms
        self._lock = ForkSafeLock()
        self._last = 0

    @property
    def last(self) -> int:
        """The greatest timestamp given out or seen."""
        return self._last

    def tick(self) -> int:
        """A new timestamp for a local event."""
        with self._lock():
            self._last = tick(self._last, self._physical_ms())
            return self._last

    def observe(self, remote: int) -> None:
        """Remember a timestamp seen elsewhere, so that the next tick is above it."""
        with self._lock():
            self._last = max(self._last, remote)

    def receive(self, remote: int) -> int:
        """A new timestamp above `remote` and above everything before."""
        with self._lock():
            self._last = receive(self._last, remote, self._physical_ms())
            return self._last

"""The hybrid clock: strictly monotone whatever the wall clock does."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import HybridClock, hlc
from crdtcat.errors import LimitExceeded

moments = st.integers(0, 2**47)
timestamps = st.integers(0, 2**63)


@given(timestamps, moments)
def test_tick_is_strictly_above_the_last_and_not_below_the_wall(last: int, wall: int) -> None:
    assert hlc.tick(last, wall) > last
    assert hlc.tick(last, wall) >= hlc.pack(wall)


@given(timestamps, timestamps, moments)
def test_receive_is_strictly_above_both_sides(last: int, remote: int, wall: int) -> None:
    after = hlc.receive(last, remote, wall)
    assert after > last
    assert after > remote
    assert after >= hlc.pack(wall)


@given(timestamps, moments)
def test_receive_of_an_equal_timestamp_still_moves(last: int, wall: int) -> None:
    assert hlc.receive(last, last, wall) > last


def test_the_numbers_are_those_of_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, so that a constant that is wrong on both ways is noticed too."""
    assert hlc.pack(3) == 196_608
    assert hlc.pack(2**48 - 1, 65_535) == 18_446_744_073_709_551_615
    assert hlc.tick(18_446_744_073_709_551_614, 0) == 18_446_744_073_709_551_615
    with pytest.raises(LimitExceeded):
        hlc.tick(18_446_744_073_709_551_615, 0)
    assert hlc.to_datetime(196_608) == datetime(1970, 1, 1, 0, 0, 0, 3000, tzinfo=UTC)
    assert hlc.from_datetime(datetime(1970, 1, 1, tzinfo=UTC)) == 65_535
    fresh = HybridClock(lambda: 0)
    assert (fresh.last, fresh.tick()) == (0, 1)
    monkeypatch.setattr(time, "time_ns", lambda: 1_999_999_999_999_999)
    assert hlc.wall_ms() == 1_999_999_999


def test_a_full_counter_carries_into_the_milliseconds() -> None:
    full = hlc.pack(1000, 2**16 - 1)
    assert hlc.tick(full, 1000) == hlc.pack(1001, 0)
    assert hlc.receive(0, full, 1000) == hlc.pack(1001, 0)


def test_a_wall_clock_that_jumps_back_only_counts() -> None:
    walls = iter([5000, 100, 100, 5001])
    clock = HybridClock(lambda: next(walls))
    seen = [clock.tick() for _ in range(4)]
    assert seen == [hlc.pack(5000, 0), hlc.pack(5000, 1), hlc.pack(5000, 2), hlc.pack(5001, 0)]


@given(st.lists(st.tuples(st.sampled_from(["tick", "receive", "observe"]), timestamps, moments)))
def test_every_value_a_clock_gives_out_is_above_all_it_has_seen(events: list[tuple[str, int, int]]) -> None:
    wall = 0
    clock = HybridClock(lambda: wall)
    greatest = 0
    for kind, remote, wall in events:  # noqa: B007  (the clock above reads it)
        if kind == "observe":
            clock.observe(remote)
            greatest = max(greatest, remote)
            continue
        value = clock.tick() if kind == "tick" else clock.receive(remote)
        assert value > greatest
        assert kind == "tick" or value > remote
        greatest = value
        assert clock.last == value


def test_threads_never_get_the_same_value() -> None:
    clock = HybridClock(lambda: 1)
    values: list[int] = []

    def work() -> None:
        for _ in range(500):
            values.append(clock.tick())  # noqa: PERF401  (appending is the atomic step under test)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(values)) == 2000


def test_the_end_of_time_is_a_typed_error() -> None:
    with pytest.raises(LimitExceeded, match="10889"):
        hlc.tick(hlc.HLC_MAX, 0)
    with pytest.raises(LimitExceeded):
        hlc.receive(0, hlc.HLC_MAX, 0)
    for milliseconds, counter in [(2**48, 0), (-1, 0), (0, 2**16), (0, -1)]:
        with pytest.raises(LimitExceeded):
            hlc.pack(milliseconds, counter)


@given(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_datetime_is_the_last_timestamp_of_its_millisecond(moment: datetime) -> None:
    stamp = hlc.from_datetime(moment)
    assert timedelta(0) <= moment - hlc.to_datetime(stamp) < timedelta(milliseconds=1)
    assert hlc.milliseconds(stamp + 1) == hlc.milliseconds(stamp) + 1


def test_naive_datetimes_are_utc_and_zones_are_honoured() -> None:
    utc = datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert hlc.from_datetime(utc.replace(tzinfo=None)) == hlc.from_datetime(utc)
    assert hlc.from_datetime(utc.astimezone(timezone(timedelta(hours=5)))) == hlc.from_datetime(utc)


def test_a_timestamp_beyond_the_calendar_is_shown_not_raised() -> None:
    assert hlc.to_datetime(hlc.HLC_MAX) == datetime.max.replace(tzinfo=UTC)


def test_the_default_clock_reads_the_wall() -> None:
    before = hlc.wall_ms()
    assert hlc.milliseconds(HybridClock().tick()) >= before

"""When a handle stands back, and for how long."""

from __future__ import annotations

import pytest

from crdtcat.cas.pauses import (
    GAP_FIRST,
    GAP_MAX,
    LONG_EVERY,
    Pace,
    losers_pause_seconds,
    pause_seconds,
    rest_seconds,
)
from crdtcat.options import Options

PLAIN = Options(jitter=False, max_delay=1000.0)


def gaps(pace: Pace, commits: int) -> list[int]:
    """After which of so many commits that meet nobody it stands back."""
    found = []
    for n in range(commits):
        if pace.is_due:
            found.append(n)
            pace = pace.rested()
        pace = pace.committed(n, 1.0, 0, ())
    return found


def test_alone_it_stands_back_ever_more_rarely() -> None:
    assert gaps(Pace(), 500) == [16, 16 + 32, 16 + 32 + 64, 240, 240 + 128, 240 + 256]
    assert (GAP_FIRST, GAP_MAX) == (16, 128)


def test_after_it_met_somebody_it_begins_anew() -> None:
    met = Pace(rests=3, gap=GAP_MAX).committed(0.0, 1.0, 2, {1, 2})
    assert (met.gap, met.rests) == (1, 0)
    assert gaps(met, 40) == [0, 2, 6, 14, 30]


@pytest.mark.parametrize(("others", "requests"), [(1, (2, 4)), (2, (2, 4)), (3, (3, 4.5)), (32, (32, 48))])
def test_it_waits_for_each_that_came_between(others: int, requests: tuple[float, float]) -> None:
    assert Pace(0.0).committed(others, 1.0, others, range(others)).requests == requests


def test_not_for_those_who_came_long_ago() -> None:
    """An hour asleep, 300 commits by 30 others: that says little about now."""
    assert Pace(0.0).committed(3600.0, 0.02, 300, range(30)).requests == (2, 4)
    assert Pace().committed(3600.0, 0.02, 300, range(30)).requests == (2, 4)  # nor what it found at first
    assert Pace(0.0).committed(48.0, 0.02, 300, range(30)).requests == (30, 45)
    assert Pace(0.0).committed(48.1, 0.02, 300, range(30)).requests == (2, 4)


def test_the_rarer_the_longer() -> None:
    pace = Pace().committed(0.0, 1.0, 1, {1})
    found = []
    while pace.gap < GAP_MAX:
        found.append(pace.requests)
        pace = pace.rested()
    assert found == [(2, 4), (2, 4), (3, 6), (4, 8), (4, 8), (4, 8), (4, 8)]
    longest = []
    for _ in range(LONG_EVERY**2):
        longest.append(pace.requests[0])
        pace = pace.rested()
    assert longest[: LONG_EVERY - 1] == [4] * 15
    assert longest[LONG_EVERY - 1 :: LONG_EVERY] == [16] * 15 + [64]
    assert pace.gap == GAP_MAX


def test_time_that_has_passed_counts() -> None:
    pace = Pace(10.0, 0.5, gap=1, row=1)
    assert rest_seconds(pace, 10.0, PLAIN) == 2.0
    assert rest_seconds(pace, 11.5, PLAIN) == 0.5
    assert rest_seconds(pace, 12.0, PLAIN) == rest_seconds(pace, 99.0, PLAIN) == 0.0
    assert rest_seconds(pace, 10.0, Options(jitter=False, max_delay=1.0)) == 1.0
    assert rest_seconds(pace, 10.0, Options(base_delay=0)) == 0.0
    assert rest_seconds(pace, 10.0, PLAIN, reads=True) == 1.5, "to read is a part of it"
    assert rest_seconds(pace._replace(others=8), 10.0, PLAIN, reads=True) == 6.0, "of many each has its turn"
    assert all(1.0 <= rest_seconds(pace, 10.0, Options()) <= 2.0 for _ in range(100))


def test_losers_wait_for_up_to_four_requests() -> None:
    assert losers_pause_seconds(0.5, PLAIN) == 2.0
    assert losers_pause_seconds(0.0, PLAIN) == PLAIN.base_delay
    assert losers_pause_seconds(0.5, Options(base_delay=0)) == 0.0
    assert losers_pause_seconds(0.5, Options(jitter=False, max_delay=1.5)) == 1.5
    spread = {losers_pause_seconds(0.5, Options(max_delay=1000.0)) for _ in range(100)}
    assert len(spread) > 90
    assert min(spread) >= 0
    assert 1.0 < max(spread) <= 2.0


def test_pauses_double_up_to_the_longest() -> None:
    """Of whoever waits for a decision that is not made, however long that is."""
    plain = Options(jitter=False, base_delay=0.1, max_delay=2.0)
    assert [pause_seconds(tries, plain) for tries in range(1, 8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert pause_seconds(100_000, plain) == 2.0
    assert [pause_seconds(tries, plain, 0.3) for tries in range(1, 5)] == [0.3, 0.6, 1.2, 2.0]
    jittered = Options(base_delay=0.1, max_delay=2.0)
    for tries in (1, 3, 9):
        longest = pause_seconds(tries, plain)
        spread = {pause_seconds(tries, jittered) for _ in range(100)}
        assert len(spread) > 90, "no two who met wait for the same time"
        assert min(spread) >= 0
        assert longest / 2 < max(spread) <= longest
    assert pause_seconds(9, Options(base_delay=0)) == 0.0

"""The interval tree against comparing every pair: numbers, text, bytes, times, with every kind of end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.errors import InvalidArgument
from crdtcat.intervals import Interval, IntervalIndex
from tests.bounds import bounded

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "integers": st.integers(-8, 8),
    "large integers": st.integers(2**53 - 4, 2**53 + 4),
    "very large integers": st.integers(2**64 - 4, 2**64 + 4),
    "floats": st.floats(-2, 2, width=16),
    "integers and floats": st.integers(2**53 - 2, 2**53 + 2) | st.sampled_from([2.0**53, 2.0**53 + 2]),
    "text": st.text("ab", max_size=3),
    "bytes": st.binary(max_size=2),
    "times": st.integers(-5, 5).map(lambda hours: NOON + timedelta(hours=hours)),
}


@st.composite
def intervals(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Interval:
    low, high = draw(st.none() | values), draw(st.none() | values)
    if low is not None and high is not None and high < low:
        low, high = high, low
    point = low is not None and low == high
    return Interval(low, high, not point and draw(st.booleans()), not point and draw(st.booleans()))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=bounded(100, 2))
@given(data=st.data())
def test_the_tree_finds_exactly_what_comparing_every_pair_finds(kind: str, data: st.DataObject) -> None:
    held = data.draw(st.lists(intervals(KINDS[kind]), max_size=14))
    asked = data.draw(st.lists(intervals(KINDS[kind]), max_size=6))
    index, others = IntervalIndex(held), IntervalIndex(asked)
    slow = [[number for number, one in enumerate(held) if one.overlaps(wanted)] for wanted in asked]
    assert [index.overlapping(wanted).tolist() for wanted in asked] == slow
    assert index.overlapped(others).tolist() == [bool(found) for found in slow]
    here, there = index.pairs(others)
    assert list(zip(here.tolist(), there.tolist(), strict=True)) == sorted(
        (number, which) for which, found in enumerate(slow) for number in found
    )
    assert len(index) == len(held)


@given(intervals(st.integers(0, 6)), intervals(st.integers(0, 6)))
def test_overlap_is_exact_in_a_dense_order(mine: Interval, theirs: Interval) -> None:
    samples = [at / 4 for at in range(-8, 36)]
    assert mine.overlaps(theirs) is any(mine.contains(at) and theirs.contains(at) for at in samples)


def test_touching_ends_meet_only_where_both_are_closed() -> None:
    below = Interval(0, 5)
    assert below.overlaps(Interval(5, 9))
    assert not below.overlaps(Interval(5, 9, low_open=True))
    assert not Interval(0, 5, high_open=True).overlaps(Interval(5, 9))


@pytest.mark.parametrize(
    "ends",
    [
        (5, 4, False, False),
        (5, 5, True, False),
        (5, 5, False, True),
        (float("nan"), None, False, False),
        ("a", 1, False, False),
    ],
)
def test_an_interval_in_which_nothing_can_lie_is_refused(ends: tuple[Any, Any, bool, bool]) -> None:
    with pytest.raises(InvalidArgument):
        Interval(*ends)


def test_values_of_another_kind_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        IntervalIndex([Interval(1, 2), Interval("a", "b")])
    with pytest.raises(InvalidArgument):
        IntervalIndex([Interval(1, 2)]).overlapping(Interval("a", "b"))


def test_intervals_print_their_ends() -> None:
    assert str(Interval(1, 2, low_open=True)) == "(1, 2]"
    assert str(Interval(None, "z", high_open=True)) == "(-inf, 'z')"
    assert str(Interval.point(3)) == "[3, 3]"

"""Sets of any ordered values against asking every interval about every end and every gap between ends.

Not every kind of value has one between any two (no text lies between "a" and "a\\0"), so the slow model
places samples in the order itself: the i-th of all ends is the sample 2i, the gaps beside it are 2i - 1 and
2i + 1.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.errors import InvalidArgument
from crdtcat.intervals import Interval, IntervalSet, ValueSet
from tests.bounds import bounded
from tests.intervals.test_index import KINDS, NOON, intervals

ALL = ValueSet([Interval()])


class Model:
    """The samples that all ends of some intervals leave to tell sets apart."""

    def __init__(self, *lists: list[Interval]) -> None:
        self.ends = sorted({end for each in lists for one in each for end in (one.low, one.high)} - {None})
        self.samples = range(-1, 2 * len(self.ends))

    def members(self, held: list[Interval]) -> set[int]:
        """Which samples lie in any of the intervals."""
        placed = [
            Interval(self._place(one.low), self._place(one.high), one.low_open, one.high_open) for one in held
        ]
        return {at for at in self.samples if any(one.contains(at) for one in placed)}

    def pieces(self, members: set[int]) -> list[Interval]:
        """The same samples, an interval for each."""
        bounds = [None, *self.ends, None]
        return [
            Interval.point(self.ends[at // 2])
            if at % 2 == 0
            else Interval(bounds[(at + 1) // 2], bounds[(at + 3) // 2], low_open=True, high_open=True)
            for at in members
        ]

    def _place(self, end: Any) -> int | None:
        return None if end is None else 2 * self.ends.index(end)


def assert_canonical(held: ValueSet) -> None:
    for below, above in pairwise(held):
        assert below.high is not None
        assert above.low is not None
        assert below.high < above.low or (below.high == above.low and below.high_open and above.low_open)
    assert len(list(held)) == len(held)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=bounded(1_000, 40), deadline=None)
@given(data=st.data())
def test_every_operation_is_that_of_the_samples(kind: str, data: st.DataObject) -> None:
    first = data.draw(st.lists(intervals(KINDS[kind]), max_size=7))
    second = data.draw(st.lists(intervals(KINDS[kind]), max_size=7))
    model = Model(first, second)
    mine, theirs, a, b = ValueSet(first), ValueSet(second), model.members(first), model.members(second)
    everything = set(model.samples)
    for fast, slow in (
        (mine, a),
        (mine | theirs, a | b),
        (mine & theirs, a & b),
        (mine - theirs, a - b),
        (ALL - mine, everything - a),
    ):
        assert model.members(list(fast)) == slow
        assert_canonical(fast)
        assert bool(fast) is bool(slow)
        # One form per set: however it was made, it is the same, and so is what it is made from.
        again = ValueSet(model.pieces(slow)[::-1])
        assert again == fast
        assert hash(again) == hash(fast)
        assert ValueSet(fast) == fast
        assert list(again) == list(fast)
        assert [one for one in model.ends if fast.contains(one)] == [
            model.ends[at // 2] for at in sorted(slow) if at % 2 == 0
        ]
    assert mine.overlaps(theirs) is theirs.overlaps(mine) is bool(a & b)
    assert (mine == theirs) is (a == b)
    asked = data.draw(st.lists(KINDS[kind], max_size=9))
    slowly = [any(one.contains(value) for one in first) for value in asked]
    assert mine.contains_each(asked).tolist() == slowly == [value in mine for value in asked]


def _three(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[ValueSet, ValueSet, ValueSet]]:
    sets = st.lists(intervals(values), max_size=6).map(ValueSet)
    return st.tuples(sets, sets, sets)


@given(st.sampled_from(sorted(KINDS)).flatmap(lambda kind: _three(KINDS[kind])))
def test_the_laws_of_sets_hold(drawn: tuple[ValueSet, ValueSet, ValueSet]) -> None:
    a, b, c = drawn
    assert a | a == a == a & a
    assert a | b == b | a
    assert a & b == b & a
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)
    assert a & (b | c) == (a & b) | (a & c)
    assert a | (b & c) == (a | b) & (a | c)
    assert a | (a & b) == a == a & (a | b)
    assert a - (b | c) == (a - b) & (a - c)
    assert a - (b & c) == (a - b) | (a - c)
    assert (a - b) | (a & b) == a
    assert not (a - b).overlaps(b)
    assert ALL - (ALL - a) == a
    assert a - a == ValueSet() == a & ValueSet()
    assert a.overlaps(b) is bool(a & b) is (a - b != a)


@given(
    st.lists(st.tuples(st.integers(-9, 40), st.integers(1, 9)), max_size=9),
    st.lists(st.tuples(st.integers(-9, 40), st.integers(1, 9)), max_size=9),
)
def test_half_open_intervals_of_integers_are_an_interval_set(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    both = [
        (
            IntervalSet([start for start, _ in drawn], [start + length for start, length in drawn]),
            ValueSet(Interval(start, start + length, high_open=True) for start, length in drawn),
        )
        for drawn in (first, second)
    ]
    (exact, mine), (other, theirs) = both
    operations: list[Callable[[Any, Any], Any]] = [lambda a, b: a | b, lambda a, b: a & b, lambda a, b: a - b]
    for operation in operations:
        assert [(one.low, one.high) for one in operation(mine, theirs)] == list(operation(exact, other))


def test_intervals_join_where_they_share_a_cut_and_only_there() -> None:
    below = Interval("a", "b", high_open=True)
    assert list(ValueSet([Interval("b", "c"), below])) == [Interval("a", "c")]
    assert len(ValueSet([below, Interval("b", "c", low_open=True)])) == 2
    assert len(ValueSet([Interval(1, 2), Interval(3, 4)])) == 2  # 2.5 could lie between
    hole = ALL - ValueSet([Interval.point(NOON)])
    assert list(hole) == [Interval(None, NOON, high_open=True), Interval(NOON, None, low_open=True)]
    assert NOON not in hole
    assert hole | ValueSet([Interval.point(NOON)]) == ALL


def test_few_against_many_look_up_the_few() -> None:
    many = ValueSet(Interval(float(at), at + 0.5) for at in range(2000))
    few = ValueSet([Interval(7.25, 9.0, high_open=True), Interval(1999.5, None)])
    assert list(few & many) == [Interval(7.25, 7.5), Interval(8.0, 8.5), Interval.point(1999.5)]
    assert list(few - many) == [
        Interval(7.5, 8.0, True, True),
        Interval(8.5, 9.0, True, True),
        Interval(1999.5, None, low_open=True),
    ]
    assert not ValueSet([Interval(7.5, 8.0, True, True)]).overlaps(many)
    assert len(many - few) == 1999
    assert len(many | few) == 1998


class Counted:
    """A number that counts how often any is compared."""

    compared = 0

    def __init__(self, value: int) -> None:
        self.value = value

    def __lt__(self, other: Counted) -> bool:
        Counted.compared += 1
        return self.value < other.value

    def __le__(self, other: Counted) -> bool:
        return not other < self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def test_few_against_many_compare_as_the_logarithm_of_the_many() -> None:
    few = ValueSet(Interval(Counted(1000 * at + 1), Counted(1000 * at + 4)) for at in range(4))
    spent = []
    for count in (1_000, 8_000):
        many = ValueSet(Interval(Counted(4 * at), Counted(4 * at + 2)) for at in range(count))
        Counted.compared = 0
        assert few.overlaps(many)
        assert len(few & many) == 8
        assert len(few - many) == 4
        spent.append(Counted.compared)
    # Three operations look up 8 ends twice each; three more halvings for eight times as many.
    assert spent[1] - spent[0] <= 3 * 8 * 2 * 3
    assert spent[0] < 1_000


def test_integers_and_floats_are_compared_exactly() -> None:
    odd, even = ValueSet([Interval.point(2**53 + 1)]), ValueSet([Interval.point(2.0**53)])
    assert not odd.overlaps(even)
    assert not odd & even
    assert odd - even == odd
    assert len(odd | even) == 2
    assert ValueSet([Interval(1, 2)]) == ValueSet([Interval(1.0, 2.0)])
    assert hash(ValueSet([Interval(1, 2)])) == hash(ValueSet([Interval(1.0, 2.0)]))


@pytest.mark.parametrize("wrong", [float("nan"), Decimal("nan"), np.datetime64("NaT"), None, "a", b"a", NOON])
def test_a_value_without_a_place_in_the_order_is_refused(wrong: Any) -> None:
    held = ValueSet([Interval(1, 2), Interval(4, None)])
    one = Interval(1, None)
    for ask in (held.contains, held.__contains__, lambda value: held.contains_each([1, value]), one.contains):
        with pytest.raises(InvalidArgument):
            ask(wrong)
    with pytest.raises(InvalidArgument):
        ALL.contains(None)
    if wrong is None or wrong != wrong:
        with pytest.raises(InvalidArgument):
            Interval().contains(wrong)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, "a"), ("a", b"a"), (1.5, NOON), (NOON, datetime(2026, 1, 1)), (date(2026, 1, 1), NOON)],  # noqa: DTZ001
)
def test_sets_of_values_that_do_not_compare_are_refused(one: Any, other: Any) -> None:
    mine, theirs = ValueSet([Interval(one, None)]), ValueSet([Interval(None, other)])
    for call in (
        lambda: ValueSet([*mine, *theirs]),
        lambda: mine | theirs,
        lambda: mine & theirs,
        lambda: mine - theirs,
        lambda: theirs - mine,
        lambda: mine.overlaps(theirs),
        lambda: Interval(one, None).overlaps(Interval(None, other)),
        lambda: Interval(one, None).contains(other),
    ):
        with pytest.raises(InvalidArgument):
            call()
    assert mine != theirs


def test_times_of_different_zones_are_one_order() -> None:
    east = datetime.fromisoformat("2026-01-01T13:00:00+01:00")
    assert ValueSet([Interval(NOON, None)]) == ValueSet([Interval(east, None)])
    assert datetime(2026, 1, 1, 11, 59, tzinfo=UTC) not in ValueSet([Interval(east, None)])
    nanosecond = ValueSet([Interval(np.datetime64(5, "ns"), np.datetime64(7, "ns"), high_open=True)])
    assert [np.datetime64(at, "ns") in nanosecond for at in (4, 5, 6, 7)] == [False, True, True, False]


def test_sets_print_their_first_intervals() -> None:
    assert (
        repr(ValueSet([Interval(4, None, low_open=True), Interval(1, 3, high_open=True)]))
        == "ValueSet([1, 3) | (4, inf))"
    )
    assert repr(ValueSet()) == "ValueSet()"
    assert repr(ALL) == "ValueSet((-inf, inf))"
    assert repr(ValueSet(map(Interval.point, range(9)))).endswith("[7, 7] | ...)")

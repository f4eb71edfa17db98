"""Interval sets against plain Python sets of integers: every operation, and one form per set."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.errors import InvalidArgument
from crdtcat.intervals import Interval, IntervalIndex, IntervalSet, RowSet, ValueSet

Row = tuple[int, int]

runs = st.lists(st.tuples(st.integers(-4, 40), st.integers(-2, 12)), max_size=12)
grouped = st.lists(st.tuples(st.integers(-1, 4), st.integers(-4, 30), st.integers(-2, 9)), max_size=14)


def made(drawn: list[tuple[int, int]]) -> tuple[IntervalSet, set[int]]:
    members = {at for start, length in drawn for at in range(start, start + length)}
    return IntervalSet([start for start, _ in drawn], [start + length for start, length in drawn]), members


def rows_made(drawn: list[tuple[int, int, int]]) -> tuple[RowSet, set[Row]]:
    members = {(group, at) for group, start, length in drawn for at in range(start, start + length)}
    groups, starts, lengths = (list(column) for column in zip(*drawn, strict=True)) if drawn else ([], [], [])
    return RowSet(groups, starts, np.array(starts, int) + np.array(lengths, int)), members


def members_of(rows: RowSet) -> set[Row]:
    return set(zip(*(column.tolist() for column in rows.rows()), strict=True))


def assert_canonical(groups: Iterable[int], starts: Iterable[int], stops: Iterable[int]) -> None:
    held = list(zip(groups, starts, stops, strict=True))
    assert all(start < stop for _, start, stop in held)
    for (group, _, stop), (after, start, _) in pairwise(held):
        assert group < after or (group == after and stop < start)


@given(runs, runs)
def test_every_operation_is_that_of_plain_sets(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    (mine, a), (theirs, b) = made(first), made(second)
    for fast, slow in ((mine | theirs, a | b), (mine & theirs, a & b), (mine - theirs, a - b), (mine, a)):
        assert set(fast.positions().tolist()) == slow
        assert fast.total == len(slow)
        assert_canonical([0] * len(fast), fast.starts.tolist(), fast.stops.tolist())
        assert fast == IntervalSet.of_positions(list(slow))
        assert hash(fast) == hash(IntervalSet.of_positions(sorted(slow)))
    assert mine.overlaps(theirs) is bool(a & b)
    asked = np.arange(-8, 60)
    assert mine.contains(asked).tolist() == [at in a for at in asked.tolist()]


@given(grouped, grouped)
def test_every_operation_over_groups_is_that_of_plain_sets(
    first: list[tuple[int, int, int]], second: list[tuple[int, int, int]]
) -> None:
    (mine, a), (theirs, b) = rows_made(first), rows_made(second)
    for fast, slow in ((mine | theirs, a | b), (mine & theirs, a & b), (mine - theirs, a - b), (mine, a)):
        assert members_of(fast) == slow
        assert fast.total == len(slow)
        assert_canonical(fast.groups.tolist(), fast.starts.tolist(), fast.stops.tolist())
        shuffled = list(slow)
        assert fast == RowSet.of_rows([group for group, _ in shuffled], [at for _, at in shuffled])
    assert mine.overlaps(theirs) is bool(a & b)
    asked = [(group, at) for group in range(-2, 7) for at in range(-8, 44)]
    found = mine.contains([group for group, _ in asked], [at for _, at in asked])
    assert found.tolist() == [row in a for row in asked]


@given(grouped)
def test_one_group_some_groups_and_their_totals(drawn: list[tuple[int, int, int]]) -> None:
    rows, members = rows_made(drawn)
    groups, totals = rows.totals()
    assert dict(zip(groups.tolist(), totals.tolist(), strict=True)) == {
        group: sum(1 for other, _ in members if other == group) for group, _ in members
    }
    for group in range(-2, 7):
        assert set(rows.of_group(group).positions().tolist()) == {
            at for other, at in members if other == group
        }
    assert members_of(rows.in_groups([3, 0, 3])) == {row for row in members if row[0] in {0, 3}}


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-4, 30), st.integers(-2, 9)), max_size=14),
    st.lists(st.integers(-1, 3), min_size=5, max_size=5),
)
def test_groups_renumbered_join_or_leave(drawn: list[tuple[int, int, int]], numbers: list[int]) -> None:
    rows, members = rows_made(drawn)
    assert members_of(rows.renumbered(numbers)) == {
        (numbers[group], at) for group, at in members if numbers[group] >= 0
    }


def test_union_takes_any_number_of_sets() -> None:
    parts = [RowSet([group], [at], [at + 2]) for group in range(3) for at in range(4)]
    assert RowSet().union(*parts) == RowSet(range(3), [0] * 3, [5] * 3)


def test_the_greatest_and_least_integers_are_ordinary() -> None:
    low, high = -(2**63), 2**63 - 1
    everything = IntervalSet([low], [high])
    assert everything.contains([low, 0, high - 1, high]).tolist() == [True, True, True, False]
    assert (everything - IntervalSet([0], [5])).stops.tolist() == [0, high]
    assert IntervalSet.of_positions([high - 1, low]).starts.tolist() == [low, high - 1]


def test_bad_arrays_are_refused() -> None:
    for call in (
        lambda: IntervalSet([1], []),
        lambda: IntervalSet([1.5], [2.5]),
        lambda: IntervalSet([[1]], [[2]]),
        lambda: RowSet([1], [1], [2, 3]),
        lambda: RowSet.of_rows([1, 2], [1]),
        lambda: RowSet([7], [0], [1]).renumbered([0]),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_sets_print_their_first_intervals() -> None:
    assert repr(IntervalSet([0, 3], [1, 9])) == "IntervalSet(0:1, 3:9)"
    assert repr(RowSet([2, 1], [0, 3], [1, 9])) == "RowSet(1/3:9, 2/0:1)"
    assert repr(IntervalSet(range(0, 40, 2), range(1, 41, 2))).endswith("14:15, ...)")


@pytest.mark.parametrize("mine", [IntervalSet([1], [3]), RowSet([0], [1], [3]), ValueSet([Interval(1, 3)])])
@pytest.mark.parametrize("other", [4, None, "ab", [(1, 2)], {1, 2}, Interval(1, 2)])
def test_what_is_no_set_of_the_same_kind_is_refused(mine: Any, other: Any) -> None:
    for operation in (mine.union, mine.intersection, mine.difference, mine.overlaps):
        with pytest.raises(InvalidArgument, match=type(mine).__name__):
            operation(other)


@pytest.mark.parametrize("wrong", [(1, 2), 3, None, "ab"])
def test_what_is_no_interval_is_refused(wrong: Any) -> None:
    for kind in (ValueSet, IntervalIndex):
        with pytest.raises(InvalidArgument, match="Interval"):
            kind([Interval(1, 2), wrong])
    with pytest.raises(InvalidArgument, match="Interval"):
        IntervalIndex([Interval(1, 2)]).overlapping(wrong)

"""Gathering by itself, against what it is for: every file once it is known, in two rounds or three."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.protocol.gathering import Gathering
from crdtcat.support.object_bytes import ObjectBytes


def file(place: int) -> ObjectBytes:
    return b"file %d" % place


def gathered(carries: Sequence[int], gone: frozenset[int] = frozenset()) -> tuple[list[int], list[list[int]]]:
    """The places whose files were found, and what was asked for in each round. The file at a place carries so
    many below it, as far as there are any: also some that nobody asks for."""
    step, asked = Gathering.of(len(carries)), []
    while step.asked:
        asked.append(list(step.asked))
        answers = [
            () if place in gone else [file(at) for at in range(place, place - 1 - carries[place], -1)]
            for place in step.asked
        ]
        step = step.take(answers)
    found = [int(bytes(one).split()[1]) for one in step.found]
    assert [file(place) for place in found] == [bytes(one) for one in step.found]
    return found, asked


@given(st.lists(st.integers(0, 9), max_size=12), st.data())
def test_all_below_the_first_that_nobody_has(carries: list[int], data: st.DataObject) -> None:
    places = range(len(carries))
    gone = data.draw(st.frozensets(st.sampled_from(places)) if carries else st.just(frozenset[int]()))
    found, asked = gathered(carries, gone)
    assert found == list(range(len(found)))
    assert len(found) == len(carries) or len(found) in gone
    assert len(asked) <= 3
    every = [place for wanted in asked for place in wanted]
    assert len(every) == len(set(every))  # nothing is asked for twice
    assert all(wanted == sorted(wanted, reverse=True) for wanted in asked)


@pytest.mark.parametrize(
    ("carries", "gone", "rounds"),
    [
        ([0] * 7, (), [[6], [5, 4, 3, 2, 1, 0]]),  # nobody carries anything
        ([2] * 7, (), [[6], [3, 0]]),  # each two, as the newest does
        ([9] * 7, (), [[6]]),  # more than is wanted
        ([0, 0, 0, 0, 2, 0, 2], (), [[6], [3, 0], [2, 1]]),  # less than the newest
        ([1] * 4, (3,), [[3], [2, 1, 0]]),  # the newest is gone: how much the others carry nobody knows
        (
            [1] * 6,
            (3,),
            [[5], [3, 1], [2]],
        ),  # one in the middle is gone, and all above it is not known to be next
        ([0], (), [[0]]),
        ([], (), []),
    ],
)
def test_what_is_asked_for_when(carries: list[int], gone: tuple[int, ...], rounds: list[list[int]]) -> None:
    assert gathered(carries, frozenset(gone))[1] == rounds


def test_an_answer_for_each_question() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Gathering.of(3).take([])

"""The n-th request fails, and Ctrl-C, in operations that look at much or touch several logs.

They make many requests, so by default every fault meets some of them, and all of them with `make test-all`.
"""

from __future__ import annotations

import pytest

from crdtcat.testing.faulty import FAULTS, Fault, from_nth, nth
from tests.bounds import FULL
from tests.faults.more_operations import MORE_PLAYS
from tests.faults.operations import Play
from tests.faults.test_interrupted import interrupted_at_points
from tests.faults.test_nth_request import check, run

STRIDES = {"error": 1, "lost_answer": 2, "transient": 5, "transient_lost_answer": 5}


def _some(play: Play, fault: Fault) -> range:
    """Which requests fail: those of the whole play, by a stride, and one beyond."""
    store, error = run(play, nth(0, fault))
    assert error is None
    stride = 1 if FULL else STRIDES[fault] * max(1, len(store.calls) // 20)
    return range(1, len(store.calls) + stride, stride)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("play", MORE_PLAYS, ids=str)
def test_a_request_failing_once(play: Play, fault: Fault) -> None:
    for number in _some(play, fault):
        store, error = run(play, nth(number, fault))
        check(play, store, error, fault)


@pytest.mark.parametrize("play", MORE_PLAYS, ids=str)
def test_a_store_that_stays_down(play: Play) -> None:
    for number in _some(play, "lost_answer"):
        store, error = run(play, from_nth(number, "lost_answer"))
        check(play, store, error, "lost_answer")


@pytest.mark.parametrize("play", MORE_PLAYS, ids=str)
def test_interrupted(play: Play) -> None:
    interrupted_at_points(play)

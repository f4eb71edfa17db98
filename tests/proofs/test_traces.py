"""Traces of the real protocol steps are behaviours of the model of the log; what is not one is refused."""

from __future__ import annotations

import pytest

from proofs.traces import Recorder, check
from proofs.traces_runner import FORGERIES, accepted, recorded
from tests.protocol import mutants
from tests.protocol.scenes import reader

SEEDS = range(120)
TRACES = recorded(SEEDS)


def test_every_trace_is_a_behaviour_of_the_model() -> None:
    assert len(TRACES) > 100
    for trace in TRACES:
        check(trace)


def test_the_traces_are_not_all_alike() -> None:
    """Files vanish between list and get; everything ends up in bundles; readers miss what came too late."""
    assert any(event.op == "again" for trace in TRACES for event in trace)
    assert {event.rank for trace in TRACES for event in trace if event.op == "delete"} >= {1, 2}
    assert {len(event.holds) for trace in TRACES for event in trace if event.op == "get"} >= {2, 3}


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forged_trace_is_refused(forge: object) -> None:
    assert callable(forge)
    assert not any(accepted(forge(trace)) for trace in TRACES[:20])


def test_a_reader_that_skips_what_vanished_leaves_no_behaviour_of_the_model() -> None:
    skipping = [Recorder(seed, lambda name: reader(name, mutants.SkippingReader)).run() for seed in SEEDS]
    assert not all(map(accepted, skipping))

"""Traces of the real protocol steps are behaviours of the models; what is not one is refused."""

from __future__ import annotations

from functools import cache

import pytest

from proofs import claim_rules
from proofs.claim_rules import ClaimEvent
from proofs.claim_traces import ClaimRecorder
from proofs.traces import Event, Recorder, check
from proofs.traces_runner import (
    CLAIM_FORGERIES,
    FORGERIES,
    accepted,
    claims_accepted,
    interesting,
    recorded,
)
from tests.protocol import mutants
from tests.protocol.claims import Overwrites
from tests.protocol.scenes import reader

SEEDS = range(120)


@cache
def traces() -> list[list[Event]]:
    """Recorded once, by the first test that asks."""
    return recorded(SEEDS)


def test_every_trace_is_a_behaviour_of_the_model() -> None:
    assert len(traces()) > 100
    for trace in traces():
        check(trace)


def test_the_traces_are_not_all_alike() -> None:
    """Files vanish between list and get; everything ends up in bundles; readers miss what came too late."""
    assert any(event.op == "again" for trace in traces() for event in trace)
    assert {event.rank for trace in traces() for event in trace if event.op == "delete"} >= {1, 2}
    assert {len(event.holds) for trace in traces() for event in trace if event.op == "get"} >= {2, 3}


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forged_trace_is_refused(forge: object) -> None:
    assert callable(forge)
    assert not any(accepted(forge(trace)) for trace in traces()[:20])


def test_a_reader_that_skips_what_vanished_leaves_no_behaviour_of_the_model() -> None:
    skipping = [Recorder(seed, lambda name: reader(name, mutants.SkippingReader)).run() for seed in SEEDS]
    assert not all(map(accepted, skipping))


CLAIM_SEEDS = range(100)


@cache
def claims() -> list[list[ClaimEvent]]:
    return [ClaimRecorder(seed).run() for seed in CLAIM_SEEDS]


def test_every_trace_of_claims_is_a_behaviour_of_the_model() -> None:
    for trace in claims():
        claim_rules.check(trace)


def test_the_traces_of_claims_are_not_all_alike() -> None:
    """Answers are lost, numbers are taken, commits conflict, claims are collected."""
    happened = {event.op for trace in claims() for event in trace}
    assert happened >= {"late", "exists", "collect", "bundle", "result"}
    assert any(event.op == "ended" and not event.number for trace in claims() for event in trace)
    assert {len(event.result) for trace in claims() for event in trace if event.op == "result"} >= {2, 3}


@pytest.mark.parametrize("forge", CLAIM_FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forged_trace_of_claims_is_refused(forge: object) -> None:
    assert callable(forge)
    chosen = sorted(claims(), key=interesting, reverse=True)[:20]
    assert not any(claims_accepted(forge(trace)) for trace in chosen)


def test_a_claimer_that_takes_taken_for_created_leaves_no_behaviour_of_the_model() -> None:
    wrong = [ClaimRecorder(seed, Overwrites).run() for seed in CLAIM_SEEDS]
    assert not all(map(claims_accepted, wrong))

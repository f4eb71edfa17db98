"""Traces of the real protocol steps are behaviours of the models; what is not one is refused."""

from __future__ import annotations

import secrets
import shutil
import sys
import threading
import time
from functools import cache
from typing import Any

import pytest

from proofs import tools
from proofs.claim_traces import ClaimRecorder
from proofs.forgeries import FORGERIES
from proofs.mark_traces import MarkRecorder
from proofs.traces import Recorder
from proofs.traces_runner import by_tlc, models, refusal
from tests.bounds import LEFT_TO_PROOFS
from tests.protocol import mutants
from tests.protocol.claims import Overwrites
from tests.protocol.scenes import reader

SEEDS = range(120)
LIBRARY_SEEDS = range(40, 70)
EVERY_MODEL = models()
MODELS = {name: model for name, model in EVERY_MODEL.items() if model.check is not None}
LIBRARY = EVERY_MODEL.keys() - MODELS.keys()
NEEDS_TLC = pytest.mark.skipif(
    shutil.which("java") is None or not tools.TLA_JAR.exists(),
    reason="no Java or no tla2tools.jar: `make setup` fetches it",
)


@cache
def traces(module: str) -> list[list[Any]]:
    """Recorded once, by the first test that asks."""
    return MODELS[module].record(SEEDS)


@pytest.mark.parametrize("module", MODELS)
def test_every_trace_is_a_behaviour_of_the_model(module: str) -> None:
    assert len(traces(module)) > 100
    assert all(MODELS[module].accepts(trace) for trace in traces(module))


def test_the_traces_of_the_log_are_not_all_alike() -> None:
    """Files vanish between list and get; everything ends up in bundles; readers miss what came too late."""
    found = traces("Log")
    assert any(event.op == "again" for trace in found for event in trace)
    assert {event.rank for trace in found for event in trace if event.op == "delete"} >= {1, 2}
    assert {len(event.holds) for trace in found for event in trace if event.op == "get"} >= {2, 3}


def test_the_traces_of_claims_are_not_all_alike() -> None:
    """Answers are lost, numbers are taken, commits conflict, claims are collected."""
    found = traces("Claims")
    assert {event.op for trace in found for event in trace} >= {
        "late",
        "exists",
        "collect",
        "bundle",
        "result",
    }
    assert any(event.op == "ended" and not event.number for trace in found for event in trace)
    assert {len(event.result) for trace in found for event in trace if event.op == "result"} >= {2, 3}


def test_the_traces_of_transactions_are_not_all_alike() -> None:
    """Readers come before the mark, between mark and file, and after both; files are collected."""
    found = traces("Marks")
    assert any(event.op == "collect" for trace in found for event in trace)
    assert any("transactions" not in {event.op for event in trace} for trace in found)
    assert {len(event.result) for trace in found for event in trace if event.op == "result"} == {0, 1, 2}


FORGED = [(module, forge) for module in MODELS for forge in FORGERIES[module]]


@pytest.mark.parametrize(("module", "forge"), FORGED, ids=[forge.__name__ for _, forge in FORGED])
def test_a_forged_trace_is_refused(module: str, forge: Any) -> None:
    for trace in MODELS[module].interesting(traces(module), 10):
        assert not MODELS[module].accepts(forge(trace))


WRONG: dict[str, tuple[str, Any]] = {
    "a reader that skips what vanished": (
        "Log",
        lambda seed: Recorder(seed, lambda name: reader(name, mutants.SkippingReader)).run(),
    ),
    "a claimer that takes taken for created": ("Claims", lambda seed: ClaimRecorder(seed, Overwrites).run()),
    "a reader to which marks are nothing": (
        "Marks",
        lambda seed: MarkRecorder(seed, lambda name: reader(name, mutants.MarksAreNothingReader)).run(),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_code_leaves_no_behaviour_of_the_model(wrong: str) -> None:
    module, record = WRONG[wrong]
    assert not all(MODELS[module].accepts(record(seed)) for seed in SEEDS)


@LEFT_TO_PROOFS
@NEEDS_TLC
@pytest.mark.parametrize("module", sorted(LIBRARY))
def test_every_trace_of_the_library_is_a_behaviour_of_the_model(module: str) -> None:
    model = EVERY_MODEL[module]
    found = model.record(LIBRARY_SEEDS)
    assert {event.op for trace in found for event in trace} >= set(model.rare)
    output = by_tlc(module, model, found)
    assert "No error has been found" in output, refusal(output, found)


@pytest.mark.parametrize("module", sorted(LIBRARY))
def test_a_trace_of_the_library_is_a_function_of_its_seed(module: str) -> None:
    model = EVERY_MODEL[module]
    assert model.record([3]) == model.record([3])


@pytest.mark.parametrize("module", sorted(LIBRARY))
def test_threads_of_others_are_no_part_of_a_trace(module: str) -> None:
    """Whatever else goes on in the process sleeps, draws and tells the time as ever."""
    alone, over = EVERY_MODEL[module].record([3]), threading.Event()

    def busy() -> None:
        while not over.is_set():
            time.sleep(0.0001)
            secrets.randbits(64)

    other = threading.Thread(target=busy)
    other.start()
    try:
        assert EVERY_MODEL[module].record([3]) == alone
    finally:
        over.set()
        other.join(10)


WRONG_LIBRARY: dict[str, tuple[str, str, Any, int]] = {
    "a transaction is decided whatever it claimed": (
        "Decisions",
        "crdtcat.cas.preparing.decide",
        lambda *_, **__: True,
        6,
    ),
    "a table is read with what the one before lacks": (
        "Transactions",
        "crdtcat.transaction.pinning._without",
        lambda log, _: log,
        50,
    ),
    "a commit that was slow does not look": (
        "Switching",
        "crdtcat.cas.switching.listed_lately",
        lambda _: True,
        6,
    ),
    "a writer that was slow does not look": (
        "Horizon",
        "crdtcat.lifecycle.horizons.is_late",
        lambda *_: False,
        6,
    ),
    "an expirer folds what is young": (
        "Horizon",
        "crdtcat.maintenance.expire.wait_until_old",
        lambda *_: None,
        6,
    ),
    "a transaction that was slow does not look": (
        "Closing",
        "crdtcat.lifecycle.closing.is_late",
        lambda *_: False,
        6,
    ),
    "a reader builds on what is being closed": (
        "Closing",
        "crdtcat.session.settled",
        lambda _, read: (read(), True),
        12,
    ),
    "a commit may take for ever": (
        "Segments",
        "crdtcat.writing.staged.TRANSACTION_SECONDS_MAX",
        10**9,
        6,
    ),
    "who lets go says nothing": ("Reuse", "crdtcat.maintenance.expire.let_go", lambda *_: None, 6),
}
"""The model, what is replaced in the library by what, and how many traces are enough to tell."""


@NEEDS_TLC
@pytest.mark.parametrize("wrong", WRONG_LIBRARY)
def test_a_wrong_library_leaves_no_behaviour_of_the_model(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, instead, seeds = WRONG_LIBRARY[wrong]
    where, _, what = name.rpartition(".")
    monkeypatch.setattr(sys.modules[where], what, instead)
    found = EVERY_MODEL[module].record(range(seeds))
    output = by_tlc(module, EVERY_MODEL[module], found)
    assert "Deadlock reached" in output or "is violated" in output
    assert "is refused at its last event here" in refusal(output, found)

"""Simulations of the real catalog: many seeds hold, a seed is a whole run, and wrong code is found."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from crdtcat import Table, drive, first_page
from crdtcat.errors import StoreUnavailable
from crdtcat.protocol import Outcome, Publish
from crdtcat.store import Store
from crdtcat.testing.cells import Cells
from crdtcat.testing.ledger import Ledger
from crdtcat.testing.simulated_verbs import Process
from crdtcat.testing.simulator import Faults, Simulation, SimulationFailed, replay, simulate
from crdtcat.writing import writer
from tests.protocol.mutants import SkippingReader

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
LASTING = Faults(error=0.05, lost_answer=0.05, lasting=0.9)
ROWS = {
    "append": 8,
    "append with a key": 3,
    "overwrite": 2,
    "read": 6,
    "travel": 3,
    "checkpoint": 3,
    "collect": 3,
}
ROWS |= {"upkeep": 3, "restart": 1, "wait": 2}


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_promise_holds_for_many_seeds(first: int) -> None:
    for seed in range(first, first + 20):
        simulate(seed, operations=16)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not FULL, reason="minutes; CRDTCAT_SLOW=full")
@pytest.mark.parametrize("first", range(1000, 4000, 250))
def test_every_promise_holds_for_thousands_of_seeds(first: int) -> None:
    for seed in range(first, first + 250):
        simulate(seed, operations=40)


def digest(seed: int) -> str:
    return hashlib.sha256("\n".join(simulate(seed)).encode()).hexdigest()


def test_a_seed_is_the_same_run_again_in_any_process() -> None:
    code = "from tests.simulation.test_simulator import digest; print(digest(5))"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert replay(5) == simulate(5)
    assert other.stdout.strip() == digest(5)
    assert digest(6) != digest(5)


def first_failure(seeds: range, **arguments: Any) -> SimulationFailed:
    """Of seeds that begin near one that is known to fail: any hundred have one, these have it soon."""
    for seed in seeds:
        try:
            simulate(seed, **arguments)
        except SimulationFailed as failed:
            return failed
    raise AssertionError("wrong code was not noticed")


def test_a_reader_that_skips_what_vanished_is_found_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_page, "Reader", SkippingReader)
    failed = first_failure(range(105, 205))
    assert f"replay({failed.seed})" in str(failed)
    with pytest.raises(SimulationFailed) as again:
        replay(failed.seed)
    assert again.value.why == failed.why
    assert again.value.trace == failed.trace


def test_a_failure_names_all_that_it_takes_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the seed alone: a longer run draws the same and goes on, a shorter one may end before it breaks."""
    monkeypatch.setattr(writer, "CommitUnknown", StoreUnavailable)
    first = first_failure(range(13, 63), operations=80)
    assert first.call == f"replay({first.seed}, operations=80)"
    assert first.call in str(first)
    with pytest.raises(SimulationFailed) as again:
        eval(first.call, {"replay": replay})  # as somebody would who reads it
    assert str(again.value) == str(first)
    with pytest.raises(SimulationFailed) as again:
        replay(first.seed, **first.arguments)
    assert again.value.trace == first.trace


@pytest.mark.parametrize("error", [RuntimeError, AttributeError, OSError, ZeroDivisionError])
def test_whatever_an_operation_raises_has_a_seed(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def broken(_: Table) -> None:
        raise error("by mistake")

    monkeypatch.setattr(Table, "checkpoint", broken)
    failed = first_failure(range(100))
    assert failed.why == f"{error.__name__}: by mistake"


def test_a_writer_that_takes_no_answer_for_success_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def certain(step: Publish, store: Store, **more: Any) -> Publish:
        done = drive.run(step, store, **more)
        return replace(done, outcome=Outcome.DONE) if done.outcome is Outcome.UNKNOWN else done

    monkeypatch.setattr(writer, "run", certain)
    assert re.search("Corrupt|not there", first_failure(range(100), verbs=ROWS, faults=LASTING).why)


def test_a_writer_that_takes_no_answer_for_failure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "CommitUnknown", StoreUnavailable)
    assert "failed, are there" in first_failure(range(71, 171), verbs=ROWS).why


def test_what_breaks_during_a_request_of_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for an answer of the store, which the other would put up with."""

    def check(simulation: Simulation, process: Process) -> str:
        if len(simulation.running) > 1:
            raise AssertionError("a read within a request")
        return "nothing"

    monkeypatch.setattr(Simulation, "_read", check)
    found = first_failure(range(10), verbs=ROWS)
    assert found.why == "AssertionError: a read within a request"
    assert "gave up" not in found.trace[-1]


def test_the_ledger_knows_what_must_be_there() -> None:
    ledger = Ledger()
    one = ledger.begin(2)
    ledger.check([], ledger.now())
    ledger.end(one, "done")
    with pytest.raises(AssertionError, match="acknowledged"):
        ledger.check([], ledger.now())
    with pytest.raises(AssertionError, match="times"):
        ledger.check([0], ledger.now())
    over = ledger.begin(1, overwrite=True)
    ledger.check([0, 1], ledger.now())
    ledger.end(over, "done")
    with pytest.raises(AssertionError, match="still there"):
        ledger.check([0, 1, 2], ledger.now())
    failed = ledger.begin(1)
    ledger.end(failed, "nothing")
    with pytest.raises(AssertionError, match="failed"):
        ledger.check([2, 3], ledger.now())
    doubt = ledger.begin(1)
    ledger.end(doubt, "unknown")
    ledger.check([2], ledger.now())
    ledger.check([2, 4], ledger.now())
    with pytest.raises(AssertionError, match="not there"):
        ledger.check([2], ledger.now())


def test_the_ledger_knows_what_was_deleted() -> None:
    ledger = Ledger()
    ledger.end(ledger.begin(3), "done")
    number = ledger.begin_removal([0, 1])
    ledger.check([0, 1, 2], ledger.now())
    ledger.check([2], ledger.now())
    with pytest.raises(AssertionError, match="half of a delete"):
        ledger.check([1, 2], ledger.now())
    with pytest.raises(AssertionError, match="acknowledged"):
        ledger.check([], ledger.now())
    with pytest.raises(AssertionError, match="half of the rows"):
        ledger.check([0, 1], ledger.now())
    with pytest.raises(AssertionError, match="times"):
        ledger.check([0, 0, 1, 1, 2], ledger.now())
    ledger.end_removal(number, "done")
    with pytest.raises(AssertionError, match="deleted and are still there"):
        ledger.check([0, 1, 2], ledger.now())
    ledger.check([2], ledger.now())
    ledger.end_removal(ledger.begin_removal([2]), "nothing")
    with pytest.raises(AssertionError, match="acknowledged"):
        ledger.check([], ledger.now())


def test_cells_show_what_was_written_and_not_certainly_replaced() -> None:
    ledger = Ledger()
    cells = Cells(ledger.now)

    def check(value: str | None) -> None:
        cells.check({"a": value}, ledger.now(), lambda _: "first")

    check("first")
    one = cells.begin(["a"], "one", ledger.now())
    check("first")
    cells.end(one, "done")
    check("one")
    with pytest.raises(AssertionError, match="may be one of"):
        check("first")
    blind = cells.begin(["a"], "blind", 0)
    cells.end(blind, "unknown")
    check("one")
    check("blind")
    cells.end(cells.begin(["a"], None, 0), "nothing")
    with pytest.raises(AssertionError, match="may be one of"):
        check(None)
    cells.end(cells.begin(["a"], "looked", ledger.now()), "done")
    check("looked")
    for gone in ("one", "blind", "never written"):
        with pytest.raises(AssertionError, match="may be one of"):
            check(gone)

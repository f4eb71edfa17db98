"""Simulations as a kit: faults, verbs and steps of one's own, each part of what a seed means."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import CommitUnknown, InvalidArgument
from crdtcat.testing.simulator import VERBS, Faults, SimulationFailed, Workload, replay, simulate
from tests.simulation.test_simulator import first_failure

CALM = Faults(error=0, lost_answer=0, transient=0, transient_lost_answer=0, crash=0, crash_after=0)


@pytest.mark.parametrize(
    ("verb", "wrong"),
    [
        ("delete", "still there"),
        ("update", "may be one of"),
        ("upsert", "may be one of"),
    ],
)
def test_a_verb_that_does_nothing_is_found(monkeypatch: pytest.MonkeyPatch, verb: str, wrong: str) -> None:
    """The model follows every verb that changes something."""

    def nothing(table: Table, *_: object, **__: object) -> object:
        return table.set_properties({"nothing": "1"})

    monkeypatch.setattr(Table, verb, nothing)
    verbs = {"append": 4, verb: 4, "read": 4, "read keys": 4}
    assert wrong in first_failure(range(20), verbs=verbs, faults=CALM).why


class Tallies(Workload):
    """Several processes count in one table; a table of its own, steps of its own, an end of its own."""

    steps = {"count": 3, "look": 2}  # noqa: RUF012

    def __init__(self) -> None:
        self.least = self.most = 0

    def prepare(self, catalog: Catalog) -> None:
        catalog.create_table("tallies", pa.schema([("one", pa.int64())]))

    def count(self, catalog: Catalog, chance: random.Random) -> str:
        self.most += 1
        catalog.table("tallies").append([{"one": chance.randrange(10)}])
        self.least += 1
        return "counted"

    def look(self, catalog: Catalog, _: random.Random) -> None:
        least = self.least
        assert least <= catalog.read("tallies").num_rows <= self.most

    def check(self, catalog: Catalog) -> None:
        self.look(catalog, random.Random(0))


class Miscounting(Tallies):
    """Takes "nobody knows" for "nothing": what it counts is wrong, sooner or later."""

    def count(self, catalog: Catalog, chance: random.Random) -> str:
        try:
            return super().count(catalog, chance)
        except CommitUnknown:
            self.most -= 1
            raise


def test_steps_of_ones_own_are_run_among_the_others_and_alone() -> None:
    for seed in range(5):
        trace = simulate(seed, workload=Tallies)
        assert replay(seed, workload=Tallies) == trace
    alone = simulate(1, operations=12, verbs={}, workload=Tallies)
    acts = {line.split(" ", 2)[2] for line in alone if line.startswith("process") and ":" not in line}
    assert acts == {"count", "look"}


def test_a_workload_that_is_wrong_is_found_and_the_message_can_be_run() -> None:
    faults = Faults(lost_answer=0.3, lasting=1)
    found = first_failure(range(50), operations=30, faults=faults, verbs={"read": 1}, workload=Miscounting)
    assert found.call == (
        f"replay({found.seed}, operations=30, faults=Faults(lost_answer=0.3, lasting=1), "
        "verbs={'read': 1}, workload=Miscounting)"
    )
    with pytest.raises(SimulationFailed) as again:
        eval(found.call, {"replay": replay, "Faults": Faults, "Miscounting": Miscounting})
    assert again.value.trace == found.trace


class Wrong(Workload):
    """Wrong at the end of every simulation."""

    def check(self, catalog: Catalog) -> None:
        raise AssertionError("wrong")


def test_the_order_of_verbs_is_a_part_of_what_is_repeated() -> None:
    """The same verbs in another order are drawn otherwise, so the message has to say them."""
    verbs = dict(reversed(VERBS.items()))
    assert verbs == VERBS
    found = first_failure(range(3), operations=8, verbs=verbs, workload=Wrong)
    assert found.arguments["verbs"] == verbs
    with pytest.raises(SimulationFailed) as again:
        eval(found.call, {"replay": replay, "Wrong": Wrong})
    assert again.value.trace == found.trace
    usual = first_failure(range(3), operations=8, workload=Wrong)
    assert "verbs" not in usual.arguments
    assert usual.trace != found.trace


def test_what_is_asked_for_must_be_there() -> None:
    with pytest.raises(InvalidArgument, match="no such step"):
        simulate(1, verbs={"fly": 1})
    with pytest.raises(InvalidArgument, match="needs steps"):
        simulate(1, verbs={})
    with pytest.raises(InvalidArgument, match="between 0 and 1"):
        Faults(error=2)
    with pytest.raises(InvalidArgument, match="at least 1"):
        Faults(page_limit=0)
    missing = type("Missing", (Workload,), {"steps": {"walk": 1}})
    with pytest.raises(InvalidArgument, match="walk"):
        simulate(1, workload=missing)


def test_faults_are_as_often_as_is_said() -> None:
    assert not [line for line in simulate(3, faults=CALM) if "simulated" in line]
    crashing = simulate(3, faults=Faults(crash=0.3))
    assert len([line for line in crashing if "died" in line]) > 3


def test_every_verb_is_taken() -> None:
    taken = {line.split(" ", 2)[2] for seed in range(12) for line in simulate(seed) if line.startswith("pro")}
    assert VERBS.keys() <= taken

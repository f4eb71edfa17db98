"""The claimer, step by step and through every interleaving; and wrong variants that the search exposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from crdtcat.format.carried import carrying
from crdtcat.log import State
from crdtcat.protocol import Got, Listed, Object, PutIfAbsent
from crdtcat.protocol.claimer import TRIES, Claimer, ClaimOutcome, Parent, Verdict
from crdtcat.protocol.requests import Created, Get
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.testing.scheduler import Actor, explore
from tests.protocol import claims
from tests.protocol.claims import (
    FIRST,
    FIRST_FILE,
    SECOND,
    SECOND_FILE,
    THIRD,
    THIRD_FILE,
    Setting,
    claimed,
    claimer,
    sleeper,
)
from tests.protocol.scenes import FOLDER, block_upkeep, bundle, expirer, reader, upkeep

ONE = dict([FIRST_FILE])
TWO = dict([FIRST_FILE, SECOND_FILE])
THREE = dict([FIRST_FILE, SECOND_FILE, THIRD_FILE])
FOURTH, FOURTH_FILE = claimed(Setting(104), THIRD, 14)
# More than a block of one takes in, and collected.
BUNDLED = dict([bundle(State(FOLDER).joined([*THREE.items(), FOURTH_FILE]), [], 1)])
UNCLEAR = Created(created=False, clear=False)
TAKEN = Created(created=False)


def begun(writer: int = 1, name: str = "", parent: Parent = FIRST) -> Claimer[Setting]:
    return Claimer.begin(FOLDER, Setting(writer, name), parent, 20)


class Waiting(Setting):
    """A change to which every number is held by a transaction that is not decided."""

    def judged(self, number: int, data: ObjectBytes) -> Verdict:
        return super().judged(number, data)._replace(undecided=7)


class Passing(Setting):
    """A change to which every number is void."""

    def judged(self, number: int, data: ObjectBytes) -> Verdict:
        return super().judged(number, data)._replace(void=True)


def test_a_warm_commit_is_one_creation() -> None:
    step = begun()
    (want,) = step.wants
    assert isinstance(want, PutIfAbsent)
    assert want.name == f"{FOLDER}{2:016d}.c"
    done = step.take([Created(created=True)])
    assert (done.outcome, done.wants, done.rebases) == (ClaimOutcome.DONE, (), 0)


def test_a_lost_answer_is_recognized_by_ones_own_bytes() -> None:
    step = begun()
    for answer in (UNCLEAR, TAKEN):
        looking = step.take([answer])
        assert looking.wants == (Get(f"{FOLDER}{2:016d}.c"),)
        assert looking.take([Got(step.data)]).outcome is ClaimOutcome.DONE


def test_a_put_without_a_trace_is_repeated_with_the_same_bytes_and_then_unknown() -> None:
    step = begun()
    for _ in range(TRIES - 1):
        again = step.take([UNCLEAR]).take([Got(None)])
        assert again.wants == step.wants
        step = again
    assert step.take([UNCLEAR]).take([Got(None)]).outcome is ClaimOutcome.UNKNOWN


def test_three_tries_are_made() -> None:
    assert TRIES == 3


def test_tries_are_counted_for_each_number() -> None:
    _, (_, theirs) = claimed(Setting(2), FIRST, 30)
    step = begun().take([UNCLEAR]).take([Got(None)]).take([UNCLEAR]).take([Got(theirs)])
    assert (step.outcome, step.tries, step.rebases) == (ClaimOutcome.CONTENDED, 0, 1)
    step = step.resumed()
    for _ in range(TRIES - 1):
        step = step.take([UNCLEAR]).take([Got(None)])
        assert step.outcome is ClaimOutcome.PENDING
    assert step.take([UNCLEAR]).take([Got(None)]).outcome is ClaimOutcome.UNKNOWN


def test_an_undecided_number_is_judged_again_and_not_asked_for_again() -> None:
    _, (_, theirs) = claimed(Setting(2), FIRST, 30)
    step: Claimer[Any] = Claimer.begin(FOLDER, Waiting(1), FIRST, 20)
    step = step.take([TAKEN]).take([Got(theirs)])
    assert (step.outcome, step.wants) == (ClaimOutcome.UNDECIDED, ())
    assert step.resumed().outcome is ClaimOutcome.UNDECIDED
    decided = replace(step, change=Setting(1)).resumed()
    assert (decided.outcome, decided.passed, decided.ahead) == (ClaimOutcome.CONTENDED, 1, ())
    assert decided.resumed().wants == (PutIfAbsent(f"{FOLDER}{3:016d}.c", decided.data),)


def test_a_void_number_is_passed_and_not_followed() -> None:
    """The number is used up, but the claim before it is the one that the next builds on."""
    theirs, (_, data) = claimed(Setting(2), FIRST, 30)
    assert theirs.id is not None
    step: Claimer[Any] = Claimer.begin(FOLDER, Passing(1), FIRST, 20)
    step = step.take([TAKEN]).take([Got(data)])
    assert step.parent == Parent(2, FIRST.id)
    assert step.hlc == theirs.id.hlc + 1


def test_a_number_that_is_taken_and_not_there_was_collected() -> None:
    step = begun()
    for _ in range(TRIES - 1):
        step = step.take([TAKEN]).take([Got(None)])
    assert step.take([TAKEN]).take([Got(None)]).outcome is ClaimOutcome.STALE


def test_a_rebased_claim_names_its_new_parent_and_is_stamped_later() -> None:
    parent, (_, data) = claimed(Setting(2), FIRST, 500)
    step = begun().take([TAKEN]).take([Got(data)])
    assert (step.outcome, step.wants, step.parent, step.rebases) == (ClaimOutcome.CONTENDED, (), parent, 1)
    assert parent.id is not None
    assert step.id > parent.id
    assert (step.hlc, step.id.hlc) == (501, 501)
    assert step.resumed().wants == (PutIfAbsent(f"{FOLDER}{3:016d}.c", step.data),)


def test_the_whole_chain_is_judged_not_only_the_newest() -> None:
    """Lode's false negative: the claim in between touched the same, the newest did not."""
    middle, (_, between) = claimed(Setting(2, "p"), FIRST, 30)
    _, (_, newest) = claimed(Setting(3, "q"), middle, 31)
    step = begun(name="p").take([TAKEN]).take([Got(between)])
    assert step.outcome is ClaimOutcome.CONFLICT
    clean = begun(name="q").take([TAKEN]).take([Got(between)]).resumed()
    assert (
        replace(clean, window=1, rebases=2).take([TAKEN]).take([Got(newest)]).outcome is ClaimOutcome.CONFLICT
    )


def test_what_is_carried_is_judged_as_what_is_looked_at() -> None:
    middle, (name, between) = claimed(Setting(2, "p"), FIRST, 30)
    _, (newest_name, newest) = claimed(Setting(3, "q"), middle, 31)
    listed = Listed((Object(name), Object(newest_name)), None)
    for file in (carrying(newest, [between]), newest):
        step = Claimer.begin(FOLDER, Setting(1, "p"), FIRST, 20, listing=True).take([listed])
        step = step.take([Got(file)])
        if step.gathering is not None:
            step = step.take([Got(between)])
        assert (step.outcome, step.number, step.passed) == (ClaimOutcome.CONFLICT, 2, 0)


def test_above_another_claim_than_the_one_that_is_known_nothing_is_passed() -> None:
    """What is known to be under a number is gone, and somebody took it again: nobody has judged that one."""
    other, _ = claimed(Setting(2, "p"), Parent(), 12)
    _, (name, data) = claimed(Setting(3, "q"), other, 30)
    step = begun(name="p").take([TAKEN]).take([Got(data)])
    assert (step.outcome, step.parent, step.wants) == (ClaimOutcome.STALE, FIRST, ())
    listed = Listed((Object(name),), None)
    step = Claimer.begin(FOLDER, Setting(1, "p"), FIRST, 20, listing=True).take([listed]).take([Got(data)])
    assert step.outcome is ClaimOutcome.STALE
    unknown = Claimer.begin(FOLDER, Setting(1), Parent(1), 20).take([TAKEN]).take([Got(data)])
    assert unknown.outcome is ClaimOutcome.CONTENDED, "an aborted one, whose id nobody names"


def test_ones_own_claim_is_known_in_what_another_carries() -> None:
    """A try that the store repeated by itself: it was stored, the answer lost, and others passed it since."""
    step = replace(begun(), rebases=1)
    own = Parent(2, step.id)
    _, (name, data) = claimed(Setting(2), own, 30)
    listed = Listed((Object(f"{FOLDER}{2:016d}.c"), Object(name)), None)
    step = step.take([TAKEN]).take([listed])
    assert step.wants == (Get(name),)
    assert step.take([Got(carrying(data, [step.data]))]).outcome is ClaimOutcome.DONE


def test_a_settled_conflict_goes_on_with_the_patched_change() -> None:
    _, (_, theirs) = claimed(Setting(2, "p"), FIRST, 30)
    step = begun(name="p").take([TAKEN]).take([Got(theirs)])
    patched = step.resumed(Setting(1, "other"))
    assert (patched.outcome, patched.number) == (ClaimOutcome.CONTENDED, 3)
    assert patched.resumed().change == Setting(1, "other")


RIGHT: dict[str, Callable[[], tuple[Sequence[Actor], dict[str, bytes], int]]] = {
    "two writers": lambda: ([claimer(1), claimer(2)], ONE, 0),
    "three writers": lambda: ([claimer(1), claimer(2), claimer(3)], ONE, 0),
    "two writers and a reader": lambda: ([claimer(1), claimer(2), reader()], ONE, 0),
    "writers that look at several at once": lambda: (
        [claimer(n, window=1 + n) for n in (1, 2)] + [claimer(3)],
        ONE,
        1,
    ),
    "one that lists beside two others": lambda: (
        [claimer(1, listing=True), claimer(2), claimer(3, window=2)],
        ONE,
        1,
    ),
    "one that is behind and lists": lambda: (
        [claimer(1, listing=True), claimer(2, THIRD), claimer(3, listing=True)],
        THREE,
        0,
    ),
    "writers that list first": lambda: ([claimer(n, listing=n < 3) for n in (1, 2, 3)], ONE, 1),
    "lost answers and lost requests": lambda: ([claimer(1), claimer(2)], ONE, 2),
    "the first commit of a table": lambda: ([claimer(1, Parent()), claimer(2, Parent())], {}, 1),
    "a reader beside upkeep": lambda: ([claimer(1, SECOND), reader(), upkeep()], TWO, 0),
    "a writer that slept while its number was folded": lambda: ([sleeper(1, FIRST), expirer()], THREE, 0),
    "a writer beside an expiry": lambda: ([claimer(1, SECOND), expirer()], TWO, 0),
    "a writer that slept while its number was collected": lambda: ([sleeper(1, FIRST), upkeep()], TWO, 0),
    "one that slept and lists first": lambda: ([sleeper(1, FIRST, listing=True), upkeep()], THREE, 0),
    "one that slept and lists what is to be collected": lambda: (
        [sleeper(1, FIRST, listing=True), upkeep()],
        THREE,
        0,
    ),
    "two that slept, of whom one lists": lambda: (
        [sleeper(n, FIRST, reads=False, listing=n == 1) for n in (1, 2)] + [upkeep()],
        TWO,
        0,
    ),
    "a block of claims": lambda: ([sleeper(1, FIRST), block_upkeep()], TWO, 0),
    "a block of claims beside a reader": lambda: ([claimer(1, SECOND), reader(), block_upkeep()], TWO, 0),
    "a block beside one that slept and creates a number that was collected": lambda: (
        [sleeper(1, FIRST, reads=False), claimer(2, FOURTH), block_upkeep()],
        BUNDLED,
        0,
    ),
    "one that slept, lost answers": lambda: ([sleeper(1, FIRST), upkeep()], TWO, 1),
    "one that knows that it slept": lambda: ([sleeper(1, FIRST, old=True), upkeep()], TWO, 0),
    "two that slept, until one has to read": lambda: (
        [sleeper(1, FIRST, reads=False), sleeper(2, FIRST, reads=False), upkeep()],
        TWO,
        0,
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_history_is_one_line_in_every_interleaving(name: str) -> None:
    actors, objects, faults = RIGHT[name]()
    found = explore(actors, objects, FOLDER, page=2, faults=faults, worlds_max=400_000)
    assert found.problem is None, str(found)
    assert found.worlds > 5


WRONG: dict[str, tuple[Callable[[], tuple[Sequence[Actor], dict[str, bytes], int]], str]] = {
    "a lost answer taken for a lost race": (
        lambda: ([claimer(1, kind=claims.AnswersAreCertain), claimer(2)], ONE, 1),
        "a cold read misses a claim: [1, 3]",
    ),
    "a rebased claim with its old stamp": (
        lambda: ([claimer(1, kind=claims.StampsOnce), claimer(2)], ONE, 0),
        "out of order",
    ),
    "a store that lets the second one win": (
        lambda: ([claimer(1, kind=claims.Overwrites), claimer(2)], ONE, 0),
        "misses what was acknowledged",
    ),
    "a name forgotten after it was collected": (
        lambda: ([claimer(1), upkeep()], TWO, 0),
        "misses what was acknowledged",
    ),
    "a base that does not say which numbers it has": (
        lambda: ([sleeper(1, FIRST), expirer(bounds=False, kind=claims.BaseIsEnough)], THREE, 0),
        "misses what was acknowledged",
    ),
    "a horizon above the newest claim": (
        lambda: ([claimer(1, SECOND), expirer(above=30)], TWO, 0),
        "below the horizon",
    ),
    "a sleeper that believes its creation": (
        lambda: ([sleeper(1, FIRST, kind=claims.CreatedIsEnough), upkeep()], TWO, 0),
        "misses what was acknowledged",
    ),
    "a sleeper that looks before it claims only": (
        lambda: ([sleeper(1, FIRST, kind=claims.LooksBeforeOnly, old=True), upkeep()], TWO, 0),
        "misses what was acknowledged",
    ),
    "a sleeper that takes its number for its own": (
        lambda: ([sleeper(1, FIRST, kind=claims.AnyoneHoldsIt), upkeep()], TWO, 0),
        "misses what was acknowledged",
    ),
    "a sleeper that builds on another sleeper's claim": (
        lambda: (
            [
                sleeper(1, FIRST, kind=claims.BuildsOnWhatItMet, reads=False),
                sleeper(2, FIRST, reads=False),
                upkeep(),
            ],
            TWO,
            0,
        ),
        "is missing",
    ),
    # Why claims are fetched only within half a grace period: here there is no clock, and no grace period.
    "a reader that takes longer than a grace period beside a sleeper": (
        lambda: ([sleeper(1, FIRST), upkeep(), reader()], TWO, 0),
        "a reader misses what was acknowledged",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_search_exposes_wrong_claimers(name: str) -> None:
    make, problem = WRONG[name]
    actors, objects, faults = make()
    found: Any = explore(actors, objects, FOLDER, page=2, faults=faults)
    assert found.problem is not None
    assert problem in found.problem, str(found)

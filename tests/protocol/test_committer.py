"""The committer, step by step: when it lists, when it has the log read, when a claim stands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from crdtcat.format.carried import carrying
from crdtcat.protocol import Created, Get, Got, Listed, ListPage, Object, PutIfAbsent, bundle_name, claim_name
from crdtcat.protocol.claimer import TRIES, ClaimOutcome, Parent
from crdtcat.protocol.committer import Committer
from crdtcat.testing.scheduled_store import ScheduledStore
from tests.protocol.claims import FIRST, Setting, claimed
from tests.protocol.scenes import FOLDER

CREATED, TAKEN = Created(created=True), Created(created=False)
SECOND_NAME = f"{FOLDER}{2:016d}.c"
THEIRS = claimed(Setting(2), FIRST, 30)[1][1]


def begun(*, old: bool = False) -> Committer[Setting]:
    return Committer.begin(FOLDER, Setting(1), FIRST, 20, old=old)


def page(numbers: Sequence[int], after: str | None = None) -> Listed:
    """A page of bundles whose highest numbers are these."""
    return Listed(tuple(Object(bundle_name(FOLDER, 1, bytes(16), number)) for number in numbers), after)


def test_a_young_one_is_one_creation() -> None:
    step = begun()
    assert isinstance(step.wants[0], PutIfAbsent)
    assert step.acknowledges == ()
    done = step.take([CREATED])
    assert (done.outcome, done.wants) == (ClaimOutcome.DONE, ())
    assert done.acknowledges == done.claim.acknowledges != ()


@pytest.mark.parametrize(("taken", "claims"), [(0, True), (1, True), (2, False), (9, False)])
def test_one_that_is_old_lists_first(taken: int, *, claims: bool) -> None:
    step = begun(old=True)
    listing = (ListPage(FOLDER, claim_name(FOLDER, FIRST.number)),)
    assert (step.wants, step.outcome) == (listing, ClaimOutcome.PENDING)
    step = step.take([page([taken])])
    if claims:  # nothing above the parent: what it knows is as young as the listing
        assert isinstance(step.wants[0], PutIfAbsent)
        assert step.take([CREATED]).outcome is ClaimOutcome.DONE
    else:
        assert (step.outcome, step.wants, step.created) == (ClaimOutcome.STALE, (), False)
        assert step.read(held=False).outcome is ClaimOutcome.VOID
        assert step.read(held=True).outcome is ClaimOutcome.VOID  # it was never there


def test_what_it_finds_listed_is_read_at_once() -> None:
    """All claims that follow its parent without a gap, the newest first: k + 2 requests, and no try that is
    refused; fewer where it carries the others."""
    third, (name, data) = claimed(Setting(3), claimed(Setting(2), FIRST, 30)[0], 31)
    fifth = claim_name(FOLDER, 5)
    found = [Object(each) for each in (SECOND_NAME, name, fifth)]
    for listing in (False, True):
        step: Committer[Setting] = Committer.begin(FOLDER, Setting(1), FIRST, 20, listing=listing, old=True)
        step = step.take([Listed((*found, *page([1]).objects), None)])
        assert step.wants == (Get(name),)
        carried = step.take([Got(carrying(data, [THEIRS]))])
        assert (carried.claim.parent, type(carried.wants[0])) == (third, PutIfAbsent)
        step = step.take([Got(data)])
        assert step.wants == (Get(SECOND_NAME),)
        assert step.aged().take([Got(THEIRS)]).outcome is ClaimOutcome.STALE
        step = step.take([Got(THEIRS)])
        assert (step.claim.parent, type(step.wants[0])) == (third, PutIfAbsent)
        assert step.take([CREATED]).outcome is ClaimOutcome.DONE
    alone: Committer[Setting] = Committer.begin(FOLDER, Setting(1), FIRST, 20, listing=True, old=True)
    assert isinstance(alone.take([page([1])]).wants[0], PutIfAbsent)  # it lists once


def test_claims_are_listed_for_one_page_and_bundles_to_the_end() -> None:
    step = begun(old=True).take([Listed((Object(SECOND_NAME),), SECOND_NAME)])
    assert step.wants == (ListPage(FOLDER, f"{FOLDER}z"),)
    more = step.take([page([1], f"{FOLDER}z5")])
    assert more.wants == (ListPage(FOLDER, f"{FOLDER}z5"),)
    assert more.take([page([1])]).wants == (Get(SECOND_NAME),)
    assert more.take([page([2])]).outcome is ClaimOutcome.STALE, "what is in its place may be void"


def test_every_page_counts() -> None:
    step = begun(old=True).take([page([3], f"{FOLDER}z1")])
    assert step.wants == (ListPage(FOLDER, f"{FOLDER}z1"),)
    assert step.take([page([1])]).outcome is ClaimOutcome.STALE
    assert step.take([page([])]).outcome is ClaimOutcome.STALE
    assert begun(old=True).take([page([1], "y")]).take([page([2])]).outcome is ClaimOutcome.STALE
    assert begun(old=True).take([page([])]).outcome is ClaimOutcome.PENDING
    for numbers in ([3, 1], [1, 3], [0, 2]):
        assert begun(old=True).take([page(numbers)]).outcome is ClaimOutcome.STALE


def test_the_first_commit_of_a_table_needs_nothing_to_be_there() -> None:
    first: Committer[Setting] = Committer.begin(FOLDER, Setting(1), Parent(), 20, old=True)
    assert first.take([page([])]).outcome is ClaimOutcome.PENDING
    assert Committer.begin(FOLDER, Setting(1), Parent(), 20).listing == ""
    assert Committer(first.claim).taken == 0


@pytest.mark.parametrize(("taken", "stands"), [(0, True), (1, True), (2, False), (3, False)])
def test_one_that_took_long_is_looked_up(taken: int, *, stands: bool) -> None:
    step = begun().aged().take([CREATED])
    assert (step.outcome, step.acknowledges) == (ClaimOutcome.PENDING, ())
    assert step.wants == (ListPage(FOLDER, f"{FOLDER}z"),)
    step = step.take([page([taken])])
    assert step.outcome is (ClaimOutcome.DONE if stands else ClaimOutcome.STALE)
    assert bool(step.acknowledges) == stands
    if not stands:
        assert step.created
        held, void = step.read(held=True), step.read(held=False)
        assert (held.outcome, void.outcome) == (ClaimOutcome.DONE, ClaimOutcome.VOID)
        assert (bool(held.acknowledges), void.acknowledges) == (True, ())


def test_what_the_first_listing_showed_is_forgotten_by_the_second() -> None:
    step = begun(old=True).take([page([1])]).aged().take([CREATED])
    assert step.taken == 0
    assert step.take([page([])]).outcome is ClaimOutcome.DONE


def test_nothing_is_created_above_what_was_met_long_ago() -> None:
    lists: Committer[Setting] = Committer.begin(FOLDER, Setting(1), FIRST, 20, listing=True)
    met = lists.take([Listed((Object(SECOND_NAME),), None)])
    assert isinstance(met.take([Got(THEIRS)]).wants[0], PutIfAbsent)
    late = met.aged().take([Got(THEIRS)])
    assert (late.outcome, late.wants, late.created) == (ClaimOutcome.STALE, (), False)


def test_what_was_carried_and_met_long_ago_is_not_built_on() -> None:
    lists: Committer[Setting] = Committer.begin(FOLDER, Setting(1), FIRST, 20, listing=True)
    third, (name, data) = claimed(Setting(3), claimed(Setting(2), FIRST, 30)[0], 31)
    met = lists.take([Listed((Object(SECOND_NAME), Object(name)), None)])
    assert met.wants == (Get(name),)
    file = carrying(data, [THEIRS])
    tried = met.take([Got(file)])
    assert (tried.claim.parent, type(tried.wants[0])) == (third, PutIfAbsent)
    assert met.aged().take([Got(file)]).outcome is ClaimOutcome.STALE


def test_trying_again_at_once_is_a_creation_too() -> None:
    lost = begun().take([TAKEN]).take([Got(THEIRS)])
    assert isinstance(lost.resumed().wants[0], PutIfAbsent)
    late = lost.aged().resumed()
    assert (late.outcome, late.wants, late.created) == (ClaimOutcome.STALE, (), False)


def test_looking_on_is_no_creation() -> None:
    met = begun().aged().take([TAKEN])
    assert met.wants == (Get(SECOND_NAME),)  # what is there has to be judged anyway
    assert met.take([Got(THEIRS)]).outcome is ClaimOutcome.CONTENDED
    assert isinstance(met.take([Got(None)]).wants[0], PutIfAbsent)  # nothing was met


def test_a_number_that_is_taken_and_not_there_has_the_log_read() -> None:
    step = begun()
    for _ in range(TRIES):
        step = step.take([TAKEN]).take([Got(None)])
    assert step.outcome is ClaimOutcome.STALE
    assert step.read(held=True).outcome is ClaimOutcome.VOID


def test_a_creation_that_arrives_late_is_stored_if_its_name_is_free() -> None:
    store = ScheduledStore({}, 1)
    want = PutIfAbsent(SECOND_NAME, b"mine")
    effects = list(store.effects(frozenset(), want, None, faults=True))
    assert [effect.faults for effect in effects] == [0, 1, 1, 1]
    (late,) = (effect for effect in effects if effect.late)
    assert not late.added
    (key,) = late.late
    other = PutIfAbsent(SECOND_NAME, b"theirs")
    (theirs,) = next(store.effects(frozenset(), other, None, faults=False)).added
    assert store.landed(frozenset(), key) == {key}
    assert store.landed(frozenset({theirs}), key) == {theirs}
    assert store.landed(frozenset({key}), key) == {key}
    assert store.landed(frozenset({"other"}), "plain") == {"other", "plain"}

"""A claimer that is behind catches up: looks that go out together, a listing, files judged in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from crdtcat.format.carried import carrying
from crdtcat.limits import CARRIED_CLAIMS_MAX
from crdtcat.protocol import Got, ListPage, Object, PutIfAbsent, claimer
from crdtcat.protocol.claimer import BATCH_MAX, LISTED_RACE, LOOKS_MAX, Claimer, ClaimOutcome, Parent, Verdict
from crdtcat.protocol.requests import Created, Get, Listed
from crdtcat.support.object_bytes import ObjectBytes
from tests.protocol.claims import FIRST, Setting, claimed
from tests.protocol.scenes import FOLDER

TAKEN = Created(created=False)


def name(number: int) -> str:
    return f"{FOLDER}{number:016d}.c"


def chain(count: int, *, carried: int = 0) -> dict[str, bytes]:
    """Claims of others, from the second on, each carrying so many."""
    parent, files, frames = FIRST, {}, list[bytes]()
    for at in range(count):
        parent, (at_name, data) = claimed(Setting(200 + at), parent, 30 + at)
        files[at_name] = carrying(data, frames[:carried])
        frames.insert(0, data)
    return files


def begun(*, listing: bool = False) -> Claimer[Setting]:
    return Claimer.begin(FOLDER, Setting(1), FIRST, 20, listing=listing)


def answered(files: dict[str, bytes], wants: Sequence[Any], page: int = 1000) -> list[Any]:
    """What a store that holds these files answers."""
    found: list[Any] = []
    for want in wants:
        match want:
            case Get(asked):
                found.append(Got(files.get(asked)))
            case PutIfAbsent(asked, _):
                found.append(Created(created=asked not in files))
            case ListPage(_, after):
                found.append(
                    Listed(tuple(Object(each) for each in sorted(files) if each > after)[:page], None)
                )
    return found


def rounds(step: Claimer[Any], files: dict[str, bytes]) -> Iterator[tuple[Any, ...]]:
    """The requests of a commit, round by round."""
    while step.outcome is not ClaimOutcome.DONE:
        if step.outcome is ClaimOutcome.CONTENDED:
            step = step.resumed()
            continue
        yield step.wants
        step = step.take(answered(files, step.wants))


def test_whoever_meets_nobody_stores_the_same_bytes_as_ever() -> None:
    """A first try carries what is below it only where that carries others itself."""
    below = list(chain(1).values())
    first = Claimer.begin(FOLDER, Setting(1), FIRST, 20, below=below)
    assert first.data == begun().data
    crowded = Claimer.begin(FOLDER, Setting(1), FIRST, 20, below=below, crowded=True)
    assert crowded.data == carrying(first.data, below) != first.data


def test_an_answer_for_each_look() -> None:
    looking = replace(begun(), looking=2)
    with pytest.raises(ValueError, match="shorter"):
        looking.take([Got(None)])


@pytest.mark.parametrize("listing", [False, True])
@pytest.mark.parametrize("between", [0, 1, 2, 3, 4, 10, 700])
def test_requests_follow_the_claims_between_and_rounds_do_not(between: int, *, listing: bool) -> None:
    made = list(rounds(begun(listing=listing), chain(between)))
    least = 2 if listing or between == 1 else 1 if not between else 4
    assert sum(map(len, made)) == between + least
    assert len(made) <= (4 if listing else 7)
    assert made[-1][0].name == name(between + 2)


@pytest.mark.parametrize("between", range(41))
def test_past_those_that_carry_each_other_it_makes_a_list_a_look_and_a_try(between: int) -> None:
    """Whoever met others lately: 3 requests past 1 to 33 claims, and one look more for each 33 further."""
    made = list(rounds(begun(listing=True), chain(between, carried=CARRIED_CLAIMS_MAX)))
    assert sum(map(len, made)) == 2 + -(-between // (1 + CARRIED_CLAIMS_MAX)) <= max(2, between + 2)
    warm = list(rounds(begun(), chain(between, carried=CARRIED_CLAIMS_MAX)))
    assert sum(map(len, warm)) == [1, 3, *[6] * 33, *[7] * 6][between]


def test_no_more_files_are_held_than_can_be_carried() -> None:
    files, step = chain(60), begun(listing=True)
    while step.outcome is not ClaimOutcome.DONE:
        step = step.take(answered(files, step.wants))
        assert len(step.below) <= CARRIED_CLAIMS_MAX
    newest = [files[name(number)] for number in range(61, 61 - CARRIED_CLAIMS_MAX, -1)]
    assert [bytes(one) for one in step.below] == newest


@pytest.mark.parametrize("carried", [0, 1, 5, 30])
def test_few_that_are_carried_save_as_many_looks_and_three_rounds_are_enough(carried: int) -> None:
    made = list(rounds(begun(listing=True), chain(60, carried=carried)))
    assert sum(map(len, made)) == 2 + -(-60 // (1 + carried))
    assert len(made) <= 4


def test_where_some_carry_nothing_what_is_missing_is_looked_at_together() -> None:
    files = {**chain(20, carried=3), **{each: data for each, data in chain(20).items() if each == name(13)}}
    made = list(rounds(begun(listing=True), files))
    assert made[1:-1] == [
        (Get(name(21)),),
        tuple(map(Get, map(name, (17, 13, 9, 5)))),
        tuple(map(Get, map(name, (12, 11, 10)))),
    ]


def test_the_first_race_is_one_look_and_one_try() -> None:
    kinds = [[type(want) for want in wants] for wants in rounds(begun(), chain(1))]
    assert kinds == [[PutIfAbsent], [Get], [PutIfAbsent]]


def test_who_loses_twice_lists_and_looks_at_the_newest_first() -> None:
    asked = list(rounds(begun(), chain(5)))
    assert asked[3] == (ListPage(FOLDER, name(2)),)
    assert asked[4] == (Get(name(6)),)
    assert asked[5] == (Get(name(5)), Get(name(4)), Get(name(3)))
    assert isinstance(asked[6][0], PutIfAbsent)
    assert LISTED_RACE == 2


def test_after_a_listing_the_first_race_lost_is_one_look() -> None:
    step, files = begun(listing=True), chain(1)
    for _ in range(2):
        step = step.take(answered(files, step.wants))
    assert step.creating
    assert step.take((TAKEN,)).wants == (Get(name(3)),)


def test_a_listing_that_shows_nothing_after_a_lost_race_is_a_look_in_vain() -> None:
    step = replace(begun(), rebases=1).take([TAKEN])
    assert step.wants == (ListPage(FOLDER, name(1)),)
    step = step.take([Listed((), None)])
    assert isinstance(step.wants[0], PutIfAbsent)
    assert step.take([TAKEN]).wants == (Get(name(2)),), "what is not listed is looked at"


def test_who_has_listed_looks_at_one_more_each_time_until_it_lists_again() -> None:
    """Others who always come first: whatever it looks at is there, and then one more."""
    files, step = chain(60), replace(begun(), rebases=2)
    looks, listings = [], 0
    while step.parent.number < 40:
        step = step.take([TAKEN])
        looks.append(len(step.wants))
        step = step.take(answered(files, step.wants)).resumed()
        if isinstance(step.wants[0], ListPage):
            listings += 1
            step = step.take([Listed((), None)])
    assert looks[: 2 * LOOKS_MAX] == [1, 2, 3, 4] * 2
    assert listings == len(looks) // LOOKS_MAX
    assert LOOKS_MAX == 4


def test_a_look_in_vain_makes_the_next_ones_fewer() -> None:
    files = chain(4)
    step = replace(begun(), rebases=2, window=4).take([TAKEN])
    assert len(step.wants) == 4
    step = step.take([Got(files[name(2)]), Got(files[name(3)]), Got(None), Got(files[name(5)])])
    assert (step.outcome, step.rebases, step.passed) == (ClaimOutcome.CONTENDED, 3, 1)
    step = step.resumed()
    # What is above a number that is not there is not built on, whatever a later look found.
    assert (step.parent.number, step.passed, step.window) == (3, 2, 2)
    assert step.wants == (PutIfAbsent(name(4), step.data),)


def test_a_listing_with_a_gap_is_followed_up_to_it() -> None:
    step = replace(begun(), listing=True, window=3)
    assert step.wants == (ListPage(FOLDER, name(1)),)
    assert not step.creating
    listed = step.take([Listed(tuple(Object(name(n)) for n in (2, 3, 5, 6)), None)])
    assert listed.wants == (Get(name(3)),)
    assert (listed.window, listed.creating) == (1, False)
    both = listed.take([Got(chain(2)[name(3)])])
    assert both.wants == (Get(name(2)),)
    gone = listed.take([Got(None)])
    assert gone.wants == (Get(name(2)),), "what is above one that is gone is not known to be next"
    none = step.take([Listed((Object(name(3)),), None)])
    assert none.creating
    assert none.wants == (PutIfAbsent(name(2), step.data),)


def test_what_was_listed_and_is_gone_is_tried() -> None:
    step = replace(begun(), listing=True).take([Listed((Object(name(2)),), None)]).take([Got(None)])
    assert step.wants == (PutIfAbsent(name(2), step.data),)


def test_no_more_are_read_at_once_than_fit() -> None:
    every = Listed(tuple(Object(name(n)) for n in range(2, 3000)), None)
    step = replace(begun(), listing=True).take([every])
    assert step.wants == (Get(name(BATCH_MAX + 1)),)
    assert step.gathering is not None
    assert len(step.gathering.files) == BATCH_MAX == 1000


@pytest.mark.parametrize("listing", [False, True])
def test_what_no_batch_holds_is_listed_again_and_no_race_is_lost_for_it(
    monkeypatch: pytest.MonkeyPatch, *, listing: bool
) -> None:
    """Before, whoever was that far behind tried numbers that were long taken, as after races that it lost."""
    monkeypatch.setattr(claimer, "BATCH_MAX", 100)
    between = 250
    made = list(rounds(begun(listing=listing), chain(between)))
    listings = sum(isinstance(wants[0], ListPage) for wants in made)
    assert listings == 3
    assert sum(map(len, made)) == between + (2 if listing else 4) + 2
    assert sum(isinstance(wants[0], PutIfAbsent) for wants in made) == (1 if listing else 3)
    assert made[-1][0].name == name(between + 2)


def test_one_whose_answer_was_lost_looks_at_one_number_only() -> None:
    unclear = Created(created=False, clear=False)
    step = replace(begun(), window=4)
    assert step.take([unclear]).wants == (Get(name(2)),)
    again = step.take([unclear]).take([Got(None)]).take([TAKEN])
    assert again.wants == (Get(name(2)),)
    assert again.take([Got(again.data)]).outcome is ClaimOutcome.DONE


def test_files_found_together_are_judged_one_by_one_and_kept_while_somebody_decides() -> None:
    """The second of three touches the same: it is settled, the third is judged then, and nothing asked for
    again."""
    parent, (_, first) = claimed(Setting(2), FIRST, 30)
    parent, (_, second) = claimed(Setting(3, "p"), parent, 31)
    parent, (_, third) = claimed(Setting(4, "q"), parent, 32)
    step: Claimer[Setting] = Claimer.begin(FOLDER, Setting(1, "p"), FIRST, 20)
    step = replace(step, window=3).take([TAKEN]).take([Got(first), Got(second), Got(third)])
    assert (step.outcome, step.passed, step.rebases) == (ClaimOutcome.CONTENDED, 1, 1)
    step = step.resumed()
    assert (step.outcome, step.number, step.passed) == (ClaimOutcome.CONFLICT, 3, 1)
    assert step.resumed(Setting(1, "q")).outcome is ClaimOutcome.CONFLICT
    step = step.resumed(Setting(1, "other"))
    assert (step.outcome, step.parent, step.passed, step.rebases) == (ClaimOutcome.PENDING, parent, 3, 1)
    assert step.writers == {2, 3, 4}
    id, own = Setting(1, "other").sealed(parent, step.hlc)
    assert (step.id, step.data) == (id, carrying(own, [third, second, first]))
    assert step.hlc == 33


def test_one_in_the_middle_that_is_not_decided_is_judged_again() -> None:
    class Waiting(Setting):
        def judged(self, number: int, data: ObjectBytes) -> Verdict:
            found = super().judged(number, data)
            return found._replace(undecided=7) if number == 3 and not decided else found

    decided: list[bool] = []
    files = chain(3)
    step: Claimer[Any] = Claimer.begin(FOLDER, Waiting(1), Parent(1, FIRST.id), 20, listing=True)
    step = step.take([Listed(tuple(Object(name(n)) for n in (2, 3, 4)), None)]).take([Got(files[name(4)])])
    step = step.take([Got(files[name(3)]), Got(files[name(2)])])
    assert (step.outcome, step.wants, step.passed) == (ClaimOutcome.UNDECIDED, (), 1)
    assert step.resumed().outcome is ClaimOutcome.UNDECIDED
    decided.append(True)
    step = step.resumed()
    assert (step.outcome, step.passed, step.rebases) == (ClaimOutcome.PENDING, 3, 0)
    assert step.creating

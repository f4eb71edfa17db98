"""The word `fail` goes for every kind of conflict, also where both stand by default."""

from __future__ import annotations

from typing import Any

import pytest

from crdtcat.conflicts import Kind
from crdtcat.conflicts.kinds import Answer
from crdtcat.errors import CommitConflict
from tests.cas import test_keyed
from tests.cas.scenes import meanwhile, two
from tests.cas.test_matrix import FOUND, VERBS
from tests.cas.test_matrix_whole import WHOLE

WRITE, WRITE_MEETS = WHOLE["write"]
STANDING = {kind for kind in Kind if kind.rule.default is Answer.BOTH}


def told(action: Any) -> set[Kind]:
    """The kinds of conflict for which it fails."""
    with pytest.raises(CommitConflict) as caught:
        action()
    return {item.kind for item in caught.value.conflicts}


@pytest.mark.parametrize(("mine", "theirs"), FOUND)
def test_every_conflict_of_the_matrix_fails(mine: str, theirs: str) -> None:
    here, there = two(on_conflict="fail")
    meanwhile(here, lambda: VERBS[theirs](there))
    assert told(lambda: VERBS[mine](here)) == FOUND[mine, theirs]
    assert here.head().version == 2, "nothing was committed"


@pytest.mark.parametrize(("mine", "theirs"), test_keyed.MATRIX)
def test_every_conflict_about_keys_fails(mine: str, theirs: str) -> None:
    here, there = test_keyed.two(on_conflict="fail")
    meanwhile(here, lambda: test_keyed.VERBS[theirs](there))
    kinds = set(map(Kind, test_keyed.MATRIX[mine, theirs]))
    assert told(lambda: test_keyed.VERBS[mine](here)) == kinds
    assert len(here.history()) == 2, "nothing was committed"


def test_the_matrices_have_every_kind_of_which_both_stand() -> None:
    assert {kind for kinds in FOUND.values() for kind in kinds} >= STANDING
    assert len(STANDING) == 4


def test_another_try_with_the_word_fails_for_all_that_both_touched() -> None:
    here, there = two()
    meanwhile(here, lambda: VERBS["overwrite"](there))
    with pytest.raises(CommitConflict) as caught:
        WRITE(here)
    error = caught.value
    assert {item.kind for item in error.conflicts} == WRITE_MEETS["overwrite"] - STANDING
    assert told(lambda: error.retry("fail")) == WRITE_MEETS["overwrite"]
    with pytest.raises(CommitConflict) as again:
        error.retry("fail")
    assert told(lambda: again.value.retry("theirs")) >= WRITE_MEETS["overwrite"] & STANDING
    assert error.retry("theirs").number == 3


def test_the_word_both_takes_it_back() -> None:
    here, there = two(on_conflict="fail")
    meanwhile(here, lambda: VERBS["delete 0"](there))
    with pytest.raises(CommitConflict) as caught:
        VERBS["delete mo"](here)
    assert caught.value.retry("both").number == 3
    here, there = two(on_conflict="both")
    meanwhile(here, lambda: VERBS["update 0"](there))
    assert told(lambda: VERBS["update 0"](here)) == {Kind.UPDATE_UPDATE}, "it goes for no other kind"

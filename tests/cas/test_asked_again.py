"""Rows that a function answered with are about what theirs left: once that is changed, it is asked again.

What it says then takes the place of what it had said. Before, the rows of every answer were added, so two
updates of one row had it twice, and a row that theirs deleted in the end was there again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.cas.sides import Sides
from crdtcat.errors import CommitConflict
from crdtcat.table import Table
from tests.bounds import bounded
from tests.cas.scenes import meanwhile, rows, two, values
from tests.clocks import HandClock

Asked = list[tuple[str, list[tuple[int, int]], list[tuple[int, int]] | None]]


def pairs(table: Any) -> list[tuple[int, int]]:
    return [(row["n"], row["x"]) for row in table.to_pylist()]


def keeping(asked: Asked) -> Callable[[Sides], Any]:
    """A function that keeps what theirs has: as rows of mine."""

    def keep(sides: Sides) -> Any:
        base = None if sides.base is None else pairs(sides.base)
        asked.append((sides.kind, pairs(sides.theirs), base))
        return sides.theirs

    return keep


def removed(mine: Table, verb: str) -> None:
    """Take away the rows of Monday: 0, 1 and 2."""
    if verb == "delete":
        mine.delete("day = 'mo'")
    else:
        mine.overwrite(rows("mo", 100), where="day = 'mo'")


def monday(table: Table) -> list[tuple[int, int]]:
    return [pair for pair in values(table) if not 3 <= pair[0] <= 8 and pair[0] != 100]


@pytest.mark.parametrize("verb", ["delete", "overwrite"])
def test_two_updates_of_one_row_are_one_row(verb: str) -> None:
    asked: Asked = []
    mine, theirs = two(on_conflict=keeping(asked))
    meanwhile(mine, lambda: theirs.update("n = 0", {"x": 1}), lambda: theirs.update("n <= 1", {"x": 2}))
    removed(mine, verb)
    assert monday(theirs) == [(0, 2), (1, 2)]
    kind = f"{verb}-update"
    assert asked == [(kind, [(0, 1)], [(0, 0)]), (kind, [(0, 2), (1, 2)], [(0, 0), (1, 0)])], "base: as read"


@pytest.mark.parametrize("verb", ["delete", "overwrite"])
def test_several_changes_of_one_commit_are_asked_about_once(verb: str) -> None:
    asked: Asked = []
    mine, theirs = two(on_conflict=keeping(asked))

    def come() -> None:
        with Catalog(theirs._session.store, upkeep=False).transaction() as tx:
            tx.update("t", "n <= 1", {"x": 1})
            tx.update("t", "n = 0", {"x": 2})
            tx.delete("t", "n = 1")

    meanwhile(mine, come)
    removed(mine, verb)
    assert monday(theirs) == [(0, 2)]
    assert asked == [(f"{verb}-update", [(0, 2)], [(0, 0)])]


def test_rows_that_theirs_took_away_in_the_end_are_asked_about_no_more() -> None:
    lasts: list[Callable[[Table], object]] = [
        lambda table: table.delete("n = 0"),
        lambda table: table.overwrite(rows("mo", 9), where="day = 'mo'"),
    ]
    for last in lasts:
        asked: Asked = []
        mine, theirs = two(on_conflict=keeping(asked))
        meanwhile(mine, partial(theirs.update, "n = 0", {"x": 7}), partial(last, theirs))
        mine.delete("n <= 2")
        assert (0, 7) not in values(theirs)
        assert asked == [("delete-update", [(0, 7)], [(0, 0)])]


def test_rows_that_were_added_to_what_is_overwritten_are_as_theirs_left_them() -> None:
    asked: Asked = []
    mine, theirs = two(on_conflict=keeping(asked))
    meanwhile(
        mine,
        lambda: theirs.append(rows("mo", 50, 51)),
        lambda: theirs.update("n = 50", {"x": 7}),
        lambda: theirs.delete("n = 51"),
    )
    mine.overwrite(rows("mo", 100), where="day = 'mo'")
    assert monday(theirs) == [(50, 7)]
    assert [item[:2] for item in asked] == [
        ("overwrite-append", [(50, 0), (51, 0)]),
        ("overwrite-append", [(50, 7), (51, 0)]),
        ("overwrite-append", [(50, 7)]),
    ]


@pytest.mark.parametrize(
    ("word", "left"), [("theirs", [(50, 7), (51, 0)]), ("ours", []), ("fail", None)], ids=str
)
def test_it_may_answer_with_a_word_the_second_time(word: str, left: list[tuple[int, int]] | None) -> None:
    answers: list[Any] = [lambda sides: sides.theirs, lambda _: word]
    mine, theirs = two(on_conflict=lambda sides: answers.pop(0)(sides))  # noqa: PLW0108 (a new one each time)
    before = (lambda: theirs.append(rows("mo", 50, 51))), (lambda: theirs.update("n = 50", {"x": 7}))
    meanwhile(mine, *before)
    if left is None:
        with pytest.raises(CommitConflict) as error:
            mine.overwrite(rows("mo", 100), where="day = 'mo'")
        assert str(error.value).count("overwrite-append with") == 1
        error.value.retry("ours")
        assert monday(theirs) == []
        return
    mine.overwrite(rows("mo", 100), where="day = 'mo'")
    assert monday(theirs) == left


def test_forks_are_asked_alike() -> None:
    asked: Asked = []
    catalog = Catalog(two()[0]._session.store, upkeep=False)
    with catalog.transaction(["t"]) as tx:
        fork = tx.fork()
        fork.delete("t", "n <= 2")
        tx.update("t", "n = 0", {"x": 1})
        tx.update("t", "n = 0", {"x": 2})
        tx.join(fork, on_conflict=keeping(asked))
    assert monday(catalog.table("t")) == [(0, 2)]


def test_a_function_that_took_long_is_asked_again_about_the_change_as_it_was(clock: HandClock) -> None:
    """What it met may be void by then, so all is read anew: not what was made of it. Before, an answer was
    given to the change that the first answer had made: rows were added twice, values added up twice."""
    taken: list[tuple[int, int, int]] = []

    def slow(sides: Sides) -> Any:
        assert sides.base is not None
        assert sides.mine is not None
        assert sides.theirs is not None
        base, mine, theirs = (side["x"][0].as_py() for side in (sides.base, sides.mine, sides.theirs))
        taken.append((base, mine, theirs))
        if len(taken) == 2:
            clock.now += 60
        return {"x": [2 * theirs + mine]}

    mine, theirs = two(on_conflict=slow, grace_seconds=100)
    meanwhile(mine, lambda: theirs.update("n = 0", {"x": 1}), lambda: theirs.update("n = 0", {"x": 3}))
    mine.update("n = 0", {"x": 10})
    assert taken[:2] == [(0, 10, 1), (1, 12, 3)]
    assert taken[2:4] == taken[:2]
    assert values(theirs)[0] == (0, 18)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["update", "update", "delete", "append"]), st.integers(0, 4), st.integers(1, 99)
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=bounded(400, 40), deadline=None)
@given(st.lists(ACTIONS, min_size=1, max_size=4), st.sampled_from(["delete", "overwrite"]))
def test_what_is_kept_of_theirs_is_there_once_as_theirs_left_it(
    commits: Sequence[Sequence[tuple[str, int, int]]], verb: str
) -> None:
    """Against a model: of the rows that mine takes away, those that theirs touched and has."""
    mine, theirs = two(on_conflict=keeping([]))
    catalog = Catalog(theirs._session.store, upkeep=False)
    held, touched, fresh = dict.fromkeys(range(3), 0), set[int](), 10

    def done(change: Any, actions: Sequence[tuple[str, int, int]]) -> None:
        nonlocal fresh
        for name, n, x in actions:
            if name == "append":
                fresh += 1
                held[fresh] = 0
                touched.update({fresh} if verb == "overwrite" else ())
                change.append("t", rows("mo", fresh))
                continue
            n = n if n < 3 else fresh  # noqa: PLW2901
            if name == "update":
                change.update("t", f"n = {n}", {"x": x})
                held.update({n: x} if n in held else {})
                touched.add(n)
            else:
                change.delete("t", f"n = {n}")
                held.pop(n, None)

    def come() -> None:
        for actions in commits:
            with catalog.transaction(["t"]) as tx:
                done(tx, actions)

    meanwhile(mine, come)
    removed(mine, verb)
    gone = {0, 1, 2} if verb == "delete" else set(held)
    expected = sorted((n, x) for n, x in held.items() if n not in gone or n in touched)
    assert monday(theirs) == expected

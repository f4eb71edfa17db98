"""Kept small histories of what must be listed as lost (P6, P9), found by holding fold against model."""

from __future__ import annotations

from crdtcat.head import Head
from crdtcat.testing.strategies_log import History, Step, play


def listed(history: History, kind: str) -> set[tuple[object, object]]:
    head = Head("t", history.state().log, history.settings)
    return {(item.loser, item.winner) for item in head.conflicts if item.kind == kind}


def test_an_overwrite_that_lost_stays_listed_when_a_later_one_saw_both() -> None:
    history = play(
        [
            Step(0, None, "overwrite"),
            Step(1, None, "overwrite", ahead=3),
            Step(2, 0, "properties"),
            Step(2, 1, "overwrite"),
        ]
    )
    first, second, _, _ = (made.id for made in history.versions)
    assert listed(history, "overwrite") == {(first, second)}


def test_an_overwrite_that_lost_one_partition_is_listed_though_another_was_replaced_knowingly() -> None:
    history = play(
        [
            Step(0, None, "overwrite"),  # the whole table
            Step(1, None, "overwrite partition", more=0, ahead=3),  # p, without having seen that
            Step(2, 0, "properties"),
            Step(2, None, "overwrite partition", more=1, ahead=9),  # q, having seen the first
        ]
    )
    first, second, _, _ = (made.id for made in history.versions)
    assert listed(history, "overwrite") == {(first, second)}


def test_overwrites_that_saw_each_other_are_history() -> None:
    history = play([Step(0, None, "overwrite"), Step(1, 0, "overwrite"), Step(0, 1, "overwrite partition")])
    assert listed(history, "overwrite") == set()


def test_every_version_whose_rows_do_not_fit_is_listed() -> None:
    text = Step(0, None, "append", pick=3)
    number = Step(1, None, "append", pick=1, ahead=9)
    history = play([text, number, number])
    assert {loser for loser, _ in listed(history, "misfit")} == {made.id for made in history.versions[1:]}


def test_conflicts_with_the_tables_creation_and_with_versions_sort_together() -> None:
    misfit = Step(0, None, "append", pick=3)
    history = play([misfit, Step(1, None, "widen", more=2, ahead=2), Step(2, None, "widen", more=3)], True)
    head = Head("t", history.state().log, history.settings)
    assert len(head.conflicts) >= 2
    assert list(head.conflicts) == sorted(head.conflicts, key=str)

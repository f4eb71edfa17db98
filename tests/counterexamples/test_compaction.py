"""Rule 4 (and 3): how compactions are read and written. Five rules that gave wrong rows, and the right one.

Each test tells a history of a few versions. `truth` is the head without any compaction: what a reader must
see, because compaction is invisible. The wrong rule differs from it; the right rule never does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.model.authors import Author
from tests.model.compaction import Keep, keep_every_row
from tests.model.head import PLAIN, head
from tests.model.histories import history, without_compactions
from tests.model.rows import RIGHT, Cells, Rules, deleted_rows, entries
from tests.model.standing import View
from tests.model.versions import Copy, RowId, Tag, Version, state_of

Rows = tuple[dict[str, Any], ...]


def read(versions: list[Version], rules: Rules = RIGHT) -> Rows:
    return head(state_of(*versions), PLAIN, rules).rows


def truth(versions: list[Version]) -> Rows:
    return read(without_compactions(versions))


# The wrong rules.


def greatest_tag(copies: Mapping[Tag, Copy]) -> Cells:
    return dict(copies[max(copies)].cells)


def least_tag(copies: Mapping[Tag, Copy]) -> Cells:
    return dict(copies[min(copies)].cells)


def whole_overlay_replaced(view: View, overlay: Tag, _row: RowId) -> bool:
    folded = {tag for version in view.compactions for tag, _ in version.compaction.overlays}  # type: ignore[union-attr]
    return overlay in folded


def forget_folded_deletes(view: View) -> frozenset[RowId]:
    folded = {row for version in view.compactions for row in version.compaction.deletes}  # type: ignore[union-attr]
    return deleted_rows(view) - folded


def leave_out_rows_another_copy_has(view: View, tag: Tag, row: Any) -> bool:
    return not any(row == copy.row for other, held in entries(view).items() if other != tag for copy in held)


# The histories in which they fail.


def two_compactions_of_one_chunk(*, updater_first: bool) -> list[Version]:
    """One compactor has seen an update, the other has not; whose entry has the greater tag is varied."""
    author = Author(1)
    start = author.append({"a": 1})
    unaware = Author(2).learn(start)
    update = author.update((author.find("a", 1), "a", 2))
    early, late = (author, unaware) if updater_first else (unaware, author)
    return [start, update, early.compact(time=10), late.compact(time=20)]


def test_reading_the_greatest_tag_gave_wrong_rows() -> None:
    versions = two_compactions_of_one_chunk(updater_first=True)
    assert truth(versions) == ({"a": 2},)
    assert read(versions, Rules(join_copies=greatest_tag)) == ({"a": 1},)
    assert read(versions) == truth(versions)


def test_reading_the_least_tag_gave_wrong_rows() -> None:
    versions = two_compactions_of_one_chunk(updater_first=False)
    assert truth(versions) == ({"a": 2},)
    assert read(versions, Rules(join_copies=least_tag)) == ({"a": 1},)
    assert read(versions) == truth(versions)


def test_choosing_copies_by_entry_gave_wrong_rows_whichever_is_chosen() -> None:
    """Rule 3: each compaction folded an update of another column, so no single entry is right."""
    author = Author(1)
    start = author.append({"a": 1, "b": 1})
    row = author.find("a", 1)
    other = Author(2).learn(start)
    versions = [start, author.update((row, "a", 2)), other.update((row, "b", 3))]
    versions += [author.compact(), other.compact()]
    assert truth(versions) == ({"a": 2, "b": 3},)
    assert read(versions, Rules(join_copies=greatest_tag)) == ({"a": 1, "b": 3},)
    assert read(versions, Rules(join_copies=least_tag)) == ({"a": 2, "b": 1},)
    assert read(versions) == truth(versions)


def test_tombstoning_whole_overlays_gave_wrong_rows() -> None:
    """An overlay rewrites rows of two chunks; compacting one of them must not end it for the other."""
    author = Author(1)
    first, second = author.append({"a": 1}), author.append({"a": 2})
    update = author.update((author.find("a", 1), "a", 10), (author.find("a", 2), "a", 20))
    versions = [first, second, update, author.compact((first.id, 0))]
    assert truth(versions) == ({"a": 10}, {"a": 20})
    assert read(versions, Rules(overlay_replaced=whole_overlay_replaced)) == ({"a": 10}, {"a": 2})
    assert read(versions) == truth(versions)


@pytest.mark.parametrize(
    ("keep", "survives"), [(leave_out_rows_another_copy_has, False), (keep_every_row, True)]
)
def test_leaving_out_rows_another_copy_has_gave_wrong_rows(keep: Keep, survives: bool) -> None:
    """Two copies of a row; two compactors each rewrite one and trust the other copy to stay."""
    one, two = Author(1), Author(2)
    start = one.append({"a": 1})
    two.learn(start)
    copies = [one.compact(time=10), two.compact(time=10)]
    for author in (one, two):
        author.learn(*copies)
    again = [
        one.compact((copies[0].id, 0), keep=keep, time=20),
        two.compact((copies[1].id, 0), keep=keep, time=20),
    ]
    versions = [start, *copies, *again]
    assert truth(versions) == ({"a": 1},)
    assert (read(versions) == truth(versions)) is survives


def test_forgetting_folded_deletes_gave_wrong_rows() -> None:
    """A compactor that has not seen the delete writes the row again."""
    author = Author(1)
    start = author.append({"a": 1}, {"a": 2})
    unaware = Author(2).learn(start)
    versions = [start, author.delete(author.find("a", 1)), author.compact(), unaware.compact()]
    assert truth(versions) == ({"a": 2},)
    assert read(versions, Rules(deleted_rows=forget_folded_deletes)) == ({"a": 1}, {"a": 2})
    assert read(versions) == truth(versions)


# The same five, found by search: random histories fail each of them, and never the right rule.

VERBS = {"append": 4, "update": 6, "delete": 3, "compact": 8}
SEEDS = range(150)


@pytest.mark.parametrize(
    "wrong",
    [
        Rules(join_copies=greatest_tag),
        Rules(join_copies=least_tag),
        Rules(overlay_replaced=whole_overlay_replaced),
        Rules(deleted_rows=forget_folded_deletes),
    ],
    ids=["greatest tag", "least tag", "whole overlays", "forgotten deletes"],
)
def test_random_histories_find_the_wrong_reading(wrong: Rules) -> None:
    assert any(read(made, wrong) != truth(made) for made in (history(seed, verbs=VERBS) for seed in SEEDS))


def test_random_histories_find_the_wrong_writing() -> None:
    def fails(seed: int) -> bool:
        made = history(seed, verbs=VERBS, keep=leave_out_rows_another_copy_has)
        return read(made) != truth(made)

    assert any(fails(seed) for seed in SEEDS)


def test_random_histories_do_not_fail_the_right_rule() -> None:
    for made in (history(seed, verbs=VERBS) for seed in SEEDS):
        assert read(made) == truth(made)

"""What a compaction may be trusted with, when something it folded turns out void or was never seen.

Not named in the design as a counterexample, but it follows from "undo a version that turns out void": a
reader that takes every compaction it finds shows rows nobody committed and hides rows nobody deleted.
"""

from __future__ import annotations

from dataclasses import replace

from tests.model.authors import Author
from tests.model.head import head
from tests.model.versions import State, Version, state_of


def trusting(*versions: Version) -> State:
    """The wrong rule: a compaction stands whatever became of what it folded."""
    return state_of(
        *(
            version
            if version.compaction is None
            else replace(version, compaction=replace(version.compaction, folded=frozenset()))
            for version in versions
        )
    )


def test_a_compaction_that_folded_a_void_delete_hides_a_row() -> None:
    author = Author(1)
    start = author.append({"a": 1})
    retried = author.delete(author.find("a", 1), keys=frozenset({"task"}), time=5)
    compacted = author.compact((start.id, 0))
    first_try = Author(2).append({"a": 7}, keys=frozenset({"task"}), time=3)
    versions = (start, retried, compacted, first_try)
    assert head(trusting(*versions)).values("a") == [7]
    assert head(state_of(*versions)).values("a") == [1, 7]


def test_a_compaction_that_folded_a_void_append_shows_rows_nobody_committed() -> None:
    author = Author(1)
    retried = author.append({"a": 1}, keys=frozenset({"task"}), time=5)
    compacted = author.compact()
    first_try = Author(2).append({"a": 2}, keys=frozenset({"task"}), time=3)
    versions = (retried, compacted, first_try)
    assert sorted(head(trusting(*versions)).values("a")) == [1, 2]
    assert head(state_of(*versions)).values("a") == [2]


def test_a_compaction_listed_without_what_it_folded_shows_rows_outside_the_snapshot() -> None:
    """A listing that raced both PUTs may hold the compaction and not the append."""
    author = Author(1)
    author.append({"a": 1})
    compacted = author.compact()
    assert head(trusting(compacted)).row_count == 1
    assert head(trusting(compacted)).snapshot == frozenset()
    assert head(state_of(compacted)).row_count == 0

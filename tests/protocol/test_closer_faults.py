"""Closing transactions where creations have no answer, arrive late or never: what was settled stays so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from crdtcat.protocol import Created
from crdtcat.protocol.closer import Closer
from tests.protocol.closings import LATE, bundler, closer, explored, may_fail
from tests.protocol.scenes import FOLDER, writer
from tests.protocol.test_closer import Backward


def test_no_half_of_a_transaction_where_a_creation_has_no_answer() -> None:
    """The author's answer, the closing's or the file's may be lost, and each may arrive late."""
    found = explored(
        writer("author", LATE),
        closer(9, kind=may_fail()),
        bundler(FOLDER, kind=may_fail()),
        faults=1,
    )
    assert found.problem is None, str(found)
    assert found.worlds > 15_000


def test_what_two_closers_settled_counts_whichever_creation_arrives_when() -> None:
    found = explored(closer(9, kind=may_fail()), closer(8, kind=may_fail(), unique=b"another."), faults=2)
    assert found.problem is None, str(found)
    assert found.worlds > 10_000


@dataclass(frozen=True, slots=True)
class Believing(Closer):
    """Takes it for settled what it asked for, whatever became of it."""

    def take(self, answers: Sequence[Any]) -> Closer:
        (answer,) = answers
        if isinstance(answer, Created):
            return replace(self, done=True, deleting=(self.name,))
        return Closer.take(self, answers)


def test_a_closer_that_believes_an_answer_that_it_did_not_get_loses_half_of_one() -> None:
    """Its closing is gone before its file is there: a bundler builds on what that file passes by."""
    bundles = bundler(FOLDER, kind=may_fail())
    found = explored(writer("author", LATE), closer(9, kind=may_fail(Believing)), bundles, faults=1)
    assert found.problem is not None
    assert "not in tables/other/main/" in found.problem
    assert any("will take a while" in words for words in found.schedule)
    assert explored(writer("author", LATE), closer(9, kind=Believing), bundles).problem is None


def test_a_closer_that_lists_before_it_reads_drops_what_counted() -> None:
    """Every order, in pages of two names: the real one never does, and one that is backward does soon."""
    author, other = writer("author", LATE), closer(8, kind=may_fail(), unique=b"another.")
    found = explored(author, closer(9, kind=may_fail(Backward)), other, page=2)
    assert found.problem is not None
    assert "misses what was acknowledged" in found.problem
    found = explored(author, closer(9, kind=may_fail()), other, page=2)
    assert found.problem is None, str(found)

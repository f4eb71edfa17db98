"""Closing transactions, request by request: in no world does half of one count; mutants that lose it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from crdtcat.errors import Corrupt, StoreUnavailable
from crdtcat.format.closed import NOTHING_CLOSED, Closed, decode_closed
from crdtcat.protocol import (
    Created,
    Delete,
    Deleted,
    Get,
    Got,
    Listed,
    ListPage,
    Object,
    Put,
    PutIfAbsent,
    Stored,
)
from crdtcat.protocol.closer import Closer
from crdtcat.protocol.names import TRANSACTIONS, closed_name, closing_name, transaction_of
from crdtcat.support.object_bytes import ObjectBytes
from tests.protocol.closings import EARLY, LATE, UNIQUE, bundler, closer, explored
from tests.protocol.scenes import FOLDER, writer


def test_no_half_of_a_transaction_beside_a_closer_and_a_bundler() -> None:
    found = explored(writer("author", LATE), closer(9), bundler(FOLDER))
    assert found.problem is None, str(found)
    assert found.worlds > 2_000


def test_no_half_of_one_beside_two_closers() -> None:
    found = explored(writer("author", LATE), closer(9), closer(8, unique=b"another."))
    assert found.problem is None, str(found)
    assert found.worlds > 5_000


def test_listings_of_many_pages_and_answers_that_are_lost() -> None:
    found = explored(writer("author", LATE), closer(9), bundler(FOLDER), page=1)
    assert found.problem is None, str(found)
    found = explored(writer("author", LATE), bundler(FOLDER), faults=1)
    assert found.problem is None, str(found)


@dataclass(frozen=True, slots=True)
class Backward(Closer):
    """Reads what was settled after it has listed what is there."""

    def _read(self, data: ObjectBytes) -> Closer:
        step = Closer._read(self, data)
        return step if step.done else replace(step, names=self.names, after=None, listed=True)


def test_a_closer_that_lists_before_it_reads_drops_what_another_one_has_settled() -> None:
    """The listing's first page is of before a transaction came, its last of after another one admitted it.

    All orders of this are `proofs/tla/Closing`, where it is a mistake that must fail.
    """
    admitted = Closed(1, 8, frozenset({5, 7}))
    for kind, expected in ((Closer, {5, 7}), (Backward, {5})):
        step = kind(closing_name(9, UNIQUE), 9).take([Stored()])
        step = step.take([Listed((Object(EARLY[0]), Object(step.name)), step.name)])
        step = step.take([Listed((Object(closed_name(1)),), None)])  # LATE came, and was found by another
        step = step.take([Got(admitted.encode())])
        if kind is Closer:
            there = (EARLY[0], LATE[0], step.name, closed_name(1))
            step = step.take([Listed(tuple(map(Object, there)), None)])
        assert step.wants == (PutIfAbsent(closed_name(2), Closed(2, 9, frozenset(expected)).encode()),)


@dataclass(frozen=True, slots=True)
class Hasty(Closer):
    """Lists without having said so."""

    is_put: bool = True


def test_a_closer_that_says_nothing_before_it_lists_loses_half_of_one() -> None:
    found = explored(writer("author", LATE), closer(9, kind=Hasty), bundler(FOLDER))
    assert found.problem is not None
    assert "not in tables/other/main/" in found.problem


def test_a_bundler_that_does_not_look_for_closings_loses_half_of_one() -> None:
    found = explored(writer("author", LATE), closer(9), bundler(FOLDER, settles=False))
    assert found.problem is not None
    assert "not in tables/other/main/" in found.problem


@dataclass(frozen=True, slots=True)
class Forgetful(Closer):
    """Counts everything that is there, also what was settled to count for nothing."""

    def _settled(self, before: Closed) -> Closed:
        found = [transaction_of(name) for name in self.names if name.endswith(".v")]
        admitted = frozenset(writer for hlc, writer in found if hlc < self.until)
        return Closed(before.number + 1, self.until, admitted)


def test_a_closer_that_settles_anew_what_was_settled_brings_one_back() -> None:
    """What counted for nothing counts again: nobody who was told so knows."""
    closed = Closed(1, 8, frozenset({5}))
    listed = Listed((Object(EARLY[0]), Object(LATE[0]), Object(closed_name(1))), None)
    for kind, expected in ((Closer, {5}), (Forgetful, {5, 7})):
        step = kind(closing_name(9, UNIQUE), 9).take([Stored()]).take([listed]).take([Got(closed.encode())])
        assert step.wants == (ListPage(TRANSACTIONS, ""),)
        step = step.take([listed])
        assert step.wants == (PutIfAbsent(closed_name(2), Closed(2, 9, frozenset(expected)).encode()),)


def test_what_it_asks_for() -> None:
    step = Closer(closing_name(9, UNIQUE), 9)
    assert step.wants == (Put(step.name, b""),)
    step = step.take([Stored()])
    assert step.wants == (ListPage(TRANSACTIONS, ""),)
    lesser, greater = closing_name(3, b"another."), closing_name(10, b"another.")
    names = tuple(map(Object, (EARLY[0], lesser, step.name, greater)))
    step = step.take([Listed(names[:2], names[1].name)])
    assert step.wants == (ListPage(TRANSACTIONS, lesser),)
    step = step.take([Listed(names[2:], None)])
    made = Closed(1, 9, frozenset({5}))
    assert step.wants == (PutIfAbsent(closed_name(1), made.encode()),)
    step = step.take([Created(created=True)]).take([Listed((*names, Object(closed_name(1))), None)])
    assert step.wants == (Get(closed_name(1)),)
    step = step.take([Got(made.encode())])
    assert step.wants == (Delete((step.name, lesser)),)  # the greater one is somebody's who goes on
    assert step.take([Deleted()]).wants == ()


def test_a_transaction_at_the_very_time_is_left_to_the_next_closer() -> None:
    """What is closed lies below the time: a horizon at that time passes none of it by."""
    step = Closer(closing_name(7, UNIQUE), 7).take([Stored()])
    step = step.take([Listed((Object(EARLY[0]), Object(LATE[0]), Object(step.name)), None)])
    assert step.wants == (PutIfAbsent(closed_name(1), Closed(1, 7, frozenset({5})).encode()),)


def test_where_even_its_own_closing_is_gone_nothing_was_settled() -> None:
    """Another closer may have deleted it. An empty listing asks for no file that never was."""
    step = Closer(closing_name(9, UNIQUE), 9).take([Stored()]).take([Listed((), None)])
    assert step.wants == (PutIfAbsent(closed_name(1), Closed(1, 9).encode()),)


def test_one_that_was_faster_and_closed_more_has_done_it() -> None:
    step = Closer(closing_name(9, UNIQUE), 9).take([Stored()])
    step = step.take([Listed((Object(closed_name(1)), Object(closed_name(2))), None)])
    step = step.take([Got(Closed(2, 9).encode())])
    assert step.done
    assert step.wants == (Delete((step.name, closed_name(1))),)


def test_nothing_is_closed_where_the_store_gives_no_clear_answer_or_others_are_always_faster() -> None:
    with pytest.raises(StoreUnavailable, match="no clear answer"):
        Closer(closing_name(9, UNIQUE), 9).take([Stored(clear=False)])
    step = Closer(closing_name(9, UNIQUE), 9).take([Stored()])
    for _ in range(15):
        step = step.take([Listed((Object(closed_name(1)),), None)]).take([Got(None)])
    with pytest.raises(StoreUnavailable, match="faster 16 times"):
        step.take([Listed((Object(closed_name(1)),), None)]).take([Got(None)])


def test_files_are_read_back_and_damage_is_named() -> None:
    closed = Closed(3, 2**63, frozenset({1, 2**64 - 1}))
    data, name = closed.encode(), closed_name(3)
    assert decode_closed(data, name, 3) == closed
    assert [closed.passed_by(2**63 - 1, writer) for writer in (1, 2)] == [False, True]
    assert not closed.passed_by(2**63, 2)
    assert not NOTHING_CLOSED.passed_by(0, 0)
    with pytest.raises(Corrupt, match="renamed"):
        decode_closed(data, closed_name(4), 4)
    for at in range(len(data)):
        with pytest.raises(Corrupt):
            decode_closed(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], name, 3)
    with pytest.raises(Corrupt):
        decode_closed(Closed(3, 1).encode()[:-32], name, 3)

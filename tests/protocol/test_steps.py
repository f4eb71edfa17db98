"""Steps one at a time: outcomes of publishing, what sends a reader back, what a collector leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt, StoreUnavailable
from crdtcat.log import State, encode_bundle
from crdtcat.log.horizon import below
from crdtcat.protocol import (
    Collector,
    Delete,
    Deleted,
    Get,
    Got,
    Listed,
    ListPage,
    Object,
    Outcome,
    Publish,
    Put,
    Reader,
    Stored,
    base_name,
    claim_name,
    version_name,
)
from crdtcat.protocol.names import closed_name, closed_number, is_decision
from crdtcat.protocol.publish import TRIES
from crdtcat.protocol.reader import PASSES_MAX
from crdtcat.support.object_bytes import ObjectBytes
from tests.protocol.scenes import FOLDER, MARK, OTHER, bundle, transaction, version

SEGMENT, VERSION = Put("data/aa/s", b"rows"), Put("v", b"version")
UNCLEAR = Stored(clear=False)


def test_publishing_goes_in_order_and_ends_when_the_last_is_stored() -> None:
    step = Publish((SEGMENT, VERSION))
    assert step.wants == (SEGMENT,)
    step = step.take([Stored()])
    assert step.wants == (VERSION,)
    step = step.take([Stored()])
    assert (step.outcome, step.wants) == (Outcome.DONE, ())


@pytest.mark.parametrize(
    ("puts", "outcome"), [((VERSION,), Outcome.UNKNOWN), ((SEGMENT, VERSION), Outcome.NOTHING)]
)
def test_an_unclear_answer_is_met_by_the_same_put_a_few_times(puts: Any, outcome: Outcome) -> None:
    step = Publish(puts)
    for _ in range(TRIES - 1):
        step = step.take([UNCLEAR])
        assert step.wants == puts[:1]
    step = step.take([UNCLEAR])
    assert (step.outcome, step.wants) == (outcome, ())


def test_tries_are_counted_for_each_file() -> None:
    step = Publish((SEGMENT, VERSION)).take([UNCLEAR]).take([Stored()])
    for _ in range(TRIES - 1):
        step = step.take([UNCLEAR])
    assert step.outcome is Outcome.PENDING
    assert step.take([Stored()]).outcome is Outcome.DONE


def read(
    reader: Any, objects: dict[str, bytes], *, gone: frozenset[str] = frozenset(), now_ms: int = 0
) -> Any:
    """Answer until it is finished; what is in `gone` is listed and not there."""
    while wants := reader.wants:
        answers: list[Any] = []
        for want in wants:
            if isinstance(want, ListPage):
                names = sorted(name for name in objects if name.startswith(want.prefix))
                answers.append(Listed(tuple(Object(name) for name in names), None, now_ms))
                now_ms += 1000
            else:
                answers.append(Got(None if want.name in gone else objects[want.name]))
        reader = reader.take(answers)
    return reader


def test_a_reader_fetches_what_it_lacks_and_passes_over_other_names() -> None:
    first, second = version(1, 1), version(2, 2)
    objects = dict([first, second, (FOLDER + "hint", b"?"), (FOLDER + "z.b", b"?")])
    done = read(Reader(FOLDER, State(FOLDER)), objects)
    assert len(done.state.log) == 2
    again = Reader(FOLDER, done.state)
    assert read(again, objects).state is done.state


def test_a_reader_gives_up_when_files_keep_vanishing() -> None:
    name, data = version(1, 1)
    with pytest.raises(StoreUnavailable, match="vanishing"):
        read(Reader(FOLDER, State(FOLDER)), {name: data}, gone=frozenset({name}))


def test_a_reader_makes_sixteen_passes() -> None:
    name, _ = version(1, 1)
    reader: Any = Reader(FOLDER, State(FOLDER))
    for number in range(1, PASSES_MAX + 1):
        assert reader.passes == number
        reader = reader.take([Listed((Object(name),), None)])
        if number < PASSES_MAX:
            reader = reader.take([Got(None)])
    with pytest.raises(StoreUnavailable):
        reader.take([Got(None)])
    assert PASSES_MAX == 16


class Counted(NamedTuple):
    """A state that only counts."""

    held: frozenset[str] = frozenset()

    def missing(self, versions: Sequence[str]) -> Sequence[str]:
        return [name for name in versions if name not in self.held]

    def unread(self, bundles: Sequence[str]) -> Sequence[str]:
        return [name for name in bundles if name not in self.held]

    def unsettled(self, names: Sequence[str]) -> Sequence[str]:
        del names
        return ()

    def joined(self, files: Sequence[tuple[str, ObjectBytes]]) -> Counted:
        return Counted(self.held | {name for name, _ in files})

    def undecided(self) -> Sequence[str]:
        return ()

    def gaps(self) -> frozenset[tuple[int, int]]:
        return frozenset()


def test_version_files_are_asked_for_in_bounded_numbers() -> None:
    names = [version_name(FOLDER, VersionId(number, 1, number, bytes(16))) for number in range(1, 1030)]
    reader: Reader[Counted] = Reader(FOLDER, Counted())
    reader = reader.take([Listed(tuple(map(Object, names)), None)])
    asked = []
    while reader.wants:
        asked.append(len(reader.wants))
        reader = reader.take([Got(b"") for _ in reader.wants])
    assert asked == [512, 512, 5]
    assert reader.state.held == set(names)


def test_as_many_answers_as_were_asked_for() -> None:
    reader: Reader[Counted] = Reader(FOLDER, Counted())
    reader = reader.take([Listed((Object(version(1, 1)[0]), Object(version(2, 2)[0])), None)])
    with pytest.raises(ValueError, match="shorter"):
        reader.take([Got(b"")])


DECISION = f"transactions/{7:016x}.decision"


class Deciding(Counted):
    """A state that needs to know one decision."""

    def joined(self, files: Sequence[tuple[str, ObjectBytes]]) -> Deciding:
        return Deciding(super().joined(files).held)

    def undecided(self) -> Sequence[str]:
        return () if DECISION in self.held else (DECISION,)


def test_a_decision_is_asked_for_once_in_a_pass_and_left_out_if_there_is_none() -> None:
    assert is_decision(DECISION)
    reader: Any = Reader(FOLDER, Deciding()).take([Listed((), None)])
    assert reader.wants == (Get(DECISION),)
    without = reader.take([Got(None)])
    assert (without.wants, without.passes, without.state.held) == ((), 1, frozenset())
    decided = reader.take([Got(b"committed", 300_000)])
    assert (decided.wants, decided.passes, decided.state.held) == ((), 1, {DECISION})
    for data in (b"aborted", None):  # half a grace period later it may have been collected, and made again
        late = reader.take([Got(data, 300_001)])
        assert (late.passes, late.state.held) == (2, frozenset())


class Deaf(Counted):
    """A state that takes nothing in, whatever it is given."""

    def joined(self, files: Sequence[tuple[str, ObjectBytes]]) -> Deaf:
        del files
        return self

    def unsettled(self, names: Sequence[str]) -> Sequence[str]:
        return [name for name in names if closed_number(name)]


@pytest.mark.parametrize("which", ["versions", "bundles", "closed"])
def test_what_cannot_be_taken_in_is_named_and_not_fetched_again(which: str) -> None:
    names = {
        "versions": [version(hlc, hlc)[0] for hlc in (1, 2)],
        "bundles": [bundle(State(FOLDER).joined([version(hlc, hlc)]), [], 1)[0] for hlc in (1, 2)],
        "closed": [closed_name(1)],
    }[which]
    reader: Any = Reader(FOLDER, Deaf()).take([Listed(tuple(map(Object, names)), None)])
    assert {want.name for want in reader.wants} == set(names)
    with pytest.raises(Corrupt, match="cannot be taken in") as error:
        reader.take([Got(b"") for _ in reader.wants])
    assert error.value.name == min(names)


def test_what_vanished_is_fetched_again_in_the_next_pass() -> None:
    name, data = version(1, 1)
    reader: Any = Reader(FOLDER, State(FOLDER)).take([Listed((Object(name),), None)]).take([Got(None)])
    reader = reader.take([Listed((Object(name),), None)])
    assert (reader.wants, reader.passes) == ((Get(name),), 2)
    assert len(reader.take([Got(data)]).state.log) == 1


def test_a_reader_ends_whatever_is_in_the_store() -> None:
    """A base has passed a transaction by that nobody has closed: no writer makes that, and it has an end."""
    old, lost = version(3, 1), transaction(5, 2, FOLDER, OTHER)
    folded = below(State(FOLDER).joined([old]).log, 9)
    base = base_name(FOLDER, 1), encode_bundle(folded.with_(horizon=9), FOLDER, number=1)
    objects = dict([old, lost, MARK, base])
    with pytest.raises(Corrupt, match="cannot be taken in") as error:
        read(Reader(FOLDER, State(FOLDER)), objects)
    assert error.value.name == lost[0]


def test_a_slow_pass_over_an_ordered_listing_stands() -> None:
    reader: Any = Reader(FOLDER, Counted())
    reader = reader.take([Listed((), "after", 0)]).take([Listed((), None, 10**12)])
    assert (reader.wants, reader.passes, reader.now_ms) == ((), 1, 10**12)


@pytest.mark.parametrize(("now_ms", "passes"), [(1_000, 1), (301_000, 1), (301_001, 2)])
def test_claims_count_within_half_a_grace_period_of_the_first_page(now_ms: int, passes: int) -> None:
    """From the first page, not the last; ten minutes of grace unless told otherwise."""
    name = claim_name(FOLDER, 1)
    reader: Any = Reader(FOLDER, Counted())
    assert reader.grace_ms == 600_000
    reader = reader.take([Listed((Object(name),), "after", 1_000)]).take([Listed((), None, 200_000)])
    assert reader.wants == (Get(name),)
    assert reader.take([Got(b"", now_ms)]).passes == passes


def test_a_gap_that_stays_is_damage() -> None:
    with pytest.raises(Corrupt, match="version 1 of writer 0000000000000001 is missing"):
        read(Reader(FOLDER, State(FOLDER)), dict([version(2, 1, 2)]))


def test_of_several_gaps_the_least_is_named() -> None:
    with pytest.raises(Corrupt, match="version 1 of writer 0000000000000001 is missing"):
        read(Reader(FOLDER, State(FOLDER)), dict([version(2, 1, 2), version(3, 9, 2)]))


def test_a_version_that_others_had_seen_must_be_there() -> None:
    with pytest.raises(Corrupt, match="version 1 of writer 0000000000000009"):
        read(Reader(FOLDER, State(FOLDER)), dict([version(5, 1, 1, c={9: 3})]))


def test_a_transaction_for_another_table_is_fetched_once() -> None:
    objects = dict([transaction(1, 1, OTHER), version(2, 2), MARK])
    done = read(Reader(FOLDER, State(FOLDER)), objects)
    assert len(done.state.log) == 1
    assert read(Reader(FOLDER, done.state, marked=True), objects).state is done.state
    assert State(FOLDER, done.state.log) != done.state


def test_transactions_are_listed_only_where_a_mark_says_so() -> None:
    plain: Any = Reader(FOLDER, State(FOLDER))
    assert plain.wants == (ListPage(FOLDER),)
    assert plain.take([Listed((), None)]).wants == ()
    found = plain.take([Listed((Object(MARK[0]),), None)])
    assert (found.wants, found.marked, found.passes) == ((ListPage("transactions/"),), True, 1)
    again = found.take([Listed((), None)])
    assert again.wants == (ListPage(FOLDER),)
    assert again.take([Listed((Object(MARK[0]),), None)]).wants == ()
    assert Reader(FOLDER, State(FOLDER), marked=True).wants == (ListPage("transactions/"),)


@pytest.mark.parametrize(("now_ms", "thrown_away"), [(500, False), (501, True)])
def test_a_slow_pass_over_an_unordered_listing_is_thrown_away(now_ms: int, thrown_away: bool) -> None:
    first = version(1, 1)
    reader: Any = Reader(FOLDER, State(FOLDER), ordered=False, grace_ms=1000, marked=True)
    reader = reader.take([Listed((), None, 0)])
    reader = reader.take([Listed((Object(first[0]),), None, now_ms)])
    assert reader.wants == ((ListPage("transactions/"),) if thrown_away else (Get(first[0]),))
    assert reader.passes == 1 + thrown_away


def test_replaced_bundles_are_not_fetched() -> None:
    one, two = version(1, 1), version(2, 2)
    small = bundle(State(FOLDER).joined([one]), [], 1)
    large = bundle(State(FOLDER).joined([one, two]), [small[0]], 2)
    reader: Any = Reader(FOLDER, State(FOLDER))
    reader = reader.take([Listed((Object(one[0]), Object(small[0]), Object(large[0])), None)])
    assert reader.wants == (Get(large[0]),)
    assert reader.take([Got(large[1])]).wants == ()


def collect(
    listing: list[tuple[str, int]], objects: dict[str, bytes], now_ms: int, grace_ms: int
) -> tuple[str, ...]:
    step: Any = Collector(State(FOLDER), tuple(Object(n, 1, at) for n, at in listing), now_ms, grace_ms)
    while wants := step.wants:
        step = step.take(
            [Deleted() if isinstance(want, Delete) else Got(objects.get(want.name)) for want in wants]
        )
    return tuple(sorted(step.deleted))


def test_a_collector_waits_for_the_grace_period_of_the_bundle() -> None:
    one = version(1, 1)
    covering = bundle(State(FOLDER).joined([one]), [], 1)
    objects = dict([one, covering])
    assert collect([(one[0], 0), (covering[0], 100)], objects, 1099, 1000) == ()
    assert collect([(one[0], 0), (covering[0], 100)], objects, 1100, 1000) == (one[0],)


def test_a_collector_leaves_what_no_bundle_covers_what_vanished_and_transactions() -> None:
    one, two, both = version(1, 1), version(2, 2), transaction(3, 3, FOLDER, OTHER)
    covering = bundle(State(FOLDER).joined([one, both]), [], 1)
    listing = [(name, 0) for name in (both[0], one[0], two[0], covering[0])]
    assert collect(listing, dict([one, two, both, covering]), 0, 0) == (one[0],)
    assert collect(listing, dict([two, both, covering]), 0, 0) == ()
    assert collect(listing, dict([one, two, both]), 0, 0) == ()


def test_a_collector_refuses_a_damaged_bundle() -> None:
    one = version(1, 1)
    name, data = bundle(State(FOLDER).joined([one]), [], 1)
    damaged = data[:-40] + bytes([data[-40] ^ 1]) + data[-39:]
    with pytest.raises(Corrupt, match="damaged"):
        collect([(one[0], 0), (name, 0)], {one[0]: one[1], name: damaged}, 0, 0)


def test_a_collector_fetches_and_deletes_in_bounded_numbers() -> None:
    """256 at a time; all that a bundle covers goes, whatever the number."""
    versions = [version(number, number) for number in range(1, 260)]
    covering = bundle(State(FOLDER).joined(versions), [], 1)
    objects = dict([*versions, covering])
    step: Any = Collector(State(FOLDER), tuple(Object(name, 1, 0) for name in objects), 0, 0)
    counts = []
    while wants := step.wants:
        counts.append(len(wants[0].names) if isinstance(wants[0], Delete) else len(wants))
        step = step.take(
            [Deleted() if isinstance(want, Delete) else Got(objects[want.name]) for want in wants]
        )
    assert counts == [1, 256, 256, 3, 3]
    assert set(step.deleted) == {name for name, _ in versions}


def test_a_collector_reads_back_the_highest_bundle_first_and_deletes_those_below_it() -> None:
    one, two = version(1, 1), version(2, 2)
    low = bundle(State(FOLDER).joined([one]), [], 1)
    equal = bundle(State(FOLDER).joined([two]), [], 2)
    high = bundle(State(FOLDER).joined([one, two]), [low[0]], 2)
    listing = tuple(Object(name, 1, 0) for name, _ in (low, equal, high))
    step: Any = Collector(State(FOLDER), listing, 0, 0)
    objects = dict([low, equal, high])
    while wants := step.wants:
        assert wants != (Get(low[0]),) or step.current is not None  # it is gone before it is its turn
        step = step.take(
            [Deleted() if isinstance(want, Delete) else Got(objects[want.name]) for want in wants]
        )
    assert step.deleted == (low[0],)


def test_a_collector_wants_as_many_answers_as_it_asked_for() -> None:
    one = version(1, 1)
    covering = bundle(State(FOLDER).joined([one]), [], 1)
    step: Any = Collector(State(FOLDER), (Object(one[0], 1, 0), Object(covering[0], 1, 0)), 0, 0)
    step = step.take([Got(covering[1])])
    assert step.wants == (Get(one[0]),)
    with pytest.raises(ValueError, match="shorter"):
        step.take([])


def test_one_boundary_that_is_old_is_enough_and_none_is_not() -> None:
    collector = Collector(State(FOLDER), (), now_ms=100, grace_ms=50)
    old, young = Object("zy1", 0, 50), Object("zy2", 0, 51)
    assert collector._is_bounded([old])
    assert collector._is_bounded([young, old])
    assert not collector._is_bounded([young])
    assert not collector._is_bounded([])


class Based:
    """A state to which every bundle is a base that has claims up to the fifth, and nothing more to delete."""

    def joined(self, _: Any) -> Based:
        return self

    def covered(self, *_: Any) -> list[str]:
        return []

    def contains(self, *_: Any) -> bool:
        return False

    def boundary(self, _: Any) -> str:
        return f"{FOLDER}zy{5:016d}"


@pytest.mark.parametrize(("listed", "is_put"), [((), True), ((4,), True), ((5,), False), ((4, 6), False)])
def test_a_base_needs_a_boundary_at_its_number_or_above(listed: tuple[int, ...], *, is_put: bool) -> None:
    names = [f"{FOLDER}zy{number:016d}" for number in listed] + [f"{FOLDER}zz00000001.b"]
    step: Any = Collector(Based(), tuple(map(Object, names)), now_ms=0, grace_ms=0)
    step = step.take([Got(b"base")])
    assert (step.bounding == f"{FOLDER}zy{5:016d}") == is_put

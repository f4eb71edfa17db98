"""Steps one at a time: outcomes of publishing, what sends a reader back, what a collector leaves."""

from __future__ import annotations

from typing import Any

import pytest

from crdtcat.errors import Corrupt, StoreUnavailable
from crdtcat.log import State
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
)
from crdtcat.protocol.publish import TRIES
from crdtcat.protocol.reader import PASSES_MAX
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
    assert PASSES_MAX > 2


def test_a_gap_that_stays_is_damage() -> None:
    with pytest.raises(Corrupt, match="version 1 of writer 0000000000000001 is missing"):
        read(Reader(FOLDER, State(FOLDER)), dict([version(2, 1, 2)]))


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


def test_a_slow_pass_over_an_unordered_listing_is_thrown_away() -> None:
    first = version(1, 1)
    reader: Any = Reader(FOLDER, State(FOLDER), ordered=False, grace_ms=1000, marked=True)
    reader = reader.take([Listed((), None, 0)])
    reader = reader.take([Listed((Object(first[0]),), None, 501)])
    assert reader.wants == (ListPage("transactions/"),)
    assert reader.passes == 2


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

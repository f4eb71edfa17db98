"""The n-th request fails, for every n, in every operation, before and after it took effect."""

from __future__ import annotations

import logging

import pytest

from crdtcat import Catalog
from crdtcat.errors import CrdtcatError, NotFound
from crdtcat.store import open_store
from crdtcat.testing.faulty import FAULTS, Fault, FaultyStore, Plan, from_nth, nth
from tests.bounds import FULL
from tests.faults.operations import (
    NEW,
    OLD,
    OPTIONS,
    PLAYS,
    UPKEEP,
    Content,
    Play,
    arrange,
    content,
    fresh_url,
    read,
    read_content,
    rows,
)

REQUESTS_MAX = 400


def run(play: Play, plan: Plan) -> tuple[FaultyStore, CrdtcatError | None]:
    """Play it on a store that fails as planned."""
    store = FaultyStore(open_store(fresh_url()))
    arrange(store.inner, play.settings)
    store.plan = plan
    try:
        play.act(Catalog(store, **play.options))
    except CrdtcatError as error:
        return store, error
    return store, None


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("play", PLAYS, ids=str)
def test_every_request_failing_once(play: Play, fault: Fault) -> None:
    stride = 3 if fault.startswith("transient") and not FULL else 1  # what is repeated, and never told
    for number in range(1, REQUESTS_MAX, stride):
        store, error = run(play, nth(number, fault))
        requests = len(store.calls)
        check(play, store, error, fault)
        if requests < number:
            assert error is None, "without a fault it must succeed"
            return
    pytest.fail(f"{play} made {REQUESTS_MAX} requests")


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
@pytest.mark.parametrize("play", PLAYS, ids=str)
def test_a_store_that_stays_down_from_the_nth_request_on(play: Play, fault: Fault) -> None:
    """As a process that dies there sees it."""
    for number in range(1, REQUESTS_MAX):
        store, error = run(play, from_nth(number, fault))
        if len(store.calls) < number:
            assert error is None
            return
        if error is None:
            assert play.done is not None
            assert play.done(Catalog(store.inner, **play.options))
        check(play, store, error, fault)
    pytest.fail(f"{play} made {REQUESTS_MAX} requests")


def check(play: Play, store: FaultyStore, error: CrdtcatError | None, fault: Fault) -> None:
    """All of it is there or nothing, and it can be repeated."""
    if fault.startswith("transient"):
        assert error is None, f"retries absorb a transient fault, not {error}"
    if play.gone:
        _check_gone(store, error)
        return
    found = read_content(store.inner, play.options)
    if error is None:
        assert found == play.content
        assert play.done is None or play.done(Catalog(store.inner, **play.options))
    else:
        assert found in (content(OLD), play.content), "half of an operation is visible"
    assert Catalog(store.inner, **play.options).table("t").head("before").row_count == len(OLD)
    if not fault.startswith("transient"):
        _check_next_commit(play, store, found)


def _check_next_commit(play: Play, store: FaultyStore, found: Content) -> None:
    """What failed can be repeated, once the store works again, and leaves exactly one."""
    store.plan = None
    if play.keyed:
        expected = play.content
        play.act(Catalog(store, **play.options))
        assert read_content(store.inner, play.options) == expected
        play.act(Catalog(store, **play.options))
    else:
        expected = found | content(NEW)
        Catalog(store, **play.options).commit("t", rows(NEW))
    assert read_content(store.inner, play.options) == expected
    Catalog(store, **play.options).table("t").checkpoint()
    Catalog(store, **play.options).table("t").collect()
    assert read_content(store.inner, play.options) == expected


def _check_gone(store: FaultyStore, error: CrdtcatError | None) -> None:
    catalog = Catalog(store.inner, **OPTIONS)
    try:
        found = read(store.inner)
    except NotFound:
        assert catalog.tables() == []
        with pytest.raises(NotFound):
            catalog.drop_table("t")
    else:
        assert error is not None
        assert found == OLD
        catalog.drop_table("t")
    catalog.create_table("t")
    assert catalog.read("t").num_rows == 0  # whatever is left of the old one is not part of the new one
    catalog.commit("t", rows(NEW))
    assert read(store.inner) == NEW


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_faults_during_upkeep_never_fail_a_commit(fault: Fault, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "crdtcat")
    for number in range(3, REQUESTS_MAX):  # the first two open the table
        # Which commits do upkeep is drawn by their ids: each run is another draw.
        store, error = run(UPKEEP, nth(number, fault))
        failed = [call for call in store.calls if call.number == number]
        if not failed:
            return
        (call,) = failed
        if call.kind == "put" and call.name.endswith(".v"):
            continue  # repeated by the publisher
        assert error is None, f"{call} failed the commit: {error}"
        assert read(store.inner) == UPKEEP.after
    pytest.fail("too many requests")


@pytest.mark.parametrize("number", range(1, 12))
def test_one_handle_goes_on_after_faults(number: int) -> None:
    """The same handle, not a fresh one: failed commits leave no gap and no half-known state behind."""
    store = FaultyStore(open_store(fresh_url()))
    arrange(store.inner)
    table = Catalog(store, **OPTIONS).table("t")
    store.plan = lambda call: "error" if call.number % number == 0 else None
    expected = set(OLD)
    for n in range(200, 220):
        try:
            table.append(rows(frozenset({n})), key=str(n))
        except CrdtcatError:
            continue
        expected.add(n)
    store.plan = None
    assert read(store.inner) == expected
    assert set(table.read().column("n").to_pylist()) == expected

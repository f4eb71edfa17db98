"""Transactions by a machine whose clock is a minute behind, beside an expiry: whole, once, and soon."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.clock import HybridClock
from crdtcat.protocol import mark_name
from crdtcat.protocol.names import TRANSACTIONS
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.faulty import Call, FaultyStore

QUICK: dict[str, Any] = {"upkeep": False, "max_commit_delay_seconds": 0, "grace_seconds": 0}
LATE_MS = 60_000
TABLES = ("a", "b")


def lagging(store: Any) -> Catalog:
    """A handle of a machine whose clock is behind."""
    catalog = Catalog(store, **QUICK)
    catalog._clock = HybridClock(lambda: time.time_ns() // 1_000_000 - LATE_MS)
    return catalog


def both(catalog: Catalog, number: int) -> None:
    with catalog.transaction(TABLES) as tx:
        for name in TABLES:
            tx.append(name, [{"n": number}])


def scene(*, begun: bool, late: bool) -> tuple[Catalog, FaultyStore]:
    """Two tables that took part in a transaction or in none, and a handle on them."""
    inner = MemoryStore(f"memory://lagging-{secrets.token_hex(6)}")
    author = lagging(inner)
    for name in TABLES:
        author.create_table(name).append([{"n": 0}])
    if begun:
        both(author, 1)
    time.sleep(0.002)
    store = FaultyStore(inner)
    worker = lagging(store) if late else Catalog(store, **QUICK)
    for name in TABLES:
        worker.table(name).head()
    return worker, store


def meanwhile(
    store: FaultyStore, other: Callable[[Catalog], object], due: Callable[[int, Call], bool]
) -> list[Call]:
    """All of `other` before the first request that is due, by its number from now on; that request."""
    before = len(store.calls)
    met: list[Call] = []

    def plan(call: Call) -> None:
        if not met and due(call.number - before, call):
            met.append(call)
            other(Catalog(store.inner, **QUICK))

    store.plan = plan
    return met


def at_every_request(
    work: Callable[[Catalog], object], other: Callable[[Catalog], object], *, begun: bool, late: bool
) -> Iterator[tuple[int, Catalog]]:
    """`work`, by a handle that is late or not, with all of `other` before its n-th request, for every n."""
    for number in itertools.count(1):
        worker, store = scene(begun=begun, late=late)
        before = len(store.calls)
        met = meanwhile(store, other, lambda at, _, number=number: at == number)  # type: ignore[misc]
        work(worker)
        if not met:
            return
        yield len(store.calls) - before, Catalog(store.inner, **QUICK)


def is_its_put(_: int, call: Call) -> bool:
    """Whether a request stores a transaction."""
    return call.kind == "put" and call.name.startswith(TRANSACTIONS)


def check(catalog: Catalog, *numbers: int) -> None:
    for name in TABLES:
        assert sorted(catalog.read(name)["n"].to_pylist()) == [0, *numbers]
        assert catalog.table(name).verify().ok


def expire(name: str) -> Callable[[Catalog], object]:
    return lambda catalog: catalog.table(name).expire(older_than=timedelta(0))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("begun", [False, True])
def test_an_expiry_at_every_request_of_a_transaction(name: str, begun: bool) -> None:
    for requests, catalog in at_every_request(
        lambda author: both(author, 7), expire(name), begun=begun, late=True
    ):
        check(catalog, *[1] * begun, 7)
        assert requests < 40, "it is made again a few times, and not until its clock has caught up"


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("marked", [False, True])
def test_a_first_transaction_at_every_request_of_an_expiry(name: str, marked: bool) -> None:
    """Also by one that found the marks of somebody else, who came that far and died."""

    def first(other: Catalog) -> None:
        for each in TABLES if marked else ():
            other.store.put(mark_name(other.table(each)._session.folder), b"")
        both(lagging(other.store), 7)

    for _, catalog in at_every_request(expire(name), first, begun=False, late=False):
        check(catalog, 7)


def test_what_became_of_it_is_asked_of_a_table_that_is_there() -> None:
    """The first was dropped while it was stored, and an expiry of the second has passed it by."""

    def other(catalog: Catalog) -> None:
        expire("b")(catalog)
        catalog.drop_table("a")

    author, store = scene(begun=True, late=True)
    tx = author.transaction(TABLES)
    for name in TABLES:
        tx.append(name, [{"n": 7}])
    met = meanwhile(store, other, is_its_put)
    tx.commit()
    assert met
    assert sorted(Catalog(store.inner).read("b")["n"].to_pylist()) == [0, 1, 7]


def test_one_that_was_passed_by_is_made_again_once() -> None:
    """By an expiry of a table that it does not touch: what is closed is closed for all."""
    author, store = scene(begun=True, late=True)
    before = len(store.calls)
    met = meanwhile(store, expire("b"), is_its_put)
    with author.transaction() as tx:
        tx.append("a", [{"n": 7}])
    assert met
    assert len([call for call in store.calls[before:] if is_its_put(0, call)]) == 2
    assert sorted(Catalog(store.inner).read("a")["n"].to_pylist()) == [0, 1, 7]

"""The failing store fails exactly as told, and the store's own retries absorb what they should."""

from __future__ import annotations

import pickle
import secrets

import pytest

from crdtcat.errors import StoreUnavailable
from crdtcat.store import Store, open_store
from crdtcat.testing.faulty import FAULTS, Call, Fault, FaultyStore, from_nth, nth


@pytest.fixture
def inner() -> Store:
    return open_store(f"memory://faulty/{secrets.token_hex(6)}")


def script(store: Store) -> list[object]:
    """A little of everything; what it returns is what a caller learns."""
    store.put("a/1", b"one")
    created = store.put_if_absent("a/2", b"two")
    got = store.get("a/1")
    many = store.get_many([("a/1", 0, None), ("a/2", 0, 1), ("none", 0, None)])
    names = [info.name for info in store.list("a/")]
    folders = store.folders("")
    store.delete(["a/1"])
    return [created, got, many, names, folders]


def expected() -> list[object]:
    return [True, b"one", [b"one", b"t", None], ["a/1", "a/2"], ["a"]]


def test_without_a_plan_nothing_fails(inner: Store) -> None:
    store = FaultyStore(inner)
    assert script(store) == expected()
    assert [call.kind for call in store.calls] == [
        "put",
        "put",
        "get",
        "get",
        "get",
        "get",
        "list",
        "list",
        "delete",
    ]
    assert store.calls[0] == Call(1, "put", "a/1")


@pytest.mark.parametrize("fault", ["transient", "transient_lost_answer"])
def test_transient_faults_at_every_request_change_nothing(fault: Fault) -> None:
    n = 0
    while True:
        n += 1
        store = FaultyStore(open_store(f"memory://faulty/{secrets.token_hex(6)}"), nth(n, fault))
        assert script(store) == expected()
        if len(store.calls) < n:
            break
        assert len(store.calls) == 10
    assert n == 10


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_the_nth_request_fails_for_every_n(fault: Fault) -> None:
    for n in range(1, 10):
        inner = open_store(f"memory://faulty/{secrets.token_hex(6)}")
        store = FaultyStore(inner, nth(n, fault))
        with pytest.raises(StoreUnavailable, match=f"injected {fault} at request {n}"):
            script(store)
        assert len(store.calls) == n
        if n == 1:
            assert (inner.get_many([("a/1", 0, None)]) == [b"one"]) is (fault == "lost_answer")
        if n == 2:
            assert (inner.get_many([("a/2", 0, None)]) == [b"two"]) is (fault == "lost_answer")


def test_after_a_kill_nothing_has_an_effect(inner: Store) -> None:
    store = FaultyStore(inner, from_nth(2, "error"))
    store.put("a/1", b"x")
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            store.put("a/2", b"x")
    assert [info.name for info in inner.list("a/")] == ["a/1"]
    store.plan = None
    store.put("a/2", b"x")
    assert [info.name for info in inner.list("a/")] == ["a/1", "a/2"]


def test_pages_can_be_small(inner: Store) -> None:
    store = FaultyStore(inner, page_limit=2)
    for i in range(5):
        store.put(f"p/{i}", b"")
    assert len(list(store.list("p/"))) == 5
    assert [call.kind for call in store.calls[5:]] == ["list"] * 3
    assert len(store.list_page("p/", limit=1000).objects) == 2


def test_it_is_a_store(inner: Store) -> None:
    store = FaultyStore(inner, nth(5, "error"))
    copy: object = pickle.loads(pickle.dumps(store))
    assert isinstance(copy, FaultyStore)
    assert copy.plan == nth(5, "error")
    assert copy.calls == []
    assert (store.url, store.can_create_exclusively) == (inner.url, inner.can_create_exclusively)
    assert (store.skew_ms(), store.sweep("a/")) == (inner.skew_ms(), 0)
    assert len(FAULTS) == 4

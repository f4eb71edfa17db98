"""A collector goes by between a reader's listing and its fetching: it lists again, and has every row."""

from __future__ import annotations

import threading

import pytest

from crdtcat import Catalog
from crdtcat.errors import Corrupt, StoreUnavailable
from crdtcat.store import Store, open_store
from crdtcat.testing.faulty import Call, Fault, FaultyStore
from tests.faults.operations import OPTIONS, SCHEMA, fresh_url, read, rows


def _table_of(store: Store, commits: int) -> frozenset[int]:
    table = Catalog(store, **OPTIONS).create_table("t", SCHEMA)
    for n in range(commits):
        table.append(rows(frozenset({n})))
    return frozenset(range(commits))


class Collecting:
    """A plan that lets somebody else bundle and collect just before the n-th request of a kind."""

    def __init__(self, inner: Store, kind: str, number: int) -> None:
        self.inner, self.kind, self.left, self.deleted = inner, kind, number, 0

    def __call__(self, call: Call) -> Fault | None:
        if call.kind == self.kind:
            self.left -= 1
            if self.left == 0:
                table = Catalog(self.inner, **OPTIONS).table("t")
                table.checkpoint()
                self.deleted = table.collect().versions
        return None


@pytest.mark.parametrize("kind", ["list", "get"])
@pytest.mark.parametrize("page_limit", [1000, 3, 1])
@pytest.mark.parametrize("number", range(1, 14))
def test_everything_is_collected_just_before_a_request(kind: str, page_limit: int, number: int) -> None:
    store = FaultyStore(open_store(fresh_url()), page_limit=page_limit)
    expected = _table_of(store.inner, 8)
    store.plan = Collecting(store.inner, kind, number)
    assert read(store) == expected


@pytest.mark.parametrize("number", range(1, 12))
def test_bundles_replace_each_other_while_they_are_read(number: int) -> None:
    store = FaultyStore(open_store(fresh_url()), page_limit=2)
    expected = _table_of(store.inner, 4)
    writer = Catalog(store.inner, **OPTIONS).table("t")
    added: set[int] = set()
    one_at_a_time = threading.Lock()  # data is read by several threads

    def busy(call: Call) -> Fault | None:
        with one_at_a_time:
            if call.kind in ("list", "get") and call.number >= number and len(added) < 12:
                n = 100 + len(added)
                writer.append(rows(frozenset({n})))
                added.add(n)
                writer.checkpoint()
                writer.collect()
        return None

    store.plan = busy
    found = read(store)
    assert expected <= found <= expected | added
    store.plan = None
    assert read(store) == expected | added


def test_a_handle_that_already_knows_some_of_it() -> None:
    store = FaultyStore(open_store(fresh_url()))
    expected = _table_of(store.inner, 5)
    table = Catalog(store, **OPTIONS).table("t")
    assert table.head().row_count == 5
    other = Catalog(store.inner, **OPTIONS).table("t")
    other.append(rows(frozenset({50})))
    store.plan = Collecting(store.inner, "get", 1)
    assert set(table.read().column("n").to_pylist()) == expected | {50}


def test_files_that_vanish_without_a_bundle_are_reported_not_skipped() -> None:
    store = FaultyStore(open_store(fresh_url()))
    _table_of(store.inner, 5)
    versions = [item.name for item in store.inner.list("tables/t/main/")]

    def lose(call: Call) -> Fault | None:
        if call.kind == "get" and call.name == versions[2]:
            store.inner.delete([versions[2]])
        return None

    store.plan = lose
    with pytest.raises(Corrupt, match=r"tables/t/main/.*version 3 of writer [0-9a-f]{16}"):
        read(store)


def test_files_that_vanish_for_ever_end_in_an_error_not_a_loop() -> None:
    store = FaultyStore(open_store(fresh_url()))
    _table_of(store.inner, 2)
    name, data = "", b""
    for item in store.inner.list("tables/t/main/"):
        name, data = item.name, bytes(store.inner.get(item.name))

    def flicker(call: Call) -> Fault | None:
        if call.kind == "get" and call.name == name:
            store.inner.delete([name])
        elif call.kind == "list":
            store.inner.put(name, data)
        return None

    store.plan = flicker
    with pytest.raises(StoreUnavailable, match="kept vanishing"):
        read(store)

"""How many round trips a cold read waits for: what does not depend on each other is asked for at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import NotFound
from crdtcat.log import State
from crdtcat.protocol import Get, Object, Reader, bundle_name, is_bundle
from crdtcat.protocol.requests import Got, Listed
from crdtcat.store.memory import MemoryStore
from tests.cost.places import measured

URL = "memory://round-trips"


class Far(MemoryStore):
    """A store whose requests are under way for some time: those that were begun together share a round."""

    is_remote = True
    ROUND_SECONDS = 0.03

    def _start(self) -> None:
        super()._start()
        self.rounds: list[set[str]] = []
        self.bundles: list[int] = []  # in each request for many objects that has some
        self._under_way, self._guard = 0, threading.Lock()

    @contextmanager
    def _round(self, what: str) -> Iterator[None]:
        with self._guard:
            if not self._under_way:
                self.rounds.append(set())
            self.rounds[-1].add(what)
            self._under_way += 1
        time.sleep(self.ROUND_SECONDS)
        try:
            yield
        finally:
            with self._guard:
                self._under_way -= 1

    def get_many(self, ranges: Any) -> Any:
        bundles = sum(is_bundle(name) for name, *_ in ranges)
        self.bundles += [bundles] if bundles else []
        with self._round("get"):
            return super().get_many(ranges)

    def get(self, *given: Any) -> Any:
        with self._round("get"):
            return super().get(*given)

    def list_page(self, *given: Any, **more: Any) -> Any:
        with self._round("list"):
            return super().list_page(*given, **more)

    def list_names(self, *given: Any) -> Any:
        with self._round("list"):
            return super().list_names(*given)


def far() -> tuple[Catalog, Far]:
    store = Far(URL)
    return Catalog(store, upkeep=False), store


def kept_up() -> Catalog:
    """A table whose log is one bundle, and all of whose rows are in one segment."""
    lake = Catalog(URL, upkeep=False, inline_bytes=0)
    for part in range(5):
        lake.commit("t", [{"id": part}])
    lake.table("t").compact()
    lake.table("t").checkpoint()
    return lake


def in_ranks() -> Catalog:
    """A table with a bundle of the third rank, which replaces two others, and one of the first."""
    lake = Catalog(URL, upkeep=False)
    for part in range(4):
        lake.commit("t", [{"id": part}])
        lake.table("t").checkpoint()
    return lake


def test_a_cold_read_of_a_table_that_is_kept_up_is_three_round_trips() -> None:
    kept_up()
    lake, store = far()
    with measured(lake) as cost:
        assert lake.read("t").num_rows == 5
    assert store.rounds == [{"get", "list"}, {"get"}, {"get"}]
    assert cost.requests == {"list": 1, "get": 4}
    with measured(lake) as cost:
        assert lake.read("t").num_rows == 5
    assert cost.requests == {"list": 1, "get": 1}  # the rows


@pytest.mark.parametrize(
    ("files", "size", "rounds"), [(3, 2**20, [4]), (2, 2**20, [1, 1]), (3, 1000, [1, 1])]
)
def test_few_small_bundles_are_fetched_together_whatever_their_rank(
    monkeypatch: pytest.MonkeyPatch, files: int, size: int, rounds: list[int]
) -> None:
    in_ranks()
    monkeypatch.setattr("crdtcat.protocol.reader.EAGER_FILES_MAX", files)
    monkeypatch.setattr("crdtcat.protocol.reader.EAGER_BYTES_MAX", size)
    lake, store = far()
    assert lake.read("t").num_rows == 4
    assert store.bundles == rounds
    assert lake.table("t").head().root_hash == Catalog(URL).table("t").head().root_hash


def test_a_table_that_was_dropped_before_is_listed_where_it_is_now() -> None:
    kept_up().drop_table("t")
    Catalog(URL).commit("t", [{"id": 9}])
    assert far()[0].read("t").to_pylist() == [{"id": 9}]


def test_a_table_that_is_not_there() -> None:
    kept_up()
    lake, _ = far()
    with measured(lake) as cost, pytest.raises(NotFound, match="no table 'u'"):
        lake.read("u")
    assert cost.requests == {"get": 2, "list": 2}


def test_a_page_is_for_the_read_that_asked_for_it() -> None:
    """A read that was refused before it looked leaves no page behind: the next one sees what came since."""
    writer = kept_up()
    lake, _ = far()
    with pytest.raises(NotFound, match="no tag"):
        lake.read("t", at="yesterday")
    writer.commit("t", [{"id": 5}])
    assert lake.read("t").num_rows == 6


def test_a_page_is_for_the_thread_that_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that is given the handle meanwhile, commits and reads, sees its commit."""
    kept_up()
    lake, _ = far()
    found: list[int] = []
    original = Catalog._to_read

    def overtaken(self: Catalog, name: str) -> Any:
        handle = original(self, name)

        def other() -> None:
            handle.append([{"id": 5}])
            found.append(handle.read().num_rows)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return handle

    monkeypatch.setattr(Catalog, "_to_read", overtaken)
    assert lake.read("t").num_rows == 6
    assert found == [6]


def test_a_listing_that_fails_ahead_is_told_by_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_up()
    lake, store = far()
    listed = store.list_page
    calls: list[str] = []

    def fails_once(prefix: str, *given: Any, **more: Any) -> Any:
        calls.append(prefix)
        if len(calls) == 1:
            raise NotFound("refused for once")
        return listed(prefix, *given, **more)

    monkeypatch.setattr(store, "list_page", fails_once)
    assert lake.read("t").num_rows == 5
    assert len(calls) == 2


def test_a_replaced_bundle_that_vanishes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is deleted after it was listed: another pass, and nothing is missing."""
    in_ranks()
    lake, store = far()
    get_many = store.get_many

    def collected_first(ranges: Any) -> Any:
        if any(is_bundle(name) for name, *_ in ranges) and not store.bundles:
            Catalog(URL, grace_seconds=0).table("t").collect()
        return get_many(ranges)

    monkeypatch.setattr(store, "get_many", collected_first)
    with measured(lake) as cost:
        assert lake.read("t").num_rows == 4
    assert store.bundles == [4]  # what is left of them is all that is needed
    assert cost.list == 2


def asked_first(lower: int, bytes_of_all: int, *, eager: bool = True) -> list[str]:
    """What a cold reader fetches first of a log with one bundle of the second rank and some of the first."""
    names = [bundle_name("f/", 1, bytes([part]) * 16, 0) for part in range(lower)]
    sizes = [bytes_of_all - (lower - 1), *[1] * (lower - 1)]
    listed = [*map(Object, names, sizes), Object(bundle_name("f/", 2, bytes(16), 0), 2**40)]
    reader = Reader("f/", State("f/"), described=True, eager=eager).take((Listed(tuple(listed), None),))
    return [want.name for want in reader.wants if isinstance(want, Get)]


def test_what_an_eager_reader_fetches_first() -> None:
    assert len(asked_first(3, 2**20)) == 4
    assert len(asked_first(3, 2**20 + 1)) == 1
    assert len(asked_first(4, 100)) == 1
    assert len(asked_first(3, 100, eager=False)) == 1


def test_a_reader_whose_files_vanished_is_eager_no_more() -> None:
    """However fast a collector is, what it deletes was replaced by what stays."""
    names = [bundle_name("f/", rank, bytes(16), 0) for rank in (1, 2)]
    page = Listed(tuple(Object(name, 10) for name in names), None)
    asking = Reader("f/", State("f/"), described=True, eager=True).take((page,))
    assert [want.name for want in asking.wants if isinstance(want, Get)] == names
    again = asking.take((Got(None), Got(None))).take((page,))
    assert [want.name for want in again.wants if isinstance(want, Get)] == names[1:]

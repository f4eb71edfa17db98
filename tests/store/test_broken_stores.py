"""Stores that are wrong in one way each: the kit fails on all of them, by the name of what is wrong."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest

from crdtcat.errors import CrdtcatError
from crdtcat.store import ObjectInfo
from crdtcat.store.memory import MemoryStore
from crdtcat.store.values import Answers, Data, Names, Page
from crdtcat.support.scattered import Scattered
from crdtcat.testing.store_conformance import StoreConformance


class Torn(MemoryStore):
    """Objects grow under their names."""

    def _put(self, name: str, data: Data) -> None:
        super()._put(name, bytes(data)[: len(data) // 2])
        time.sleep(0.001)
        super()._put(name, data)


class Lossy(MemoryStore):
    """Listings miss the last object."""

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        page = super()._list_page(prefix, after, limit)
        return Page(page.objects[:-1], page.after)


class Lagging(MemoryStore):
    """Listings show objects a while after they were put."""

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        page, shown_ms = super()._list_page(prefix, after, limit), self._clock_ms() - 20
        return Page(tuple(item for item in page.objects if item.modified_ms < shown_ms), page.after)


class Descending(MemoryStore):
    """Listings are in the wrong order."""

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        page = super()._list_page(prefix, after, limit)
        return Page(page.objects[::-1], page.after)


class OnePage(MemoryStore):
    """The first page says that it is the last."""

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        return Page(super()._list_page(prefix, after, limit).objects, None)


class Racing(MemoryStore):
    """Looks, and then creates."""

    def _put_if_absent(self, name: str, data: Data) -> None:
        try:
            self._get(name, 0, 1)
        except FileNotFoundError:
            time.sleep(0.002)
            self._put(name, data)
        else:
            raise FileExistsError(name)


class Replacing(MemoryStore):
    """Says that the name was taken, and replaces what was there."""

    def _put_if_absent(self, name: str, data: Data) -> None:
        try:
            super()._put_if_absent(name, data)
        except FileExistsError:
            self._put(name, data)
            raise


class OffByOne(MemoryStore):
    """Ranges include their ends."""

    def _get(self, name: str, start: int, stop: int | None) -> bytes:
        return super()._get(name, start, None if stop is None else stop + 1)


class Forgiving(MemoryStore):
    """What is not there is empty."""

    def _get(self, name: str, start: int, stop: int | None) -> bytes:
        try:
            return super()._get(name, start, stop)
        except FileNotFoundError:
            return b""


class Shuffled(MemoryStore):
    """Many answers come in any order."""

    def _get_many(self, ranges: Any) -> Answers:
        return super()._get_many(ranges)[::-1]


class Strict(MemoryStore):
    """Deleting what is gone is an error."""

    def _delete(self, names: Names) -> None:
        for name in names:
            self._get(name, 0, 1)
        super()._delete(names)


class Undated(MemoryStore):
    """Objects have no time."""

    def _info(self, name: str) -> ObjectInfo:
        found = super()._info(name)
        return ObjectInfo(found.name, found.size, 0)


class Uncounted(MemoryStore):
    """Deletes without a request that is counted."""

    def _delete(self, names: Names) -> None:
        for name in names:
            self._files.pop(self._root + name, None)


class Boasting(MemoryStore):
    """Says that it has what it was told of, and keeps nothing."""

    def write_ahead(self, name: str, data: Scattered) -> int:
        del name
        return len(data)


FOUND: dict[type[MemoryStore], str] = {
    Torn: "a_reader_never_sees_half_an_object",
    Lossy: "what_is_acknowledged_is_listed",
    Lagging: "what_is_acknowledged_is_listed",
    Descending: "a_listing_is_flat_and_ascending",
    OnePage: "pages_follow_each_other",
    Boasting: "what_the_store_has_need_not_be_kept",
    Racing: "exclusive_creation_has_one_winner",
    Replacing: "exclusive_creation_keeps_the_first",
    OffByOne: "a_range_is_a_slice",
    Forgiving: "missing_is_said_by_name",
    Shuffled: "get_many_keeps_order_and_says_none_for_missing",
    Strict: "deleting_is_idempotent",
    Undated: "objects_are_stamped_by_the_stores_clock",
    Uncounted: "requests_are_counted_exactly",
}
"""What is wrong with each, as the kit says it."""


def _run(test: str, kind: type[MemoryStore]) -> None:
    check: Callable[..., None] = getattr(StoreConformance(), f"test_{test}")
    arguments = {"start": 1, "stop": 3} if test == "a_range_is_a_slice" else {}
    check(kind(f"memory://broken/{secrets.token_hex(8)}"), **arguments)


@pytest.mark.parametrize("kind", FOUND, ids=lambda kind: kind.__name__)
def test_a_broken_store_fails_by_the_name_of_what_is_wrong(kind: type[MemoryStore]) -> None:
    with pytest.raises((AssertionError, CrdtcatError, OSError, pytest.fail.Exception)):
        _run(FOUND[kind], kind)


@pytest.mark.parametrize("test", sorted(set(FOUND.values())))
def test_a_store_that_is_right_passes(test: str) -> None:
    _run(test, MemoryStore)

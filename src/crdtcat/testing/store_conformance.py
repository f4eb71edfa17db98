"""What every store must do, as a pytest class: subclass it, override the `store` fixture, run it.

::

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self):
            return MyStore("my://somewhere/fresh")

Each test gets an empty store. A store that passes carries everything the library does above it. What a
store may lack is said by class attributes, each with its reason, never by leaving a test out.

What processes and threads do to a store is in `StoreConcurrency`, large objects are in `StorePieces`;
`StoreConformance` holds all three.
"""

# ruff: noqa: D102 (a test's name says what it shows)

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator

import pytest

from crdtcat.errors import InvalidArgument, InvalidName, StoreError
from crdtcat.store import Missing, ObjectInfo, RequestCounts, Store
from crdtcat.testing.store_concurrency import StoreConcurrency
from crdtcat.testing.store_pieces import StorePieces

_DAY_MS = 24 * 60 * 60 * 1000

UNUSUAL_NAMES = (
    "folder/with space.v",
    "folder/per%20cent%2Fslash",
    "folder/plus+and&=;,@!$'()~",
    "folder/-dash_first",
    "folder/a..b",
    "folder/" + "n" * 200,
    "UPPER/Case.V",
    "deep/" + "/".join("abcdefghij") + "/leaf",
)
CLIMBING_NAMES = ("", "/absolute", "../up", "a/../b", "a//b", "a/", "./a", ".hidden", "a/.hidden")
ODD_NAMES = ("back\\slash", "new\nline", "caf\u00e9", "nul\0", "what?", "s3://bucket/a")
LONG_NAMES = ("n" * 201, "a/" * 500 + "a")


class StoreConformance(StorePieces, StoreConcurrency):
    """Everything a store promises."""

    # Put and get.

    def test_what_was_put_is_got(self, store: Store) -> None:
        store.put("a/b.v", b"hello")
        assert store.get("a/b.v") == b"hello"

    def test_a_put_replaces(self, store: Store) -> None:
        store.put("a", b"long enough")
        store.put("a", b"short")
        assert store.get("a") == b"short"
        assert [info.size for info in store.list("")] == [5]

    def test_an_empty_object_is_an_object(self, store: Store) -> None:
        store.put("f/empty", b"")
        assert store.get("f/empty") == b""
        assert store.get("f/empty", 0, 10) == b""
        assert store.get_many([("f/empty", 0, None), ("f/empty", 0, 1)]) == [b"", b""]
        assert [(info.name, info.size) for info in store.list("f/")] == [("f/empty", 0)]
        assert store.put_if_absent("f/empty", b"x") is False

    def test_every_byte_value_survives(self, store: Store) -> None:
        data = bytes(range(256)) * 300
        store.put("bytes", memoryview(data))
        store.put("array", memoryview(bytearray(data)))
        assert store.get("bytes") == store.get("array") == data

    @pytest.mark.parametrize(
        ("start", "stop"),
        [(0, None), (0, 1), (3, 7), (9, 10), (5, None), (0, 99), (9, 99), (10, 20), (50, None), (4, 4)],
    )
    def test_a_range_is_a_slice(self, store: Store, start: int, stop: int | None) -> None:
        data = b"0123456789"
        store.put("r", data)
        assert store.get("r", start, stop) == data[start:stop]
        assert store.get_many([("r", start, stop)] * 2) == [data[start:stop]] * 2

    @pytest.mark.parametrize(("start", "stop"), [(-1, None), (-3, 2), (5, 4)])
    def test_a_backward_range_is_refused(self, store: Store, start: int, stop: int) -> None:
        with pytest.raises(InvalidArgument):
            store.get("r", start, stop)

    def test_missing_is_said_by_name(self, store: Store) -> None:
        store.put("folder/there", b"x")
        for name in ("nothing", "folder/nothing", "folder", "folder/there/below", "no/such/folder"):
            with pytest.raises(Missing) as caught:
                store.get(name)
            assert caught.value.name == name
            with pytest.raises(KeyError):
                store.get(name, 1, 2)
            assert isinstance(caught.value, StoreError)
            assert pickle.loads(pickle.dumps(caught.value)).name == name  # noqa: S301 (our own bytes)

    def test_ranges_are_read_to_their_places_or_not_at_all(self, store: Store) -> None:
        store.put("r", bytes(range(100)))
        for ranges in ([(0, 1)], [(3, 10), (40, 41), (90, 100)], [(90, 101)], [(100, 101)]):
            memory, before = bytearray(b"." * 101), store.requests.snapshot()
            done = store.get_into(memoryview(memory), "r", ranges)
            spent = store.requests.since(before)
            assert (spent.get, spent.bytes_in) == (
                (len(ranges), sum(stop - start for start, stop in ranges)) if done else (0, 0)
            )
            if done:
                wanted = {at for start, stop in ranges for at in range(start, stop)}
                assert memory == bytes(at if at in wanted else ord(".") for at in range(101))
            assert not (done and ranges[-1][1] > 100)
        assert not store.get_into(memoryview(bytearray(9)), "none", [(0, 9)])

    def test_get_many_keeps_order_and_says_none_for_missing(self, store: Store) -> None:
        for i in range(50):
            store.put(f"m/{i:02}", b"%d" % i)
        ranges = [(f"m/{i:02}", 0, None) for i in (*range(49, -1, -1), 70, 3, 71, 3)]
        expected = [b"%d" % i for i in range(49, -1, -1)] + [None, b"3", None, b"3"]
        assert store.get_many(ranges) == expected
        assert store.get_many([]) == []
        assert store.get_many([("m/01", 1, 1), ("m/01", 0, 1), ("none", 0, 0)]) == [b"", b"1", b""]

    # Names.

    def test_unusual_names_work_everywhere(self, store: Store) -> None:
        for number, name in enumerate(UNUSUAL_NAMES):
            store.put(name, b"%d" % number)
        for number, name in enumerate(UNUSUAL_NAMES):
            assert store.get(name) == b"%d" % number
            folder = name[: name.rfind("/") + 1]
            assert name in [info.name for info in store.list(folder)]
        in_folder = sorted(name for name in UNUSUAL_NAMES if name.startswith("folder/"))
        assert [info.name for info in store.list("folder/")] == in_folder
        for name in in_folder[:-1]:
            page = store.list_page("folder/", after=name, limit=1)
            assert [info.name for info in page.objects] == [in_folder[in_folder.index(name) + 1]]
        store.delete(UNUSUAL_NAMES)
        assert store.get_many([(name, 0, None) for name in UNUSUAL_NAMES]) == [None] * len(UNUSUAL_NAMES)

    @pytest.mark.parametrize("name", CLIMBING_NAMES + ODD_NAMES + LONG_NAMES)
    def test_bad_names_are_refused_before_any_request(self, store: Store, name: str) -> None:
        before = store.requests.snapshot()
        for call in (
            lambda: store.put(name, b""),
            lambda: store.put_if_absent(name, b""),
            lambda: store.get(name),
            lambda: store.get_many([("fine", 0, None), (name, 0, None)]),
            lambda: store.delete(["fine", name]),
        ):
            with pytest.raises(InvalidName):
                call()
        assert store.requests.since(before) == RequestCounts()

    @pytest.mark.parametrize("prefix", ["a", "/", "/a/", "../", "a//", ".hidden/", "a/../"])
    def test_bad_prefixes_are_refused(self, store: Store, prefix: str) -> None:
        with pytest.raises(InvalidName):
            store.list_page(prefix)
        with pytest.raises(InvalidName):
            store.folders(prefix)

    # Listing.

    def test_a_listing_is_flat_and_ascending(self, store: Store) -> None:
        names = ["t/b", "t/a", "t/a.b", "t/a-b", "t/Z", "t/z9", "t/z10", "t/0"]
        for name in [*names, "t/sub/inner", "t/a-b.sub/inner", "tt/other", "t0", "s/other"]:
            store.put(name, b"x")
        assert [info.name for info in store.list("t/")] == sorted(names)
        assert [info.name for info in store.list("")] == ["t0"]
        assert list(store.list("none/")) == []

    def test_pages_follow_each_other(self, store: Store) -> None:
        names = [f"p/{i:03}" for i in range(25)]
        for name in reversed(names):
            store.put(name, b"x")
        for limit in (1, 7, 24, 25, 26):
            assert [info.name for info in _paged(store, "p/", limit)] == names
        page = store.list_page("p/", after="p/012x", limit=3)
        assert [info.name for info in page.objects] == ["p/013", "p/014", "p/015"]
        assert store.list_page("p/", after="p/zzz").objects == ()
        assert store.list_page("p/", limit=25).after is None

    def test_pages_step_over_folders(self, store: Store) -> None:
        names = ["g/a", "g/m.txt", "g/n", "g/z"]
        for name in [*names, "g/b/1", "g/b/2", "g/m/1", "g/m/2", "g/y/1", "g/zz/1"]:
            store.put(name, b"x")
        for limit in (1, 2, 3, 100):
            assert [info.name for info in _paged(store, "g/", limit)] == names

    @pytest.mark.parametrize("after", ["q/a", "p", "p/a/b"])
    def test_a_listing_goes_on_only_within_its_folder(self, store: Store, after: str) -> None:
        with pytest.raises(InvalidArgument):
            store.list_page("p/", after=after)
        with pytest.raises(InvalidArgument):
            store.list_page("p/", limit=0)

    def test_folders_are_named_once(self, store: Store) -> None:
        for name in (
            "tables/b/main/1",
            "tables/a/main/1",
            "tables/a/dev/1",
            "tables/a/dev/2",
            "tables/file",
            "x/y",
        ):
            store.put(name, b"x")
        assert store.folders("tables/") == ["a", "b"]
        assert store.folders("tables/a/") == ["dev", "main"]
        assert store.folders("") == ["tables", "x"]
        assert store.folders("none/") == store.folders("tables/a/dev/") == []

    def test_what_is_acknowledged_is_listed(self, store: Store) -> None:
        for i in range(30):
            store.put(f"now/{i:02}", b"x" * i)
            assert [info.size for info in store.list("now/")] == list(range(i + 1))

    # Deleting.

    def test_deleting_is_idempotent(self, store: Store) -> None:
        store.put("d/1", b"x")
        store.put("d/2", b"x")
        store.put("d/3", b"x")
        store.delete(["d/1"])
        store.delete(["d/1"])
        store.delete(["d/1", "d/2", "nothing/here"])
        store.delete([])
        assert [info.name for info in store.list("d/")] == ["d/3"]
        with pytest.raises(Missing):
            store.get("d/2")
        store.put("d/2", b"again")
        assert store.get("d/2") == b"again"

    def test_sweeping_touches_no_object(self, store: Store) -> None:
        store.put("s/1", b"x")
        store.sweep("s/")
        store.sweep("none/")
        assert store.get("s/1") == b"x"

    # Cost, clock and copies.

    def test_requests_are_counted_exactly(self, store: Store) -> None:
        def cost(*calls: Callable[[], object]) -> RequestCounts:
            before = store.requests.snapshot()
            for call in calls:
                call()
            return store.requests.since(before)

        many = [("c/1", 0, None), ("c/none", 0, None), ("c/2", 0, 2)]
        assert cost(lambda: store.put("c/1", b"12345")) == RequestCounts(put=1, bytes_out=5)
        assert cost(lambda: store.put_if_absent("c/2", b"123")) == RequestCounts(put=1, bytes_out=3)
        assert cost(lambda: store.put_if_absent("c/2", b"no")) == RequestCounts(put=1, get=1, bytes_in=3)
        assert cost(lambda: store.get("c/1")) == RequestCounts(get=1, bytes_in=5)
        assert cost(lambda: store.get("c/1", 1, 3)) == RequestCounts(get=1, bytes_in=2)
        assert cost(lambda: store.get_many(many)) == RequestCounts(get=3, bytes_in=7)
        assert cost(lambda: list(store.list("c/"))) == RequestCounts(list=1)
        assert cost(lambda: store.list_page("c/", limit=1)) == RequestCounts(list=1)
        assert cost(lambda: store.list_names("c/")) == RequestCounts(list=1)
        assert cost(lambda: store.folders("")) == RequestCounts(list=1)
        assert cost(lambda: store.delete(["c/1", "c/2", "c/none"])) == RequestCounts(delete=1)
        assert cost(store.skew_ms, lambda: store.get("c/1", 3, 3)) == RequestCounts()

    def test_objects_are_stamped_by_the_stores_clock(self, store: Store) -> None:
        before_ms = time.time_ns() // 1_000_000
        store.put("k/1", b"x")
        first = _only(store, "k/1")
        skew_ms = store.skew_ms()
        now_ms = time.time_ns() // 1_000_000
        assert skew_ms is None or abs(skew_ms) < _DAY_MS
        # Stores may cut off to the second, and the skew is known to about half of one.
        assert before_ms - 2500 <= first.modified_ms - (skew_ms or 0) <= now_ms + 2500
        store.put("k/1", b"y")
        assert _only(store, "k/1").modified_ms >= first.modified_ms

    def test_a_pickled_copy_sees_the_same_objects(self, store: Store) -> None:
        store.put("pickled", b"x")
        copy = pickle.loads(pickle.dumps(store))  # noqa: S301 (our own bytes)
        assert copy.get("pickled") == b"x"
        assert (copy.url, copy.lists_in_order) == (store.url, store.lists_in_order)
        assert copy.requests.snapshot() == RequestCounts(get=1, bytes_in=1)
        copy.put("back", b"y")
        assert store.get("back") == b"y"


def _paged(store: Store, prefix: str, limit: int) -> Iterator[ObjectInfo]:
    after: str | None = ""
    pages = 0
    while after is not None:
        page = store.list_page(prefix, after, limit)
        named = store.list_names(prefix, after, limit)
        assert (named.names, named.after) == (tuple(info.name for info in page.objects), page.after)
        assert len(page.objects) <= limit
        pages += 1
        assert pages < 1000, "the listing does not get on"
        yield from page.objects
        after = page.after


def _only(store: Store, name: str) -> ObjectInfo:
    (found,) = [info for info in store.list(name[: name.rfind("/") + 1]) if info.name == name]
    return found

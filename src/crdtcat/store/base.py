"""The store: objects by name, and nothing more.

A store puts, gets, lists and deletes whole objects below one root. It does not know what is inside them. This
file holds the interface and everything all backends share: names are checked, transient faults are repeated
with jittered pauses, failures become errors of our own tree without secrets in them, and every request is
counted. A backend fills in the methods with a leading underscore, each of which is *one* request, made once,
that raises whatever its library raises; `_classify` says what that means.

Stores are thread-safe, usable in a forked child, and picklable: a copy carries the URL and the options,
never a live connection. Options may hold credentials and are never shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crdtcat.errors import AccessDenied, Missing, RequestRefused, StoreError, StoreUnavailable
from crdtcat.store import naming
from crdtcat.store.attempts import Attempts
from crdtcat.store.requests import RequestCounter
from crdtcat.store.retry import RetryPolicy
from crdtcat.store.values import (
    GET_CONCURRENCY,
    MULTIPART_BYTES,
    PAGE_OBJECTS,
    Answers,
    Content,
    Data,
    Names,
    NamesPage,
    NameTaken,
    ObjectInfo,
    Page,
    Range,
    plain,
)
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.support.pools import ThreadPool
from crdtcat.support.scattered import Scattered


class Store(Attempts, ABC):
    """Objects below one root.

    Attributes:
        url: the root as given, without credentials.
        requests: what this store object has asked for so far.
        lists_in_order: whether a listing is ascending by name, page after page, so that what a later page
            holds was read later.
        page_limit: the most objects one request can list.
        is_remote: whether requests wait for others, and not for this machine's own memory and disk.
        multipart_bytes: objects larger than this are uploaded in parts where the store has such a thing.
        foreign: whether others named what is read: under any name that stays below the root, then.
    """

    lists_in_order: bool = True
    is_remote: bool = True
    page_limit: int = PAGE_OBJECTS
    foreign: bool = False
    _live: tuple[str, ...] = ("requests",)
    """Attributes that belong to this process and are not pickled; `_start` makes them."""

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        retry: RetryPolicy | None = None,
        multipart_bytes: int = MULTIPART_BYTES,
    ) -> None:
        self.url = naming.public_url(url)
        self.multipart_bytes = multipart_bytes
        self._target = url
        self._options = dict(storage_options or {})
        self._retry = retry or RetryPolicy()
        self._start()

    def _start(self) -> None:
        self.requests = RequestCounter()

    @property
    def place(self) -> str:
        """The root as one text, however its URL was spelt, with links followed. Without credentials."""
        return self.url.rstrip("/")

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in self._live}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    # The interface.

    @property
    @abstractmethod
    def can_create_exclusively(self) -> bool:
        """Whether `put_if_absent` has exactly one winner. May be found out by a few requests, once."""

    def put(self, name: str, data: Content) -> None:
        """Store an object, replacing any of that name, durably: it is there when this returns.

        One PUT; above `multipart_bytes`, one for each part and two more. Raises `StoreUnavailable` after
        every retry, or when a retry is refused, and then the object may or may not have been stored;
        `AccessDenied` when the first try is refused.
        """
        naming.check_name(name)
        data = data if isinstance(data, Scattered) else plain(data)
        if len(data) > self.multipart_bytes:
            self._put_large(name, data)
        else:
            try:
                self._attempt("put", name, lambda: self._put_whole(name, data))
            except NameTaken as error:
                raise StoreError(
                    f"put of {name!r} in {self.url} is not possible: a file stands where a folder is needed; "
                    "check the path of the catalog"
                ) from error
        self.requests.add(bytes_out=len(data))

    def write_ahead(self, name: str, data: Scattered) -> int:
        """Say that an object with these first bytes is about to be put, so that writing them can begin.

        Call it again with more, then `put` the whole, or `forget` it. Nothing is there under the name before
        it was put. A store may ignore this, or make some of the put's requests now.

        Returns how many of the first bytes the store has and will not ask for again: in later calls, by the
        same process, they may be `gone`. Then, and only then, a failure shows: `StoreUnavailable`, and the
        object has to be made again from its beginning.
        """
        del name, data
        return 0

    def forget(self, name: str, *, requests: bool = True) -> None:
        """The object that was begun with `write_ahead` will not be put. One DELETE where parts of it were.

        Without `requests` none is made, at whatever moment: parts stay until the store's own rules end them.
        """

    def put_if_absent(self, name: str, data: Data) -> bool:
        """Store an object unless one of that name exists; of any number of callers, one wins.

        Returns False when other bytes are there. One PUT, and one GET when the name was taken: bytes are read
        back and compared, because a repeated request can be refused by its own success. So all who bring
        *equal* bytes win. Raises `StoreUnavailable` (it may be stored), `AccessDenied`, `CapabilityMissing`.
        """
        data = plain(data)
        for failures in range(1, self._retry.attempts + 1):
            if self.create(name, data):
                return True
            try:
                return self.get(name, 0, len(data) + 1) == data
            except Missing:  # deleted since, or refused because of another creation still under way
                self._pause(self._retry.pause_seconds(failures))
            except (AccessDenied, RequestRefused) as error:  # it may be this very request that took it
                raise StoreUnavailable(f"{name!r} is taken, nobody knows by whom: {error.args[0]}") from error
        raise StoreUnavailable(
            f"creating {name!r} was refused every time, yet nothing is there; try again later"
        )

    def create(self, name: str, data: Data) -> bool:
        """As `put_if_absent`, without looking at what is there: one PUT. False may be this caller's own
        success, whose answer was lost: for callers who look in any case."""
        naming.check_name(name)
        data = plain(data)
        try:
            self._attempt("put", name, lambda: self._put_if_absent(name, data))
        except NameTaken:
            return False
        self.requests.add(bytes_out=len(data))
        return True

    def get(self, name: str, start: int = 0, stop: int | None = None) -> ObjectBytes:
        """The bytes from `start` to before `stop`, cut off at the end. One GET; none for an empty range.

        Raises `Missing`, `StoreUnavailable`, `AccessDenied`.
        """
        naming.check_range(name, start, stop, foreign=self.foreign)
        if start == stop:
            return b""
        data = self._attempt("get", name, lambda: self._get(name, start, stop))
        self.requests.add(bytes_in=len(data))
        return data

    def get_many(self, ranges: Sequence[Range]) -> Answers:
        """The bytes of many ranges, in their order, fetched concurrently; `None` where no object is.

        One GET for each range. Raises `StoreUnavailable` and `AccessDenied` if any range does.
        """
        for each in ranges:
            naming.check_range(*each, foreign=self.foreign)
        wanted = [each for each in ranges if each[1] != each[2]]
        found = self._get_many(wanted)
        if len(wanted) == len(ranges):
            return found
        rest = iter(found)
        return [b"" if start == stop else next(rest) for _, start, stop in ranges]

    def get_into(self, memory: memoryview, name: str, ranges: Sequence[tuple[int, int]]) -> bool:  # noqa: ARG002
        """Read ranges of an object to their own places in memory; what lies between stays as it is. One GET
        for each. False, and none counted: there is no such way, or it failed, and `get_many` tells why."""
        return False

    def list_page(self, prefix: str, after: str = "", limit: int | None = None) -> Page:
        """Objects directly in the folder `prefix` whose names are greater than `after`, ascending.

        One LIST. At most `limit` objects, or as many as one request can list; folders inside are not entered.
        `after` is a whole name, which need not exist.
        """
        count = naming.page_size(prefix, after, limit, self.page_limit, foreign=self.foreign)
        return self._attempt("list", prefix, lambda: self._list_page(prefix, after, count))

    def list_names(self, prefix: str, after: str = "", limit: int | None = None) -> NamesPage:
        """As `list_page`, but only names: a fraction of the time where sizes are asked for one by one."""
        count = naming.page_size(prefix, after, limit, self.page_limit, foreign=self.foreign)
        return self._attempt("list", prefix, lambda: self._list_names(prefix, after, count))

    def list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        """All objects that `list_page` would list, page by page. One LIST for each page."""
        next_after: str | None = after
        while next_after is not None:
            page = self.list_page(prefix, next_after)
            yield from page.objects
            next_after = page.after

    def folders(self, prefix: str) -> Names:
        """The names of the folders directly in the folder `prefix`, ascending. One LIST for each page.

        A folder is there while an object is in it; an emptied one may still be listed for a while."""
        naming.check_prefix(prefix, foreign=self.foreign)
        return sorted(self._folders(prefix))

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; names that are not there are no error. One DELETE for up to 1,000 names."""
        for name in names:
            naming.check_name(name)
        if names:
            self._delete(list(names))

    def skew_ms(self) -> int | None:
        """The store's clock minus this machine's, learned from earlier answers. No request."""
        return None

    def sweep(self, prefix: str) -> int:
        """Remove what killed processes left half written in the folder; how many.

        Such leftovers are never listed or read: this only gives space back. Free where there are none.
        """
        naming.check_prefix(prefix)
        return 0

    # What a backend fills in. Each is one request, made once; it may raise anything `_classify` understands.

    @abstractmethod
    def _put(self, name: str, data: Data) -> None: ...

    @abstractmethod
    def _put_if_absent(self, name: str, data: Data) -> None: ...

    @abstractmethod
    def _get(self, name: str, start: int, stop: int | None) -> ObjectBytes: ...

    @abstractmethod
    def _list_page(self, prefix: str, after: str, limit: int) -> Page: ...

    @abstractmethod
    def _folders(self, prefix: str) -> Names: ...

    @abstractmethod
    def _delete(self, names: Names) -> None: ...

    def _list_names(self, prefix: str, after: str, limit: int) -> NamesPage:
        page = self._list_page(prefix, after, limit)
        return NamesPage(tuple([item.name for item in page.objects]), page.after)

    def _put_large(self, name: str, data: Content) -> None:
        self._attempt("put", name, lambda: self._put_whole(name, data))

    def _put_whole(self, name: str, data: Content) -> None:
        self._put_scattered(name, data) if isinstance(data, Scattered) else self._put(name, data)

    def _put_scattered(self, name: str, data: Scattered) -> None:
        self._put(name, bytes(data))

    def _get_many(self, ranges: Sequence[Range]) -> Answers:
        if len(ranges) < 2:
            return [self._get_or_none(each) for each in ranges]
        with ThreadPool(min(GET_CONCURRENCY, len(ranges)), "crdtcat-get") as threads:
            return list(threads.map(self._get_or_none, ranges))

    def _get_or_none(self, wanted: Range) -> ObjectBytes | None:
        try:
            return self.get(*wanted)
        except Missing:
            return None

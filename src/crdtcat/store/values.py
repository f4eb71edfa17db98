"""The plain values that cross the border of a store, and the errors its failures become."""

from __future__ import annotations

from dataclasses import dataclass

from crdtcat.errors import (
    AccessDenied,
    CapabilityMissing,
    Missing,
    RequestRefused,
    StoreError,
    StoreUnavailable,
)
from crdtcat.store.retry import Fault
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.support.scattered import Scattered

MULTIPART_BYTES = 64 * 2**20
"""Objects larger than this are uploaded in parts, where the store has such a thing."""
GET_CONCURRENCY = 32
"""How many requests of one `get_many` are under way at once."""
PAGE_OBJECTS = 1000
"""The most objects a page of an S3 listing holds."""

Range = tuple[str, int, int | None]
"""Name, first byte, end (exclusive; `None`: to the end of the object)."""
Data = ObjectBytes
"""What can be put in one piece."""
Content = Data | Scattered
"""What can be put; `bytes` of it joins what lies apart."""
Names = list[str]
Answers = list[ObjectBytes | None]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing says of an object.

    Attributes:
        name: relative to the store's root.
        size: in bytes.
        modified_ms: when it was last put, by the store's clock; some stores cut it off to the second.
    """

    name: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a listing, ascending by name.

    Attributes:
        objects: what was found; may be empty although more follows.
        after: pass it to `list_page` for what follows; `None` on the last page.
    """

    objects: tuple[ObjectInfo, ...]
    after: str | None


@dataclass(frozen=True, slots=True)
class NamesPage:
    """Part of a listing that tells names only, ascending. `after` as in `Page`."""

    names: tuple[str, ...]
    after: str | None


def plain(data: Data) -> Data:
    """The bytes, whatever buffer they came in."""
    return data if isinstance(data, bytes) else memoryview(data).cast("B")


class NameTaken(Exception):
    """Exclusive creation found the name taken; reading back decides by whom."""


def translate(fault: Fault, request: str, name: str, failures: int, why: str) -> StoreError:
    """Our own error for a fault: what was asked, how often it failed, why, and what to do."""
    if fault is Fault.MISSING:
        return Missing(name)
    if fault is Fault.DENIED:
        return AccessDenied(f"{request} was refused ({why}); check the credentials and what they may do")
    if fault is Fault.UNSUPPORTED:
        return CapabilityMissing(f"{request} is not possible on this store ({why})")
    if fault is Fault.REFUSED:
        return RequestRefused(
            f"{request} was refused by the store as wrong ({why}); check the URL, its options and the clock"
        )
    if fault is Fault.ODD:
        return StoreError(f"{request} was not understood below ({why}); check the URL and its options")
    tries = "once" if failures == 1 else f"{failures} times"
    return StoreUnavailable(f"{request} failed {tries} ({why}); try again later")

"""All segments in `data/`, in arrays: millions of them fit in memory, at some 60 bytes each."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from crdtcat.chunks.segment import segment_name
from crdtcat.format.condemned import TITLE_BYTES
from crdtcat.format.sections import Array
from crdtcat.maintenance.each import Each
from crdtcat.store import ObjectInfo, Store
from crdtcat.store.naming import is_part
from crdtcat.support.pools import ThreadPool

DATA: Final = "data/"
THREADS: Final = 8  # folders listed at once
_NAME = re.compile(r"data/([0-9a-f]{2})/(\1[0-9a-f]{30})-([0-9a-f]{16})\.parquet")
_TITLE: Final = np.dtype(f"S{TITLE_BYTES + 1}")  # one more byte, so that numpy keeps zeros at the end


class SegmentListing:
    """Segments that were in a store, sorted by name.

    Attributes:
        titles: their names in short, sorted.
        sizes: in bytes.
        modified_ms: when they were stored, by the store's clock.
        strangers: objects in `data/` that are no segments: left alone.
    """

    def __init__(self, titles: Array, sizes: Array, modified_ms: Array, strangers: int) -> None:
        order = np.argsort(titles)
        self.titles, self.sizes, self.modified_ms = titles[order], sizes[order], modified_ms[order]
        self.strangers = strangers

    def __len__(self) -> int:
        return len(self.titles)

    def find(self, titles: bytes) -> Array:
        """Which of these segments (24 bytes each) are listed, as places in the listing. O(k log n)."""
        wanted = packed_titles(titles)
        if not len(self) or not len(wanted):
            return np.empty(0, np.int64)
        at = np.searchsorted(self.titles, wanted)
        at[at == len(self)] = 0
        found: Array = at[self.titles[at] == wanted]
        return found

    def title(self, at: int) -> bytes:
        """The name of one in short, 24 bytes."""
        return bytes(self.titles[at])[:TITLE_BYTES]

    def name(self, at: int) -> str:
        """The name of one."""
        title = self.title(at)
        return segment_name(title[:16], title[16:])


def packed_titles(titles: bytes) -> Array:
    """Names in short, concatenated, as an array that sorts and compares as they do."""
    raw = np.frombuffer(titles, np.uint8).reshape(-1, TITLE_BYTES)
    padded = np.concatenate((raw, np.ones((len(raw), 1), np.uint8)), axis=1)
    return np.ascontiguousarray(padded).reshape(-1).view(_TITLE)


def list_segments(
    store: Store, told: Callable[[int, int], object], each: Each | None = None
) -> SegmentListing:
    """Everything in `data/`. One LIST for its folders, and one page per 1,000 objects of each."""
    folders = [f"{DATA}{name}/" for name in store.folders(DATA) if is_part(name)]
    work = functools.partial(_segments, store)
    found: list[_Folder] = []
    with ThreadPool(THREADS, thread_name_prefix="crdtcat-list") as pool:
        for one in pool.map(work, folders) if each is None else each("listing segments", work, folders):
            found.append(one)
            told(len(found), len(folders))
    titles = packed_titles(b"".join(one.titles for one in found))
    none = np.empty(0, np.int64)
    sizes = np.concatenate([none, *(one.sizes for one in found)])
    modified = np.concatenate([none, *(one.modified_ms for one in found)])
    return SegmentListing(titles, sizes, modified, sum(one.strangers for one in found))


class _Folder(NamedTuple):
    """What one folder holds, as `SegmentListing` has it of all."""

    titles: bytes
    sizes: Array
    modified_ms: Array
    strangers: int


def _segments(store: Store, folder: str) -> _Folder:
    titles: list[bytes] = []
    items: list[ObjectInfo] = []
    strangers = 0
    for item in store.list(folder):
        match = _NAME.fullmatch(item.name)
        if match is None:
            strangers += 1
            continue
        titles.append(bytes.fromhex(match[2] + match[3]))
        items.append(item)
    sizes = np.array([item.size for item in items], np.int64)
    modified = np.array([item.modified_ms for item in items], np.int64)
    return _Folder(b"".join(titles), sizes, modified, strangers)

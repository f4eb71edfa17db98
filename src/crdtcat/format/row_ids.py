"""Row ids in version files: tags of chunks, and lists of intervals of rows in them.

A row is `(tag, offset)` for life. A tag names a chunk: by the version that added it and its place there, or,
under an idempotency key, by key, content and place, so that what is said of one copy of a retried commit
holds for its twin. Lists keep the order they were given in: the rows of an overlay or of a compacted chunk
stand in the order of its intervals.

Packed, a list of intervals is three columns of 32-bit numbers (which tag, how far the start lies behind the
last stop in that tag, how many rows), split into byte planes and compressed with zstd: scattered rows cost
about a byte each, whole chunks nothing.

=====  ==========================================================================================
key    value
=====  ==========================================================================================
v, i   tags by version: ids, 36 bytes each, and ordinals, 4 bytes little-endian each
k      tags under a key: list of [key, chunk hash, ordinal]; numbered after those above
n      how many intervals; absent: each tag as a whole, from 0 to 2^32 - 1
z      the three columns, as 12 byte planes of n bytes, in zstd
=====  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from crdtcat.clock.version_id import ID_BYTES
from crdtcat.errors import Corrupt
from crdtcat.format.sections import Array
from crdtcat.format.version import as_bytes
from crdtcat.limits import ROW_INTERVALS_MAX

ID: Final = np.dtype(f"S{ID_BYTES}")
END: Final = 2**32 - 1
"""Behind the last row of any chunk."""


@dataclass(frozen=True, slots=True)
class KeyedTag:
    """A chunk added under an idempotency key: the same for every copy of a retried commit."""

    key: str
    hash: bytes
    ordinal: int


@dataclass(frozen=True, slots=True, eq=False)
class Tags:
    """Some chunks.

    Attributes:
        versions: ids of the versions that added them, 36 bytes each.
        ordinals: the chunk's place in that version, one for each.
        keyed: further chunks, which were added under an idempotency key.
    """

    versions: Array
    ordinals: Array
    keyed: tuple[KeyedTag, ...] = ()

    def __len__(self) -> int:
        return len(self.versions) + len(self.keyed)

    def packed(self) -> dict[str, Any]:
        """For MessagePack; empty parts are left out."""
        body: dict[str, Any] = {}
        if len(self.versions):
            body["v"] = np.ascontiguousarray(self.versions).tobytes()
            body["i"] = self.ordinals.astype("<u4").tobytes()
        if self.keyed:
            body["k"] = [[tag.key, tag.hash, tag.ordinal] for tag in self.keyed]
        return body


@dataclass(frozen=True, slots=True, eq=False)
class RowIds:
    """An ordered list of rows, as intervals.

    Attributes:
        tags: the chunks they are in, each once.
        tag: per interval which of them: by version first, then keyed.
        start, stop: per interval, the first row and the one behind the last.
    """

    tags: Tags
    tag: Array
    start: Array
    stop: Array

    def __len__(self) -> int:
        return len(self.tag)

    @property
    def rows(self) -> int:
        """How many rows, counting whatever is listed twice twice."""
        return int((self.stop.astype(np.int64) - self.start.astype(np.int64)).sum())

    def packed(self) -> dict[str, Any]:
        """For MessagePack."""
        body = self.tags.packed()
        whole = len(self.tag) == len(self.tags) and bool(
            (self.start == 0).all() and (self.stop == END).all() and (self.tag == np.arange(len(self))).all()
        )
        if whole:
            return body
        before = np.concatenate((np.zeros(1, np.int64), self.stop[:-1].astype(np.int64)))
        same = np.concatenate(([False], self.tag[1:] == self.tag[:-1])) if len(self) else np.empty(0, bool)
        gap = self.start.astype(np.int64) - np.where(same, before[: len(self)], 0)
        length = self.stop.astype(np.int64) - self.start.astype(np.int64)
        columns = np.stack((self.tag.astype(np.int64), gap, length)).astype("<u4")  # gaps may wrap
        planes = columns.view(np.uint8).reshape(3, -1, 4).transpose(0, 2, 1)
        return {**body, "n": len(self), "z": _ZSTD.compress(np.ascontiguousarray(planes), asbytes=True)}


_ZSTD: Final = pa.Codec("zstd", compression_level=3)


def whole_chunks(tags: Tags) -> RowIds:
    """Every row of some chunks, however many they have."""
    count = len(tags)
    return RowIds(tags, np.arange(count, dtype=np.uint32), np.zeros(count, np.uint32), _ends(count))


def _ends(count: int) -> Array:
    return np.full(count, END, np.uint32)


def split_row_ids(rows: RowIds, counts: Sequence[int]) -> list[RowIds]:
    """The list cut into lists of so many rows each; `counts` add up to its rows.

    Each part names the chunks of its own rows and no others: parts are written down one by one, and would
    together grow with the square of the chunks. O((intervals + cuts) log intervals).
    """
    length = rows.stop.astype(np.int64) - rows.start.astype(np.int64)
    ends = np.cumsum(length)
    cuts = np.cumsum(np.asarray(counts, np.int64))
    edges = np.unique(np.concatenate((np.zeros(1, np.int64), ends, cuts)))
    owner = np.searchsorted(ends, edges[:-1], side="right")
    start = rows.start[owner] + edges[:-1] - (ends[owner] - length[owner])
    stop = start + np.diff(edges)
    first = np.searchsorted(edges, cuts - np.asarray(counts, np.int64))
    last = np.searchsorted(edges, cuts)
    parts = []
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        used, tag = np.unique(rows.tag[owner[a:b]], return_inverse=True)
        stretch = start[a:b].astype(np.uint32), stop[a:b].astype(np.uint32)
        parts.append(RowIds(_some_tags(rows.tags, used), tag.astype(np.uint32), *stretch))
    return parts


def _some_tags(tags: Tags, used: Array) -> Tags:
    """Those with these numbers, which rise: so that those by version still come first."""
    plain = used[used < len(tags.versions)]
    keyed = (used[len(plain) :] - len(tags.versions)).tolist()
    return Tags(tags.versions[plain], tags.ordinals[plain], tuple(tags.keyed[at] for at in keyed))


def joined_row_ids(first: RowIds, second: RowIds) -> RowIds:
    """One list after the other. O(intervals)."""
    versions, others = len(first.tags.versions), len(second.tags.versions)
    tags = Tags(
        np.concatenate((first.tags.versions, second.tags.versions)),
        np.concatenate((first.tags.ordinals, second.tags.ordinals)),
        first.tags.keyed + second.tags.keyed,
    )
    mine = np.where(first.tag < versions, first.tag, first.tag + others)
    keyed = second.tag + versions + len(first.tags.keyed)
    theirs = np.where(second.tag < others, second.tag + versions, keyed)
    return RowIds(
        tags,
        np.concatenate((mine, theirs)).astype(np.uint32),
        np.concatenate((first.start, second.start)),
        np.concatenate((first.stop, second.stop)),
    )


def unpack_tags(body: Mapping[str, Any], name: str) -> Tags:
    """The inverse of `Tags.packed`. Raises `Corrupt`, `TypeError`, `ValueError`."""
    ids = np.frombuffer(as_bytes(body.get("v", b"")), ID)
    ordinals = np.frombuffer(as_bytes(body.get("i", b"")), "<u4")
    if len(ids) != len(ordinals):
        raise Corrupt(name, "tags name more versions than chunks")
    return Tags(ids, ordinals, unpack_keyed(body.get("k", ())))


def unpack_keyed(items: Sequence[Any]) -> tuple[KeyedTag, ...]:
    """Tags under a key. Raises `TypeError`, `ValueError` for anything else."""
    return tuple(KeyedTag(_text(key), as_bytes(hash), int(ordinal)) for key, hash, ordinal in items)


def unpack_row_ids(body: Mapping[str, Any], name: str) -> RowIds:
    """The inverse of `RowIds.packed`. Raises `Corrupt`, `TypeError`, `ValueError`."""
    tags = unpack_tags(body, name)
    if "n" not in body:
        return whole_chunks(tags)
    count = body["n"]
    if not isinstance(count, int) or not 0 <= count <= ROW_INTERVALS_MAX:
        raise Corrupt(name, f"a list of {count!r} row intervals")
    try:
        plain = _ZSTD.decompress(as_bytes(body["z"]), decompressed_size=12 * count, asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(name, f"row intervals that do not decompress: {error}") from error
    planes = np.frombuffer(plain, np.uint8)
    if len(planes) != 12 * count:
        raise Corrupt(name, "row intervals of another number than declared")
    columns = np.ascontiguousarray(planes.reshape(3, 4, count).transpose(0, 2, 1)).view("<u4")[:, :, 0]
    tag = columns[0]
    if count and int(tag.max()) >= len(tags):
        raise Corrupt(name, "a row interval in a chunk that is not named")
    start, stop = _starts_and_stops(tag, columns[1], columns[2])
    if (start < 0).any() or (stop <= start).any():
        raise Corrupt(name, "a row interval that is empty or runs past the end")
    return RowIds(tags, tag, start.astype(np.uint32), stop.astype(np.uint32))


def _starts_and_stops(tag: Array, gap: Array, length: Array) -> tuple[Array, Array]:
    """Sums of gaps and lengths, begun anew wherever the tag changes; modulo 2^32."""
    steps = gap.astype(np.int64) + length.astype(np.int64)
    stop = np.cumsum(steps)
    fresh = np.concatenate(([True], tag[1:] != tag[:-1])) if len(tag) else np.empty(0, bool)
    first = np.flatnonzero(fresh)
    before = (
        np.concatenate((np.zeros(1, np.int64), stop[:-1]))[first] if len(first) else np.zeros(0, np.int64)
    )
    base = np.repeat(before, np.diff(np.concatenate((first, [len(tag)]))))
    stop = (stop - base) % 2**32
    return stop - length.astype(np.int64), stop


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, not {type(value).__name__}")
    return value

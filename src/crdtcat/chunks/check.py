"""Checking a segment from end to end: is every byte of it, and every value in it, what was written?

Where `crdtcat.chunks.read` raises at the first damage, this looks at everything and says all that is wrong,
row group by row group. Every byte of the file is covered by something: the magic, the hashes of the encoded
columns, the footer's digest; bytes that nothing covers are damage too. Memory: `UNIT_BYTES` of encoded
columns or one row group, whichever is more, and what one column of it, or `CELLS_AT_ONCE` of several, decode
to.

Nothing is written here, and nothing is known of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from blake3 import blake3

from crdtcat.chunks.decode import Decoder
from crdtcat.chunks.footer import MAGIC, Footer, SegmentRef, decode_footer
from crdtcat.chunks.read import fetch, footer_start
from crdtcat.errors import Corrupt, DataError, UnsupportedFormat
from crdtcat.store import Store
from crdtcat.support.object_bytes import ObjectBytes

UNIT_BYTES: Final = 8 * 2**20  # encoded bytes fetched and checked at a time
CELLS_AT_ONCE: Final = 2**17  # decoded at a time: opening a file costs what its number of columns does
EVERYTHING: Final = -1
"""Stands for all row groups of a segment."""
NOTHING: Final = -2
"""Stands for no row group: other Parquet readers may stumble, ours does not."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the log says is in a row group."""

    group: int
    hash: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is wrong with a segment.

    Attributes:
        group: the row group that cannot be trusted, or `EVERYTHING`, or `NOTHING`.
        why: in words.
    """

    group: int
    why: str


def check_segment(
    store: Store,
    ref: SegmentRef,
    expected: Sequence[Expected],
    *,
    content: bool,
    looked_at: Callable[[int], object] = lambda _: None,
) -> list[Damage]:
    """All that is wrong with a segment; nothing, if it is whole.

    Cost: one GET for a file of up to `UNIT_BYTES`; else one for the footer and one per `UNIT_BYTES`.

    Args:
        store: where it is.
        ref: which segment.
        expected: the chunks that must be in it.
        content: whether to decode every column and check its values, too.
        looked_at: told of bytes that were fetched.

    Raises:
        StoreUnavailable, AccessDenied: whether it is whole could not be found out.
    """
    try:
        start = footer_start(ref)
        whole = fetch(store, ref, [(0, ref.size)])[0] if ref.size <= UNIT_BYTES else None
        tail = fetch(store, ref, [(start, ref.size)])[0] if whole is None else memoryview(whole)[start:]
        footer = decode_footer(ref, tail)
    except (Corrupt, UnsupportedFormat) as error:
        return [Damage(EVERYTHING, _why(error))]
    looked_at(len(tail) if whole is None else ref.size)
    found = [*_disagreements(footer, expected), *_uncovered(footer, start)]
    for groups in _units(footer):
        try:
            data = _Fetched(store, ref, footer, groups, whole)
        except Corrupt as error:
            found += [Damage(group, error.why) for group in groups]
            continue
        if whole is None:
            looked_at(sum(_size(footer, group) for group in groups))
        if 0 in groups and data.part(0, len(MAGIC)) != MAGIC:
            found.append(Damage(NOTHING, "damaged: it does not begin as a Parquet file does"))
        for group in groups:
            found += _check_group(ref, footer, data, group, content=content)
    return found


def _disagreements(footer: Footer, expected: Sequence[Expected]) -> Iterator[Damage]:
    """Where footer and log contradict each other."""
    for want in expected:
        if not 0 <= want.group < len(footer.rows):
            yield Damage(want.group, f"no row group {want.group}: there are {len(footer.rows)}")
        elif footer.chunk_hash(want.group) != want.hash:
            yield Damage(want.group, f"row group {want.group} is not chunk {want.hash.hex()}")
        elif footer.rows[want.group] != want.rows:
            rows = footer.rows[want.group]
            yield Damage(want.group, f"row group {want.group} has {rows:,} rows; the log says {want.rows:,}")


def _uncovered(footer: Footer, start: int) -> Iterator[Damage]:
    at = len(MAGIC)
    for place in sorted((place for group in footer.places for place in group), key=lambda place: place.start):
        if place.start > at:
            yield Damage(NOTHING, f"no hash covers bytes {at:,} to {place.start:,}")
        at = max(at, place.stop)
    if at < start:
        yield Damage(NOTHING, f"no hash covers bytes {at:,} to {start:,}")


def _units(footer: Footer) -> Iterator[list[int]]:
    """Row groups to fetch together."""
    unit: list[int] = []
    for group in range(len(footer.rows)):
        if unit and sum(_size(footer, each) for each in unit) + _size(footer, group) > UNIT_BYTES:
            yield unit
            unit = []
        unit.append(group)
    if unit:
        yield unit


def _size(footer: Footer, group: int) -> int:
    return sum(place.stop - place.start for place in footer.places[group])


class _Fetched:
    """The bytes of some row groups: part of a whole file, or one run, since row groups are neighbours."""

    def __init__(
        self, store: Store, ref: SegmentRef, footer: Footer, groups: Sequence[int], whole: ObjectBytes | None
    ) -> None:
        places = [place for group in groups for place in footer.places[group]]
        self._start = 0 if whole is not None or 0 in groups else min(place.start for place in places)
        stop = max((place.stop for place in places), default=len(MAGIC))
        self._data = whole if whole is not None else fetch(store, ref, [(self._start, stop)])[0]

    def part(self, start: int, stop: int) -> memoryview:
        return memoryview(self._data)[start - self._start : stop - self._start]

    def in_place(self) -> pa.Buffer:
        """A buffer in which they are where they are in the file; what is before costs address space only."""
        if not self._start:
            return pa.py_buffer(self._data)
        sparse = np.empty(self._start + len(self._data), np.uint8)
        sparse[self._start :] = np.frombuffer(self._data, np.uint8)
        return pa.py_buffer(sparse)


def _check_group(
    ref: SegmentRef, footer: Footer, data: _Fetched, group: int, *, content: bool
) -> Iterator[Damage]:
    whole = True
    for name, place in zip(footer.names, footer.places[group], strict=True):
        if blake3(data.part(place.start, place.stop)).digest() != place.encoded:
            whole = False
            yield Damage(group, f"damaged: row group {group}, column {name!r}: bytes do not match their hash")
    if not (content and whole):
        return
    buffer = data.in_place()
    at_once = max(1, CELLS_AT_ONCE // max(1, footer.rows[group]))
    for start in range(0, len(footer.names), at_once):
        yield from _undecodable(ref, footer, buffer, group, range(len(footer.names))[start : start + at_once])


def _undecodable(
    ref: SegmentRef, footer: Footer, buffer: pa.Buffer, group: int, columns: Sequence[int]
) -> Iterator[Damage]:
    """What is wrong with the values of some columns; each that is wrong is named."""
    try:
        Decoder(ref, footer, buffer, list(columns), verify="content").decode(group)
    except DataError as error:
        if len(columns) == 1:
            yield Damage(group, _why(error))
        else:
            for column in columns:
                yield from _undecodable(ref, footer, buffer, group, [column])


def _why(error: DataError) -> str:
    return error.why if isinstance(error, Corrupt) else str(error)

"""Segments: chunks become row groups of one Parquet file.

Every chunk is exactly one row group, in order, so a chunk can be fetched and decoded alone. Chunks come in
storage types (see `crdtcat.chunks.types`), which Parquet holds exactly, so any Parquet reader can open a
segment and get the right values; what only crdtcat needs stands in the block described in
`crdtcat.chunks.footer`. Pages carry checksums for readers that know no hashes.

A segment's name is unique and is never PUT twice: a name made from content alone would race the collector.
No I/O here: the caller puts `Segment.data` under a name of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from crdtcat.chunks.footer import ColumnPlace, SegmentRef, encode_block, footer_digest
from crdtcat.chunks.hashing import value_type
from crdtcat.chunks.parquet_footer import joined_footer
from crdtcat.chunks.stretch import MAGIC, ChunkHashes, Stretch, encode_stretch
from crdtcat.errors import InvalidArgument
from crdtcat.support.scattered import Scattered
from crdtcat.support.showing import shown

_NAME = re.compile(r"data/([0-9a-f]{2})/(\1[0-9a-f]{30})-([0-9a-f]{16})\.parquet")


class SegmentName(NamedTuple):
    """The parts of a segment's name; `str` gives the name.

    Attributes:
        hash: the first 16 bytes of the first chunk's hash.
        random: 8 random bytes.
    """

    hash: bytes
    random: bytes

    def __str__(self) -> str:
        return segment_name(self.hash, self.random)

    @classmethod
    def parse(cls, text: str) -> SegmentName:
        """The inverse of `str`. Raises `InvalidArgument` for any other text."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise InvalidArgument(
                f"{shown(text)} is not a segment's name: expected data/<hash>-<random>.parquet"
            )
        return cls(bytes.fromhex(match[2]), bytes.fromhex(match[3]))


def segment_name(first_chunk_hash: bytes, random: bytes) -> str:
    """The name of a segment, from its first chunk's hash (at least 16 bytes) and 8 random bytes."""
    if len(first_chunk_hash) < 16 or len(random) != 8:
        raise InvalidArgument("a segment's name needs 16 bytes of hash and 8 random bytes")
    text = first_chunk_hash[:16].hex()
    return f"data/{text[:2]}/{text}-{random.hex()}.parquet"


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """An encoded segment, ready to be put.

    Attributes:
        data: the whole file.
        digest: covers the footer, which covers the rest; see `crdtcat.chunks.footer`.
        footer_length: how many bytes at the end are the footer.
        chunk_hashes: of each row group.
        rows: of each row group.
        chunk_bytes: of each row group, in Arrow's plain layout.
        encoded_bytes: of each row group, as stored.
        bounds: of each row group the least and greatest value of text and binary columns, as far as Parquet's
            writer found them.
    """

    data: memoryview
    digest: bytes
    footer_length: int
    chunk_hashes: tuple[bytes, ...]
    rows: tuple[int, ...]
    chunk_bytes: tuple[int, ...]
    encoded_bytes: tuple[int, ...]
    bounds: tuple[Mapping[str, tuple[bytes, bytes]], ...]

    @property
    def size(self) -> int:
        """Of the whole file, in bytes."""
        return len(self.data)

    def name(self, random: bytes) -> str:
        """A name for this segment, from 8 random bytes."""
        return segment_name(self.chunk_hashes[0], random)

    def ref(self, name: str) -> SegmentRef:
        """How a version refers to this segment once it is stored under `name`."""
        return SegmentRef(name, self.size, self.footer_length, self.digest)

    def __repr__(self) -> str:
        return f"Segment({len(self.rows)} chunks, {sum(self.rows)} rows, {self.size} bytes)"


class Linked(NamedTuple):
    """A segment whose bytes lie where its stretches left them.

    Attributes:
        data: the whole file.
        digest: as in `Segment`.
        footer_length: as in `Segment`.
        places: of each row group, of each column.
    """

    data: Scattered
    digest: bytes
    footer_length: int
    places: tuple[tuple[ColumnPlace, ...], ...]


def encode_segment(chunks: Sequence[pa.Table], hashes: Sequence[ChunkHashes] | None = None) -> Segment:
    """One Parquet file whose row groups are `chunks`: `encode_stretch` of all, `joined`.

    Columns without nulls are `required`.

    Raises:
        InvalidArgument: no chunks, no rows, no columns, a name used twice, schemas or hashes that do not fit.
    """
    return joined([encode_stretch(chunks, hashes, full=None)])


def linked(stretches: Sequence[Stretch]) -> Linked:
    """One segment of several stretches, in order. Cost: the footers; nothing else is copied.

    Raises `InvalidArgument` for stretches of different schemas.
    """
    schema = stretches[0].schema
    if any(not stretch.schema.equals(schema) for stretch in stretches):
        raise InvalidArgument("stretches of one segment have one schema")
    moved = [*accumulate((stretch.groups_bytes for stretch in stretches[:-1]), initial=0)]
    if len(stretches) == 1:
        footer = stretches[0].footer
    else:
        footer = joined_footer([stretch.footer for stretch in stretches], moved)
    places = tuple(
        tuple(ColumnPlace(at.start + shift, at.stop + shift, at.content, at.encoded) for at in group)
        for stretch, shift in zip(stretches, moved, strict=True)
        for group in stretch.places
    )
    rows = [count for stretch in stretches for count in stretch.rows]
    block = encode_block(schema.names, [value_type(t) for t in schema.types], rows, places)
    tail = b"".join((block, footer, len(footer).to_bytes(4, "little"), MAGIC))
    data = laid_out(stretches, tail)
    return Linked(data, footer_digest(len(data), tail), len(tail), places)


def laid_out(stretches: Sequence[Stretch], tail: bytes = b"") -> Scattered:
    """The bytes of a segment: what its stretches have, and what follows. Those gone are the first ones."""
    gone = sum(stretch.gone for stretch in stretches)
    begin, gone = (b"", len(MAGIC) + gone) if gone else (MAGIC, 0)
    return Scattered([begin, *(stretch.groups for stretch in stretches), tail], gone)


def joined(stretches: Sequence[Stretch]) -> Segment:
    """As `linked`, its bytes in one piece. Cost: one copy of them."""
    whole = linked(stretches)
    return Segment(
        data=memoryview(bytes(whole.data)),
        digest=whole.digest,
        footer_length=whole.footer_length,
        chunk_hashes=tuple(chunk for stretch in stretches for chunk, _ in stretch.hashes),
        rows=tuple(count for stretch in stretches for count in stretch.rows),
        chunk_bytes=tuple(size for stretch in stretches for size in stretch.chunk_bytes),
        encoded_bytes=tuple(sum(place.stop - place.start for place in group) for group in whole.places),
        bounds=tuple(bounds for stretch in stretches for bounds in stretch.bounds),
    )

"""What stands at the end of a segment: enough to find, check and decode any of its columns.

A segment is an ordinary Parquet file with one block of ours between the last row group and Parquet's own
footer, where Parquet readers do not look::

    "PAR1"  column chunks, row group by row group  |  block  Parquet footer  u32 its length  "PAR1"
                                                   '------------- footer_length bytes -------------'

The block is a MessagePack map: `format`, the columns' `names` and canonical `types`, and for every row
group `rows` (u64), and for every column of it `starts` and `lengths` (u64: where its encoded bytes lie),
`content` (its canonical hash) and `encoded` (BLAKE3 of its encoded bytes), each as one packed little-endian
string, row group by row group. So the tail is a Merkle node: the digest kept in the version that refers to
a segment covers the tail and the file's size, the tail covers every column's bytes and content, and a
reader of two columns can check exactly those. (A digest of the whole file could only be checked by
reading it all. Parquet's key-value metadata could not hold the block: it must be UTF-8, and is written
before the positions are known.)

The digest is checked before anything is parsed, so no parser ever sees a damaged footer. No I/O here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from crdtcat.chunks.hashing import HASH_BYTES, chunk_hash
from crdtcat.errors import Corrupt, UnsupportedFormat

FORMAT_NUMBER = 1
MAGIC = b"PAR1"
TAIL_BYTES = 8
"""Parquet's own: the length of its footer, and the magic."""
_DIGEST_PREFIX = b"crdtcat segment 1\0"


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """How a version refers to a segment.

    Attributes:
        name: the object's name.
        size: of the whole file, in bytes.
        footer_length: how many bytes at the end are the footer.
        digest: `footer_digest` of the file, 32 bytes.
    """

    name: str
    size: int
    footer_length: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """One column of one row group: where its encoded bytes lie, and the hashes of both forms."""

    start: int
    stop: int
    content: bytes
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Footer:
    """A segment's checked and parsed footer. Immutable, safe to share between threads.

    Attributes:
        names: of the columns.
        types: the columns' canonical types, see `crdtcat.chunks.hashing.value_type`.
        rows: of each row group.
        places: of each row group, of each column.
        leaves: for each column, the range of Parquet leaf columns it consists of.
        metadata: Parquet's own footer.
        footer_length: bytes it was parsed from: what it weighs in a cache.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[int, ...]
    places: tuple[tuple[ColumnPlace, ...], ...]
    leaves: tuple[range, ...]
    metadata: Any
    footer_length: int

    def chunk_hash(self, group: int) -> bytes:
        """The hash of the chunk in a row group, from the hashes of its columns."""
        hashes = [place.content for place in self.places[group]]
        return chunk_hash(self.names, self.types, hashes, self.rows[group])


def footer_digest(size: int, footer: bytes | memoryview) -> bytes:
    """What a version keeps of a segment: a hash of its size and its footer."""
    hasher = blake3(_DIGEST_PREFIX + struct.pack("<Q", size))
    hasher.update(footer)
    return hasher.digest()


def encode_block(
    names: Sequence[str], types: Sequence[str], rows: Sequence[int], places: Sequence[Sequence[ColumnPlace]]
) -> bytes:
    """The block; its length depends on names, types and counts only, never on positions or hashes."""
    flat = [place for group in places for place in group]
    block: bytes = msgpack.packb(
        {
            "content": b"".join(place.content for place in flat),
            "encoded": b"".join(place.encoded for place in flat),
            "format": FORMAT_NUMBER,
            "lengths": _pack(place.stop - place.start for place in flat),
            "names": list(names),
            "rows": _pack(rows),
            "starts": _pack(place.start for place in flat),
            "types": list(types),
        }
    )
    return block


def decode_footer(ref: SegmentRef, tail: bytes | memoryview) -> Footer:
    """Check and parse the last `ref.footer_length` bytes of a segment. Cost: O(row groups x columns).

    Raises:
        Corrupt: the bytes are not the ones the segment was written with.
        UnsupportedFormat: written by a newer release.
    """
    if len(tail) != ref.footer_length or len(tail) < TAIL_BYTES:
        raise Corrupt(ref.name, f"truncated: the footer has {len(tail)} of {ref.footer_length} bytes")
    if footer_digest(ref.size, tail) != ref.digest:
        raise Corrupt(ref.name, "damaged: the footer does not match the digest in the log")
    parquet_length = int.from_bytes(tail[-8:-4], "little")
    try:
        block = msgpack.unpackb(tail[: len(tail) - TAIL_BYTES - parquet_length])
        if block["format"] > FORMAT_NUMBER:
            raise UnsupportedFormat(f"{ref.name}: segment format {block['format']}; upgrade crdtcat")
        metadata = pq.read_metadata(pa.BufferReader(pa.py_buffer(tail)))
        return _assemble(block, metadata, body=ref.size - ref.footer_length, footer_length=len(tail))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, msgpack.UnpackException) as error:
        if isinstance(error, UnsupportedFormat):
            raise
        raise Corrupt(ref.name, f"the footer makes no sense: {error}") from error


def _assemble(block: dict[str, Any], metadata: Any, *, body: int, footer_length: int) -> Footer:
    """Raises `ValueError` where the parts contradict each other."""
    names, types, rows = block["names"], block["types"], _unpack(block["rows"])
    starts, lengths = _unpack(block["starts"]), _unpack(block["lengths"])
    content, encoded = _hashes(block["content"]), _hashes(block["encoded"])
    cells = len(names) * len(rows)
    if not len(starts) == len(lengths) == len(content) == len(encoded) == cells or len(types) != len(names):
        raise ValueError("its lists differ in length")
    if metadata.num_row_groups != len(rows):
        raise ValueError(f"{metadata.num_row_groups} row groups where {len(rows)} are described")
    flat = []
    for start, length, of_content, of_encoded in zip(starts, lengths, content, encoded, strict=True):
        if start < len(MAGIC) or start + length > body:
            raise ValueError(f"a column at byte {start} of {length} bytes is outside the file")
        flat.append(ColumnPlace(start, start + length, of_content, of_encoded))
    width = len(names)
    leaves = leaf_ranges(metadata.schema.to_arrow_schema())
    if len(leaves) != width or (leaves and leaves[-1].stop != metadata.num_columns):
        raise ValueError(f"{len(leaves)} columns where {width} are described")
    places = tuple(tuple(flat[group * width : (group + 1) * width]) for group in range(len(rows)))
    return Footer(tuple(names), tuple(types), tuple(rows), places, leaves, metadata, footer_length)


def leaf_ranges(schema: pa.Schema) -> tuple[range, ...]:
    """For each column, which of Parquet's leaf columns it consists of."""
    ranges, first = [], 0
    for t in schema.types:
        count = _leaf_count(t)
        ranges.append(range(first, first + count))
        first += count
    return tuple(ranges)


def _leaf_count(t: pa.DataType) -> int:
    return sum(_leaf_count(t.field(i).type) for i in range(t.num_fields)) if t.num_fields else 1


def _pack(numbers: Any) -> bytes:
    return np.array(list(numbers), "<u8").tobytes()


def _unpack(packed: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(packed, "<u8").tolist()
    return numbers


def _hashes(packed: bytes) -> list[bytes]:
    return [packed[i : i + HASH_BYTES] for i in range(0, len(packed), HASH_BYTES)]

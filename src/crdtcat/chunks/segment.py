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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from crdtcat.chunks.encodings import writer_options
from crdtcat.chunks.footer import (
    TAIL_BYTES,
    ColumnPlace,
    SegmentRef,
    encode_block,
    footer_digest,
    leaf_ranges,
)
from crdtcat.chunks.hashing import HASH_BYTES, hash_table, value_type
from crdtcat.errors import InvalidArgument

_NAME = re.compile(r"data/([0-9a-f]{2})/(\1[0-9a-f]{30})-([0-9a-f]{16})\.parquet")
_ROOM = 1024
"""Bytes that one column of one row group may take besides twice its content: headers, and its footer."""
ChunkHashes = tuple[bytes, Sequence[bytes]]
"""A chunk's hash and the hashes of its columns, as `hash_table` gives them."""


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
            raise InvalidArgument(f"{text!r} is not a segment's name: expected data/<hash>-<random>.parquet")
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
        return SegmentRef(name, self.size, self.footer_length, self.digest, len(self.rows))

    def __repr__(self) -> str:
        return f"Segment({len(self.rows)} chunks, {sum(self.rows)} rows, {self.size} bytes)"


def encode_segment(chunks: Sequence[pa.Table], hashes: Sequence[ChunkHashes] | None = None) -> Segment:
    """One Parquet file whose row groups are `chunks`.

    Cost: one pass of Parquet's encoder and of BLAKE3 over the encoded bytes, and one over the content if
    `hashes` are not given. Thread-safe and, but for a small part, outside the interpreter lock: callers
    with much to write encode several segments in threads, since one Parquet file is written in order.

    Args:
        chunks: tables of one schema, in storage types, none without rows.
        hashes: what `hash_table` gave for each chunk, if the caller has it already.

    Raises:
        InvalidArgument: no chunks, no rows, no columns, a name used twice, schemas or hashes that do not fit.
    """
    schema = _common_schema(chunks)
    hashes = [hash_table(chunk) for chunk in chunks] if hashes is None else hashes
    if len(hashes) != len(chunks) or any(len(columns) != len(schema) for _, columns in hashes):
        raise InvalidArgument("encode_segment needs one hash for each chunk and each of its columns")
    types = [value_type(t) for t in schema.types]
    rows = [chunk.num_rows for chunk in chunks]

    def block(places: Sequence[Sequence[ColumnPlace]]) -> bytes:
        return encode_block(schema.names, types, rows, places)

    unknown = ColumnPlace(0, 0, bytes(HASH_BYTES), bytes(HASH_BYTES))
    reserved = len(block([[unknown] * len(schema)] * len(chunks)))
    data, metadata = _write_parquet(chunks, schema, reserved)
    footer_length = reserved + TAIL_BYTES + int.from_bytes(data[-8:-4], "little")
    places = _places(data, metadata, schema, hashes)
    data[len(data) - footer_length : len(data) - footer_length + reserved] = block(places)
    data = data.toreadonly()
    return Segment(
        data=data,
        digest=footer_digest(len(data), data[len(data) - footer_length :]),
        footer_length=footer_length,
        chunk_hashes=tuple(chunk for chunk, _ in hashes),
        rows=tuple(rows),
        chunk_bytes=tuple(chunk.nbytes for chunk in chunks),
        encoded_bytes=tuple(sum(place.stop - place.start for place in group) for group in places),
        bounds=tuple(_bounds(metadata.row_group(group), schema) for group in range(len(chunks))),
    )


def _common_schema(chunks: Sequence[pa.Table]) -> pa.Schema:
    if not chunks:
        raise InvalidArgument("a segment needs at least one chunk")
    schema = chunks[0].schema.remove_metadata()
    if not len(schema) or len(set(schema.names)) != len(schema):
        raise InvalidArgument(f"a segment needs columns with different names, not {schema.names}")
    for chunk in chunks:
        if not chunk.num_rows:
            raise InvalidArgument("a chunk without rows has no place in a segment: leave it out")
        if not chunk.schema.equals(schema):
            raise InvalidArgument(
                f"chunks of one segment have one schema:\n{schema}\nand not\n{chunk.schema}"
            )
    return schema


def _write_parquet(chunks: Sequence[pa.Table], schema: pa.Schema, reserved: int) -> tuple[memoryview, Any]:
    """The Parquet file, with `reserved` zero bytes before its footer, and its metadata.

    It is written into memory of twice the content's size, of which only what is written is ever touched:
    a sink that grows copies everything again and again, a fifth of all the time. What does not fit (many
    columns of few rows, values that no encoding shortens) is written again into one that grows.
    """
    room = pa.allocate_buffer(
        2 * sum(chunk.nbytes for chunk in chunks) + reserved + _ROOM * (1 + len(chunks) * len(schema))
    )
    sink = pa.FixedSizeBufferWriter(room)
    try:
        metadata = _write_rows(sink, chunks, schema, reserved)
        return memoryview(room).cast("B")[: sink.tell()], metadata
    except (pa.ArrowException, OSError, RuntimeError):  # the last is what closing gives after the others
        growing = pa.BufferOutputStream()
        metadata = _write_rows(growing, chunks, schema, reserved)
        return memoryview(growing.getvalue()).cast("B"), metadata


def _write_rows(sink: Any, chunks: Sequence[pa.Table], schema: pa.Schema, reserved: int) -> Any:
    """Write the file into `sink`; gives its metadata."""
    collected: list[Any] = []
    with pq.ParquetWriter(
        sink,
        schema,
        store_schema=False,
        write_page_checksum=True,
        metadata_collector=collected,
        **writer_options(chunks[0]),
    ) as writer:
        for chunk in chunks:
            writer.write_table(chunk, row_group_size=chunk.num_rows)
        # Every page of every row group is in the sink by now, so what follows lies before the footer.
        sink.write(bytes(reserved))
    return collected[0]


def _places(
    data: memoryview, metadata: Any, schema: pa.Schema, hashes: Sequence[ChunkHashes]
) -> list[list[ColumnPlace]]:
    leaves = leaf_ranges(schema)

    def of_group(group: int) -> Iterator[ColumnPlace]:
        row_group = metadata.row_group(group)
        for column, content in zip(leaves, hashes[group][1], strict=True):
            start, stop = (
                _bytes_of(row_group.column(column[0]))[0],
                _bytes_of(row_group.column(column[-1]))[1],
            )
            yield ColumnPlace(start, stop, content, blake3(data[start:stop]).digest())

    return [list(of_group(group)) for group in range(len(hashes))]


def _bounds(row_group: Any, schema: pa.Schema) -> dict[str, tuple[bytes, bytes]]:
    """Parquet orders texts and binaries as bytes, which is the order of our statistics too."""
    found = {}
    for field, leaves in zip(schema, leaf_ranges(schema), strict=True):
        if field.type in (pa.string(), pa.binary()):
            known = row_group.column(leaves[0]).statistics
            if known is not None and known.has_min_max:
                found[field.name] = (known.min_raw, known.max_raw)
    return found


def _bytes_of(leaf: Any) -> tuple[int, int]:
    """Where the pages of one leaf column of one row group begin and end."""
    start = leaf.dictionary_page_offset or leaf.data_page_offset
    start = min(start, leaf.data_page_offset)
    return start, start + leaf.total_compressed_size

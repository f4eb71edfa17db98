"""Stretches: chunks as row groups, encoded by one thread, to be joined with others to a segment.

A stretch is a Parquet file of its own, so the usual writer makes it; what joins them is in
`crdtcat.chunks.segment`. No I/O here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from crdtcat.chunks.encodings import writer_options
from crdtcat.chunks.few_texts import numbered
from crdtcat.chunks.footer import TAIL_BYTES, ColumnPlace, leaf_ranges
from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.type_parts import is_plain
from crdtcat.errors import InvalidArgument

MAGIC: Final = b"PAR1"
_LARGE: Final = 2**20
_NUMBERED_ROWS_MIN: Final = 4096  # of a chunk: fewer are hashed by Parquet's writer before they are numbered
_ROOM: Final = 1024
"""Bytes that one column of one row group may take besides its content: headers, and its footer."""
_PAGE_BYTES: Final = 2**20
"""Of content in a data page, about: as the writer does it."""
_BATCH_ROWS: Final = (1024, 2**14)
"""The fewest and the most rows that Parquet's writer takes at a time; pages end between them."""
ChunkHashes = tuple[bytes, Sequence[bytes]]
"""A chunk's hash and the hashes of its columns, as `hash_table` gives them."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Row groups that were encoded together: some of a segment's, or all of them.

    Attributes:
        data: a Parquet file of them alone.
        schema: of all chunks.
        hashes: of each chunk and its columns.
        rows: rows of each chunk.
        chunk_bytes: of Arrow content, of each chunk.
        places: where each column of each chunk lies in `data`.
        bounds: what Parquet's writer found out about texts and binaries, for each chunk.
        gone: bytes of the row groups that `data` has no more: a store has them.
    """

    data: memoryview
    schema: pa.Schema
    hashes: tuple[ChunkHashes, ...]
    rows: tuple[int, ...]
    chunk_bytes: tuple[int, ...]
    places: tuple[tuple[ColumnPlace, ...], ...]
    bounds: tuple[Mapping[str, tuple[bytes, bytes]], ...]
    gone: int = 0

    @property
    def footer(self) -> bytes:
        """Parquet's own."""
        return bytes(self.data[len(self.data) - self._footer_bytes - TAIL_BYTES : -TAIL_BYTES])

    @property
    def groups(self) -> memoryview:
        """The bytes of the row groups; none that are gone."""
        return self.data[len(MAGIC) : len(self.data) - self._footer_bytes - TAIL_BYTES]

    @property
    def groups_bytes(self) -> int:
        """How many bytes the row groups have, gone or not."""
        return self.gone + len(self.groups)

    def let_go(self) -> Stretch:
        """The same without the bytes of the row groups."""
        tail = bytes(self.data[len(self.data) - self._footer_bytes - TAIL_BYTES :])
        return replace(self, data=memoryview(MAGIC + tail), gone=self.groups_bytes)

    @property
    def _footer_bytes(self) -> int:
        return int.from_bytes(self.data[-8:-4], "little")


def encode_stretch(
    chunks: Sequence[pa.Table],
    hashes: Sequence[ChunkHashes] | None = None,
    *,
    full: Collection[str] | None = (),
) -> Stretch:
    """Chunks as row groups, which may be joined with others to one segment.

    Cost: one pass of Parquet's encoder and of BLAKE3 over the encoded bytes, and one over the content if
    `hashes` are not given. Thread-safe and, but for a small part, outside the interpreter lock: whoever has
    much to write encodes several stretches in threads, since one Parquet file is written in order.

    Args:
        chunks: tables of one schema, in storage types, none without rows.
        hashes: what `hash_table` gave for each chunk, if the caller has it already.
        full: columns without nulls in any stretch of the segment. Parquet then stores no levels for them,
            which saves a tenth of the time. `None`: there is no other stretch, and it is all such columns.

    Raises:
        InvalidArgument: no chunks, no rows, no columns, a name used twice, schemas or hashes that do not fit,
            a null where there is none.
    """
    schema = _common_schema(chunks, full)
    hashes = [hash_table(chunk) for chunk in chunks] if hashes is None else hashes
    if len(hashes) != len(chunks) or any(len(columns) != len(schema) for _, columns in hashes):
        raise InvalidArgument("encode_segment needs one hash for each chunk and each of its columns")
    data, metadata = _write_parquet(chunks, schema)
    return Stretch(
        data=data,
        schema=schema,
        hashes=tuple(hashes),
        rows=tuple(chunk.num_rows for chunk in chunks),
        chunk_bytes=tuple(chunk.nbytes for chunk in chunks),
        places=tuple(_places(data, metadata, schema, hashes)),
        bounds=tuple(_bounds(metadata.row_group(group), schema) for group in range(len(chunks))),
    )


def stretch_of(
    data: memoryview,
    metadata: Any,
    schema: pa.Schema,
    hashes: Sequence[ChunkHashes],
    chunk_bytes: Sequence[int],
) -> Stretch:
    """A stretch of row groups that somebody else encoded: a Parquet file of them alone, in storage types.

    Cost: BLAKE3 over the encoded bytes. What its writer says about values is not believed: no bounds.
    """
    return Stretch(
        data=data,
        schema=schema,
        hashes=tuple(hashes),
        rows=tuple(metadata.row_group(group).num_rows for group in range(len(hashes))),
        chunk_bytes=tuple(chunk_bytes),
        places=tuple(_places(data, metadata, schema, hashes)),
        bounds=({},) * len(hashes),
    )


def _common_schema(chunks: Sequence[pa.Table], full: Collection[str] | None) -> pa.Schema:
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
    holed = {name for name in schema.names if any(chunk.column(name).null_count for chunk in chunks)}
    if full is None:
        full = {field.name for field in schema if is_plain(field.type)} - holed
    elif not holed.isdisjoint(full):
        raise InvalidArgument(f"nulls in columns that have none: {sorted(holed.intersection(full))}")
    return pa.schema([field.with_nullable(field.name not in full) for field in schema]) if full else schema


def _write_parquet(chunks: Sequence[pa.Table], schema: pa.Schema) -> tuple[memoryview, Any]:
    """The Parquet file, and its metadata.

    A large one is written into memory a little larger than the content, of which only what is written is ever
    touched: a sink that grows copies everything again and again, a fifth of all the time. It comes from the
    system's allocator, which gives the rest back in place; Arrow's own copies what is kept. What does not fit
    (many columns of few rows, dictionaries that were given up) is written again into one that grows.
    """
    content = sum(chunk.nbytes for chunk in chunks)
    if content >= _LARGE:
        size = content * 5 // 4 + _ROOM * (1 + len(chunks) * len(schema))
        room = pa.allocate_buffer(size, memory_pool=pa.system_memory_pool(), resizable=True)
        sink = pa.FixedSizeBufferWriter(room)
        try:
            metadata = _write_rows(sink, chunks, schema)
            room.resize(sink.tell())
            return memoryview(room).cast("B"), metadata
        except (pa.ArrowException, OSError, RuntimeError):  # the last is what closing gives after the others
            pass
    growing = pa.BufferOutputStream()
    metadata = _write_rows(growing, chunks, schema)
    return memoryview(growing.getvalue()).cast("B"), metadata


def _write_rows(sink: Any, chunks: Sequence[pa.Table], schema: pa.Schema) -> Any:
    """Write the file into `sink`; gives its metadata."""
    collected: list[Any] = []
    options = writer_options(chunks[0])
    large = sum(chunk.num_rows for chunk in chunks) >= _NUMBERED_ROWS_MIN * len(chunks)
    for name in options["use_dictionary"] if large else ():
        if name in schema.names and schema.field(name).type in (pa.string(), pa.binary()):
            chunks, schema = _numbered(chunks, schema, name)
    writer = pq.ParquetWriter(
        sink,
        schema,
        store_schema=False,
        write_page_checksum=True,
        write_batch_size=_batch_rows(chunks[0]),
        metadata_collector=collected,
        **options,
    )
    try:
        for chunk in chunks:
            rows = pa.Table.from_arrays(chunk.columns, schema=schema)
            writer.write_table(rows, row_group_size=chunk.num_rows)
        writer.close()
    except BaseException:
        writer.is_open = False  # else it closes itself when it goes, and complains that it cannot
        raise
    return collected[0]


def _numbered(
    chunks: Sequence[pa.Table], schema: pa.Schema, name: str
) -> tuple[Sequence[pa.Table], pa.Schema]:
    """The chunks with texts of few values as dictionaries, if they are that in all of them.

    Only Parquet's writer is told: what it writes is the same.
    """
    at = schema.get_field_index(name)
    found = []
    for chunk in chunks:
        column = numbered(chunk.column(at))
        if column is None:
            return chunks, schema
        found.append(chunk.set_column(at, schema.field(at).with_type(column.type), column))
    return found, schema.set(at, schema.field(at).with_type(found[0].schema.field(at).type))


def _batch_rows(chunk: pa.Table) -> int:
    """Few calls for narrow columns, and pages no larger than they should be for wide ones."""
    widest: int = max(column.nbytes for column in chunk.columns) // chunk.num_rows
    least, most = _BATCH_ROWS
    return max(least, min(most, _PAGE_BYTES // max(widest, 1)))


def _places(
    data: memoryview, metadata: Any, schema: pa.Schema, hashes: Sequence[ChunkHashes]
) -> list[tuple[ColumnPlace, ...]]:
    leaves = leaf_ranges(schema)

    def of_group(group: int) -> Iterator[ColumnPlace]:
        row_group = metadata.row_group(group)
        for column, content in zip(leaves, hashes[group][1], strict=True):
            start, stop = (
                bytes_of(row_group.column(column[0]))[0],
                bytes_of(row_group.column(column[-1]))[1],
            )
            yield ColumnPlace(start, stop, content, blake3(data[start:stop]).digest())

    return [tuple(of_group(group)) for group in range(len(hashes))]


def _bounds(row_group: Any, schema: pa.Schema) -> dict[str, tuple[bytes, bytes]]:
    """Parquet orders texts and binaries as bytes, which is the order of our statistics too."""
    found = {}
    for field, leaves in zip(schema, leaf_ranges(schema), strict=True):
        if field.type in (pa.string(), pa.binary()):
            known = row_group.column(leaves[0]).statistics
            if known is not None and known.has_min_max:
                found[field.name] = (known.min_raw, known.max_raw)
    return found


def bytes_of(leaf: Any) -> tuple[int, int]:
    """Where the pages of one leaf column of one row group begin and end."""
    start = leaf.dictionary_page_offset or leaf.data_page_offset
    start = min(start, leaf.data_page_offset)
    return start, start + leaf.total_compressed_size

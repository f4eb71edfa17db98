"""Staging: rows become chunks, chunks become inlined bytes or segments.

Rows are held until a segment is full or the input ends, then split by partition, cut into chunks, brought to
storage types, hashed and measured. A commit whose rows encode small enough has no segment at all: they ride
inside its version file. Segments get unique names and are stored before the version that makes them visible;
if that never happens they are garbage for the collector, and nobody sees them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.inline import encode_inline
from crdtcat.chunks.partitions import Partitioning, encode_values
from crdtcat.chunks.segment import ChunkHashes, encode_segment, segment_name
from crdtcat.chunks.statistics import domain, statistics, time_range
from crdtcat.chunks.storage_types import to_storage
from crdtcat.errors import LimitExceeded
from crdtcat.format.schema_code import encode_schema
from crdtcat.limits import CHUNK_BYTES_TARGET, PARTITION_VALUES_PER_COMMIT_MAX
from crdtcat.log.statistics import DOMAINS
from crdtcat.options import Options
from crdtcat.protocol import Put
from crdtcat.writing.fit import Fit, conform

_CODES: Final = {domain: code for code, domain in DOMAINS.items()}
INLINE_ATTEMPT: Final = (
    16  # Arrow content beyond this many times the limit never encodes below it in practice
)


@dataclass
class Staged:
    """What a version file will say about its chunks, in the format's columns."""

    hashes: list[bytes] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    partitions: list[bytes] = field(default_factory=list)
    segments: list[list[Any]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    inline: list[bytes | None] = field(default_factory=list)
    statistics: dict[str, list[Any]] = field(default_factory=dict)
    time_range: tuple[int, int] | None = None

    def body(self) -> dict[str, Any]:
        """The keys of the version file."""
        return {
            "y": b"".join(self.hashes) or None,
            "n": self.rows or None,
            "z": self.nbytes or None,
            "q": self.partitions or None,
            "g": self.segments or None,
            "a": self.places or None,
            "i": self.inline or None,
            "e": self.statistics or None,
            "r": self.time_range,
        }


class Stager:
    """Takes rows in, gives chunks out.

    Args:
        fit: how rows go into the table.
        partitioning: the table's partitioning.
        options: sizes.
        time_column: column whose least and greatest values are recorded.
        put: stores a full segment at once, so that memory stays bounded. The last one is left to the
            caller, in `puts`: it is published together with the version.
    """

    def __init__(
        self,
        fit: Fit,
        partitioning: Partitioning,
        options: Options,
        *,
        time_column: str | None,
        put: Callable[[Put], None],
    ) -> None:
        self.fit = fit
        self.staged = Staged()
        self.puts: list[Put] = []
        self._partitioning, self._options, self._time_column = partitioning, options, time_column
        self._put = put
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._seen: set[bytes] = set()
        self._hashes: list[ChunkHashes] = []

    @property
    def rows(self) -> int:
        """Rows taken in so far."""
        return sum(self.staged.rows) + sum(int(table.num_rows) for table in self._pending)

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take in rows. Raises `SchemaMismatch`, `UnsupportedType`, `LimitExceeded`."""
        table = conform(batch, self.fit.schema)
        if not table.num_rows:
            return
        self._pending.append(table)
        self._pending_bytes += table.nbytes
        if self._pending_bytes >= self._options.segment_bytes:
            self._flush()

    def add_all(self, batches: Iterable[pa.RecordBatch]) -> Stager:
        """Take in every batch."""
        for batch in batches:
            self.add(batch)
        return self

    def finish(self) -> dict[str, Any]:
        """The version file's keys for everything taken in, schema included."""
        self._flush(last=True)
        return {"f": [encode_schema(self.fit.fields)], **self.staged.body()}

    def _flush(self, *, last: bool = False) -> None:
        if not self._pending:
            return
        table = pa.concat_tables(self._pending)
        self._pending, self._pending_bytes = [], 0
        self._note_time(table)
        chunks = [self._chunk(values, piece) for values, piece in self._pieces(table)]
        first = len(self.staged.hashes) - len(chunks)
        if last and not self.staged.segments and self._inlined(chunks):
            return
        segment = encode_segment(chunks, self._hashes[first:])
        unique = secrets.token_bytes(8)
        name = segment_name(self.staged.hashes[first], unique)
        (self.puts.append if last else self._put)(Put(name, segment.data))
        number = len(self.staged.segments)
        title = self.staged.hashes[first][:16] + unique
        self.staged.segments.append([title, segment.size, segment.digest, segment.footer_length])
        for group in range(len(chunks)):
            self.staged.places += (first + group, number, group)

    def _pieces(self, table: pa.Table) -> Iterable[tuple[bytes | None, pa.Table]]:
        size = self._rows_per_chunk(table)
        if not self._partitioning.fields:
            yield from ((None, table.slice(at, size)) for at in range(0, table.num_rows, size))
            return
        for values, part in self._partitioning.split(table):
            packed = encode_values(values)
            self._seen.add(packed)
            if len(self._seen) > PARTITION_VALUES_PER_COMMIT_MAX:
                raise LimitExceeded(
                    f"one commit touches more than {PARTITION_VALUES_PER_COMMIT_MAX:,} partitions; "
                    "partition more coarsely, or commit fewer at a time"
                )
            yield from ((packed, part.slice(at, size)) for at in range(0, part.num_rows, size))

    def _rows_per_chunk(self, table: pa.Table) -> int:
        fitting = CHUNK_BYTES_TARGET * int(table.num_rows) // max(1, int(table.nbytes))
        return max(1, min(self._options.chunk_rows, fitting))

    def _chunk(self, partition: bytes | None, piece: pa.Table) -> pa.Table:
        arrays = [
            to_storage(column, name) for name, column in zip(piece.column_names, piece.columns, strict=True)
        ]
        chunk = pa.Table.from_arrays(arrays, names=piece.column_names)
        staged = self.staged
        hash, column_hashes = hash_table(chunk)
        self._hashes.append((hash, column_hashes))
        for name, column in zip(piece.column_names, piece.columns, strict=True):
            found = statistics(column)
            code = _CODES[domain(column.type)]
            lists = staged.statistics.setdefault(name, [code, [], [], []])
            lists[1].append(found.min)
            lists[2].append(found.max)
            lists[3].append(found.nulls)
        staged.hashes.append(hash)
        staged.rows.append(chunk.num_rows)
        staged.nbytes.append(chunk.nbytes)
        if partition is not None:
            staged.partitions.append(partition)
        return chunk

    def _inlined(self, chunks: list[pa.Table]) -> bool:
        limit = self._options.inline_bytes
        if sum(chunk.nbytes for chunk in chunks) > INLINE_ATTEMPT * limit:
            return False
        encoded: list[bytes] = []
        for chunk in chunks:
            encoded.append(encode_inline(chunk))
            if sum(map(len, encoded)) > limit:
                return False
        self.staged.inline = list(encoded)
        return True

    def _note_time(self, table: pa.Table) -> None:
        if self._time_column is None or self._time_column not in table.column_names:
            return
        found = time_range(table, self._time_column)
        if found is not None:
            known = self.staged.time_range or found
            self.staged.time_range = min(known[0], found[0]), max(known[1], found[1])

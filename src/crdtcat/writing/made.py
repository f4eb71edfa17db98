"""Chunks of one version that are not all alike: of several kinds, or with several sets of columns.

Verbs that know exactly which chunks they want (compaction, `write`) make them and hand them over here, where
they are hashed, measured, and become inlined bytes or segments, one segment for each set of columns. The
order is kept: a chunk's place is its ordinal. Stores nothing: the caller publishes `puts` before the version.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.inline import encode_inline
from crdtcat.chunks.keys import KEY_BOUNDS, key_bounds
from crdtcat.chunks.segment import encode_segment, segment_name
from crdtcat.chunks.statistics import domain, statistics
from crdtcat.chunks.stretch import ChunkHashes
from crdtcat.chunks.type_codes import decode_type
from crdtcat.chunks.types import restored
from crdtcat.format.kinds import ROWS
from crdtcat.format.schema_code import StoredField, encode_schema
from crdtcat.log.statistics import DOMAINS
from crdtcat.protocol import Put

_CODES: Final = {domain: code for code, domain in DOMAINS.items()}
INLINE_ATTEMPT: Final = (
    16  # Arrow content beyond this many times the limit never encodes below it in practice
)


@dataclass(frozen=True, eq=False)
class MadeChunk:
    """A chunk, ready to be stored.

    Attributes:
        rows: its columns, in storage types: `fields`, and what else has to be kept with them.
        fields: what the columns are to the table.
        kind: see `crdtcat.format.kinds`.
        partition: packed partition values, in a partitioned table.
        key: the table's key columns, by which the rows rise.
    """

    rows: pa.Table
    fields: tuple[StoredField, ...]
    kind: int = ROWS
    partition: bytes | None = None
    key: tuple[str, ...] = ()


@dataclass
class Made:
    """What the version file says about chunks, and the segments that hold them.

    Attributes:
        body: keys of the version file.
        puts: segments to store before it.
    """

    body: dict[str, Any] = field(default_factory=dict)
    puts: list[Put] = field(default_factory=list)


def stage_made(chunks: Sequence[MadeChunk], inline_bytes: int) -> Made:
    """Hash, measure and encode chunks. Cost: a pass of BLAKE3 and of Parquet's encoder over their content."""
    if not chunks:
        return Made()
    hashes = [hash_table(chunk.rows) for chunk in chunks]
    schemas: dict[bytes, int] = {}
    which = [schemas.setdefault(encode_schema(chunk.fields), len(schemas)) for chunk in chunks]
    partitioned = any(chunk.partition is not None for chunk in chunks)
    body: dict[str, Any] = {
        "f": list(schemas),
        "j": which if len(schemas) > 1 else None,
        "b": [chunk.kind for chunk in chunks] if any(chunk.kind for chunk in chunks) else None,
        "y": b"".join(hash for hash, _ in hashes),
        "n": [chunk.rows.num_rows for chunk in chunks],
        "z": [chunk.rows.nbytes for chunk in chunks],
        "q": [chunk.partition for chunk in chunks] if partitioned else None,
        "e": _statistics(chunks),
    }
    inlined = _inlined(chunks, inline_bytes)
    if inlined is not None:
        return Made({**body, "i": inlined})
    return _in_segments(body, chunks, hashes)


def _inlined(chunks: Sequence[MadeChunk], limit: int) -> list[bytes] | None:
    if sum(chunk.rows.nbytes for chunk in chunks) > INLINE_ATTEMPT * limit:
        return None
    encoded: list[bytes] = []
    for chunk in chunks:
        encoded.append(encode_inline(chunk.rows))
        if sum(map(len, encoded)) > limit:
            return None
    return encoded


def _in_segments(body: dict[str, Any], chunks: Sequence[MadeChunk], hashes: Sequence[ChunkHashes]) -> Made:
    groups: dict[pa.Schema, list[int]] = {}
    for at, chunk in enumerate(chunks):
        groups.setdefault(chunk.rows.schema, []).append(at)
    segments: list[Any] = []
    places: list[int] = []
    puts: list[Put] = []
    for number, members in enumerate(groups.values()):
        segment = encode_segment([chunks[at].rows for at in members], [hashes[at] for at in members])
        unique, first = secrets.token_bytes(8), hashes[members[0]][0]
        puts.append(Put(segment_name(first, unique), segment.data))
        segments.append([first[:16] + unique, segment.size, segment.digest, segment.footer_length])
        for group, at in enumerate(members):
            places += (at, number, group)
    return Made({**body, "g": segments, "a": places}, puts)


def _statistics(chunks: Sequence[MadeChunk]) -> Mapping[str, list[Any]]:
    """Bounds of every field; chunks that do not have it are marked as unknown."""
    count = len(chunks)
    found: dict[str, list[Any]] = {}
    for at, chunk in enumerate(chunks):
        for item in chunk.fields:
            logical = decode_type(item.type)
            one = statistics(restored(chunk.rows.column(item.name).chunks, logical, item.name))
            code = _CODES[domain(logical)]
            empty: list[Any] = [code, [None] * count, [None] * count, [-1] * count]
            lists = found.setdefault(item.name, empty)
            lists[3][at] = one.nulls
            if lists[0] == code:
                lists[1][at], lists[2][at] = one.min, one.max
        if chunk.key:
            bounds: list[Any] = [_CODES["bytes"], [None] * count, [None] * count, [0] * count]
            lists = found.setdefault(KEY_BOUNDS, bounds)
            keys = [chunk.rows.column(name).combine_chunks() for name in chunk.key]
            lists[1][at], lists[2][at] = key_bounds(keys)
    return found

"""Moving rows out of version files and into segments, chunk by chunk, without changing a chunk.

Bundling does this, so that version files can be collected; restoring does it where too much would have to be
inlined again. A chunk keeps its hash and its boundaries: it only gets one more place.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.inline import decode_inline
from crdtcat.chunks.segment import encode_segment, segment_name
from crdtcat.chunks.stretch import ChunkHashes
from crdtcat.errors import Corrupt
from crdtcat.format.sections import Array
from crdtcat.log.join import in_order
from crdtcat.log.log import Log
from crdtcat.protocol import Put


@dataclass(frozen=True, eq=False)
class Moved:
    """A log without inlined rows, and the segments that must be stored before it is published."""

    log: Log
    puts: tuple[Put, ...]


def inlined_chunks(log: Log) -> Array:
    """Which chunks are only in version files."""
    stored = np.zeros(log.chunk_count, bool)
    stored[log.place_chunk] = True
    return np.flatnonzero(~stored)


def inlined_bytes(log: Log, chunk: int) -> bytes:
    """The inlined rows of a chunk, as encoded. Raises `Corrupt` if it has none."""
    version = int(log.chunk_version[chunk])
    id = log.id_at(version)
    data = log.inline.get((id.to_bytes(), chunk - int(log.chunk_start[version])))
    if data is None:
        raise Corrupt(f"{id}.v", f"chunk {log.hash[chunk].tobytes().hex()} has no place to be read from")
    return data


def moved_to_segments(log: Log, needed: Array | None = None) -> Moved:
    """The log with every inlined chunk in a segment: one for each layout of columns among them.

    With `needed`, per chunk, those that are not may have no rows at all.
    """
    chunks = inlined_chunks(log)
    if needed is not None:
        chunks = chunks[needed[chunks]]
    if not len(chunks):
        return Moved(log, ())
    puts = []
    for members, tables, hashes in _by_layout(log, chunks):
        segment = encode_segment(tables, hashes)
        unique = secrets.token_bytes(8)
        first = log.hash[members[0]].tobytes()
        puts.append(Put(segment_name(first, unique), segment.data))
        number = len(log.segment_name)
        groups = np.arange(len(members), dtype=np.uint32)
        log = log.with_(
            segment_name=np.concatenate((log.segment_name, np.array([first[:16] + unique], "S24"))),
            segment_size=np.append(log.segment_size, np.uint64(segment.size)),
            segment_digest=np.concatenate(
                (log.segment_digest, np.frombuffer(segment.digest, np.uint8)[None])
            ),
            segment_footer=np.append(log.segment_footer, np.uint32(segment.footer_length)),
            place_chunk=np.concatenate((log.place_chunk, np.array(members, np.uint32))),
            place_segment=np.concatenate((log.place_segment, np.full(len(members), number, np.uint32))),
            place_group=np.concatenate((log.place_group, groups)),
        )
    return Moved(in_order(log), tuple(puts))


def _by_layout(log: Log, chunks: Array) -> Iterator[tuple[list[int], list[pa.Table], list[ChunkHashes]]]:
    groups: dict[pa.Schema, tuple[list[int], list[pa.Table], list[ChunkHashes]]] = {}
    for chunk in chunks.tolist():
        version = log.id_at(int(log.chunk_version[chunk]))
        data = inlined_bytes(log, chunk)
        table = decode_inline(data, f"{version}.v", log.hash[chunk].tobytes(), verify=False)
        found = hash_table(table)
        if found[0] != log.hash[chunk].tobytes():
            raise Corrupt(f"{version}.v", "the inlined rows do not match their chunk's hash")
        members, tables, hashes = groups.setdefault(table.schema, ([], [], []))
        members.append(chunk)
        tables.append(table)
        hashes.append(found)
    yield from groups.values()

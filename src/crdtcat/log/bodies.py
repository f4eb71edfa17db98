"""From a log back to the bodies of version files: for versions that are committed again, under other ids.

The inverse of `crdtcat.log.build`, but for what a version is named by and has seen: stamp, writer, number,
folder and clock are whoever's who commits it. Where a version names itself it does so again without its id.
Statistics that do not have every chunk of a version are left out: they only save reading. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.format.kinds import ROWS
from crdtcat.format.ops import SELF
from crdtcat.format.schema_code import decode_schema, encode_schema
from crdtcat.format.sections import Array
from crdtcat.format.version import unpack
from crdtcat.log.log import NO_TIME, NONE, Log
from crdtcat.log.statistics import Bounds


def bodies_of(log: Log) -> list[dict[str, Any]]:
    """The body of every version of a log, in order. O(versions + chunks)."""
    columns = [
        (name, domain, _by_chunk(bounds))
        for name, domain in sorted(log.statistics.columns())
        if (bounds := log.statistics.bounds(name, domain)) is not None
    ]
    bodies = []
    for at in range(len(log)):
        id, chunks = log.id_at(at), range(int(log.chunk_start[at]), int(log.chunk_start[at + 1]))
        body: dict[str, Any] = {"o": int(log.operation[at]), "k": _text(log.key[at].as_py())}
        if log.metadata[at].is_valid:
            body["m"] = unpack(log.metadata[at].as_py(), str(id))
        if int(log.time_min[at]) != NO_TIME:
            body["r"] = [int(log.time_min[at]), int(log.time_max[at])]
        body["x"] = log.ops[at].as_py()
        body |= _schemas(log, at, chunks, id)
        if chunks:
            body |= _chunks(log, chunks, id) | _places(log, chunks)
            statistics = {
                name: [domain, *map(list, zip(*(found[chunk] for chunk in chunks), strict=True))]
                for name, domain, found in columns
                if all(chunk in found for chunk in chunks)
            }
            body["e"] = statistics or None
        bodies.append({key: value for key, value in body.items() if value is not None})
    return bodies


def _schemas(log: Log, at: int, chunks: range, id: VersionId) -> dict[str, Any]:
    """The schemas of a version, its own first, and which chunk has which."""
    used = [int(log.schema[at])] if log.schema[at] != NONE else []
    of_chunks = log.chunk_schema[chunks.start : chunks.stop].tolist()
    used = list(dict.fromkeys([*used, *of_chunks]))
    packed = []
    for schema in used:
        fields = decode_schema(log.schemas[schema], str(id))
        if any(field.column.birth == id for field in fields):
            own = [
                replace(field, column=replace(field.column, birth=SELF))
                if field.column.birth == id
                else field
                for field in fields
            ]
            packed.append(encode_schema(own))
        else:
            packed.append(log.schemas[schema])
    which = [used.index(schema) for schema in of_chunks] if len(used) > 1 else None
    return {"f": packed or None, "j": which or None}


def _chunks(log: Log, chunks: range, id: VersionId) -> dict[str, Any]:
    part = slice(chunks.start, chunks.stop)
    kinds, partitions = log.kind[part], log.partition[part]
    inline = [log.inline.get((id.to_bytes(), ordinal)) for ordinal in range(len(chunks))]
    return {
        "y": log.hash[part].tobytes(),
        "n": log.rows[part].tolist(),
        "z": log.nbytes[part].tolist(),
        "b": kinds.tolist() if (kinds != ROWS).any() else None,
        "q": None if (partitions == NONE).all() else partition_values(log, partitions),
        "i": inline if any(data is not None for data in inline) else None,
    }


def partition_values(log: Log, partitions: Array) -> list[bytes | None]:
    """Packed values by number; nil for chunks that are in no partition, as those that lie over rows."""
    return [None if at == NONE else log.partitions[at] for at in partitions.tolist()]


def _places(log: Log, chunks: range) -> dict[str, Any]:
    first, last = np.searchsorted(log.place_chunk, (chunks.start, chunks.stop)).tolist()
    at = np.arange(first, last)
    if not len(at):
        return {}
    segments, which = np.unique(log.place_segment[at], return_inverse=True)
    listed = [
        [
            log.segment_name[segment : segment + 1].tobytes(),
            int(log.segment_size[segment]),
            log.segment_digest[segment].tobytes(),
            int(log.segment_footer[segment]),
        ]
        for segment in segments.tolist()
    ]
    places = np.stack((log.place_chunk[at] - chunks.start, which, log.place_group[at]), axis=1)
    return {"g": listed, "a": places.ravel().tolist()}


def _by_chunk(bounds: Bounds) -> dict[int, tuple[Any, Any, int]]:
    """Least value, greatest value, nulls, by chunk."""
    low, high = (column.tolist() for column in (bounds.low, bounds.high))
    rows = zip(bounds.chunk.tolist(), low, high, bounds.known.tolist(), bounds.nulls.tolist(), strict=True)
    return {
        chunk: (least if known else None, most if known else None, nulls)
        for chunk, least, most, known, nulls in rows
    }


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode()

"""Logs to and from bundle files: many versions' deltas in one columnar file.

A bundle is a log with every chunk in a segment, plus its coverage, which is exactly its ids, plus the names
of the bundles it takes the place of. It decodes to the join of exactly what it covers (theorem:
`bundle_decodes_to_join`).

The body begins with a summary, so that the first few kilobytes tell what a bundle is about: how many
versions, the first and the last, and what it replaces. It has a checksum of its own, because whoever reads
only the beginning cannot check the trailer. A summary chooses work; it never proves anything.

::

    0     4   length s of the summary, big-endian
    4     s   MessagePack: [versions, first id or nil, last id or nil, names replaced]
    4+s   16  the first 16 bytes of the BLAKE3 of the summary
    20+s      sections, see crdtcat.format.sections
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from blake3 import blake3

from crdtcat.errors import Corrupt
from crdtcat.format.frame import HEADER_BYTES, seal, unseal
from crdtcat.format.kinds import KINDS
from crdtcat.format.sections import decode_sections, encode_sections, nulls
from crdtcat.format.version import OPERATIONS, as_bytes, pack, require_features, unpack
from crdtcat.limits import BUNDLE_FILE_BYTES_MAX
from crdtcat.log.log import ID, Log
from crdtcat.log.order import without_empty_values
from crdtcat.log.statistics import from_sections, to_sections
from crdtcat.support.object_bytes import ObjectBytes

_FIXED = {
    "operation": "<u1",
    "number": "<u8",
    "schema": "<u4",
    "time_min": "<i8",
    "time_max": "<i8",
    "chunk_start": "<i8",
    "hash": "<u1",
    "rows": "<u8",
    "nbytes": "<u8",
    "partition": "<u4",
    "chunk_schema": "<u4",
    "kind": "<u1",
    "place_chunk": "<u4",
    "place_segment": "<u4",
    "place_group": "<u4",
    "segment_size": "<u8",
    "segment_digest": "<u1",
    "segment_footer": "<u4",
}
_BLOBS = ("key", "metadata", "clock", "ops", "transaction")


@dataclass(frozen=True, eq=False)
class Bundle:
    """A decoded bundle.

    Attributes:
        log: the deltas it covers.
        replaces: names of bundles whose coverage it contains: a reader that has this one skips those.
        number: of a base, its place in the chain of bases; 0 for other bundles.
    """

    log: Log
    replaces: frozenset[str]
    number: int = 0


def encode_bundle(log: Log, folder: str, replaces: Sequence[str] = (), *, number: int = 0) -> bytes:
    """The file for `log`; with a number, a base. The caller has moved inlined rows to segments.

    Theorem: `bundle_canonical`.
    """
    if log.inline:
        raise ValueError("a bundle holds no inlined rows: move them to segments first")
    listed, statistics = to_sections(log.statistics)
    columns: dict[str, Any] = {name: getattr(log, name).astype(code) for name, code in _FIXED.items()}
    columns |= {name: getattr(log, name) for name in _BLOBS}
    columns["ids"] = log.ids.view(np.uint8).reshape(-1, 36)
    columns["segment_name"] = log.segment_name.view(np.uint8).reshape(-1, 24)
    columns |= statistics
    meta: dict[str, Any] = {
        "l": folder,
        "schemas": list(log.schemas),
        "partitions": list(log.partitions),
        "statistics": [list(column) for column in listed],
    }
    if number:
        meta |= {"!": ["horizon"], "horizon": log.horizon, "number": number}
    ends = [log.id_at(0).to_bytes(), log.id_at(len(log) - 1).to_bytes()] if len(log) else [None, None]
    summary = pack([len(log), *ends, sorted(replaces)])
    before = b"".join((len(summary).to_bytes(4, "big"), summary, blake3(summary).digest(length=16)))
    return seal(b"B", before + encode_sections(meta, columns, HEADER_BYTES + len(before)))


@dataclass(frozen=True, slots=True)
class Summary:
    """What the beginning of a bundle says about it."""

    versions: int
    first: bytes
    last: bytes
    replaces: frozenset[str]
    bytes: int = 0


def read_summary(data: ObjectBytes, name: str) -> Summary:
    """The summary at the beginning of a bundle, of which `data` may be only the first part.

    Raises:
        Corrupt: damaged, or `data` ends before the summary does.
    """
    view = memoryview(data)[HEADER_BYTES:]
    length = int.from_bytes(view[:4], "big")
    packed, check = view[4 : 4 + length], view[4 + length : 20 + length]
    if len(check) != 16 or blake3(packed).digest(length=16) != check:
        raise Corrupt(name, "the bundle's summary is damaged or cut off")
    try:
        versions, first, last, replaces = unpack(packed, name)
        return Summary(int(versions), first or b"", last or b"", frozenset(replaces), 20 + length)
    except (TypeError, ValueError) as error:
        raise Corrupt(name, f"malformed summary: {error}") from error


def decode_bundle(data: ObjectBytes, folder: str, name: str) -> Bundle:
    """The bundle in a file, arrays in place. Cost: one BLAKE3 pass and O(versions + chunks) checks.

    Theorem: `bundle_decodes_to_join`.

    Raises:
        Corrupt: damaged, or a column that breaks a rule of the format.
        UnsupportedFormat: written by a newer release.
    """
    if len(data) > BUNDLE_FILE_BYTES_MAX:
        raise Corrupt(name, f"{len(data):,} bytes are over the limit of {BUNDLE_FILE_BYTES_MAX:,}")
    body = unseal(b"B", data, name)
    summary = read_summary(data, name)
    meta, columns = decode_sections(body[summary.bytes :], HEADER_BYTES + summary.bytes, name)
    try:
        require_features(meta.get("!"), name)
        if meta["l"] != folder:
            raise Corrupt(name, f"belongs to {meta['l']}, not to {folder}")
        columns.setdefault("kind", np.zeros(len(columns["rows"]), np.uint8))  # before there were others
        columns.setdefault("number", np.zeros(len(columns["ids"]), np.uint64))  # before there were claims
        if "transaction" not in columns:  # ... and transactions
            columns["transaction"] = nulls(len(columns["ids"]))
        fixed: dict[str, Any] = {title: columns[title] for title in _FIXED}
        listed = [(str(column), str(domain)) for column, domain in meta["statistics"]]
        log = Log(
            ids=_strings(columns["ids"], 36).view(ID),
            segment_name=_strings(columns["segment_name"], 24).view("S24"),
            schemas=tuple(as_bytes(item) for item in meta["schemas"]),
            partitions=tuple(as_bytes(item) for item in meta["partitions"]),
            statistics=from_sections(columns, listed, len(fixed["hash"]), name),
            **fixed,
            **{title: columns[title] for title in _BLOBS},
            horizon=int(meta.get("horizon", 0)),
        )
        _check(log, name)
        log = without_empty_values(log)
        number = int(meta.get("number", 0))
        if (number > 0) != (log.horizon > 0):
            raise Corrupt(name, "malformed bundle: a base has a number and a horizon")
        return Bundle(log, summary.replaces, number)
    except Corrupt:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Corrupt(name, f"malformed bundle: {error}") from error


def _strings(column: Any, width: int) -> Any:
    if column.ndim != 2 or column.shape[1] != width:
        raise ValueError(f"names must be {width} bytes wide")
    return np.ascontiguousarray(column).reshape(-1)


def _check(log: Log, name: str) -> None:
    versions, chunks, segments = len(log.ids), len(log.hash), len(log.segment_name)
    starts = log.chunk_start
    problems = {
        "version columns of different lengths": any(
            len(getattr(log, title)) != versions
            for title in ("operation", "number", "schema", "time_min", "time_max", *_BLOBS)
        ),
        "chunk columns of different lengths": any(
            len(getattr(log, title)) != chunks
            for title in ("rows", "nbytes", "partition", "chunk_schema", "kind")
        ),
        "hashes that are not 32 bytes": log.hash.shape != (chunks, 32)
        or log.segment_digest.shape != (segments, 32),
        "chunk ranges that do not fit": len(starts) != versions + 1
        or int(starts[0]) != 0
        or int(starts[-1]) != chunks
        or bool((starts[1:] < starts[:-1]).any()),
        "ids that do not rise": bool((log.ids[:-1] >= log.ids[1:]).any()),
        "segment columns of different lengths": len(log.segment_size) != segments
        or len(log.segment_footer) != segments,
        "place columns of different lengths": not len(log.place_chunk)
        == len(log.place_segment)
        == len(log.place_group),
        "places out of range": _beyond(log.place_chunk, chunks) or _beyond(log.place_segment, segments),
        "an unknown operation": _beyond(log.operation, len(OPERATIONS)),
        "an unknown kind of chunk": _beyond(log.kind, len(KINDS)),
        "a schema out of range": _beyond(log.schema, len(log.schemas), allow_none=True),
        "a chunk's schema out of range": _beyond(log.chunk_schema, len(log.schemas)),
        "a partition out of range": _beyond(log.partition, len(log.partitions), allow_none=True),
    }
    for problem, found in problems.items():
        if found:
            raise Corrupt(name, f"malformed bundle: {problem}")


def _beyond(index: Any, limit: int, *, allow_none: bool = False) -> bool:
    if allow_none:
        index = index[index != 2**32 - 1]
    return bool(len(index)) and int(index.max()) >= limit

"""From decoded version files to a log: columns appended to columns, one pass.

This is the hot path of a cold start on a log nobody has bundled, so it touches each version a fixed number
of times and makes no object per chunk. What a file says is checked here: lengths that agree, indexes that
stay inside, types that are what docs/format.md says. A file that passes its checksum and still breaks a
rule was written by a faulty writer; it is `Corrupt`, by name, and nothing of it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.kinds import KINDS, ROWS
from crdtcat.format.ops import SELF, ColumnId
from crdtcat.format.schema_code import StoredField, decode_schema, encode_schema
from crdtcat.format.sections import Array, blobs
from crdtcat.format.version import OPERATIONS, as_bytes, pack
from crdtcat.log.join import in_order
from crdtcat.log.log import ID, NO_TIME, NONE, Log
from crdtcat.log.statistics import DOMAINS, from_lists


class LogBuilder:
    """Gathers versions of one log folder. Use once: `add` each, then `build`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen: set[bytes] = set()
        self._ids: list[bytes] = []
        self._operation: list[int] = []
        self._number: list[int] = []
        self._schema: list[int] = []
        self._time: list[tuple[int, int]] = []
        self._key: list[bytes | None] = []
        self._metadata: list[bytes | None] = []
        self._clock: list[bytes | None] = []
        self._ops: list[bytes | None] = []
        self._transaction: list[bytes | None] = []
        self._counts: list[int] = []
        self._hash: list[bytes] = []
        self._rows: list[int] = []
        self._nbytes: list[int] = []
        self._partition: list[int] = []
        self._chunk_schema: list[int] = []
        self._kind: list[int] = []
        self._places: list[int] = []
        self._segments: dict[bytes, tuple[int, int, bytes, int]] = {}
        self._schemas: dict[bytes, int] = {}
        self._has_self: dict[bytes, bool] = {}
        self._partitions: dict[bytes, int] = {}
        self._inline: dict[tuple[bytes, int], bytes] = {}
        self._statistics: dict[tuple[str, str], tuple[list[int], list[Any], list[Any], list[int]]] = {}
        self._chunks = 0

    def add(
        self, id: VersionId, body: dict[str, Any], name: str, *, transaction: bytes | None = None
    ) -> None:
        """Take in one decoded version; one already taken is passed over. `transaction`: what it is a part of.

        Raises:
            Corrupt: the body breaks a rule of the format.
        """
        key = id.to_bytes()
        if key in self._seen:
            return
        try:
            self._add(key, id, body, name)
        except Corrupt:
            raise
        except Exception as error:
            raise Corrupt(name, f"malformed version: {type(error).__name__}: {error}") from error
        self._transaction.append(transaction)
        self._seen.add(key)

    def _add(self, key: bytes, id: VersionId, body: dict[str, Any], name: str) -> None:
        get = body.get
        if body["l"] != self._folder:
            raise Corrupt(name, f"belongs to {body['l']}, not to {self._folder}")
        hashes = get("y", b"")
        count = len(hashes) // 32
        rows, nbytes = get("n", []), get("z", [])
        if len(hashes) % 32 or len(rows) != count or len(nbytes) != count:
            raise Corrupt(name, "chunk columns of different lengths")
        operation = body["o"]
        if not 0 <= operation < len(OPERATIONS):
            raise Corrupt(name, f"unknown operation {operation}")
        self._ids.append(key)
        self._operation.append(operation)
        self._number.append(get("#", 0))
        schemas = [self._schema_index(packed, id, name) for packed in get("f", ())]
        self._schema.append(schemas[0] if schemas else int(NONE))
        times = get("r")
        if times is not None and not all(type(time) is int and -(2**63) < time < 2**63 for time in times):
            raise Corrupt(name, "a time range that 64 bits cannot hold")
        self._time.append((NO_TIME, NO_TIME) if times is None else (times[0], times[1]))
        idempotency = get("k")
        self._key.append(None if idempotency is None else idempotency.encode())
        self._metadata.append(pack(body["m"]) if "m" in body else None)
        self._clock.append(pack([get("p"), body["c"]]) if "c" in body else None)
        self._ops.append(get("x"))
        self._counts.append(count)
        if count:
            self._hash.append(hashes)
            self._rows += rows
            self._nbytes += nbytes
            which = get("j")
            if which is not None and len(which) != count:
                raise Corrupt(name, "schema numbers do not match the chunks")
            self._chunk_schema += [schemas[0]] * count if which is None else [schemas[at] for at in which]
            self._add_kinds(get("b"), count, name)
            self._add_partitions(get("q"), count, name)
            self._add_places(body, key, count, name)
            self._add_statistics(get("e"), count, name)
            self._chunks += count

    def _schema_index(self, packed: bytes, id: VersionId, name: str) -> int:
        index = self._schemas.get(packed)
        if index is not None:
            return index
        has_self = self._has_self.get(packed)
        if has_self is None:
            fields = decode_schema(packed, name)
            has_self = self._has_self[packed] = any(field.column.birth is SELF for field in fields)
        if has_self:  # "this very version" means another column in every version: name it
            packed = encode_schema([_named(field, id) for field in decode_schema(packed, name)])
        return self._schemas.setdefault(packed, len(self._schemas))

    def _add_kinds(self, kinds: list[int] | None, count: int, name: str) -> None:
        if kinds is None:
            self._kind += [ROWS] * count
            return
        if len(kinds) != count or not all(type(kind) is int and 0 <= kind < len(KINDS) for kind in kinds):
            raise Corrupt(name, "kinds that this release does not know, or that do not match the chunks")
        self._kind += kinds

    def _add_partitions(self, values: list[bytes | None] | None, count: int, name: str) -> None:
        if values is None:
            self._partition += [int(NONE)] * count
            return
        if len(values) != count:
            raise Corrupt(name, "partition values do not match the chunks")
        known = self._partitions
        self._partition += [
            int(NONE) if value is None or value == b"" else known.setdefault(as_bytes(value), len(known))
            for value in values  # no bytes: what early files have for nil
        ]

    def _add_places(self, body: dict[str, Any], key: bytes, count: int, name: str) -> None:
        inline = body.get("i")
        if inline is not None:
            if len(inline) != count:
                raise Corrupt(name, "inlined rows do not match the chunks")
            self._inline.update(
                ((key, ordinal), as_bytes(data)) for ordinal, data in enumerate(inline) if data is not None
            )
        places = body.get("a", ())
        there = set(places[::3])
        if len(there) < count and inline is not None:
            there.update(ordinal for ordinal, data in enumerate(inline) if data is not None)
        if len(there) < count:  # its rows are nowhere: left out, cells that it rewrote would be the old ones
            raise Corrupt(name, "a chunk has neither a place nor inlined rows")
        if not places:
            return
        known = self._segments
        numbers: list[int] = []
        for title, size, digest, footer in body["g"]:
            if len(title) != 24 or len(digest) != 32:
                raise Corrupt(name, "a segment's name is 24 bytes and its digest 32")
            numbers.append(known.setdefault(title, (len(known), size, digest, footer))[0])
        base = self._chunks
        for at in range(0, len(places), 3):
            chunk, segment, group = places[at : at + 3]
            if not 0 <= chunk < count or segment < 0:
                raise Corrupt(name, "a place names a chunk that is not there")
            self._places += (base + chunk, numbers[segment], group)

    def _add_statistics(self, statistics: dict[str, Any] | None, count: int, name: str) -> None:
        if statistics is None:
            return
        chunks = range(self._chunks, self._chunks + count)
        for column, (domain, low, high, nulls) in statistics.items():
            if domain not in DOMAINS or not len(low) == len(high) == len(nulls) == count:
                raise Corrupt(name, f"statistics of column {column!r} do not match the chunks")
            lists = self._statistics.get((column, domain))
            if lists is None:
                lists = self._statistics[column, domain] = ([], [], [], [])
            lists[0].extend(chunks)
            lists[1].extend(low)
            lists[2].extend(high)
            lists[3].extend(nulls)

    def build(self, name: str = "") -> Log:
        """The log of everything added, in canonical order.

        Raises `Corrupt` where a number does not fit, of the file `name` where all came from one, else of the
        folder.
        """
        try:
            return in_order(self._build())
        except (OverflowError, TypeError, ValueError) as error:
            raise Corrupt(
                name or self._folder, f"a version holds a number that does not fit: {error}"
            ) from error

    def _build(self) -> Log:
        segments = sorted(self._segments.items(), key=lambda item: item[1][0])
        places = _numbers(self._places, np.uint32).reshape(-1, 3)
        times = np.array(self._time, np.int64).reshape(-1, 2)
        return Log(
            ids=np.frombuffer(b"".join(self._ids), ID),
            operation=_numbers(self._operation, np.uint8),
            number=_numbers(self._number, np.uint64),
            schema=_numbers(self._schema, np.uint32),
            time_min=times[:, 0],
            time_max=times[:, 1],
            key=blobs(self._key),
            metadata=blobs(self._metadata),
            clock=blobs(self._clock),
            ops=blobs(self._ops),
            transaction=blobs(self._transaction),
            chunk_start=np.concatenate(([0], np.cumsum(self._counts))).astype(np.int64),
            hash=np.frombuffer(b"".join(self._hash), np.uint8).reshape(-1, 32),
            rows=_numbers(self._rows, np.uint64),
            nbytes=_numbers(self._nbytes, np.uint64),
            partition=_numbers(self._partition, np.uint32),
            chunk_schema=_numbers(self._chunk_schema, np.uint32),
            kind=_numbers(self._kind, np.uint8),
            place_chunk=places[:, 0],
            place_segment=places[:, 1],
            place_group=places[:, 2],
            segment_name=np.frombuffer(b"".join(title for title, _ in segments), "S24"),
            segment_size=_numbers([row[1] for _, row in segments], np.uint64),
            segment_digest=np.frombuffer(b"".join(row[2] for _, row in segments), np.uint8).reshape(-1, 32),
            segment_footer=_numbers([row[3] for _, row in segments], np.uint32),
            schemas=tuple(self._schemas),
            partitions=tuple(self._partitions),
            inline=self._inline,
            statistics=from_lists(self._statistics, self._chunks, self._folder),
        )


def _numbers(values: list[int], kind: type[np.unsignedinteger[Any]]) -> Array:
    """A column of numbers. Raises `ValueError` for lists of equal lengths, of which numpy makes a table."""
    column = np.array(values, kind)
    if column.ndim != 1:
        raise ValueError("a list where a number belongs")
    return column


def _named(field: StoredField, id: VersionId) -> StoredField:
    if field.column.birth is not SELF:
        return field
    return StoredField(field.name, ColumnId(field.column.name, id), field.type, field.nullable)

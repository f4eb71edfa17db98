"""The Python side of questions about keyed tables, columns, the order of rows and equal insertions.

Real version files, read. Every version is by a writer of its own, numbered by its place in the question, so
that ids go by time and then by place, as they do in the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.chunks.type_codes import encode_type
from crdtcat.chunks.widen import widen
from crdtcat.clock import VersionId
from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.ops import ColumnId, Definition, DefinitionId, Ops
from crdtcat.format.row_ids import RowIds, Tags
from crdtcat.format.row_ops import Insertion, RowOps
from crdtcat.format.schema_code import StoredField
from crdtcat.format.settings import Settings
from crdtcat.format.version import OPERATIONS, encode_version
from crdtcat.head import Head
from crdtcat.head.insertions import insertions, twins
from crdtcat.log import State
from crdtcat.protocol import version_name
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.invariants import rows_of
from crdtcat.testing.made_versions import FOLDER, Chunk, chunk_columns, chunk_of
from tests.keyed.histories import Author, head_of, scan_of, settings_for

TYPES = (pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string())
FIELDS = (StoredField("a", ColumnId("a"), "int64"),)
PARTITION = b"\x91\x01"


def keyed(versions: list[Any]) -> Any:
    """Versions [time, columns, rows, deleted keys]; rows [key, a, b]; columns: 1 is a, 2 is b, 3 both."""
    settings = settings_for(("k",))
    made = []
    for number, (time, columns, rows, gone) in enumerate(versions, start=1):
        written = [
            {"k": key} | ({"a": a} if columns & 1 else {}) | ({"b": str(b)} if columns & 2 else {})
            for key, a, b in rows
        ]
        chunks = [(GONE, [{"k": key} for key in gone])] if gone else []
        chunks += [(ROWS, written)] if written else []
        made.append(Author(number, settings).commit("write", chunks, blind=True, time=time - 1))
    found = scan_of(head_of(made, settings)).to_table().to_pylist()
    return [[row["k"], row["a"] or 0, int(row["b"] or 0)] for row in found]


def column(wider: list[list[int]], definitions: list[Any]) -> Any:
    """Definitions [time, type, replaced]: the type of the one column they are of, counted from 1."""
    for one, row in zip(TYPES, wider, strict=True):
        for other, both in zip(TYPES, row, strict=True):
            assert widen(one, other) == (TYPES[both - 1] if both else None), (one, other)
    files = []
    ids: list[VersionId] = []
    for number, (time, kind, replaced) in enumerate(definitions, start=1):
        ended = tuple(DefinitionId(ids[at], 0) for at in replaced)
        defined = Definition(ColumnId("c"), "c", encode_type(TYPES[kind - 1]), replaces=ended)
        id, file = _version(time, number, "schema", Ops(definitions=(defined,)))
        ids.append(id)
        files.append(file)
    head = Head("t", State(FOLDER).joined(files).log, Settings(columns=None))
    found = head.columns.by_name.get("c")
    return 0 if found is None else 1 + TYPES.index(found.type)


def positions(versions: list[Any]) -> Any:
    """Versions [time, rows, after]: rows count from 1; `after` is the row that they follow, 0 for none."""
    files = []
    places: list[tuple[VersionId, int]] = []
    for number, (time, count, after) in enumerate(versions, start=1):
        chunk = chunk_of(FIELDS, PARTITION, len(places) + 1, count)
        ops = Ops()
        if after:
            anchor = _row(*places[after - 1])
            ops = Ops(rows=RowOps(insertions=(Insertion(0, np.zeros(1, np.uint32), anchor),)))
        id, file = _version(time, number, "write", ops, chunk_columns([chunk]))
        files.append(file)
        places += [(id, offset) for offset in range(count)]
    head = Head("t", State(FOLDER).joined(files).log, Settings(columns=None, partition_by=("p",)))
    return [row["a"] for row in rows_of(head, MemoryStore("memory://replay"))]


def inserted(versions: list[Any]) -> Any:
    """Versions [time, seen, insertions], an insertion being the row it follows and its content: what each is
    known as, counted from 1 as listed, and how many are in the table."""
    base, file = _version(0, len(versions) + 1, "append", Ops(), chunk_columns([_chunk(7, 2)]))
    files, listed = [file], []
    for number, (time, seen, made) in enumerate(versions, start=1):
        rows = tuple(
            Insertion(ordinal, np.zeros(1, np.uint32), _row(base, after - 1))
            for ordinal, (after, _) in enumerate(made)
        )
        clock = {"p": None, "c": {at + 1: 1 for at in seen}}
        chunks = chunk_columns([_chunk(content, 1) for _, content in made])
        id, file = _version(time, number, "write", Ops(rows=RowOps(insertions=rows)), {**chunks, **clock})
        files.append(file)
        listed += [(id, ordinal) for ordinal in range(len(made))]
    head = Head("t", State(FOLDER).joined(files).log, Settings(columns=None, partition_by=("p",)))
    log, folded = head.log, head.folded
    found = insertions(log, {at: op.rows for at, op in folded.ops.items() if op.rows})
    twin = twins(log, found, folded.clocks)
    places = [int(log.chunk_start[log.index_of(id)]) + ordinal for id, ordinal in listed]
    return [[1 + places.index(twin.get(chunk, chunk)) for chunk in places], head.row_count - 2]


def _chunk(content: int, rows: int) -> Chunk:
    return chunk_of(FIELDS, PARTITION, content, rows)


def _row(id: VersionId, offset: int) -> RowIds:
    tags = Tags(np.array([id.to_bytes()], "S36"), np.zeros(1, np.uint32))
    return RowIds(tags, np.zeros(1, np.uint32), *(np.array([at], np.uint32) for at in (offset, offset + 1)))


def _version(
    time: int, writer: int, operation: str, ops: Ops, more: dict[str, Any] | None = None
) -> tuple[VersionId, tuple[str, bytes]]:
    stamp = {"h": time, "w": writer, "s": 1, "l": FOLDER, "o": OPERATIONS.index(operation)}
    id, data = encode_version({**(more or {}), **stamp, "x": ops.encode()})
    return id, (version_name(FOLDER, id), data)

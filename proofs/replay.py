"""The Python side of every question in `vectors.py`: the library's own functions, by their public names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from crdtcat.clock import VectorClock, VersionId, hlc
from crdtcat.format.ops import ColumnId, Ops
from crdtcat.format.row_ids import KeyedTag
from crdtcat.format.schema_code import StoredField
from crdtcat.format.settings import Settings
from crdtcat.format.version import OPERATIONS, encode_version
from crdtcat.head import Head
from crdtcat.intervals.interval_set import IntervalSet
from crdtcat.lattice import GCounter, LatticeMap, LWWRegister, ORSet
from crdtcat.log import State
from crdtcat.protocol import version_name
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.invariants import rows_of
from crdtcat.testing.made_versions import FOLDER, Chunk, chunk_columns, chunk_of
from proofs.replay_logs import bundle, claims, compacted, expired, overlap, pruned
from proofs.replay_merges import joined, orders, repeated, statistics
from proofs.replay_tables import column, inserted, keyed, positions

FIELDS = (StoredField("a", ColumnId("a"), "int64"),)
PARTITIONS = (b"\x91\x01", b"\x91\x02")


def answer(operation: str, arguments: list[Any]) -> Any:
    """What the library answers, in the form of `vectors.py`."""
    return ANSWERS[operation](*arguments) if operation not in WHOLE else WHOLE[operation](arguments)


def _clock(a: list[Any], b: list[Any]) -> Any:
    merged = VectorClock(dict(a)).merge(VectorClock(dict(b)))
    return [[writer, merged[writer]] for writer in sorted(merged)]


def _counter(a: list[Any], b: list[Any]) -> Any:
    merged = GCounter(dict(a)).merge(GCounter(dict(b)))
    return [merged.value, [[writer, count] for writer, count in sorted(merged.counts.items())]]


def _or_set(a: list[Any], b: list[Any]) -> Any:
    merged: ORSet[int, int] = ORSet(dict(a[0]), a[1]).merge(ORSet(dict(b[0]), b[1]))
    return [[[dot, element] for dot, element in sorted(merged.live.items())], sorted(merged.removed)]


def _registers(a: list[Any], b: list[Any]) -> Any:
    first, second = (
        LatticeMap({name: LWWRegister(stamp, value) for name, stamp, value in side}) for side in (a, b)
    )
    merged: Any = first.merge(second)
    return [[name, merged[name].stamp, merged[name].value] for name in sorted(merged)]


def _order(ids: list[Any]) -> Any:
    """By the names of version files, which is what a listing sorts by."""
    found = {
        str(VersionId(time, writer, seq, digest.to_bytes(16, "big"))) for time, writer, seq, digest in ids
    }
    back = [VersionId.parse(text) for text in sorted(found)]
    assert back == sorted(back)
    return [[id.hlc, id.writer, id.seq, int.from_bytes(id.digest, "big")] for id in back]


def _set(runs: list[Any]) -> IntervalSet:
    return IntervalSet([start for start, _ in runs], [stop for _, stop in runs])


def _runs(found: IntervalSet) -> Any:
    return [[start, stop] for start, stop in found]


class Version(NamedTuple):
    """One version of a history of single rows.

    Attributes:
        time: its hybrid timestamp.
        writer: who.
        seq: its writer's count.
        key: idempotency key, 0 for none.
        row: the row it adds, 0 for none.
        scope: 0 no overwrite, 1 of everything, 2 and 3 of one partition.
        partition: of the row it adds.
        deleted: rows it deletes.
        properties: [name, value] pairs.
    """

    time: int
    writer: int
    seq: int
    key: int
    row: int
    scope: int
    partition: int
    deleted: list[int]
    properties: list[list[int]]


def _head(versions: list[Any]) -> Any:
    """Real version files, joined and folded."""
    table, ids = _folded(versions)
    standing = {version.id for version in table.history}
    rows = rows_of(table, MemoryStore("memory://replay")) if table.columns.all else []
    properties = sorted((int(name), value) for name, value in table.properties.items())
    return [
        [int(id in standing) for id in ids],
        sorted(row["a"] for row in rows),
        [[name, value] for name, value in properties],
    ]


def _history(versions: list[Any]) -> Any:
    """Their history, as places in the question."""
    table, ids = _folded(versions)
    assert table.version == len(table.history)
    return [1 + ids.index(version.id) for version in table.history]


def _folded(versions: list[Any]) -> tuple[Head, list[VersionId]]:
    parsed = [Version(*version) for version in versions]
    made: dict[int, tuple[VersionId, Version, Chunk | None]] = {}
    files, ids = [], []
    for version in parsed:
        chunk = chunk_of(FIELDS, PARTITIONS[version.partition], version.row, 1) if version.row else None
        id, data = encode_version(
            {
                **chunk_columns([chunk] if chunk else []),
                "h": version.time,
                "w": version.writer,
                "s": version.seq,
                "l": FOLDER,
                "o": OPERATIONS.index("overwrite" if version.scope else "append" if chunk else "delete"),
                "k": f"key {version.key}" if version.key else None,
                "x": _ops(version, [made[row] for row in version.deleted]).encode(),
            }
        )
        if version.row:
            made[version.row] = (id, version, chunk)
        ids.append(id)
        files.append((version_name(FOLDER, id), data))
    log = State(FOLDER).joined(files).log
    return Head("t", log, Settings(columns=None, partition_by=("p",))), ids


def _ops(version: Version, removed: list[tuple[VersionId, Version, Chunk | None]]) -> Ops:
    plain = [id for id, other, _ in removed if not other.key]
    keyed = [
        KeyedTag(f"key {other.key}", chunk.hash, 0) for _, other, chunk in removed if other.key and chunk
    ]
    return Ops(
        properties={str(name): value for name, value in version.properties},
        removed_versions=np.array([id.to_bytes() for id in plain], "S36"),
        removed_ordinals=np.zeros(len(plain), np.uint32),
        removed_keyed=tuple(keyed),
        is_overwrite=version.scope > 0,
        scope=frozenset([PARTITIONS[version.scope - 2]]) if version.scope > 1 else None,
    )


ANSWERS: dict[str, Callable[..., Any]] = {
    "tick": hlc.tick,
    "receive": hlc.receive,
    "clock": _clock,
    "counter": _counter,
    "set": _or_set,
    "registers": _registers,
    "union": lambda a, b: _runs(_set(a).union(_set(b))),
    "intersection": lambda a, b: _runs(_set(a).intersection(_set(b))),
    "difference": lambda a, b: _runs(_set(a).difference(_set(b))),
    "column": column,
    "overlap": overlap,
    "bundle": bundle,
    "expired": expired,
    "claims": claims,
    "pruned": pruned,
    "joined": joined,
    "repeated": repeated,
}
WHOLE: dict[str, Callable[[list[Any]], Any]] = {
    "order": _order,
    "head": _head,
    "history": _history,
    "compacted": compacted,
    "keyed": keyed,
    "positions": positions,
    "insertions": inserted,
    "statistics": statistics,
    "orders": orders,
}

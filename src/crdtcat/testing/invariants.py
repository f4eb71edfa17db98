"""What must hold of logs and heads, as functions that raise `AssertionError` with the reason.

`log_value` is a log's whole content as one comparable value: two logs of the same files are equal in all of
it. `head_value` is everything a reader is promised (P3): rows, order, schema, root hash, snapshot,
conflicts. `check_log` is the canonical form that every function over logs relies on, `check_read` what a read
owes to whoever committed before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.segment import segment_name
from crdtcat.head import Head
from crdtcat.log import Log, State
from crdtcat.log.log import NONE
from crdtcat.log.statistics import to_sections
from crdtcat.log.transactions import transactions_in
from crdtcat.protocol.names import TRANSACTIONS, last
from crdtcat.scan import Scan
from crdtcat.store import Store

_ARRAYS = (
    "ids", "operation", "number", "schema", "time_min", "time_max", "chunk_start", "hash", "rows", "nbytes",
    "partition", "chunk_schema", "kind", "place_chunk", "place_segment", "place_group", "segment_name",
    "segment_size", "segment_digest", "segment_footer",
)  # fmt: skip
_BLOBS = ("key", "metadata", "clock", "ops", "transaction")


def log_value(log: Log) -> dict[str, Any]:
    """Everything in a log, in plain values. Equal logs have equal values."""
    value: dict[str, Any] = {name: getattr(log, name).tolist() for name in _ARRAYS}
    value |= {name: getattr(log, name).to_pylist() for name in _BLOBS}
    value |= {"schemas": log.schemas, "partitions": log.partitions, "inline": dict(log.inline)}
    value["horizon"] = log.horizon
    listed, columns = to_sections(log.statistics)
    value["statistics"] = [listed, {name: column.tolist() for name, column in columns.items()}]
    return value


def head_value(head: Head) -> dict[str, Any]:
    """Everything two readers of the same versions must agree on, but the rows' bytes."""
    return {
        "snapshot": head.snapshot.id,
        "token": str(head.snapshot),
        "root": head.root_hash,
        "chunks": list(head.chunks),
        "schema": head.schema,
        "properties": head.properties,
        "conflicts": head.conflicts,
        "history": list(head.history),
        "void": list(head.void),
        "clock": head.clock,
        "rows": head.row_count,
        "commits": head.commits,
    }


def rows_of(head: Head, store: Store) -> list[dict[str, Any]]:
    """The rows of a head, in order, as users see them, every byte verified."""
    scan = Scan(head, store, columns=None, filter=None, verify=True, footers=FooterCache())
    if not head.columns.all:  # all were dropped, some by people who did not know of each other
        return [{} for _ in range(head.row_count)]
    rows: list[dict[str, Any]] = scan.to_table().to_pylist()
    return rows


def check_log(log: Log) -> None:
    """The canonical form: rising ids, rising places over used segments, used values in rising order."""
    ids = log.ids
    assert (ids[:-1] < ids[1:]).all(), "versions must rise by id, each once"
    assert log.chunk_start[0] == 0, "the first version's chunks begin at 0"
    assert log.chunk_start[-1] == log.chunk_count == len(log.rows), "every chunk belongs to a version"
    assert (np.diff(log.chunk_start) >= 0).all(), "chunk ranges must not overlap"
    places = list(
        zip(log.place_chunk.tolist(), log.place_segment.tolist(), log.place_group.tolist(), strict=True)
    )
    assert places == sorted(set(places)), "places must rise, each once"
    _check_used("segments", log.segment_name.tolist(), log.place_segment)
    _check_used("schemas", list(log.schemas), np.concatenate((log.schema, log.chunk_schema)))
    _check_used("partitions", list(log.partitions), log.partition)
    for chunk in range(log.chunk_count):
        version = int(log.chunk_version[chunk])
        tag = (log.id_at(version).to_bytes(), chunk - int(log.chunk_start[version]))
        stored = bool((log.place_chunk == chunk).any())
        assert stored != (tag in log.inline), f"chunk {chunk} must be in a segment or inlined, not both"
    assert len(log.inline) == log.chunk_count - len(set(log.place_chunk.tolist())), "inlined rows of nobody"


def _check_used(what: str, values: list[bytes], index: Any) -> None:
    assert values == sorted(set(values)), f"{what} must rise, each once"
    used = set(index[index != NONE].tolist())
    assert used == set(range(len(values))), f"{what} that nothing refers to"


def check_read(state: State, must: AbstractSet[str], objects: AbstractSet[str], who: str) -> None:
    """What a read owes: every acknowledged version, nothing without what came before it, rows for all of it.

    Args:
        state: what was read.
        must: names of version files acknowledged before the read began.
        objects: names of everything stored now.
        who: read it, for the message.
    """
    found = {str(state.log.id_at(at)) for at in range(len(state.log))}
    check_acknowledged(state, found, must, who)
    assert not state.gaps(), f"{who} holds a version without those before it"
    check_claims(state.log, who)
    names = state.log.segment_name.tobytes()
    titles = [names[at : at + 24] for at in range(0, len(names), 24)]
    for chunk in range(state.log.chunk_count):
        version = int(state.log.chunk_version[chunk])
        id, ordinal = state.log.id_at(version), chunk - int(state.log.chunk_start[version])
        places = state.log.place_segment[state.log.place_chunk == chunk].tolist()
        stored = any(segment_name(titles[at][:16], titles[at][16:]) in objects for at in places)
        inlined = (id.to_bytes(), ordinal) in state.log.inline
        assert stored or inlined, f"{who} shows version {id}, whose rows are nowhere"


def check_whole(logs: Mapping[str, Log], who: str) -> None:
    """Every transaction is in each of these logs, by folder, that it touches, or in none of them."""
    here = {folder: transactions_in(log) for folder, log in logs.items()}
    for folder, found in here.items():
        for writer, item in found.items():
            torn = [other for other in item.folders & logs.keys() if writer not in here[other]]
            assert not torn, f"{who} has transaction {writer:016x} in {folder}, and not in {torn[0]}"


def check_claims(log: Log, who: str) -> None:
    """History is one line: every number once, none left out, and ids that rise with them."""
    numbers = log.number[log.number > 0].tolist()
    assert numbers == sorted(set(numbers)), f"{who} sees claims out of order: {numbers}"
    assert not numbers or numbers[-1] - numbers[0] == len(numbers) - 1, f"{who} misses a claim: {numbers}"


def check_acknowledged(state: State, found: AbstractSet[str], must: AbstractSet[str], who: str) -> None:
    """Every version of this log is found; a transaction unless it turned out not to be for this log."""
    lost = sorted(
        name
        for name in must - state.elsewhere
        if (name.startswith(state.folder) and last(name).removesuffix(".v") not in found)
        or (name.startswith(TRANSACTIONS) and state.missing([name]))
    )
    assert not lost, f"{who} misses what was acknowledged: {', '.join(lost)}"

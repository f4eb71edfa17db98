"""Restore: the table as it was, as a new version over the old chunks.

Nothing goes back: what is there now is removed by name, what was there then is added again under new tags,
and definitions and drops make the columns what they were. So a restore merges like any other overwrite, and
can itself be undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crdtcat.cas.standing_back import stand_back
from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.types import encode_type
from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import InvalidArgument
from crdtcat.format.ops import Definition, Ops
from crdtcat.format.schema_code import encode_schema
from crdtcat.format.sections import Array
from crdtcat.head import Head, Version
from crdtcat.log.bodies import partition_values
from crdtcat.log.log import NONE, Log
from crdtcat.protocol import Put
from crdtcat.scan import Scan
from crdtcat.scan.merge_plan import only_adds
from crdtcat.session import Session
from crdtcat.verbs.rows import check_commit, new_stager, removals
from crdtcat.verbs.travel import At, head_at
from crdtcat.writing.fit import fit, known_from_head
from crdtcat.writing.inlined import inlined_bytes, inlined_chunks, moved_to_segments
from crdtcat.writing.knowledge import known_after
from crdtcat.writing.staged import require_in_time


def restore(session: Session, at: At, *, metadata: Mapping[str, Any] | None = None) -> Version:
    """Make the table what it was: same rows, same order, same columns, as a new version over the old chunks.

    No data is copied but what was inlined, unless rows were changed one by one, or keys deleted: then they
    are read and stored as they were, in a partitioned table a chunk for each run of rows of one partition.
    (If these are more than a thousand and of a few rows each, partition by partition.) Rows that others add
    meanwhile survive, as with an overwrite.
    """
    check_commit(metadata, None)
    if at is None:
        raise InvalidArgument("restore to what? Pass a tag, a version, a snapshot or a moment")
    stand_back(session, reads=True)
    since_ms = wall_ms()
    then = head_at(session, at)
    now = session.head(refresh=False)
    body, puts = (
        _readded(then, session.options.inline_bytes) if only_adds(then) else _staged_again(session, then)
    )
    ops = Ops(is_overwrite=True, **_column_changes(now, then), **removals(now, now.live))
    require_in_time(since_ms)
    version = session.commit(
        "restore", body={**body, "x": ops.encode()}, puts=puts, metadata=metadata, seen=now
    )
    session.learn(known_after(now.columns, ops, version.id), version.id)
    return version


def _staged_again(session: Session, head: Head) -> tuple[dict[str, Any], Sequence[Put]]:
    """A version's keys that add the rows of a head whose rows were changed one by one, as new chunks."""
    scan = Scan(
        head, session.store, columns=None, filter=None, verify=session.options.verify, footers=FooterCache()
    )
    stager = new_stager(session, fit(scan.schema, known_from_head(head.columns), evolve=False))
    stager.in_order = True
    stager.add_all(scan.to_reader())
    return stager.finish(), stager.puts


def _column_changes(now: Head, then: Head) -> dict[str, Any]:
    """Definitions and drops that make the columns what they were."""
    defined: list[Definition] = []
    kept: set[Any] = set()
    for column in then.columns.all:
        current = now.columns.by_name.get(column.name)
        kept |= column.instances
        if current is not None and (current.type, current.position, current.instances) == (
            column.type,
            column.position,
            column.instances,
        ):
            continue
        old = tuple(
            sorted({id for c in now.columns.all if c.instances & column.instances for id in c.definitions})
        )
        defined += [
            Definition(instance, column.name, encode_type(column.type), column.nullable, column.position, old)
            for instance in sorted(column.instances)
        ]
    drops = sorted({instance for column in now.columns.all for instance in column.instances} - kept)
    return {"definitions": tuple(defined), "drops": tuple(drops)}


def _readded(head: Head, inline_bytes: int) -> tuple[dict[str, Any], tuple[Put, ...]]:
    """A version's keys that add the live chunks of a head again, over the same segments."""
    log, chunks = head.log, head.live
    puts: tuple[Put, ...] = ()
    loose = np.intersect1d(inlined_chunks(log), chunks)
    if sum(len(inlined_bytes(log, int(chunk))) for chunk in loose) > inline_bytes:
        moved = moved_to_segments(log)
        log, puts, loose = moved.log, moved.puts, loose[:0]
    schemas, which = _schemas(head, chunks)
    body: dict[str, Any] = {
        "f": schemas or None,
        "j": which if len(schemas) > 1 else None,
        "y": log.hash[chunks].tobytes() or None,
        "n": log.rows[chunks].tolist() or None,
        "z": log.nbytes[chunks].tolist() or None,
        "e": _statistics(log, chunks) or None,
    }
    if len(chunks) and (log.partition[chunks] != NONE).any():
        body["q"] = partition_values(log, log.partition[chunks])
    if len(loose):
        in_file = set(loose.tolist())
        body["i"] = [inlined_bytes(log, chunk) if chunk in in_file else None for chunk in chunks.tolist()]
    return body | _places(log, chunks), puts


def _schemas(head: Head, chunks: Array) -> tuple[list[bytes], list[int]]:
    """Packed schemas of chunks, and which each has.

    A field that a drop had ended for its version is left out: added again by a version that no drop has
    seen, it would be shown again.
    """
    log, columns = head.log, head.columns
    numbers: dict[bytes, int] = {}
    known: dict[tuple[int, int], int] = {}
    which = []
    pairs = np.stack((log.chunk_schema[chunks], log.chunk_version[chunks]), axis=1).tolist()
    for schema, version in pairs:
        key = (schema, version if columns.hidden else 0)
        if key not in known:
            shown = [field for field in columns.fields(schema) if not columns.is_hidden(field, version)]
            known[key] = numbers.setdefault(encode_schema(shown), len(numbers))
        which.append(known[key])
    return list(numbers), which


def _places(log: Log, chunks: Array) -> dict[str, Any]:
    position = np.full(log.chunk_count, -1, np.int64)
    position[chunks] = np.arange(len(chunks))
    used = np.flatnonzero(position[log.place_chunk] >= 0)
    if not len(used):
        return {}
    segments, which = np.unique(log.place_segment[used], return_inverse=True)
    names = log.segment_name.tobytes()
    rows = [
        [
            names[at * 24 : at * 24 + 24],
            int(log.segment_size[at]),
            log.segment_digest[at].tobytes(),
            int(log.segment_footer[at]),
        ]
        for at in segments.tolist()
    ]
    places = np.stack((position[log.place_chunk[used]], which, log.place_group[used]), axis=1)
    return {"g": rows, "a": places.ravel().tolist()}


def _statistics(log: Log, chunks: Array) -> dict[str, Any]:
    """Statistics of some chunks in a version file's form. A column kept in two domains loses its bounds."""
    position = np.full(log.chunk_count, -1, np.int64)
    position[chunks] = np.arange(len(chunks))
    found: dict[str, list[Any]] = {}
    columns = log.statistics.columns()
    for name, code in sorted(columns):
        bounds = log.statistics.bounds(name, code)
        if bounds is None:
            continue
        several = sum(column == name for column, _ in columns) > 1
        lists = found.setdefault(
            name, ["-" if several else code, *([None] * len(chunks) for _ in range(2)), [-1] * len(chunks)]
        )
        for row in np.flatnonzero(position[bounds.chunk] >= 0).tolist():
            at = int(position[bounds.chunk[row]])
            lists[3][at] = int(bounds.nulls[row])
            if bounds.known[row] and not several:
                lists[1][at], lists[2][at] = _plain(bounds.low[row]), _plain(bounds.high[row])
    return found


def _plain(value: Any) -> Any:
    return value.as_py() if hasattr(value, "as_py") else value.item()

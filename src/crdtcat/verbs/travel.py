"""Time travel: `at=` in all its forms, tags, restore."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from crdtcat.chunks.types import encode_type
from crdtcat.clock import VersionId, hlc
from crdtcat.errors import (
    AlreadyExists,
    Corrupt,
    Expired,
    InvalidArgument,
    InvalidName,
    LimitExceeded,
    NotFound,
)
from crdtcat.format.frame import FORMAT_NUMBER
from crdtcat.format.ops import Definition, Ops
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.format.sections import Array
from crdtcat.head import Head, Snapshot, Version
from crdtcat.head.clocks import seen_by
from crdtcat.head.snapshot import is_token, snapshot_id
from crdtcat.log import select
from crdtcat.log.log import ID, NONE, Log
from crdtcat.names import validate_tag_name
from crdtcat.protocol import Put
from crdtcat.session import Session
from crdtcat.store import Missing
from crdtcat.verbs.rows import check_commit, removals
from crdtcat.writing.inlined import inlined_bytes, inlined_chunks, moved_to_segments

At = Snapshot | VersionId | datetime | str
"""A snapshot or its token, a version id, a tag's name, or a moment (naive means UTC)."""


def head_at(session: Session, at: At | None) -> Head:
    """The head at a moment, a version, a tag or a snapshot; `None` is now.

    Costs a refresh, and one GET for a tag. Versions and moments are resolved once, here, against what is
    known now: `head.snapshot` is the name under which it can be had again.

    Raises:
        NotFound: no such tag, version or snapshot; or nothing had been committed by then.
        Expired: the snapshot holds versions this table no longer has.
        InvalidArgument: not one of the forms.
    """
    if at is None:
        return session.head()
    if isinstance(at, str):
        at = _parse(session, at)
    log = session.head().log
    if isinstance(at, Snapshot):
        return _at_snapshot(session, log, at)
    if isinstance(at, VersionId):
        if log.index_of(at) < 0:
            raise NotFound(f"table {session.table!r} has no version {at}")
        chosen = log.ids <= np.array([at.to_bytes()], ID)[0]
    elif isinstance(at, datetime):
        chosen = _by(log, at)
        if not chosen.any():
            raise NotFound(f"table {session.table!r} has no version as old as {at.isoformat()}")
    else:
        raise InvalidArgument(f"at={at!r}: pass a Snapshot, a version id, a tag, a datetime, or None")
    return Head(session.table, select(log, chosen), session.settings)


def _parse(session: Session, text: str) -> Snapshot | VersionId | datetime:
    if is_token(text):
        return Snapshot.parse(text)
    if _is_version_id(text):
        return VersionId.parse(text)
    found = read_tag(session, text)
    if found is not None:
        return found
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise NotFound(f"table {session.table!r} has no tag {text!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _is_version_id(text: str) -> bool:
    return len(text) == 75 and text.count("-") == 3


def _by(log: Log, moment: datetime) -> Array:
    """Which versions were committed by a moment, by their writers' clocks."""
    try:
        found: Array = log.id_fields["hlc"] <= hlc.from_datetime(moment)
    except LimitExceeded:  # before 1970: no version is
        found = np.zeros(len(log), bool)
    return found


def _at_snapshot(session: Session, log: Log, snapshot: Snapshot) -> Head:
    chosen = select(log, seen_by(snapshot.clock, log)) if len(log) else log
    if len(chosen) < snapshot.versions:
        raise Expired(
            f"snapshot {snapshot.id[:12]} holds {snapshot.versions} versions, and {session.table!r} has "
            f"{len(chosen)} of them: they were expired, or the snapshot is of another table"
        )
    if snapshot_id(chosen) != snapshot.id:
        raise NotFound(f"snapshot {snapshot.id[:12]} is not of table {session.table!r}")
    return Head(session.table, chosen, session.settings)


def _tag_name(session: Session, name: str) -> str:
    incarnation = session.settings.incarnation
    folder = "tags" if incarnation == 1 else f"tags~{incarnation}"
    return f"tables/{session.table}/refs/{folder}/{validate_tag_name(name)}.json"


def write_tag(session: Session, name: str, at: At | None, *, replace: bool) -> Snapshot:
    """Name a snapshot. One PUT after resolving `at`. Raises `AlreadyExists` unless `replace`."""
    path = _tag_name(session, name)
    if is_token(name) or _is_version_id(name):
        raise InvalidName(f"tag name {name!r} looks like a snapshot token or a version id: choose another")
    snapshot = head_at(session, at).snapshot
    data = seal_json({"format": FORMAT_NUMBER, "snapshot": str(snapshot)})
    if replace:
        session.store.put(path, data)
    elif not session.store.put_if_absent(path, data):
        raise AlreadyExists(
            f"table {session.table!r} already has a tag {name!r}; pass replace=True to move it"
        )
    return snapshot


def read_tag(session: Session, name: str) -> Snapshot | None:
    """The snapshot a tag names, or `None`. One GET."""
    try:
        path = _tag_name(session, name)
    except ValueError:
        return None
    try:
        data = session.store.get(path)
    except Missing:
        return None
    try:
        return Snapshot.parse(unseal_json(data, path)["snapshot"])
    except (InvalidArgument, KeyError) as error:
        raise Corrupt(path, "not a tag") from error


def list_tags(session: Session) -> dict[str, Snapshot]:
    """All tags. One LIST and one GET for each."""
    folder = _tag_name(session, "x").removesuffix("x.json")
    names = [item.name.removeprefix(folder).removesuffix(".json") for item in session.store.list(folder)]
    found = {name: read_tag(session, name) for name in names}
    return {name: snapshot for name, snapshot in found.items() if snapshot is not None}


def delete_tag(session: Session, name: str) -> None:
    """Remove a tag. Raises `NotFound`."""
    if read_tag(session, name) is None:
        raise NotFound(f"table {session.table!r} has no tag {name!r}")
    session.store.delete([_tag_name(session, name)])


def restore(session: Session, at: At, *, metadata: Mapping[str, Any] | None = None) -> Version:
    """Make the table what it was: same rows, same order, same columns, as a new version over the old chunks.

    No data is copied but what was inlined. Rows that others add meanwhile survive, as with an overwrite.
    """
    check_commit(metadata, None)
    then = head_at(session, at)
    now = session.head(refresh=False)
    body, puts = _readded(then, session.options.inline_bytes)
    ops = Ops(is_overwrite=True, **_column_changes(now, then), **removals(now, now.live))
    return session.commit("restore", body={**body, "x": ops.encode()}, puts=puts, metadata=metadata, seen=now)


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
    schemas, which = np.unique(log.chunk_schema[chunks], return_inverse=True)
    body: dict[str, Any] = {
        "f": [log.schemas[at] for at in schemas.tolist()] or None,
        "j": which.tolist() if len(schemas) > 1 else None,
        "y": log.hash[chunks].tobytes() or None,
        "n": log.rows[chunks].tolist() or None,
        "z": log.nbytes[chunks].tolist() or None,
        "e": _statistics(log, chunks) or None,
    }
    if len(chunks) and (log.partition[chunks] != NONE).any():
        body["q"] = [log.partitions[at] for at in log.partition[chunks].tolist()]
    if len(loose):
        in_file = set(loose.tolist())
        body["i"] = [inlined_bytes(log, chunk) if chunk in in_file else None for chunk in chunks.tolist()]
    return body | _places(log, chunks), puts


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

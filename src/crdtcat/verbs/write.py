"""`write`: the table becomes what is handed in, and only what differs travels.

Old and new rows are compared chunk by chunk by their hashes, and where those differ row by row
(`crdtcat.difference`). Rows that stayed are left alone; changed cells become overlays, new rows are inserted
where they stand, rows that are gone are deleted. So two who write at once merge row by row, and a table of
which a twentieth changed stores a twentieth, wherever it changed.

Columns become those of the data too: new ones are added, missing ones dropped, a type that does not fit is
widened, or becomes a new column of the name. They stand in the data's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from crdtcat.cas.reading import EVERYTHING
from crdtcat.cas.standing_back import head_to_change
from crdtcat.chunks.partitions import parse_partitioning
from crdtcat.difference import EditScript, difference
from crdtcat.errors import InvalidArgument
from crdtcat.format.kinds import OVERLAY
from crdtcat.format.ops import Ops
from crdtcat.format.row_ops import Insertion, Overlay, RowOps
from crdtcat.format.schema_code import StoredField
from crdtcat.head import Head, Version
from crdtcat.head.naming import row_ids
from crdtcat.intervals.runs import Integers
from crdtcat.protocol import Put
from crdtcat.session import Session
from crdtcat.support.showing import shown
from crdtcat.verbs.become import Becoming, becoming
from crdtcat.verbs.rows import check_commit, new_stager, removals
from crdtcat.verbs.write_places import apart, places, tail
from crdtcat.verbs.write_sides import NewSide, OldSide
from crdtcat.writing.bodies import joined_bodies
from crdtcat.writing.incoming import Incoming
from crdtcat.writing.knowledge import known_after, known_with
from crdtcat.writing.made import MadeChunk, stage_made
from crdtcat.writing.reuse import places_in

OVERLAYS_MAX: Final = (
    8  # sets of columns that changed together; beyond it each column is an overlay of its own
)


def write(
    session: Session,
    data: Any,
    *,
    on: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Version:
    """Make the table equal `data`. A refresh, a read of chunks that differ, then 1 to 3 PUTs."""
    check_commit(metadata, key)
    head = head_to_change(session)
    session.looked(head, EVERYTHING)
    known = known_with(head, session.known)
    rows = Incoming.of(data).reader(known).read_all()
    become = becoming(head, rows, known)
    partitioning = parse_partitioning(session.settings.partition_by)
    new = NewSide(rows, become.fit, session.options, partitioning)
    old = OldSide(head, session, become.fit.schema, partitioning, new.partitions)
    script = difference(old.chunks, old.schema, new.rows, new.chunks, key=_key(on, become))
    script = apart(script, old.ends, new.ends)
    work = _Work(session, head, become, old, new)
    body, puts, ops = work.edited(script) if script.kept_rows or len(script.updated_old) else work.replaced()
    version = session.commit(
        "write", body={**body, "x": ops.encode()}, puts=puts, metadata=metadata, key=key, seen=head
    )
    became = known_after(head.columns, ops, version.id)
    session.learn({**became, **become.fit.known(version.id)}, version.id)
    return version


def _key(on: Sequence[str] | None, become: Becoming) -> Sequence[str] | None:
    if on is None:
        return None
    names = become.fit.schema.names
    if not isinstance(on, list | tuple) or not on or any(name not in names for name in on):
        raise InvalidArgument(f"on={shown(on)}: pass a list of columns that the rows have")
    return on


class _Work:
    """From an edit script to a version."""

    def __init__(self, session: Session, head: Head, become: Becoming, old: OldSide, new: NewSide) -> None:
        self._session, self._head, self._become, self._old, self._new = session, head, become, old, new

    def replaced(self) -> tuple[dict[str, Any], list[Put], Ops]:
        """Nothing stays: the rows that are there go, the new ones are appended."""
        head = self._head
        stager = new_stager(self._session, self._become.fit, reuse=places_in(head.log, head.live))
        stager.add(self._new.shown)
        removed = removals(head, head.live)
        ops = Ops(definitions=self._become.definitions, drops=self._become.drops, **removed)
        return stager.finish(), stager.puts, ops

    def edited(self, script: EditScript) -> tuple[dict[str, Any], list[Put], Ops]:
        """What the script says, as overlays, insertions, appended rows and deletes."""
        runs = places(script, self._old.ends, self._new.ends)
        behind, others = tail(script, runs)
        appended, puts = self._appended(behind)
        first = len(appended.get("n") or ())
        inserted, insertions = self._inserted(others, first)
        overlays, over = self._overlaid(script, first + len(inserted))
        made = stage_made([*inserted, *overlays], self._session.options.inline_bytes)
        gone = row_ids(self._head, *self._old.locate(script.deleted)) if len(script.deleted) else None
        done = RowOps(deletes=gone, overlays=over, insertions=insertions)
        ops = Ops(definitions=self._become.definitions, drops=self._become.drops, rows=done)
        return joined_bodies([appended, made.body]), [*puts, *made.puts], ops

    def _appended(self, runs: Integers) -> tuple[dict[str, Any], list[Put]]:
        """New rows behind all others: no row need be named for them to stand where they belong."""
        if not len(runs):
            return {}, []
        head = self._head
        stager = new_stager(self._session, self._become.fit, reuse=places_in(head.log, head.live))
        for _, start, length in runs.tolist():
            stager.add(self._new.shown.slice(start, length))
        return stager.finish(), stager.puts

    def _inserted(self, runs: Integers, first: int) -> tuple[list[MadeChunk], tuple[Insertion, ...]]:
        """New rows between others, behind the row each run follows."""
        chunks: list[MadeChunk] = []
        insertions: list[Insertion] = []
        for partition, within in self._new.by_partition(runs):
            for group in _groups(within, self._new.target):
                rows = self._new.take(np.concatenate([np.arange(at, at + n) for _, at, n in group.tolist()]))
                starts = np.concatenate(([0], np.cumsum(group[:-1, 2]))).astype(np.uint32)
                insertions.append(Insertion(first + len(chunks), starts, self._old.anchors(group[:, 0])))
                chunks.append(MadeChunk(rows, self._become.fit.fields, partition=partition))
        return chunks, tuple(insertions)

    def _overlaid(self, script: EditScript, first: int) -> tuple[list[MadeChunk], tuple[Overlay, ...]]:
        chunks: list[MadeChunk] = []
        overlays: list[Overlay] = []
        fields = {field.name: field for field in self._become.fit.fields}
        for names, which in change_sets(script):
            stored: tuple[StoredField, ...] = tuple(fields[name] for name in names)
            pieces = np.array_split(which, max(1, -(-len(which) // self._new.target)))
            for piece in pieces:
                rows = self._new.take(script.updated_new[piece], names)
                entry, offset = self._old.locate(script.updated_old[piece])
                overlays.append(Overlay(first + len(chunks), row_ids(self._head, entry, offset)))
                chunks.append(MadeChunk(rows, stored, OVERLAY))
        return chunks, tuple(overlays)


def change_sets(script: EditScript) -> Iterator[tuple[list[str], Integers]]:
    """(columns, updated rows in which exactly these changed), or column by column if there are too many."""
    sets: list[tuple[list[str], Integers]] = [([], np.arange(len(script.updated_old)))]
    for name, changed in script.changed.items():
        halves = ((names, rows, changed[rows]) for names, rows in sets)
        split = (
            half for names, rows, its in halves for half in ((names, rows[~its]), ([*names, name], rows[its]))
        )
        sets = [half for half in split if len(half[1])]
        if len(sets) > OVERLAYS_MAX:
            sets = [([name], np.flatnonzero(changed)) for name, changed in script.changed.items()]
            break
    yield from (found for found in sets if found[0])


def _groups(runs: Integers, target: int) -> Iterator[Integers]:
    """Runs of inserted rows in groups of at most about `target` rows; a longer run is cut."""
    pieces: list[tuple[int, int, int]] = []
    held = 0
    for after, start, length in runs.tolist():
        at = 0
        while at < length:
            part = min(length - at, target - held)
            pieces.append((after, start + at, part))
            held, at = held + part, at + part
            if held >= target:
                yield np.array(pieces, np.int64)
                pieces, held = [], 0
    if pieces:
        yield np.array(pieces, np.int64)

"""Compaction of keyed tables: chunks whose keys overlap become chunks whose keys do not, and nobody notices.

What is written anew holds, per key and column, the newest cell among the chunks it replaces, with its stamp,
so a late upsert meets it as it would have met the original. Cells below a delete that was seen, and cells
that an overwrite took, are left out: the delete itself, and what the overwrite named, stay in the log, for
those who bring older cells later. Cells that a greater overwrite outdated are kept: they hide older ones.

Small chunks of a partition become one, if none of it that is not small lies between them; chunks of others
may, or overlap them (`crdtcat.maintenance.compact_plan` says how far). A group of overlapping chunks is
written as one version. Its rows come by rising key, and are stored as they come: memory is what merging
holds, and `HELD_BYTES` of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.read import FooterCache
from crdtcat.clock.hlc import wall_ms
from crdtcat.format.kinds import COPY
from crdtcat.format.ops import Ops
from crdtcat.format.row_ids import RowIds
from crdtcat.format.row_ops import Copy, RowOps, Stamps, no_tags
from crdtcat.format.schema_code import StoredField
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.head.keyed import KeyedRows
from crdtcat.head.naming import tags_of
from crdtcat.intervals.runs import Integers
from crdtcat.limits import CHUNK_BYTES_TARGET
from crdtcat.log.log import NONE
from crdtcat.maintenance.compact_overlaps import Overlaps
from crdtcat.maintenance.compact_plan import (
    Simple,
    Stretch,
    columns_rest_on,
    copy_columns,
    ended_columns,
    is_small,
    stretch_rows,
    unlike,
)
from crdtcat.protocol import Put
from crdtcat.scan.execute import Execution
from crdtcat.scan.merge import ABSENT, Folded
from crdtcat.scan.merge_plan import Group, plan_merge
from crdtcat.scan.merge_read import Reading
from crdtcat.scan.plan import make_plan
from crdtcat.session import Session
from crdtcat.writing.bodies import joined_bodies
from crdtcat.writing.made import MadeChunk, stage_made
from crdtcat.writing.staged import require_in_time

HELD_BYTES: Final = 64 * 2**20  # merged rows that are gathered before they are stored


@dataclass(frozen=True, slots=True)
class Done:
    """What was written for one group: chunks before and after, rows before and after, bytes stored."""

    chunks_before: int
    chunks_after: int
    rows_before: int
    rows: int
    bytes: int


def keyed_groups(head: Head, keyed: KeyedRows, *, least: int, target: int) -> Iterator[Group]:
    """What is worth writing anew, each in one partition: what overlaps, was deleted from, or is small."""
    simple, stretch = Simple(head), Stretch(target, stretch_rows(head))
    plan = plan_merge(head, keyed, np.arange(len(keyed.entries)))
    overlaps = Overlaps(head, keyed, plan)
    for item in plan.items:
        anew: list[Group] = []
        chunks, may_join = plan.chunks[item].tolist() if isinstance(item, slice) else item.chunks, True
        if isinstance(item, Group):
            anew = [part for part in overlaps.parts(item, simple) if overlaps.is_worth_it(part)]
            yield from anew
            may_join = len(chunks) > 1 and not item.beside  # they overlap chunks of other partitions only
        taken = {chunk for group in anew for chunk in group.chunks}
        for chunk in chunks:
            rows, partition = int(head.log.rows[chunk]), int(head.log.partition[chunk])
            nbytes = int(head.log.nbytes[chunk])
            small = is_small(rows, nbytes, least)
            if may_join and chunk not in taken and small and simple.is_chunk(chunk):
                yield from map(_joined, stretch.add(chunk, (rows, nbytes), partition, dirty=False))
            else:
                yield from map(_joined, stretch.passed(rows, partition))
    yield from map(_joined, stretch.rest())


def _joined(run: Sequence[int]) -> Group:
    return Group(tuple(run), (None,) * len(run), (), None, None)


@dataclass
class _Staged:
    """What the version of a group will say, segments to be stored before it, and since when some are."""

    since_ms: int
    body: dict[str, Any] = field(default_factory=dict)
    puts: list[Put] = field(default_factory=list)
    stamps: list[tuple[Stamps, ...]] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


def _runs(parts: Iterator[Folded]) -> Iterator[tuple[list[Folded], bool]]:
    """Merged rows, as many at a time as are held, and whether they are the last."""
    run: list[Folded] = []
    held = 0
    for part in parts:
        if held >= HELD_BYTES:
            yield run, False
            run, held = [], 0
        run.append(part)
        arrays = [*part.keys, *(cells for cells, _ in part.columns)]
        held += sum(array.nbytes for array in arrays) + part.row.nbytes * (1 + len(part.columns))
    if run:
        yield run, True


class KeyedCompactor:
    """Writes groups anew, a version for each."""

    def __init__(self, session: Session, head: Head, keyed: KeyedRows, target: int) -> None:
        self._session, self._head, self._keyed, self._target = session, head, keyed, target
        self._writer = session.upkeep_writer()
        plan = make_plan(head, [column.name for column in copy_columns(head)], None)
        self._plan = replace(plan, needed=(*plan.needed, *ended_columns(head)))
        self._execution = Execution(self._plan, session.store, FooterCache(), verify=session.options.verify)

    def write(self, group: Group) -> Done:
        """Publish one group. Reads its chunks; 1 PUT, and 1 for each `HELD_BYTES` of rows."""
        reading = Reading(self._plan)
        beside = {
            one.chunk: self._execution.stored(one.chunk, reading.names(one.chunk, only_keys=True))
            for one in group.beside
        }
        chunks = iter(group.chunks)

        def take() -> pa.Table:
            chunk = next(chunks)
            return self._execution.stored(chunk, reading.names(chunk))

        made = self._staged(_runs(reading.folded(group, take, beside)), group)
        none = np.empty(0, np.uint32)
        copies = tuple(
            Copy(ordinal, RowIds(no_tags(), none, none, none), stamps=stamps)
            for ordinal, stamps in enumerate(made.stamps)
        )
        replaced = np.array(group.chunks, np.int64)
        log = self._head.log
        done = RowOps(copies=copies, replaces=tags_of(log, replaced)[0], folded=log.ids[self._folded(group)])
        body = {**made.body, "x": Ops(rows=done).encode()}
        require_in_time(made.since_ms)
        self._session.commit("compact", body=body, puts=made.puts, seen=self._head, writer=self._writer)
        return Done(len(replaced), len(copies), int(log.rows[replaced].sum()), made.rows, made.bytes)

    def _staged(self, runs: Iterator[tuple[list[Folded], bool]], group: Group) -> _Staged:
        """Chunks of all rows; segments of all runs but the last are stored at once."""
        wanted = [column for column in self._plan.needed if column.name not in self._head.settings.key]
        staged = _Staged(since_ms=wall_ms())
        bodies: list[dict[str, Any]] = []
        for parts, is_last in runs:
            written = list(self._chunks(parts, wanted, group))
            inline_bytes = self._session.options.inline_bytes if is_last and not bodies else 0
            made = stage_made([chunk for chunk, _ in written], inline_bytes)
            if not is_last:
                for put in made.puts:
                    self._session.store.put(put.name, put.data)
            staged.puts = made.puts
            staged.stamps += [stamps for _, stamps in written]
            staged.rows += sum(len(part.row) for part in parts)
            staged.bytes += sum(len(put.data) for put in made.puts) + sum(map(len, made.body.get("i") or ()))
            bodies.append(made.body)
        staged.body = joined_bodies(bodies)
        return staged

    def _folded(self, group: Group) -> Integers:
        """The versions whose effect is in the copies, or was left out of them."""
        log = self._head.log
        replaced = np.array(group.chunks, np.int64)
        born = log.chunk_version[self._keyed.born_in(replaced)]
        deleters = [at for one in group.beside if one.deletes >= 0 for at in one.versions]
        shadows = [one.chunk for one in group.beside if one.deletes < 0]
        takers = [self._keyed.takers(chunk) for chunk in (*group.chunks, *shadows)]
        types = columns_rest_on(self._head, copy_columns(self._head), replaced)
        found = np.concatenate((born, log.chunk_version[replaced], deleters, types, *takers))
        return np.unique(found.astype(np.int64))

    def _chunks(
        self, parts: Sequence[Folded], wanted: Sequence[Column], group: Group
    ) -> Iterator[tuple[MadeChunk, tuple[Stamps, ...]]]:
        head, key = self._head, self._head.settings.key
        rows = {name: pa.concat_arrays([part.keys[at] for part in parts]) for at, name in enumerate(key)}
        stamps = dict.fromkeys(key, np.concatenate([part.row for part in parts]))
        for at, column in enumerate(wanted):
            found = np.concatenate([part.columns[at][1] for part in parts])
            if (found != ABSENT).any():
                rows[column.name] = pa.concat_arrays([part.columns[at][0] for part in parts])
                stamps[column.name] = found
        table = pa.table(rows)
        partition = int(head.log.partition[group.chunks[0]])
        packed = None if partition == NONE else head.log.partitions[partition]
        columns = {column.name: column for column in self._plan.needed}
        fields = tuple(_field(columns[name]) for name in rows)
        wide = min(table.num_rows, -(-table.nbytes // CHUNK_BYTES_TARGET))
        pieces = max(1, -(-table.num_rows // self._target), wide)
        for piece in np.array_split(np.arange(table.num_rows), pieces):
            part = table.slice(int(piece[0]), len(piece))
            stamped, kept = self._stamped(part, {name: found[piece] for name, found in stamps.items()})
            yield MadeChunk(stamped, fields, COPY, packed, key), kept

    def _stamped(self, part: pa.Table, stamps: dict[str, Integers]) -> tuple[pa.Table, tuple[Stamps, ...]]:
        """The chunk with columns of stamps, one for all fields whose cells have the same ages."""
        log = self._head.log
        alike: dict[bytes, list[str]] = {}
        for name, found in stamps.items():
            alike.setdefault(found.tobytes(), []).append(name)
        kept = []
        for number, names in enumerate(alike.values()):
            born, numbers = np.unique(np.concatenate(([ABSENT], stamps[names[0]])), return_inverse=True)
            versions = log.chunk_version[born[1:]]
            ordinals = tuple((born[1:] - log.chunk_start[versions]).tolist())
            ids = tuple(log.id_at(version).to_bytes() for version in versions.tolist())
            title = f"{unlike(part.column_names)}{number}"
            kept.append(Stamps(title, tuple(names), ids, ordinals))
            narrow = np.uint8 if len(ids) < 256 else np.uint16 if len(ids) < 65_536 else np.uint32
            part = part.append_column(title, pa.array(numbers[1:].astype(narrow)))
        return part, tuple(kept)


def _field(column: Column) -> StoredField:
    (instance,) = column.instances
    return StoredField(column.name, instance, column.code, column.nullable)

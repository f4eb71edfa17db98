"""What changed between two snapshots: rows that came, rows that went, rows that were rewritten, and by whom.

Worked out from the two heads, as sets of row ids; no row is read for it. A row id is the chunk a row was born
in and its place there, whoever has copied it since: so a compaction changes nothing, and where a retried
task's twin takes over under its idempotency key, nothing changed either. What came and went in between is in
neither snapshot: a batch holds net changes. A row that a late write touched and lost is listed as updated to
what it was.

Rows are then read by the units any scan reads changed entries with; one unit holds changes of one version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st

from crdtcat import Catalog
from crdtcat.clock import VersionId
from crdtcat.errors import InvalidArgument
from crdtcat.format.ops import decode_ops
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.pieces import split
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Runs
from crdtcat.scan.units import UNIT_BYTES, Unit
from crdtcat.spark.change_columns import CHANGE_FIELDS
from crdtcat.spark.keyed_changes import KeyedFeed, keyed_changes, require_labels
from crdtcat.spark.pinned import pinned_head
from crdtcat.spark.reading import Selection, gathered
from crdtcat.spark.types import arrow_schema, spark_schema

INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_before", "update_after"


@dataclass(frozen=True, eq=False)
class Side:
    """Changed rows of one snapshot.

    Attributes:
        kind: insert, delete, update_before or update_after.
        selection: the units that hold them.
        authors: per unit, who changed its rows.
    """

    kind: str
    selection: Selection
    authors: tuple[VersionId, ...]


@dataclass(frozen=True, eq=False)
class Changes:
    """Net changes between two snapshots. Pickles.

    Attributes:
        sides: rows that went, were rewritten, came.
        with_columns: whether batches say what kind of change a row is.
    """

    sides: tuple[Side, ...]
    with_columns: bool

    def shares(self, partition_bytes: int | None) -> list[tuple[int, tuple[int, ...]]]:
        """(side, units) for each task, of about equal size."""
        return [
            (at, share)
            for at, side in enumerate(self.sides)
            for share in side.selection.shares(partition_bytes)
        ]

    def batches(self, share: tuple[int, tuple[int, ...]]) -> Iterator[pa.RecordBatch]:
        """The changed rows of one share."""
        at, numbers = share
        side = self.sides[at]
        if not self.with_columns:
            return side.selection.batches(numbers)
        plan, _ = side.selection.planned()
        labelled = st.StructType([*spark_schema(plan.schema).fields, *CHANGE_FIELDS])
        return gathered(_labelled(side, numbers), arrow_schema(labelled))


def _labelled(side: Side, numbers: Sequence[int]) -> Iterator[pa.Table]:
    for number, tables in zip(numbers, side.selection.tables(numbers), strict=True):
        author = side.authors[number]
        moment = pa.scalar(author.time.astimezone(UTC), pa.timestamp("us", "UTC"))
        for table in tables:
            for field, value in zip(CHANGE_FIELDS, (side.kind, str(author), moment), strict=True):
                table = table.append_column(field.name, pa.repeat(value, table.num_rows))  # noqa: PLW2901
            yield table


def changes_between(
    catalog: Catalog,
    before: Head,
    after: Head,
    *,
    branch: str,
    columns: tuple[str, ...] | None,
    filter: Any,
    with_columns: bool,
    ignore_deletes: bool = False,
) -> Changes | KeyedFeed:
    """The net changes from one snapshot to a later one. No request.

    Raises `InvalidArgument` where rows were removed or rewritten and the reader has no column to say so,
    unless it is told to ignore that."""
    if after.settings.key:
        require_labels(after.table, with_columns=with_columns, filter=filter)
        return keyed_changes(catalog, before, after, branch=branch, columns=columns)
    found = _Difference(before, after)
    kinds = [(DELETE, before, found.removed), (BEFORE, before, found.updated), (AFTER, after, found.updated)]
    if not with_columns:
        changed = [*found.removed, *found.updated]
        if changed and not ignore_deletes:
            raise InvalidArgument(
                f"version {changed[0][0]} removed or rewrote rows that this stream has shown before: read it "
                "with the option changes=true, which tells inserts from others, or with deletes=ignore"
            )
        kinds = []
    sides = []
    for kind, head, groups in (*kinds, (INSERT, after, found.inserted)):
        pairs = [(author, unit) for author, rows in groups for unit in found.units(head, rows)]
        if pairs:
            authors, units = zip(*pairs, strict=True)
            pinned = pinned_head(catalog, head, branch)
            sides.append(Side(kind, Selection(pinned, columns, filter, units=units), authors))
    return Changes(tuple(sides), with_columns)


Groups = list[tuple[VersionId, RowSet]]
"""Rows by who changed them."""


class _Difference:
    """Row ids that one head has and the other has not, or has otherwise; numbered as the later head's
    chunks."""

    def __init__(self, before: Head, after: Head) -> None:
        self._before, self._after = before, after
        log = after.log
        own = _standing_twins(after)
        at = log.find(before.log.ids)
        version = before.log.chunk_version.astype(np.int64)
        ordinal = np.arange(before.log.chunk_count) - before.log.chunk_start[version]
        self._numbers = {id(after): own, id(before): own[log.chunk_start[at[version]] + ordinal]}
        self._fresh = np.flatnonzero(before.log.find(log.ids) < 0).tolist()
        then, now = self._live(before), self._live(after)
        self.inserted = self._by_birth(now.difference(then))
        self.removed = self._by_remover(then.difference(now))
        self.updated = self._by_updater(then.intersection(now))

    def _live(self, head: Head) -> RowSet:
        number, pieces, deleted = self._numbers[id(head)], head.rows.pieces, head.rows.deleted
        rows = RowSet(number[pieces.birth], pieces.start, pieces.stop)
        return rows.difference(RowSet(number[deleted.groups], deleted.starts, deleted.stops))

    def _by_birth(self, rows: RowSet) -> Groups:
        log = self._after.log
        versions = log.chunk_version[rows.groups]
        return [
            (log.id_at(version), rows.in_groups(np.unique(rows.groups[versions == version])))
            for version in np.unique(versions).tolist()
        ]

    def _by_remover(self, rows: RowSet) -> Groups:
        """Row by row where a version names rows, else the last version that removed chunks."""
        found: Groups = []
        log, changes = self._after.log, self._after.rows._changes
        last = self._fresh[-1] if self._fresh else 0
        for at in self._fresh:
            if log.ops[at].is_valid:
                ops = decode_ops(log.ops[at].as_py(), log.id_at(at), str(log.id_at(at)))
                last = at if ops.is_overwrite or len(ops.removed_versions) or ops.removed_keyed else last
            named = changes[at].deletes if at in changes else None
            if named:
                birth, start, stop = self._after.rows.tags.rows(named)
                number = self._numbers[id(self._after)][birth]
                rows = self._taken(rows, RowSet(number, start, stop), at, found)
        return [*found, *([(log.id_at(last), rows)] if len(rows) else [])]

    def _by_updater(self, rows: RowSet) -> Groups:
        """Each row with the last version that wrote a cell of it."""
        found: Groups = []
        cells = self._after.rows.overlaid
        for at in reversed([at for at in self._fresh if (cells.version == at).any()]):
            mine = cells.version == at
            number = self._numbers[id(self._after)][cells.birth[mine]]
            rows = self._taken(rows, RowSet(number, cells.start[mine], cells.stop[mine]), at, found)
        return found

    def _taken(self, rows: RowSet, mine: RowSet, at: int, found: Groups) -> RowSet:
        taken = rows.intersection(mine)
        if len(taken):
            found.append((self._after.log.id_at(at), taken))
        return rows.difference(taken)

    def units(self, head: Head, rows: RowSet) -> Iterator[Unit]:
        """Where a head has some rows, cut into units that one task can hold."""
        pieces = head.rows.pieces
        mapped = pieces._replace(birth=self._numbers[id(head)][pieces.birth])
        parts, _ = split(mapped, Runs(rows.groups, rows.starts, rows.stops))
        log = head.log
        strips: list[tuple[int, int, int]] = []
        size = 0
        for entry, start, length in zip(
            parts.entry.tolist(), parts.at.tolist(), (parts.stop - parts.start).tolist(), strict=True
        ):
            strips.append((entry, start, start + length))
            size += int(log.nbytes[entry]) * length // max(1, int(log.rows[entry]))
            if size > UNIT_BYTES:
                yield _unit(strips, size)
                strips, size = [], 0
        if strips:
            yield _unit(strips, size)


def _unit(strips: list[tuple[int, int, int]], size: int) -> Unit:
    chunks = tuple(dict.fromkeys(entry for entry, _, _ in strips))
    return Unit(chunks, (False,) * len(chunks), (), None, size, tuple(strips))


def _standing_twins(head: Head) -> Array:
    """Per chunk, itself; one under an idempotency key, its twin in the version of that key that stands."""
    log, standing = head.log, head.folded.standing
    number = np.arange(log.chunk_count)
    keyed = np.flatnonzero(np.asarray(log.key.is_valid()))
    if not len(keyed):
        return number
    firsts: dict[bytes, int] = {log.key[at].as_py(): at for at in keyed.tolist() if standing[at]}
    for at in keyed[~standing[keyed]].tolist():
        first = firsts.get(log.key[at].as_py())
        if first is None:
            continue
        for chunk in range(int(log.chunk_start[at]), int(log.chunk_start[at + 1])):
            twin = int(log.chunk_start[first]) + chunk - int(log.chunk_start[at])
            if twin < int(log.chunk_start[first + 1]) and (log.hash[twin] == log.hash[chunk]).all():
                number[chunk] = twin
    return number

"""The streaming source: what changed between two snapshots, batch after batch.

An offset names a snapshot, never a time: the set of versions read so far. A version that arrives late, with
an id below others that were read before, is in no earlier offset, so it is read with the next batch; nothing
is lost and nothing is read twice. A batch takes new versions in id order up to its limit. That is always a
snapshot of its own, since the order of ids extends happened-before.

The changes between two snapshots are worked out by `crdtcat.spark.changes`; this file turns offsets into
snapshots, and shares into tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from crdtcat.format.sections import Array
from crdtcat.head import Head, Snapshot
from crdtcat.log import Log, select
from crdtcat.spark.change_columns import CHANGE_FIELDS
from crdtcat.spark.changes import Changes, changes_between
from crdtcat.spark.keyed_changes import KeyedFeed
from crdtcat.spark.options import SourceOptions
from crdtcat.spark.pinned import Pinned
from crdtcat.verbs.travel import head_at

Offset = dict[str, Any]
"""`{"snapshot": token, "versions": how many}`: the second for people who look at query progress."""


@dataclass
class ChangeShare(InputPartition):  # type: ignore[misc]
    """What one task reads of a batch's changes."""

    changes: Changes | KeyedFeed
    share: Any


class ChangeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A table's changes as a stream. One refresh of the log for each batch, and one for the query's start."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        added = len(CHANGE_FIELDS) if options.changes else 0
        self._columns = tuple(schema.fieldNames()[: len(schema) - added])  # as they were when the query began
        self._catalog = options.open(upkeep=False)
        self._session = self._catalog.table(options.table, options.branch)._session
        self._target: Snapshot | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        """The starting point: nothing read, everything read, or what the option names."""
        start = self._options.start
        if start == "earliest":
            return _offset(_part(self._session.head(), np.zeros(len(self._session.state.log), bool)).snapshot)
        return _offset(head_at(self._session, None if start == "latest" else start).snapshot)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """The limit given by options."""
        options = self._options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        return ReadAllAvailable() if options.max_versions is None else ReadMaxFiles(options.max_versions)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 (Spark's name)
        """The snapshot the next batch reads up to: as many new versions as the limit allows, at least one."""
        head = self._session.head()
        log = head.log
        known = _members(log, start)
        allowed = np.ones(len(log), bool) if self._target is None else self._target.members(log)
        fresh = np.flatnonzero(allowed & ~known)
        if not len(fresh):
            return start
        known[fresh[: _within(log, fresh, limit)]] = True
        return _offset(_part(head, known).snapshot)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Read up to here and no further."""
        self._target = self._session.head().snapshot

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 (Spark's name)
        """Everything there is, for the query's progress."""
        return _offset(self._session.head().snapshot)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The changes between two offsets, dealt out. No request where both are known already."""
        head = self._session.head(refresh=not self._holds(end))
        before, after = (_at(self._session, head, offset) for offset in (start, end))
        changes = changes_between(
            self._catalog,
            before,
            after,
            branch=self._options.branch,
            columns=self._columns,
            filter=self._options.filter,
            with_columns=self._options.changes,
            ignore_deletes=self._options.ignore_deletes,
        )
        return [ChangeShare(changes, share) for share in changes.shares(self._options.partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task's share of the changes."""
        yield from partition.changes.batches(partition.share)

    def _holds(self, offset: Offset) -> bool:
        log = self._session.state.log
        return len(log) > 0 and int(_members(log, offset).sum()) == offset["versions"]


class ChangeReader(DataSourceReader):  # type: ignore[misc]
    """The changes from a starting point to a pinned snapshot, in one batch."""

    def __init__(self, options: SourceOptions, pinned: Pinned) -> None:
        session = pinned.catalog.table(pinned.table, pinned.branch)._session
        after = pinned.head()
        before = (
            _part(after, np.zeros(len(after.log), bool))
            if options.start == "earliest"
            else head_at(session, None if options.start == "latest" else options.start)
        )
        self._changes = changes_between(
            pinned.catalog,
            before,
            after,
            branch=pinned.branch,
            columns=options.columns,
            filter=options.filter,
            with_columns=True,
        )
        self._partition_bytes = options.partition_bytes

    def partitions(self) -> list[InputPartition]:
        """Balanced by bytes."""
        return [
            ChangeShare(self._changes, share) for share in self._changes.shares(self._partition_bytes)
        ] or [ChangeShare(self._changes, None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task's share of the changes."""
        return iter(()) if partition.share is None else partition.changes.batches(partition.share)


def _offset(snapshot: Snapshot) -> Offset:
    return {"snapshot": str(snapshot), "versions": snapshot.versions}


def _members(log: Log, offset: Offset) -> Array:
    if not len(log):
        return np.zeros(0, bool)
    return Snapshot.parse(offset["snapshot"]).members(log)


def _part(head: Head, chosen: Array) -> Head:
    return Head(head.table, select(head.log, chosen), head.settings)


def _at(session: Any, head: Head, offset: Offset) -> Head:
    """The head at an offset. Raises `Expired` if it holds versions the table no longer has."""
    if offset["versions"] == 0:
        return _part(head, np.zeros(len(head.log), bool))
    chosen = _part(head, _members(head.log, offset))
    same = chosen.snapshot == Snapshot.parse(offset["snapshot"])
    return chosen if same else head_at(session, offset["snapshot"])


def _within(log: Log, fresh: Array, limit: ReadLimit) -> int:
    """How many of the new versions a batch takes: those that fit the limit, and at least one."""
    if isinstance(limit, ReadMaxFiles):
        return max(1, int(limit.max_files))
    if isinstance(limit, ReadMaxRows):
        sizes, most = log.rows, limit.max_rows
    elif isinstance(limit, ReadMaxBytes):
        sizes, most = log.nbytes, limit.max_bytes
    else:
        return len(fresh)
    before = np.concatenate(([0], np.cumsum(sizes, dtype=np.uint64)))
    added = before[log.chunk_start[fresh + 1]] - before[log.chunk_start[fresh]]
    return max(1, int(np.searchsorted(np.cumsum(added), most, side="right")))

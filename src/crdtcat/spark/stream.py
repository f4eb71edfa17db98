"""The streaming source: what changed between two snapshots, batch after batch.

An offset names a snapshot, never a time: the set of versions read so far. A version that arrives late, with
an id below others that were read before, is in no earlier offset, so it is read with the next batch; nothing
is lost and nothing is read twice. A batch takes new versions in id order up to its limit. That is always a
snapshot of its own, since the order of ids extends happened-before. What was folded below the horizon has no
order any more: a stream from the beginning takes it as a whole, and an offset within it raises `Expired`.

Rows are shown in the columns the table had when the query began, whichever snapshot they are read from. The
changes between two snapshots are worked out by `crdtcat.spark.changes`; this file turns offsets into
snapshots, and shares into tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from crdtcat.format.sections import Array
from crdtcat.head import Head, Snapshot
from crdtcat.head.snapshot import versions_of
from crdtcat.log import Log, empty_log, select
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

    def __init__(self, options: SourceOptions, pinned: Pinned) -> None:
        self._options, self._pinned = options, pinned
        self._catalog = pinned.catalog
        self._session = self._catalog.table(options.table, options.branch)._session
        self._target: Snapshot | None = None
        self._limits = {name: getattr(options, name) for name in ("max_versions", "max_rows", "max_bytes")}

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        """The starting point: nothing read, everything read, or what the option names."""
        start = self._options.start
        if start == "earliest":
            return _offset(_nothing(self._session.head()).snapshot)
        return _offset(head_at(self._session, None if start == "latest" else start).snapshot)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """That there are limits, if there are. Spark passes one of them on, and each batch heeds all."""
        given = [limit for limit in self._limits.values() if limit is not None]
        return ReadMaxFiles(given[0]) if given else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 (Spark's name)
        """The snapshot the next batch reads up to: as many new versions as the limit allows, at least one."""
        head = self._session.head()
        log = head.log
        known = _at(head, start).log.find(log.ids) >= 0 if start["versions"] else np.zeros(len(log), bool)
        allowed = ~log.is_upkeep if self._target is None else self._target.members(log) & ~log.is_upkeep
        fresh = np.flatnonzero(allowed & ~known)
        if not len(fresh):
            return start
        folded = int(log.is_folded[fresh].sum())  # together, or not at all; they come first
        taken = len(fresh) if isinstance(limit, ReadAllAvailable) else _within(log, fresh, self._limits)
        known[fresh[: max(folded, taken)]] = True
        return _offset(_part(head, known | log.is_upkeep).snapshot)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Read up to here and no further."""
        self._target = self._session.head().snapshot

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 (Spark's name)
        """Everything there is, for the query's progress."""
        return _offset(self._session.head().snapshot)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The changes between two offsets, dealt out. No request where both are known already."""
        head = self._session.head(refresh=not self._holds(end))
        before, after = (_at(head, offset) for offset in (start, end))
        changes = changes_between(
            self._catalog,
            before,
            after,
            branch=self._options.branch,
            columns=self._options.columns,
            filter=self._options.filter,
            with_columns=self._options.changes,
            ignore_deletes=self._options.ignore_deletes,
            query=self._pinned.head(),
        )
        return [ChangeShare(changes, share) for share in changes.shares(self._options.partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task's share of the changes."""
        yield from partition.changes.batches(partition.share)

    def _holds(self, offset: Offset) -> bool:
        log = self._session.state.log
        if not len(log):
            return False
        members = Snapshot.parse(offset["snapshot"]).members(log) & ~log.is_upkeep
        return bool(members.sum() == offset["versions"])


class ChangeReader(DataSourceReader):  # type: ignore[misc]
    """The changes from a starting point to a pinned snapshot, in one batch."""

    def __init__(self, options: SourceOptions, start: Pinned | None, pinned: Pinned) -> None:
        after = pinned.head()
        before = _nothing(after) if start is None else start.head()
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


def _nothing(head: Head) -> Head:
    """Before the first commit."""
    return Head(head.table, empty_log(), head.settings)


def _part(head: Head, chosen: Array) -> Head:
    return Head(head.table, select(head.log, chosen), head.settings)


def _at(head: Head, offset: Offset) -> Head:
    """The head at an offset, out of one that holds more. Raises `Expired` if it is below the horizon, or
    holds versions the table no longer has."""
    if offset["versions"] == 0:
        return _nothing(head)
    log = versions_of(head.log, Snapshot.parse(offset["snapshot"]), head.table)
    return Head(head.table, log, head.settings)


def _within(log: Log, fresh: Array, limits: Mapping[str, int | None]) -> int:
    """How many of the new versions a batch takes: those that fit every limit, and at least one."""
    most = limits["max_versions"] or len(fresh)
    for name, sizes in (("max_rows", log.rows), ("max_bytes", log.nbytes)):
        limit = limits[name]
        if limit is not None:
            before = np.concatenate(([0], np.cumsum(sizes, dtype=np.uint64)))
            added = before[log.chunk_start[fresh + 1]] - before[log.chunk_start[fresh]]
            most = min(most, int(np.searchsorted(np.cumsum(added), limit, side="right")))
    return max(1, most)

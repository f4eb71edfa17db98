"""What changed between two snapshots of a keyed table: by key, in parts that tasks read each by itself.

Parts are those of `crdtcat.scan.keyed_parts`, as in the local feed. Who changed a key is the last of the new
versions that wrote or deleted it.

Memory of a task: one part, on both sides. Where new rows are spread over all keys that is the table: compare
more often, or keep chunks of new rows narrow (sort what is upserted, partition by a part of the key)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from crdtcat import Catalog
from crdtcat.chunks.types import no_rows, to_storage
from crdtcat.errors import Corrupt, InvalidArgument
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.scan.keyed_changes import KeyedChanges
from crdtcat.scan.keyed_parts import Part, changed_parts, only
from crdtcat.scan.merge_execute import MergedExecution
from crdtcat.scan.plan import Plan
from crdtcat.spark.change_columns import CHANGE_FIELDS, change_schema
from crdtcat.spark.pinned import Pinned, pinned_head
from crdtcat.spark.reading import deal, gathered
from crdtcat.spark.types import arrow_schema, spark_schema
from crdtcat.spark.worker import task_begins

_AUTHOR: Final = "author\n"
_PLACE: Final = "place\n"
"""No column of a table has such a name: a line ends in it."""


class _Marked(KeyedChanges):
    """Changes beside any columns: the feed's own have other names than the local one's."""

    label: ClassVar[str] = "change\n"


@dataclass(frozen=True, eq=False)
class KeyedFeed:
    """Net changes between two snapshots of a keyed table. Pickles.

    Attributes:
        before, after: the snapshots.
        query: all columns of the query, in which the snapshots are compared.
        shown: those of them that are shown.
        parts: where something may have changed.
        last: the last of the new versions, by its number.
    """

    before: Pinned
    after: Pinned
    query: tuple[Column, ...]
    shown: pa.Schema
    parts: tuple[Part, ...]
    last: int

    def shares(self, partition_bytes: int | None) -> list[tuple[int, ...]]:
        """Parts by number, dealt out to tasks of about equal size."""
        return deal([part.nbytes for part in self.parts], partition_bytes) if self.parts else []

    def batches(self, share: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The changed rows of some parts.

        Raises `Corrupt`, naming what is damaged; `Expired`, if files were collected since it was planned."""
        task_begins()
        labelled = change_schema(spark_schema(self.shown))
        try:
            yield from gathered(self._tables(share, self.shown.names), arrow_schema(labelled))
        except Corrupt as error:
            told = (side.outlived(error, of_feed=True) for side in (self.before, self.after))
            raise next((one for one in told if one is not error), error) from error

    def _tables(self, share: Sequence[int], names: Sequence[str]) -> Iterator[pa.Table]:
        old, new = self.before.head(), self.after.head()

        def read(head: Head, entries: tuple[int, ...] | None) -> pa.Table:
            assert entries is not None
            return _rows(self.before if head is old else self.after, entries)

        for number in share:
            part = self.parts[number]
            found = _Marked(old, new, read, self.query, [part]).to_table()
            if found.num_rows:
                yield self._labelled(found, part, names)

    def _labelled(self, found: pa.Table, part: Part, names: Sequence[str]) -> pa.Table:
        log = self.after.head().log
        authors, code = np.unique(self._authors(found, part), return_inverse=True)
        ids = [log.id_at(int(at)) for at in authors]
        moments = pa.array([id.time.astimezone(UTC) for id in ids], pa.timestamp("us", "UTC"))
        added = (found.column(_Marked.label), pa.array(map(str, ids)).take(code), moments.take(code))
        shown = found.select(list(names))
        for field, values in zip(CHANGE_FIELDS, added, strict=True):
            shown = shown.append_column(field.name, values)
        return shown

    def _authors(self, found: pa.Table, part: Part) -> Array:
        """Per row, the last of the new versions that wrote or deleted its key; of a key that is in no chunk
        which is still stored, the last version whose chunk is not."""
        key = list(self.after.head().settings.key)
        plan = self.after.plan(None, None, None)[0]
        execution = self.after.execution(plan)
        said, gone = [], []
        for version, chunk in part.fresh:
            if not _is_stored(plan, chunk):  # folded, and compacted: its rows are in another's chunks
                gone.append(version)
                continue
            keys = execution.stored(chunk, tuple(key))
            said.append(keys.append_column(_AUTHOR, pa.repeat(version, keys.num_rows)))
        authors = np.full(found.num_rows, max(gone, default=self.last), np.int64)
        if not said:
            return authors
        latest = pa.concat_tables(said).group_by(key).aggregate([(_AUTHOR, "max")])
        shown = pa.table({name: to_storage(found.column(name), name) for name in key})
        keys = shown.cast(latest.select(key).schema)
        placed = keys.append_column(_PLACE, pa.array(np.arange(found.num_rows)))
        joined = placed.join(latest, key, join_type="inner")
        authors[np.asarray(joined.column(_PLACE))] = np.asarray(joined.column(f"{_AUTHOR}_max"))
        return authors


def keyed_changes(
    catalog: Catalog,
    before: Head,
    after: Head,
    *,
    branch: str,
    query: tuple[Column, ...],
    shown: pa.Schema,
) -> KeyedFeed:
    """The net changes from one snapshot to a later one, of a keyed table. No request."""
    fresh = before.log.find(after.log.ids) < 0
    parts = changed_parts(before, after)
    pinned = [pinned_head(catalog, head, branch) for head in (before, after)]
    last = int(np.flatnonzero(fresh)[-1]) if fresh.any() else 0
    return KeyedFeed(pinned[0], pinned[1], query, shown, parts, last)


def _is_stored(plan: Plan, chunk: int) -> bool:
    """Whether a chunk is in a segment or in its version's file. Expiry lets go of those nobody needs, and
    `head.patches.let_go`, which goes by what this log has folded, misses some of them here."""
    log = plan.head.log
    version = int(log.chunk_version[chunk])
    inlined = (log.id_at(version).to_bytes(), chunk - int(log.chunk_start[version]))
    return bool(plan.places(chunk)) or inlined in log.inline


def _rows(pinned: Pinned, entries: tuple[int, ...]) -> pa.Table:
    """All rows of some entries of a keyed table, which share keys with no others."""
    alone = only(pinned.plan(None, None, None)[0], entries)
    tables = list(MergedExecution(alone, pinned.execution(alone)).tables())
    return pa.concat_tables(tables) if tables else no_rows(alone.schema)


def require_labels(table: str, *, with_columns: bool, filter: object) -> None:
    """Upserts rewrite rows, so a feed of a keyed table says what each row is. Raises `InvalidArgument`."""
    if not with_columns:
        raise InvalidArgument(
            f"table {table!r} has a key, so rows are rewritten all the time: read it with the option "
            "changes=true, which tells what became of each"
        )
    if filter is not None:
        raise InvalidArgument(f"table {table!r} has a key: filter its changes once they are read")

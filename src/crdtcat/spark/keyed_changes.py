"""What changed between two snapshots of a keyed table: by key, in parts that tasks read each by itself.

A keyed table's rows have no identity but their keys, so both sides are read, merged and compared. But not
all of them: chunks of either snapshot whose ranges of keys overlap, directly or by way of others, are a part;
keys of one part are in no other; and a part that nothing new lies in has not changed. Which parts have is
found from the two heads alone. Who changed a key is the last of the new versions that wrote or deleted it.

Memory of a task: one part, on both sides. Where new rows are spread over all keys that is the table: compare
more often, or keep chunks of new rows narrow (sort what is upserted, partition by a part of the key)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from crdtcat import Catalog
from crdtcat.chunks.types import no_rows, to_storage
from crdtcat.errors import Corrupt, InvalidArgument
from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.head.keyed import KeyedRows
from crdtcat.scan.key_ranges import KeyRanges, groups_of
from crdtcat.scan.keyed_changes import KeyedChanges
from crdtcat.scan.merge_execute import MergedExecution
from crdtcat.scan.merge_plan import Group
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
class Part:
    """Keys that share chunks with no others.

    Attributes:
        before, after: entries of the two heads that hold them.
        fresh: versions that only the later one has, each with a chunk of keys that it wrote or deleted; by
            their numbers in the later head's log.
        nbytes: Arrow content of both sides.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    fresh: tuple[tuple[int, int], ...]
    nbytes: int


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
        for number in share:
            part = self.parts[number]

            def read(head: Head, part: Part = part) -> pa.Table:
                return _rows(self.before, part.before) if head is old else _rows(self.after, part.after)

            found = _Marked(old, new, read, self.query).to_table()
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
    sides = [head.keyed for head in (before, after)]
    fresh = before.log.find(after.log.ids) < 0
    parts: tuple[Part, ...] = ()
    if after.keyed is not None and fresh.any():
        parts = tuple(_parts(before, after, sides[0], after.keyed, fresh))
    pinned = [pinned_head(catalog, head, branch) for head in (before, after)]
    last = int(np.flatnonzero(fresh)[-1]) if fresh.any() else 0
    return KeyedFeed(pinned[0], pinned[1], query, shown, parts, last)


def _parts(before: Head, after: Head, old: KeyedRows | None, new: KeyedRows, fresh: Array) -> Iterator[Part]:
    log = after.log
    numbers = _numbers(before, after)
    held = np.empty(0, np.int64) if old is None else old.entries
    news = _news(before, after, new, fresh)
    kinds = (numbers[held], new.entries, np.array([chunk for _, chunk in news], np.int64))
    chunks = np.concatenate(kinds)
    ranges = KeyRanges(log, np.unique(chunks))
    place = np.searchsorted(np.unique(chunks), chunks)
    order = np.argsort(ranges.first[place], kind="stable")
    part = np.empty(len(chunks), np.int64)
    part[order] = groups_of(ranges.first[place][order], ranges.last[place][order])
    ends = np.cumsum([len(kind) for kind in kinds])
    mine = np.split(part, ends[:-1])
    for number in np.unique(mine[2]).tolist():
        then, now = held[mine[0] == number], new.entries[mine[1] == number]
        said = [pair for pair, at in zip(news, mine[2].tolist(), strict=True) if at == number]
        nbytes = int(before.log.nbytes[then].sum()) + int(log.nbytes[now].sum())
        yield Part(tuple(then.tolist()), tuple(now.tolist()), tuple(said), nbytes)


def _news(before: Head, after: Head, keyed: KeyedRows, fresh: Array) -> list[tuple[int, int]]:
    """Versions that only the later head has, each with a chunk of keys that it wrote, deleted or removed."""
    log = after.log
    counts = fresh & after.folded.standing
    own = np.flatnonzero(counts[log.chunk_version] & np.isin(log.kind, (ROWS, GONE)))
    pairs = [(int(log.chunk_version[chunk]), int(chunk)) for chunk in own]
    removed = [(at, chunk) for at, chunks in keyed.deletes.items() if fresh[at] for chunk in chunks]
    return sorted({*pairs, *removed, *_outdone(before, after, fresh)})


def _outdone(before: Head, after: Head, fresh: Array) -> Iterator[tuple[int, int]]:
    """Chunks of versions that counted before, and do not since a late one with their idempotency key came."""
    at = after.log.find(before.log.ids)
    for version in at[before.folded.standing & ~after.folded.standing[at]].tolist():
        by = int(np.flatnonzero(fresh)[-1])
        for chunk in range(int(after.log.chunk_start[version]), int(after.log.chunk_start[version + 1])):
            yield by, chunk


def _is_stored(plan: Plan, chunk: int) -> bool:
    """Whether a chunk is in a segment or in its version's file. Expiry lets go of those nobody needs, and
    `head.patches.let_go`, which goes by what this log has folded, misses some of them here."""
    log = plan.head.log
    version = int(log.chunk_version[chunk])
    inlined = (log.id_at(version).to_bytes(), chunk - int(log.chunk_start[version]))
    return bool(plan.places(chunk)) or inlined in log.inline


def _numbers(before: Head, after: Head) -> Array:
    """Per chunk of the earlier head, its number in the later one's log."""
    version = before.log.chunk_version.astype(np.int64)
    ordinal = np.arange(before.log.chunk_count) - before.log.chunk_start[version]
    numbers: Array = after.log.chunk_start[after.log.find(before.log.ids)[version]] + ordinal
    return numbers


def _rows(pinned: Pinned, entries: tuple[int, ...]) -> pa.Table:
    """All rows of some entries of a keyed table, which share keys with no others."""
    plan = pinned.plan(None, None, None)[0]
    assert plan.merge is not None
    wanted = np.isin(plan.chunks, entries)
    items = tuple(_items(plan, wanted))
    alone = replace(plan, merge=replace(plan.merge, items=items))
    tables = list(MergedExecution(alone, pinned.execution(alone)).tables())
    return pa.concat_tables(tables) if tables else no_rows(plan.schema)


def _items(plan: Plan, wanted: Array) -> Iterator[slice | Group]:
    assert plan.merge is not None
    chosen = set(plan.chunks[wanted].tolist())
    for item in plan.merge.items:
        if isinstance(item, Group):
            if item.chunks[0] in chosen:
                yield item
            continue
        for at in range(item.start, item.stop):
            if wanted[at]:
                yield slice(at, at + 1)


def require_labels(table: str, *, with_columns: bool, filter: object) -> None:
    """Upserts rewrite rows, so a feed of a keyed table says what each row is. Raises `InvalidArgument`."""
    if not with_columns:
        raise InvalidArgument(
            f"table {table!r} has a key, so rows are rewritten all the time: read it with the option "
            "changes=true, which tells what became of each"
        )
    if filter is not None:
        raise InvalidArgument(f"table {table!r} has a key: filter its changes once they are read")

"""Writing rows anew, under the ids they had: what every compaction does, in whatever order and groups.

Rows are gathered with everything that lies over them folded in and what is deleted left out; folded cells
keep their age, so a late update meets them as it would have met the overlay. A version that takes the place
of entries holds every row of each, and names all versions it folded: it counts only where they do
(`crdtcat.head.compactions`). Entries that share rows have to be replaced by one version, however many
compactions at once have left: it is stored segment by segment before it is published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.partitions import encode_values, parse_partitioning
from crdtcat.chunks.read import FooterCache
from crdtcat.clock.hlc import wall_ms
from crdtcat.format.kinds import COPY
from crdtcat.format.ops import Ops
from crdtcat.format.row_ops import Copy, RowOps, Stamps
from crdtcat.format.schema_code import StoredField
from crdtcat.head import Head, Version
from crdtcat.head.columns import Column
from crdtcat.head.naming import row_ids, tags_of
from crdtcat.intervals.runs import Integers
from crdtcat.log.log import NONE
from crdtcat.maintenance.compact_plan import (
    columns_rest_on,
    copy_columns,
    ended_columns,
    unlike,
)
from crdtcat.maintenance.gathered import Gathered
from crdtcat.protocol import Put
from crdtcat.scan.as_born import Span
from crdtcat.scan.changed import ChangedEntries
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.layers import OLDEST
from crdtcat.scan.located import all_rows_of
from crdtcat.scan.plan import make_plan
from crdtcat.scan.shown import as_shown
from crdtcat.scan.units import rows_at_once
from crdtcat.session import Session
from crdtcat.writing.bodies import joined_bodies
from crdtcat.writing.made import Made, MadeChunk, stage_made
from crdtcat.writing.staged import require_in_time
from crdtcat.writing.writer import Writer

COMMIT_BYTES: Final = 128 * 2**20  # Arrow content that one version of a compaction holds, about


@dataclass
class Counts:
    """What was written so far; see `crdtcat.maintenance.compact.CompactResult`."""

    versions: int = 0
    chunks_before: int = 0
    chunks_after: int = 0
    rows: int = 0
    bytes: int = 0
    cells_folded: int = 0
    rows_left_out: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(mine + more for mine, more in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, eq=False)
class Rewritten:
    """A version that is not published yet. Pickles, once its segments are stored and left out of `puts`.

    Attributes:
        operation: cluster, or compact, which is upkeep and no part of history.
        body: what the version says.
        puts: segments to be stored before it.
    """

    operation: str
    body: Mapping[str, Any]
    puts: tuple[Put, ...]


@dataclass(eq=False)
class Rewriter:
    """Gathers rows of entries of one head, and publishes them in other chunks.

    Attributes:
        session: of the table.
        head: whose entries.
        rises_by: the columns that the rows of every chunk written rise by: then the chunks are a clustering,
            a part of history, and the rows stand in them from then on. None: a compaction, which is upkeep,
            and moves no row.
        counts: what was written.
    """

    session: Session
    head: Head
    rises_by: tuple[str, ...] = ()
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.columns = copy_columns(self.head)
        self._ended = ended_columns(self.head)
        self._writer = None if self.rises_by else self.session.upkeep_writer()
        plan = make_plan(self.head, None, None)
        reader = ChunkReader(plan, self.session.store, FooterCache(), verify=self.session.options.verify)
        self._changed = ChangedEntries(plan, reader)
        self._waiting: list[MadeChunk] = []
        self._stored: list[Mapping[str, Any]] = []
        self._since_ms: int | None = None
        self._copies: list[Copy] = []
        self._replaced: list[int] = []
        self.waiting_bytes = 0

    def rewrite(self, group: Sequence[int], most: int) -> None:
        """Write all rows of some entries anew, where they stand, in chunks of at most so many rows.

        What is more than a chunk is read, and stored, a commit's worth at a time.
        """
        for batch, within in self._batches(group, most):
            if self.waiting_bytes >= COMMIT_BYTES:
                self._store()
            for partition, rows in self.partitioned(self.gather(batch, within)):
                for piece in rows.cut(most):
                    self.write(partition, piece)

    def _batches(self, group: Sequence[int], most: int) -> Iterator[tuple[list[int], Span | None]]:
        """The entries in row order, as many as one commit holds; those that nothing is read from last. Before
        them, part by part, those over which so much lies that they are not read at once."""
        live, nbytes = self.head.live, self.head.rows.bytes_read
        rows = int(self.head.rows.live_rows(np.array(group, np.int64)).sum())
        if rows <= most and nbytes[list(group)].sum(dtype=np.float64) <= COMMIT_BYTES:
            yield list(group), None
            return
        left: list[int] = []
        for entry in group:
            count, at_once = int(self.head.log.rows[entry]), rows_at_once(self.head, entry)
            if at_once == count:
                left.append(entry)
                continue
            for first in range(0, count, at_once):
                yield [entry], (first, min(first + at_once, count))
        mine = live[np.isin(live, left)]
        number = np.cumsum(nbytes[mine], dtype=np.float64) // COMMIT_BYTES
        batches = [mine[number == which].tolist() for which in np.unique(number)] or [[]]
        batches[-1] += np.setdiff1d(left, mine).tolist()
        yield from ((batch, None) for batch in batches if batch)

    def _store(self) -> None:
        """Store what waits. It is part of the version that is published next; until then, garbage."""
        if self._since_ms is None:
            self._since_ms = wall_ms()
        made = self._made(0)
        for put in made.puts:
            self.session.store.put(put.name, put.data)
        self._stored.append(made.body)

    def _made(self, inline_bytes: int) -> Made:
        made = stage_made(self._waiting, inline_bytes)
        self.counts.bytes += sum(len(put.data) for put in made.puts) + sum(map(len, made.body.get("i") or ()))
        self._waiting, self.waiting_bytes = [], 0
        return made

    def gather(self, entries: Sequence[int], within: Span | None = None) -> Gathered:
        """All rows of some entries, in row order; or some of one, and the others by other calls. Whoever asks
        writes them, each once, before publishing."""
        chosen = np.sort(np.array(entries, np.int64))
        entry, offset = all_rows_of(self.head, chosen)
        first = 0
        if within is not None:
            first, stop = within
            inside = (offset >= first) & (offset < stop)
            entry, offset = entry[inside], offset[inside]
        columns = (*self.columns, *self._ended)
        stored = [self._changed.read_with_ages(int(at), columns, within) for at in chosen]
        base = np.cumsum([0, *(table.num_rows for table, _ in stored)]) - first
        index = base[np.searchsorted(chosen, entry)] + offset
        rows = pa.concat_tables([table for table, _ in stored]).combine_chunks().take(pa.array(index))
        ages = {
            column.name: _joined_ages(stored, column.name)[index]
            for column in columns
            if any(column.name in found for _, found in stored)
        }
        shown = [ages[column.name] for column in self.columns if column.name in ages]
        self.counts.cells_folded += sum(int((found > OLDEST).sum()) for found in shown)
        self.counts.rows_left_out -= len(index)
        if not first:
            self._replaced += entries
            self.counts.chunks_before += len(entries)
            spare = self.head.rows.spare_rows(chosen)
            self.counts.rows_left_out += int(self.head.log.rows[chosen].sum()) - spare
        return Gathered(rows, entry, offset, ages)

    def partitioned(self, gathered: Gathered) -> Iterator[tuple[bytes | None, Gathered]]:
        """Rows by the partition they are in now, which is not where they were born if they were moved."""
        head, entries = self.head, np.unique(gathered.entry)
        partitioning = parse_partitioning(head.settings.partition_by)
        numbers = np.unique(head.log.partition[entries])
        if not partitioning.fields or not len(numbers) or numbers[0] == NONE:
            yield None, gathered
            return
        if len(numbers) == 1 and not len(np.intersect1d(head.rows.patches.entry, entries)):
            yield head.log.partitions[int(numbers[0])], gathered
            return
        shown = as_shown(self.columns, gathered.rows, _schema(self.columns))
        for values, rows in partitioning.numbered(shown):
            yield encode_values(values), gathered.take(rows)

    def write(self, partition: bytes | None, gathered: Gathered) -> None:
        """Make one chunk. Its ordinal is how many were made before it since the last `publish`."""
        alike, stamps = list(_alike(gathered.ages)), []
        aged = {name for names, _ in alike for name in names}
        columns = (*self.columns, *(column for column in self._ended if column.name in aged))
        rows = gathered.rows.select([column.name for column in columns])
        for number, (names, found) in enumerate(alike):
            authors, numbers = np.unique(np.concatenate(([OLDEST], found)), return_inverse=True)
            title = f"{unlike(rows.column_names)}{number}"
            ids = tuple(self.head.log.id_at(at).to_bytes() for at in authors[1:].tolist())
            stamps.append(Stamps(title, tuple(names), ids))
            narrow = np.uint8 if len(ids) < 256 else np.uint16 if len(ids) < 65_536 else np.uint32
            rows = rows.append_column(title, pa.array(numbers[1:].astype(narrow)))
        fields = tuple(_field(column) for column in columns)
        born = row_ids(self.head, gathered.entry, gathered.offset)
        stands = bool(self.rises_by)
        copy = Copy(len(self._copies), born, tuple(stamps), stands=stands, rises_by=self.rises_by)
        self._copies.append(copy)
        self._waiting.append(MadeChunk(rows, fields, COPY, partition))
        self.waiting_bytes += rows.nbytes
        self.counts.rows += rows.num_rows

    def publish(self) -> Version | None:
        """Make what was written visible, as one version; `None` where there is nothing."""
        since_ms, staged = self._since_ms, self.staged()
        if staged is None:
            return None
        if since_ms is not None:
            require_in_time(since_ms)
        self.counts.versions += 1
        return published(self.session, self.head, staged, self._writer)

    def staged(self) -> Rewritten | None:
        """What was written, as a version that is not published; `None` where there is nothing. No request."""
        if not self._replaced:
            return None
        head, copies, replaced = self.head, tuple(self._copies), np.array(self._replaced, np.int64)
        made = self._made(0 if self._stored else self.session.options.inline_bytes)
        folded = head.log.ids[self._folded(replaced)]
        done = RowOps(copies=copies, replaces=tags_of(head.log, replaced)[0], folded=folded)
        body = {**joined_bodies([*self._stored, made.body]), "x": Ops(rows=done).encode()}
        self.counts.chunks_after += len(copies)
        self._stored, self._since_ms, self._copies, self._replaced = [], None, [], []
        return Rewritten("cluster" if self.rises_by else "compact", body, tuple(made.puts))

    def _folded(self, replaced: Integers) -> Integers:
        """The versions whose effect is in the copies of some entries: on their columns, too."""
        rows = self.head.rows
        over = rows.patches.source[np.isin(rows.patches.entry, replaced)]
        types = columns_rest_on(self.head, self.columns, np.concatenate((replaced, over)))
        return np.union1d(rows.authors(replaced), np.array(types, np.int64))


def published(session: Session, head: Head, staged: Rewritten, writer: Writer | None = None) -> Version:
    """Publish what a rewriter staged from a head, here or elsewhere. Raises as any commit does."""
    if staged.operation == "compact" and writer is None:
        writer = session.upkeep_writer()
    return session.commit(staged.operation, body=staged.body, puts=staged.puts, seen=head, writer=writer)


def _joined_ages(stored: Sequence[tuple[pa.Table, dict[str, Integers]]], name: str) -> Integers:
    return np.concatenate([ages.get(name, np.full(table.num_rows, OLDEST)) for table, ages in stored])


def _alike(ages: dict[str, Integers]) -> Iterator[tuple[list[str], Integers]]:
    """Columns whose cells have the same ages, together: three columns updated at once need one of stamps."""
    kinds: dict[bytes, tuple[list[str], Integers]] = {}
    for name, found in ages.items():
        if (found > OLDEST).any():
            kinds.setdefault(found.tobytes(), ([], found))[0].append(name)
    yield from kinds.values()


def _field(column: Column) -> StoredField:
    (instance,) = column.instances
    return StoredField(column.name, instance, column.code, column.nullable)


def _schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type) for column in columns])

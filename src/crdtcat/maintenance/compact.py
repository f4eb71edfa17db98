"""Compaction: small and changed chunks become whole ones, and nobody notices.

Rows are written again under the ids they had, with everything that lies over them folded in and what is
deleted left out; folded cells keep their age, so a late update meets them as it would have met the overlay.
What is replaced stays in the log until it is expired. A compaction may run beside writers and other
compactions; it conflicts with nothing, and it counts only where everything it folded does
(`crdtcat.head.compactions`).

Memory: one group of chunks at a time, and the encoded segment of a commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.partitions import encode_values, parse_partitioning
from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.types import encode_type
from crdtcat.errors import InvalidArgument
from crdtcat.format.kinds import COPY
from crdtcat.format.ops import Ops
from crdtcat.format.row_ops import Copy, RowOps, Stamps
from crdtcat.format.schema_code import StoredField
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.head.keyed import KeyedRows
from crdtcat.head.naming import row_ids, tags_of
from crdtcat.intervals.runs import Integers
from crdtcat.log.log import NONE
from crdtcat.maintenance.compact_keyed import KeyedCompactor, keyed_groups
from crdtcat.maintenance.compact_plan import copy_columns, groups
from crdtcat.maintenance.progress import Progress, Tell, teller
from crdtcat.scan.changed import OLDEST, ChangedEntries
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.located import all_rows_of
from crdtcat.scan.plan import make_plan
from crdtcat.scan.shown import as_shown
from crdtcat.session import Session
from crdtcat.writing.made import MadeChunk, stage_made

COMMIT_BYTES: Final = 128 * 2**20  # Arrow content that one version of a compaction holds, about
LEAST_SHARE: Final = 4  # chunks with fewer than a fourth of the rows a chunk should have are small


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction did.

    Attributes:
        versions: upkeep versions written.
        chunks_before, chunks_after: of the chunks it replaced, and those it wrote.
        rows: rows written again.
        bytes: encoded bytes stored.
        cells_folded: cells whose newer values are now in place.
        rows_left_out: deleted rows that are no longer stored with the others.
        seconds: how long it took.
    """

    versions: int = 0
    chunks_before: int = 0
    chunks_after: int = 0
    rows: int = 0
    bytes: int = 0
    cells_folded: int = 0
    rows_left_out: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.versions:
            return f"nothing to compact ({self.seconds:.2f} s)"
        return (
            f"compacted {self.chunks_before:,} chunks into {self.chunks_after:,}: {self.rows:,} rows, "
            f"{self.bytes:,} bytes stored, {self.cells_folded:,} cells folded, "
            f"{self.rows_left_out:,} deleted rows left out, {self.seconds:.2f} s"
        )


@dataclass(frozen=True, eq=False)
class Written:
    """One chunk of a compaction, before it is known which ordinal it gets."""

    chunk: MadeChunk
    entry: Integers
    offset: Integers
    stamps: tuple[Stamps, ...]


def compact(
    session: Session, *, rows: int | None = None, progress: bool | Tell | None = None
) -> CompactResult:
    """Write small and changed chunks anew.

    Costs a refresh and a read of what is written anew; 2 PUTs per 128 MiB of Arrow content.

    Raises:
        StoreUnavailable, Corrupt: what was published before stands and is right.
    """
    began, tell = time.monotonic(), teller(progress)
    _check_rows(rows)
    head = session.head()
    target = rows or session.options.chunk_rows or session.options.chunk_rows_target
    if head.keyed is not None:
        return _compact_keyed(session, head, head.keyed, target, tell)
    todo = list(groups(head, least=max(2, target // LEAST_SHARE), target=target))
    most = rows or session.options.chunk_rows or session.options.chunk_rows_max
    work = Compactor(session, head, most)
    total = sum(map(len, todo))
    for group in todo:
        work.add(group)
        tell(Progress("compacting", work.chunks_before, total, "chunks", bytes=work.bytes))
    work.publish()
    return work.result(time.monotonic() - began)


def _compact_keyed(session: Session, head: Head, keyed: KeyedRows, target: int, tell: Tell) -> CompactResult:
    began = time.monotonic()
    todo = list(keyed_groups(head, keyed, least=max(2, target // LEAST_SHARE), target=target))
    work, done = KeyedCompactor(session, head, keyed, target), []
    total = sum(len(group.chunks) for group in todo)
    for group in todo:
        done.append(work.write(group))
        before = sum(one.chunks_before for one in done)
        tell(Progress("compacting", before, total, "chunks", bytes=sum(one.bytes for one in done)))
    return CompactResult(
        versions=len(done),
        chunks_before=sum(one.chunks_before for one in done),
        chunks_after=sum(one.chunks_after for one in done),
        rows=sum(one.rows for one in done),
        bytes=sum(one.bytes for one in done),
        rows_left_out=sum(one.rows_before - one.rows for one in done),
        seconds=time.monotonic() - began,
    )


def _check_rows(rows: object) -> None:
    if rows is not None and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 1):
        raise InvalidArgument(f"rows={rows!r}: how many rows should a chunk have? Pass a number from 1 on")


class Compactor:
    """Writes groups of entries anew, a version whenever enough have gathered."""

    def __init__(self, session: Session, head: Head, rows_max: int) -> None:
        self._session, self._head, self._rows_max = session, head, rows_max
        self._columns = copy_columns(head)
        self._writer = session.upkeep_writer()
        plan = make_plan(head, None, None)
        reader = ChunkReader(plan, session.store, FooterCache(), verify=session.options.verify)
        self._changed = ChangedEntries(plan, reader)
        self._waiting: list[Written] = []
        self._replaced: list[int] = []
        self._waiting_bytes = 0
        self.chunks_before = self._chunks_after = self._rows = self.bytes = 0
        self._versions = self._cells = self._left_out = 0

    def add(self, group: Sequence[int]) -> None:
        """Take one group; publishes what has gathered if it is enough."""
        written = list(self._written(np.sort(np.array(group, np.int64))))
        self._waiting += written
        self._replaced += group
        self._waiting_bytes += sum(item.chunk.rows.nbytes for item in written)
        self.chunks_before += len(group)
        if self._waiting_bytes >= COMMIT_BYTES:
            self.publish()

    def _written(self, entries: Integers) -> Iterator[Written]:
        head, columns = self._head, self._columns
        entry, offset = all_rows_of(head, entries)
        stored = [self._changed.read_with_ages(int(at), columns) for at in entries]
        base = np.cumsum([0, *(table.num_rows for table, _ in stored)])
        index = base[np.searchsorted(entries, entry)] + offset
        rows = pa.concat_tables([table for table, _ in stored]).combine_chunks().take(pa.array(index))
        ages = {
            column.name: _joined_ages(stored, column.name)[index]
            for column in columns
            if any(column.name in found for _, found in stored)
        }
        self._cells += sum(int((found > OLDEST).sum()) for found in ages.values())
        self._left_out += int(head.log.rows[entries].sum()) - len(index)
        for partition, part in self._partitioned(rows, entries):
            for piece in _cut(part, self._rows_max):
                yield self._chunk(partition, rows.take(pa.array(piece)), piece, (entry, offset), ages)

    def _partitioned(self, rows: pa.Table, entries: Integers) -> Iterator[tuple[bytes | None, Integers]]:
        """Rows by the partition they are in now, which is not where they were born if they were moved."""
        head, everything = self._head, np.arange(rows.num_rows)
        partitioning = parse_partitioning(head.settings.partition_by)
        number = int(head.log.partition[entries[0]])
        if not partitioning.fields or number == NONE:
            yield None, everything
            return
        if not len(np.intersect1d(head.rows.patches.entry, entries)):
            yield head.log.partitions[number], everything
            return
        shown = as_shown(self._columns, rows, _schema(self._columns))
        numbered = shown.append_column(_NUMBER, pa.array(everything))
        for values, part in partitioning.split(numbered):
            yield encode_values(values), np.asarray(part[_NUMBER])

    def _chunk(
        self,
        partition: bytes | None,
        rows: pa.Table,
        piece: Integers,
        places: tuple[Integers, Integers],
        ages: dict[str, Integers],
    ) -> Written:
        stamps = []
        for number, (names, found) in enumerate(_alike(ages, piece)):
            authors, numbers = np.unique(np.concatenate(([OLDEST], found)), return_inverse=True)
            title = _free_name(rows.column_names, number)
            ids = tuple(self._head.log.id_at(at).to_bytes() for at in authors[1:].tolist())
            stamps.append(Stamps(title, tuple(names), ids))
            narrow = np.uint8 if len(ids) < 256 else np.uint16 if len(ids) < 65_536 else np.uint32
            rows = rows.append_column(title, pa.array(numbers[1:].astype(narrow)))
        fields = tuple(_field(column) for column in self._columns)
        made = MadeChunk(rows, fields, COPY, partition)
        return Written(made, places[0][piece], places[1][piece], tuple(stamps))

    def publish(self) -> None:
        """Make what has gathered visible, as one version."""
        if not self._replaced:
            return
        head, waiting = self._head, self._waiting
        replaced = np.array(self._replaced, np.int64)
        copies = tuple(
            Copy(ordinal, row_ids(head, item.entry, item.offset), stamps=item.stamps)
            for ordinal, item in enumerate(waiting)
        )
        made = stage_made([item.chunk for item in waiting], self._session.options.inline_bytes)
        folded = head.log.ids[head.rows.authors(replaced)]
        done = RowOps(copies=copies, replaces=tags_of(head.log, replaced)[0], folded=folded)
        body = {**made.body, "x": Ops(rows=done).encode()}
        self._session.commit("compact", body=body, puts=made.puts, seen=head, writer=self._writer)
        self._versions += 1
        self._chunks_after += len(waiting)
        self._rows += sum(len(item.entry) for item in waiting)
        self.bytes += sum(len(put.data) for put in made.puts) + sum(map(len, made.body.get("i") or ()))
        self._waiting, self._replaced, self._waiting_bytes = [], [], 0

    def result(self, seconds: float) -> CompactResult:
        """What was done."""
        return CompactResult(
            self._versions,
            self.chunks_before,
            self._chunks_after,
            self._rows,
            self.bytes,
            self._cells,
            self._left_out,
            seconds,
        )


_NUMBER: Final = "~number"


def _free_name(taken: Sequence[str], number: int) -> str:
    """A name for a column of stamps that no column of the table has."""
    return "~" * (1 + max(len(name) - len(name.lstrip("~")) for name in taken)) + str(number)


def _cut(rows: Integers, most: int) -> Iterator[Integers]:
    """As few pieces as fit, of about equal size."""
    pieces = max(1, -(-len(rows) // most))
    yield from (piece for piece in np.array_split(rows, pieces) if len(piece))


def _joined_ages(stored: Sequence[tuple[pa.Table, dict[str, Integers]]], name: str) -> Integers:
    return np.concatenate([ages.get(name, np.full(table.num_rows, OLDEST)) for table, ages in stored])


def _alike(ages: dict[str, Integers], piece: Integers) -> Iterator[tuple[list[str], Integers]]:
    """Columns whose cells have the same ages, together: three columns updated at once need one of stamps."""
    kinds: dict[bytes, tuple[list[str], Integers]] = {}
    for name, found in ages.items():
        mine = found[piece]
        if (mine > OLDEST).any():
            kinds.setdefault(mine.tobytes(), ([], mine))[0].append(name)
    yield from kinds.values()


def _field(column: Column) -> StoredField:
    (instance,) = column.instances
    return StoredField(column.name, instance, encode_type(column.type, column.name), column.nullable)


def _schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type) for column in columns])

"""Clustering: the rows of a table in the order of some columns, so that filters on these read few chunks.

A clustering is a compaction that gives rows new places. It is part of history, because the order that is
shown changes; nothing else does: rows keep their ids, cells their ages. What it does not know of, a late
update or another compaction, holds as it does for every compaction.

Bounded memory by distribution, not by merging sorted runs: a version that replaces entries must hold every
row of each, and a merged run would hold some rows of all. So a lot (`crdtcat.maintenance.cluster_plan`) that
is larger than one commit is first *spread*: each of its parts is sorted and cut at the same keys, which are
quantiles of a sample, and published. What lies between two keys is then in entries of its own, a lot that is
smaller, and is spread again or sorted as a whole. Every step is a commit that stands by itself: whoever is
killed between two has lost nothing, and the next call goes on from there.

Memory: what one commit holds, about three times over, and a sample. Reads and writes: the rows of lots that
are not in order, once for those that fit into one commit, and once more for every factor of 64 beyond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.statistics import domain
from crdtcat.clock import VersionId
from crdtcat.errors import InvalidArgument
from crdtcat.head import Head
from crdtcat.log.log import NONE
from crdtcat.maintenance import rewrite
from crdtcat.maintenance.cluster_plan import ClusterPlan, Lot, keys_in
from crdtcat.maintenance.progress import Progress, Tell
from crdtcat.maintenance.rewrite import Counts, Gathered, Rewriter, cut
from crdtcat.maintenance.sorting import keys_of, ordered, parts, quantiles
from crdtcat.session import Session

WAYS_MOST: Final = 64  # parts into which a lot is spread at once
SAMPLE_ROWS: Final = 64 * 1024  # whose quantiles are the keys to cut at
ROUNDS: Final = 8  # times that lots are spread, or looked for again because somebody compacted them meanwhile

Spread = list[list[tuple[VersionId, int]]]
"""Part by part, in rising order, the chunks that hold it: version and ordinal."""


def check_columns(head: Head, by: object) -> tuple[str, ...]:
    """The columns to cluster by. Raises `InvalidArgument` where rows cannot be ordered by them."""
    if isinstance(by, str) or not isinstance(by, Sequence) or not all(isinstance(name, str) for name in by):
        raise InvalidArgument(f"cluster_by={by!r:.80}: pass a list of column names")
    if not by or len(set(by)) != len(by):
        raise InvalidArgument(f"cluster_by={list(by)}: name at least one column, and each once")
    if head.keyed is not None:
        raise InvalidArgument(
            f"table {head.table!r} has the key {', '.join(head.settings.key)}, and its rows are in the order "
            "of keys: compact() without cluster_by, or keep another table in another order"
        )
    for name in by:
        column = head.columns.by_name.get(name)
        if column is None:
            known = ", ".join(head.columns.by_name) or "none yet"
            raise InvalidArgument(f"cluster_by: table {head.table!r} has no column {name!r}; it has {known}")
        if domain(column.type) is None:
            raise InvalidArgument(f"cluster_by: column {name!r} holds {column.type}, which has no order")
        if len(column.instances) > 1:
            raise InvalidArgument(
                f"cluster_by: column {name!r} is {len(column.instances)} columns that were added at once; "
                "its values cannot be written anew"
            )
    return tuple(by)


class Clusterer:
    """Puts rows in order. `counts` tells what it has written.

    Args:
        session: of the table.
        by: the columns.
        rows: how many rows a chunk should have.
        tell: told how far it is.
    """

    def __init__(self, session: Session, by: tuple[str, ...], rows: int, tell: Tell) -> None:
        self._session, self._by, self._rows, self._tell = session, by, rows, tell
        self.counts = Counts()

    def run(self, head: Head) -> None:
        """Everything. Costs a read of the columns where neither statistics nor the log say that rows are in
        order; then of all rows of lots that are not. Raises as `compact` does."""
        lots: list[Lot] | None = None
        for _ in range(ROUNDS):
            if lots is None:
                head = self._settled(head)
                lots = ClusterPlan(self._session, head, self._by).lots()
            large = [lot for lot in lots if len(lot) > 1 and _size(head, lot) > rewrite.COMMIT_BYTES]
            if not large:
                break
            head, lots = self._spread(head, lots)
        lots = [lot for lot in lots or () if len(lot) == 1 or _size(head, lot) <= rewrite.COMMIT_BYTES]
        self._sort(head, lots)

    def _settled(self, head: Head) -> Head:
        """The head, once rows that are stored twice, or in a partition that they left, were compacted."""
        todo = ClusterPlan(self._session, head, self._by).unsettled()
        if not todo:
            return head
        work = Rewriter(self._session, head, counts=self.counts)
        for group in todo:
            for partition, rows in work.partitioned(work.gather(group)):
                self._write(work, partition, rows)
            if work.waiting_bytes >= rewrite.COMMIT_BYTES:
                work.publish()
        work.publish()
        return self._session.head()

    def _sort(self, head: Head, lots: Sequence[Lot]) -> None:
        """Write lots that fit into a commit, each in order, behind each other."""
        work = Rewriter(self._session, head, self._by, self.counts)
        done, total = 0, sum(map(len, lots))
        for group in _together(head, lots, rewrite.COMMIT_BYTES):
            partition = _partition(head, group)
            rows = work.gather(group)
            keys = keys_of(rows.rows, self._by, rows.entry, rows.offset)
            self._write(work, partition, rows.take(ordered(keys)))
            if work.waiting_bytes >= rewrite.COMMIT_BYTES:
                work.publish()
            done += len(group)
            self._tell(Progress("sorting", done, total, "chunks", bytes=self.counts.bytes))
        work.publish()

    def _write(self, work: Rewriter, partition: bytes | None, rows: Gathered) -> None:
        for piece in cut(len(rows.entry), self._rows):
            work.write(partition, rows.take(piece))

    def _spread(self, head: Head, lots: Sequence[Lot]) -> tuple[Head, list[Lot] | None]:
        """Spread every lot that is too large. The head after that, and what are lots then; `None` where
        somebody else has compacted some of them meanwhile."""
        names: list[Spread] = []
        for lot in lots:
            if len(lot) == 1 or _size(head, lot) <= rewrite.COMMIT_BYTES:
                names.append([[_name(head, entry) for entry in lot]])
            else:
                names.append(self._spread_one(head, lot))
        after = self._session.head()
        live = set(after.live.tolist())
        found = [[_chunk(after, *name) for name in part] for spread in names for part in spread if part]
        if not all(chunk in live for part in found for chunk in part):
            return after, None
        return after, found

    def _spread_one(self, head: Head, lot: Lot) -> Spread:
        cuts = self._cuts(head, lot)
        spread: Spread = [[] for _ in range(cuts.num_rows + 1)]
        work = Rewriter(self._session, head, self._by, self.counts)
        done = 0
        for group in _together(head, [[entry] for entry in lot], rewrite.COMMIT_BYTES):
            rows = work.gather(group)
            keys = keys_of(rows.rows, self._by, rows.entry, rows.offset)
            where: list[int] = []
            for number, part in enumerate(parts(keys, cuts)):
                for piece in cut(len(part), self._rows):
                    work.write(_partition(head, group), rows.take(part[piece]))
                    where.append(number)
            version = work.publish()
            for ordinal, number in enumerate(where):
                assert version is not None  # it replaces something
                spread[number].append((version.id, ordinal))
            done += len(group)
            self._tell(Progress("spreading", done, len(lot), "chunks", bytes=self.counts.bytes))
        return spread

    def _cuts(self, head: Head, lot: Lot) -> pa.Table:
        """Keys that cut a lot into parts of about half a commit, as far as a sample tells."""
        count = int(head.rows.live_rows(np.array(lot, np.int64)).sum())
        step, before, sample = max(1, count // SAMPLE_ROWS), 0, []
        for rows in keys_in(self._session, head, lot, self._by):
            keys = keys_of(rows.rows, self._by, rows.entry, rows.offset)
            chosen = np.arange(-before % step, keys.num_rows, step)
            sample.append(keys.take(pa.array(chosen)))
            before += keys.num_rows
        ways = min(WAYS_MOST, 2 * -(-_size(head, lot) // rewrite.COMMIT_BYTES))
        return quantiles(pa.concat_tables(sample), ways)


def _together(head: Head, lots: Sequence[Lot], most: int) -> Iterator[Lot]:
    """Neighbours of one partition, up to so many bytes, as one lot. What is larger by itself stays alone."""
    gathered: Lot = []
    size = 0
    for lot in lots:
        more = _size(head, lot)
        if gathered and (size + more > most or _partition(head, gathered) != _partition(head, lot)):
            yield gathered
            gathered, size = [], 0
        gathered, size = [*gathered, *lot], size + more
    if gathered:
        yield gathered


def _size(head: Head, lot: Lot) -> int:
    return int(head.log.nbytes[lot].sum(dtype=np.uint64))


def _partition(head: Head, lot: Lot) -> bytes | None:
    number = int(head.log.partition[lot[0]])
    return None if number == NONE else head.log.partitions[number]


def _name(head: Head, entry: int) -> tuple[VersionId, int]:
    version = int(head.log.chunk_version[entry])
    return head.log.id_at(version), entry - int(head.log.chunk_start[version])


def _chunk(head: Head, id: VersionId, ordinal: int) -> int:
    version = head.log.index_of(id)
    return -1 if version < 0 else int(head.log.chunk_start[version]) + ordinal

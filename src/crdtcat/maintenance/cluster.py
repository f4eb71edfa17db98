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

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from crdtcat.chunks.statistics import domain
from crdtcat.clock import VersionId
from crdtcat.errors import InvalidArgument
from crdtcat.head import Head
from crdtcat.maintenance import rewrite
from crdtcat.maintenance.cluster_plan import ClusterPlan, Lot
from crdtcat.maintenance.cluster_work import (
    Done,
    Engine,
    Here,
    Rewriting,
    Sample,
    Settle,
    Sort,
    Spread,
    partition_of,
    size_of,
)
from crdtcat.maintenance.progress import Progress, Tell
from crdtcat.maintenance.rewrite import Counts
from crdtcat.maintenance.sorting import quantiles
from crdtcat.session import Session
from crdtcat.support.showing import shown

WAYS_MOST: Final = 64  # parts into which a lot is spread at once
SAMPLE_ROWS: Final = 64 * 1024  # whose quantiles are the keys to cut at
ROUNDS: Final = 8  # times that lots are spread, or looked for again because somebody compacted them meanwhile

_Spread = list[list[tuple[VersionId, int]]]
"""Part by part, in rising order, the chunks that hold it: version and ordinal."""


def check_columns(head: Head, by: object) -> tuple[str, ...]:
    """The columns to cluster by. Raises `InvalidArgument` where rows cannot be ordered by them."""
    if isinstance(by, str) or not isinstance(by, Sequence) or not all(isinstance(name, str) for name in by):
        raise InvalidArgument(f"cluster_by={shown(by)}: pass a list of column names")
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
            raise InvalidArgument(
                f"cluster_by: table {head.table!r} has no column {shown(name, 300)}; it has {known}"
            )
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
        engine: carries out the units of work; this process by default.
    """

    def __init__(
        self, session: Session, by: tuple[str, ...], rows: int, tell: Tell, engine: Engine | None = None
    ) -> None:
        self._session, self._by, self._rows, self._tell = session, by, rows, tell
        self._engine: Engine = Here(session) if engine is None else engine
        self.counts = Counts()

    def run(self, head: Head) -> None:
        """Everything. Costs a read of the columns where neither statistics nor the log say that rows are in
        order; then of all rows of lots that are not. Raises as `compact` does."""
        lots: list[Lot] | None = None
        for _ in range(ROUNDS):
            if lots is None:
                head = self._settled(head)
                lots = ClusterPlan(self._session, head, self._by).lots()
            large = [lot for lot in lots if len(lot) > 1 and size_of(head, lot) > rewrite.COMMIT_BYTES]
            if not large:
                break
            head, lots = self._spread(head, lots)
        lots = [lot for lot in lots or () if len(lot) == 1 or size_of(head, lot) <= rewrite.COMMIT_BYTES]
        groups = _together(head, lots, rewrite.COMMIT_BYTES)
        self._rewritten(head, self._by, [Sort(some, self._rows, self._by) for some in _commits(head, groups)])

    def _settled(self, head: Head) -> Head:
        """The head, once rows that are stored twice, or in a partition that they left, were compacted."""
        todo = ClusterPlan(self._session, head, self._by).unsettled()
        if not todo:
            return head
        self._rewritten(head, (), [Settle(some, self._rows) for some in _commits(head, todo)])
        return self._session.head()

    def _rewritten(
        self, head: Head, rises_by: tuple[str, ...], units: Sequence[Rewriting]
    ) -> list[tuple[Rewriting, Done]]:
        """Every unit and what became of it, in order. Counts what was written, and tells of it."""
        found: list[tuple[Rewriting, Done]] = []
        done, total = 0, sum(len(group) for unit in units for group in unit.groups)
        for unit, one in zip(units, self._engine.rewritten(head, rises_by, units), strict=True):
            found.append((unit, one))
            self.counts += one.counts
            done += sum(map(len, unit.groups))
            what = {Settle: "settling", Sort: "sorting", Spread: "spreading"}[type(unit)]
            self._tell(Progress(what, done, total, "chunks", bytes=self.counts.bytes))
        return found

    def _spread(self, head: Head, lots: Sequence[Lot]) -> tuple[Head, list[Lot] | None]:
        """Spread every lot that is too large. The head after that, and what are lots then; `None` where
        somebody else has compacted some of them meanwhile."""
        is_large = [len(lot) > 1 and size_of(head, lot) > rewrite.COMMIT_BYTES for lot in lots]
        cuts = self._cuts(head, [lot for lot, large in zip(lots, is_large, strict=True) if large])
        names: list[_Spread] = []
        units: list[Rewriting] = []
        targets: list[_Spread] = []
        for lot, large in zip(lots, is_large, strict=True):
            if not large:
                names.append([[_name(head, entry) for entry in lot]])
                continue
            at = cuts.pop(0)
            names.append([[] for _ in range(at.num_rows + 1)])
            for group in _together(head, [[entry] for entry in lot], rewrite.COMMIT_BYTES):
                units.append(Spread([group], self._rows, self._by, at))
                targets.append(names[-1])
        for spread, (_, one) in zip(targets, self._rewritten(head, self._by, units), strict=True):
            for ordinal, number in enumerate(one.told):
                assert one.version is not None  # it replaces something
                spread[number].append((one.version.id, ordinal))
        after = self._session.head()
        live = set(after.live.tolist())
        found = [[_chunk(after, *name) for name in part] for spread in names for part in spread if part]
        if not all(chunk in live for part in found for chunk in part):
            return after, None
        return after, found

    def _cuts(self, head: Head, lots: Sequence[Lot]) -> list[pa.Table]:
        """Per lot, keys that cut it into parts of about half a commit, as far as a sample tells."""
        samples: list[Sample] = []
        for lot in lots:
            count = int(head.rows.live_rows(np.array(lot, np.int64)).sum())
            step = max(1, count // SAMPLE_ROWS)
            groups = _together(head, [[entry] for entry in lot], rewrite.COMMIT_BYTES)
            samples += [Sample(group, self._by, step) for group in groups]
        tables = self._engine.sampled(head, samples)
        found = []
        for lot in lots:
            mine = [table for unit, table in zip(samples, tables, strict=True) if unit.entries[0] in set(lot)]
            ways = min(WAYS_MOST, 2 * -(-size_of(head, lot) // rewrite.COMMIT_BYTES))
            found.append(quantiles(pa.concat_tables(mine), ways))
        return found


def _commits(head: Head, groups: Iterable[Lot]) -> Iterator[list[Lot]]:
    """Groups that are published together: until they are as large as a commit."""
    gathered: list[Lot] = []
    size = 0
    for group in groups:
        gathered.append(group)
        size += size_of(head, group)
        if size >= rewrite.COMMIT_BYTES:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


def _together(head: Head, lots: Sequence[Lot], most: int) -> Iterator[Lot]:
    """Neighbours of one partition, up to so many bytes, as one lot. What is larger by itself stays alone."""
    gathered: Lot = []
    size = 0
    for lot in lots:
        more = size_of(head, lot)
        if gathered and (size + more > most or partition_of(head, gathered) != partition_of(head, lot)):
            yield gathered
            gathered, size = [], 0
        gathered, size = [*gathered, *lot], size + more
    if gathered:
        yield gathered


def _name(head: Head, entry: int) -> tuple[VersionId, int]:
    version = int(head.log.chunk_version[entry])
    return head.log.id_at(version), entry - int(head.log.chunk_start[version])


def _chunk(head: Head, id: VersionId, ordinal: int) -> int:
    version = head.log.index_of(id)
    return -1 if version < 0 else int(head.log.chunk_start[version]) + ordinal

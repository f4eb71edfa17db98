"""What to cluster: which entries are where they should be, and which have to be sorted with which.

The order of entries follows from their statistics. Each column's bounds, one after the other, are a lower and
an upper bound of an entry's rows in the order of all columns. Entries whose bounds overlap, directly or by
way of others, are a *lot*: whatever the order within, every row of a lot comes before every row of the next.
So a lot can be sorted by itself. In a partitioned table lots are of one partition, and partitions follow each
other.

The first lots that stand in this order, and whose rows do, stay as they are: what is sorted is placed behind
them. But rows that follow others wherever those go have to be given places of their own. Entries that cannot
be written anew, or share rows with others, are left out.

Reads nothing but the columns of entries of which neither statistics nor the log say that they are in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.chunks.partitions import parse_partitioning
from crdtcat.chunks.read import FooterCache
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.maintenance.compact_plan import Simple, crowds
from crdtcat.maintenance.sorting import are_in_order, keys_of
from crdtcat.scan.execute import Execution
from crdtcat.scan.located import Located, located
from crdtcat.scan.plan import make_plan
from crdtcat.scan.source import HeadStatistics, entries_overlaid
from crdtcat.scan.units import read_in_parts
from crdtcat.session import Session

Lot = list[int]
"""Entries of one partition, in row order."""
Rank = tuple[tuple[int, Any], ...]
"""A bound of a row in the order of several columns: per column (-1, 0): below everything, (0, value), or
(1, 0): above all values, where NaN and null are."""


class ClusterPlan:
    """What has to be done to put the rows of a head into the order of some columns.

    Args:
        session: of the table.
        head: the head.
        by: names of the columns.
    """

    def __init__(self, session: Session, head: Head, by: Sequence[str]) -> None:
        self._session, self._head, self._by = session, head, tuple(by)

    def unsettled(self) -> list[Lot]:
        """Entries to be compacted before anything is sorted: those that share rows, each with the others;
        those with rows of another partition than their own; and those that are too large to be read at
        once."""
        head = self._head
        simple = Simple(head)
        shared = [crowd for crowd in crowds(head) if all(map(simple.is_entry, crowd))]
        crowded = {entry for crowd in shared for entry in crowd}
        wanted = self._moved() | np.isin(head.live, read_in_parts(head))
        by_itself = [at for at in head.live[wanted].tolist() if at not in crowded]
        return [*shared, *([entry] for entry in by_itself if simple.is_entry(entry))]

    def lots(self) -> list[Lot]:
        """What has to be sorted, lot by lot, in the order in which their rows shall stand."""
        head = self._head
        simple, crowded = Simple(head), {entry for crowd in crowds(head) for entry in crowd}
        fixed = self._moved()
        live = [
            entry
            for entry, is_fixed in zip(head.live.tolist(), fixed.tolist(), strict=True)
            if not is_fixed and entry not in crowded and simple.is_entry(entry)
        ]
        found = list(_lots(head, live, self._by))
        return found[self._in_place(found) :]

    def _moved(self) -> Array:
        """Per live entry, whether some of its rows may be in another partition now."""
        head = self._head
        found = np.zeros(len(head.live), bool)
        for field in parse_partitioning(head.settings.partition_by).fields:
            if field.column in head.columns.by_name:
                found |= entries_overlaid(head, head.columns.by_name[field.column])[head.live]
        return found

    def _in_place(self, found: Sequence[Lot]) -> int:
        """How many of the first lots are in order and stand where they should."""
        first, last = _strips(self._head)
        hanging = set() if self._head.rows.is_plain else set(self._head.rows.hanging.tolist())
        reached = -1
        for place, lot in enumerate(found):
            if int(first[lot].min()) <= reached or hanging & set(lot) or not self._is_in_order(lot):
                return place
            reached = int(last[lot].max())
        return len(found)

    def _is_in_order(self, lot: Lot) -> bool:
        if len(lot) == 1 and self._is_known_to_rise(lot[0]):
            return True
        before: pa.Table | None = None
        for rows in keys_in(self._session, self._head, lot, self._by):
            keys = keys_of(rows.rows, self._by, rows.entry, rows.offset)
            both = keys if before is None else pa.concat_tables([before, keys])
            if not are_in_order(both):
                return False
            before = both.slice(max(0, both.num_rows - 1))
        return True

    def _is_known_to_rise(self, entry: int) -> bool:
        """Whether the log says so of what is stored, and nothing lies over it in these columns."""
        head, copy = self._head, self._head.rows.copies.get(entry)
        if copy is None or head.rows.strips_of(entry).entry.size != 1:
            return False
        log = head.log
        schema, version = int(log.chunk_schema[entry]), int(log.chunk_version[entry])
        columns = [head.columns.by_name[name] for name in self._by]
        fields = [head.columns.source(column, schema, version) for column in columns]
        names = tuple("" if field is None else field.name for field in fields)
        return copy.rises_by[: len(names)] == names and not any(
            entries_overlaid(head, column)[entry] for column in columns
        )


def keys_in(session: Session, head: Head, lot: Lot, by: Sequence[str]) -> Iterator[Located]:
    """The rows of a lot in row order, a few chunks at a time: nothing but the columns."""
    plan = make_plan(head, by, None)
    plan = replace(plan, chunks=np.array(lot, np.int64), whole=np.ones(len(lot), bool))
    return located(plan, Execution(plan, session.store, FooterCache(), verify=session.options.verify))


def _lots(head: Head, live: Sequence[int], by: Sequence[str]) -> Iterator[Lot]:
    """Entries, in row order, by partition and then by bounds."""
    entries = np.array(live, np.int64)
    statistics = HeadStatistics(head, entries)
    columns = [_ranks(statistics, name, len(entries)) for name in by]
    low = list(zip(*(lows for lows, _ in columns), strict=True))
    high = list(zip(*(highs for _, highs in columns), strict=True))
    partition = head.log.partition[entries].tolist()
    lot: list[int] = []
    reached: tuple[int, Rank] | None = None
    for at in sorted(range(len(entries)), key=lambda at: (partition[at], low[at], high[at], at)):
        if reached is None or reached[0] != partition[at] or low[at] >= reached[1]:
            if lot:
                yield [live[place] for place in sorted(lot)]
            lot, reached = [], (partition[at], high[at])
        lot.append(at)
        reached = (partition[at], max(reached[1], high[at]))
    if lot:
        yield [live[place] for place in sorted(lot)]


def _ranks(statistics: HeadStatistics, name: str, count: int) -> tuple[list[Any], list[Any]]:
    bounds = statistics.bounds(name)
    if bounds is None:
        return [(-1, 0)] * count, [(1, 0)] * count
    rows, low, high = statistics.rows, [], []
    for at in range(count):
        nulls = int(bounds.nulls[at])
        only_null = nulls == int(rows[at])
        low.append((0, _plain(bounds.minimum[at])) if bounds.known_min[at] else (1 if only_null else -1, 0))
        is_bounded = bounds.known_max[at] and nulls == 0
        high.append((0, _plain(bounds.maximum[at])) if is_bounded else (1, 0))
    return low, high


def _plain(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value.item()


def _strips(head: Head) -> tuple[Array, Array]:
    """Per chunk, the number of the first and the last strip that is read of it."""
    entry = head.live if head.rows.is_plain else head.rows.strips.entry
    first, last = (np.zeros(head.log.chunk_count, np.int64) for _ in range(2))
    first[entry[::-1]] = np.arange(len(entry))[::-1]
    last[entry] = np.arange(len(entry))
    return first, last

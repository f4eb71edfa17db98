"""Rows that an update may have moved to another partition than the one their chunk is stored in.

A chunk says in which partition its rows were when it was written. Where newer values of a partition column
lie over it that is no longer certain, until a compaction puts its rows where they belong. An overwrite of
partitions goes by what rows hold now, so it looks at the rows of such chunks, and only at those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from crdtcat.chunks.partitions import Partitioning, encode_values
from crdtcat.errors import InvalidArgument
from crdtcat.format.sections import Array
from crdtcat.head.head import Head
from crdtcat.head.naming import births
from crdtcat.intervals.runs import Integers
from crdtcat.scan.execute import Execution
from crdtcat.scan.located import all_rows_of, located
from crdtcat.scan.plan import make_plan
from crdtcat.scan.shown import as_shown
from crdtcat.scan.source import entries_overlaid
from crdtcat.session import Session

RowPlaces = tuple[Integers, Integers]
"""Rows as entries and offsets in them."""


@dataclass(frozen=True, eq=False)
class Moved:
    """The rows of chunks that hold rows of other partitions, perhaps.

    Attributes:
        entries: those chunks.
        entry, offset: where each of their rows is.
        partition: per row, the partition it is in now, by number.
        partitions: packed values by number.
    """

    entries: Array
    entry: Integers
    offset: Integers
    partition: Integers
    partitions: Sequence[bytes]

    def within(self, chosen: frozenset[bytes]) -> RowPlaces:
        """The rows that are in some partitions now: entry and offset."""
        numbers = [number for number, values in enumerate(self.partitions) if values in chosen]
        kept = np.isin(self.partition, numbers)
        return self.entry[kept], self.offset[kept]

    def by_entry(self, numbers: Sequence[int], most: int) -> dict[int, Integers]:
        """Per chunk and offset other numbers of the partitions that rows are in now; of rows that are gone,
        any. Without chunks that have rows of more than `most`."""
        order = np.lexsort((self.offset, self.entry))
        entry, offset = self.entry[order], self.offset[order]
        partition = np.asarray(numbers, np.int64)[self.partition[order]]
        found: dict[int, Integers] = {}
        begins = np.flatnonzero(np.diff(entry, prepend=-1)).tolist()
        for begin, end in pairwise([*begins, len(entry)]):
            if len(np.unique(partition[begin:end])) <= most:
                held = np.zeros(int(offset[end - 1]) + 1, np.int64)
                held[offset[begin:end]] = partition[begin:end]
                found[int(entry[begin])] = held
        return found


_NO_ROWS: Final[Integers] = np.empty(0, np.int64)
NONE_MOVED: Final = Moved(_NO_ROWS, _NO_ROWS, _NO_ROWS, _NO_ROWS, ())


def moved_rows(session: Session, head: Head, partitioning: Partitioning) -> Moved:
    """The partitions that rows are in now, where their chunks do not tell.

    Reads the partition columns of chunks over which an update of them lies; nothing if there are none.
    """
    names = list(dict.fromkeys(field.column for field in partitioning.fields))
    uncertain = np.zeros(head.log.chunk_count, bool)
    for name in names:
        uncertain |= entries_overlaid(head, head.columns.by_name[name])
    entries = head.live[uncertain[head.live]]
    known: dict[bytes, int] = {}
    found: list[tuple[Integers, Integers, Integers]] = []
    if len(entries):
        plan = replace(make_plan(head, names, None), chunks=entries, whole=np.ones(len(entries), bool))
        execution = Execution(plan, session.store, session.footers, verify=session.options.verify)
        for rows in located(plan, execution):
            shown = as_shown(plan.columns, rows.rows, plan.schema)
            partition = np.empty(shown.num_rows, np.int64)
            for values, numbers in partitioning.numbered(shown):
                partition[numbers] = known.setdefault(encode_values(values), len(known))
            found.append((rows.entry, rows.offset, partition))
    empty = np.empty(0, np.int64)
    entry, offset, partition = (np.concatenate([empty, *(part[at] for part in found)]) for at in range(3))
    return Moved(entries, entry, offset, partition, tuple(known))


def require_nothing_else(head: Head, scope: frozenset[bytes], gone: Array, rows: RowPlaces) -> None:
    """Refuse an overwrite that would take more than it selects.

    A row that came with an overwrite is taken by every greater one whose scope has the partition that the row
    was born in, for that is how two overwrites at once are told apart. If it was moved out since, it would
    go with a partition in which it is no longer.

    Args:
        head: what the overwrite saw.
        scope: the partitions that it overwrites.
        gone: chunks that it removes.
        rows: other rows that it removes.

    Raises:
        InvalidArgument: such rows are there.
    """
    log = head.log
    overwrites = [at for at, op in head.folded.ops.items() if op.is_overwrite]
    inside = [number for number, values in enumerate(log.partitions) if values in scope]
    claimed = np.isin(log.chunk_version, overwrites) & np.isin(log.partition, inside)
    if head.keyed is not None or not claimed.any():
        return
    plain = head.rows.is_plain
    holding = np.flatnonzero(claimed) if plain else head.rows.pieces.entry[claimed[head.rows.pieces.birth]]
    staying = np.setdiff1d(np.intersect1d(head.live, holding), gone)
    entry, offset = all_rows_of(head, staying)
    birth, _ = births(head, entry, offset)
    kept = claimed[birth] & ~np.isin((entry << 32) | offset, (rows[0] << 32) | rows[1])
    if kept.any():
        raise InvalidArgument(
            f"{int(kept.sum()):,} rows that came into these partitions of {head.table!r} with an overwrite "
            "were moved to others by an update, and would be lost with them: use delete(where) and append in "
            "a transaction, or overwrite the whole table"
        )

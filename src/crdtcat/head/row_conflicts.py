"""Rewritten cells that lost: to another rewrite, or because their row is gone.

Of the writes to one cell the greatest version wins. A loser is one that no other write to that cell had seen:
what somebody knowingly replaced is history, not a conflict. An update of a row that was deleted, or that a
greater overwrite took away, is lost unless one of those who took it had seen the update. Whoever knew that
a row was gone did not take it: a chunk that is removed as a whole may hold such rows, and its compacted copy
does not.

Worked out from intervals in ops, in arrays: rows on which several versions rewrote the same column are found
by cutting all intervals at all their ends. Reads no data; compactions change nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crdtcat.format.ops import ColumnId, Ops
from crdtcat.format.row_ids import Tags
from crdtcat.format.sections import Array
from crdtcat.head.clocks import Clocks
from crdtcat.head.columns import Columns
from crdtcat.head.conflicts import Conflict, RowInterval
from crdtcat.head.patches import Overlaid
from crdtcat.head.rows import Rows
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, expand
from crdtcat.log.log import Log


@dataclass(frozen=True, eq=False)
class LostCells:
    """Cells of one column that one version wrote and another's fate decided.

    Attributes:
        gone: whether the rows are gone; else the winner rewrote them too.
        column: which column.
        winner, loser: versions, by index.
        rows: which rows, by the chunk they were born in.
    """

    gone: bool
    column: ColumnId
    winner: int
    loser: int
    rows: RowSet


def lost_cells(
    log: Log, overlaid: Overlaid, takers: Mapping[int, RowSet], columns: Columns, clocks: Clocks
) -> Iterator[LostCells]:
    """Every rewritten cell that lost.

    Args:
        log: the log.
        overlaid: what was rewritten.
        takers: per version that deleted rows or took them away by overwriting, which rows.
        columns: tells which columns an overlay has.
        clocks: who had seen what.
    """
    taken = RowSet().union(*takers.values())
    for column, mine in _by_column(log, overlaid, columns):
        part = Overlaid(*(values[mine] for values in overlaid))
        yield from _rewritten_twice(column, part, taken, clocks)
        yield from _rewritten_in_vain(column, part, takers, taken, clocks)


def _by_column(log: Log, overlaid: Overlaid, columns: Columns) -> Iterator[tuple[ColumnId, Integers]]:
    """Per column, the intervals that rewrote it."""
    chunks: dict[ColumnId, list[int]] = {}
    for chunk in np.unique(overlaid.chunk).tolist():
        for field in columns.fields(int(log.chunk_schema[chunk])):
            chunks.setdefault(field.column, []).append(chunk)
    for column in sorted(chunks):
        yield column, np.flatnonzero(np.isin(overlaid.chunk, chunks[column]))


def _rewritten_twice(column: ColumnId, part: Overlaid, taken: RowSet, clocks: Clocks) -> Iterator[LostCells]:
    ends = np.unique(np.concatenate(((part.birth << 32) | part.start, (part.birth << 32) | part.stop)))
    first = np.searchsorted(ends, (part.birth << 32) | part.start)
    last = np.searchsorted(ends, (part.birth << 32) | part.stop)
    owner, offset = expand(last - first)
    pairs = np.unique(np.stack((first[owner] + offset, part.version[owner])), axis=1)
    cut, starts, counts = np.unique(pairs[0], return_index=True, return_counts=True)
    found: dict[tuple[int, int], list[int]] = {}
    verdicts: dict[tuple[int, ...], list[int]] = {}
    for at in np.flatnonzero(counts > 1).tolist():
        authors = tuple(pairs[1][starts[at] : starts[at] + counts[at]].tolist())
        if authors not in verdicts:
            verdicts[authors] = _losers(authors, clocks)
        for loser in verdicts[authors]:
            found.setdefault((authors[-1], loser), []).append(int(cut[at]))
    for (winner, loser), cuts in sorted(found.items()):
        begin, end = ends[cuts], ends[np.array(cuts) + 1]
        rows = RowSet(begin >> 32, begin & 0xFFFFFFFF, end & 0xFFFFFFFF) - taken
        if len(rows):
            yield LostCells(False, column, winner, loser, rows)


def _losers(authors: Sequence[int], clocks: Clocks) -> list[int]:
    """Of versions that wrote one cell, in rising order, those but the last that no other had seen."""
    return [
        loser
        for loser in authors[:-1]
        if not any(clocks.saw(other, loser) for other in authors if other != loser)
    ]


def _rewritten_in_vain(
    column: ColumnId, part: Overlaid, takers: Mapping[int, RowSet], taken: RowSet, clocks: Clocks
) -> Iterator[LostCells]:
    for loser in np.unique(part.version).tolist():
        mine = part.version == loser
        rows = RowSet(part.birth[mine], part.start[mine], part.stop[mine]) & taken
        if not len(rows):
            continue
        mine_taken = _first(
            {at: theirs & rows for at, theirs in takers.items() if theirs.overlaps(rows)}, clocks
        )
        for at, theirs in mine_taken.items():
            if clocks.saw(at, loser):
                rows -= theirs
        for at in sorted(mine_taken, reverse=True):
            lost = rows & mine_taken[at]
            if len(lost):
                yield LostCells(True, column, at, loser, lost)
                rows -= lost


def _first(taken: Mapping[int, RowSet], clocks: Clocks) -> dict[int, RowSet]:
    """Of rows that several versions took, what each took that was not gone for it already."""
    found: dict[int, RowSet] = {}
    for at in sorted(taken):
        found[at] = taken[at] - RowSet().union(*(taken[one] for one in found if clocks.saw(at, one)))
    return found


def takers(log: Log, ops: Mapping[int, Ops], rows: Rows) -> dict[int, RowSet]:
    """Per version that deleted rows or took them away by overwriting, which of the rewritten rows."""
    births = np.unique(rows.overlaid.birth)
    born_in_overwrite = np.array([at for at, op in ops.items() if op.is_overwrite], np.int64)
    outdated = births[np.isin(log.chunk_version[births], born_in_overwrite)]
    found: dict[int, RowSet] = {}
    for at, op in ops.items():
        whole = rows.tags.chunks(Tags(op.removed_versions, op.removed_ordinals, op.removed_keyed))
        whole = whole[np.isin(whole, births)]
        if op.is_overwrite:
            earlier = outdated[log.chunk_version[outdated] < at]
            whole = np.concatenate((whole, earlier[_within(log, earlier, op)]))
        size = log.rows[whole].astype(np.int64)
        taken = RowSet(whole, np.zeros(len(whole), np.int64), size)
        if op.rows.deletes is not None:
            taken |= RowSet(*rows.tags.rows(op.rows.deletes))
        if len(taken):
            found[at] = taken
    return found


def _within(log: Log, chunks: Integers, op: Ops) -> Array:
    """Which chunks an overwrite's scope contains, by the partition they were born in."""
    if op.scope is None:
        return np.ones(len(chunks), bool)
    inside = np.array([at for at, values in enumerate(log.partitions) if values in op.scope], np.int64)
    within: Array = np.isin(log.partition[chunks], inside)
    return within


def row_conflicts(
    log: Log, ops: Mapping[int, Ops], rows: Rows, columns: Columns, clocks: Clocks
) -> Iterator[Conflict]:
    """Every rewritten cell that lost, by column and pair of versions."""
    if rows.is_plain:
        return
    names = {instance: column.name for column in columns.all for instance in column.instances}
    for lost in lost_cells(log, rows.overlaid, takers(log, ops, rows), columns, clocks):
        name = names.get(lost.column, lost.column.name)
        winner, loser = log.id_at(lost.winner), log.id_at(lost.loser)
        did = "deleted or overwrote them" if lost.gone else "wins"
        message = (
            f"column {name!r} of {lost.rows.total:,} rows, updated by {loser}: "
            f"{winner}, which had not seen it, {did}"
        )
        where = tuple(_interval(log, *interval) for interval in lost.rows)
        yield Conflict("deleted" if lost.gone else "cell", name, winner, loser, message, where, lost.column)


def _interval(log: Log, chunk: int, start: int, stop: int) -> RowInterval:
    version = int(log.chunk_version[chunk])
    return log.id_at(version), chunk - int(log.chunk_start[version]), start, stop

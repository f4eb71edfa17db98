"""One of two heads that are compared row by row: its rows by birth, and their values when asked for.

Rows have identities, so both heads number them alike and what only one of them has is the difference of two
sets of intervals. Only rows that are asked for are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from crdtcat.chunks.read import FooterCache
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.head.pieces import Pieces, split
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, Runs, expand
from crdtcat.log.log import Log
from crdtcat.scan.alternating import Alternating
from crdtcat.scan.changed import ChangedEntries
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.plan import make_plan
from crdtcat.scan.read_otherwise import Shown, matched, read_otherwise
from crdtcat.scan.shown import brought
from crdtcat.scan.units import UNIT_BYTES, rows_at_once
from crdtcat.store import Store
from crdtcat.support.cached import cached_property


class Side:
    """One of two heads, with rows numbered by chunks of a log that holds both.

    Args:
        head: the head.
        log: holds the versions of both.
        store: where rows are read from.
        shown: the columns that are read, as either head has them.
        verify: whether what is read is checked against its hash.

    Attributes:
        number: per chunk of the head's log, its number in the log that holds both.
        columns: for each of `wanted` the head's own column; `None` where it has none.
        wanted: the columns that are read.
    """

    def __init__(self, head: Head, log: Log, store: Store, shown: Sequence[Column], *, verify: bool) -> None:
        self.head = head
        self.number = _numbers(head.log, log)
        self.columns, self.wanted = matched(head, shown), shown
        plan = make_plan(head, None, None)
        self._changed = ChangedEntries(plan, ChunkReader(plan, store, FooterCache(), verify=verify))

    @property
    def shown(self) -> Shown:
        """What decides which values are read."""
        return Shown(self.head, self.number, self.columns, self.wanted)

    @cached_property
    def _pieces(self) -> Pieces:
        pieces = self.head.rows.pieces
        return pieces._replace(birth=self.number[pieces.birth])

    @cached_property
    def live(self) -> RowSet:
        """Every row of the table."""
        pieces, deleted = self._pieces, self.head.rows.deleted
        return RowSet(pieces.birth, pieces.start, pieces.stop) - deleted.renumbered(self.number)

    def rewritten(self, other: Side) -> RowSet:
        """Rows in whose columns, those that are read, versions wrote which the other side has not."""
        overlaid, log = self.head.rows.overlaid, self.head.log
        there = other.head.log.find(log.ids)
        unknown = there < 0
        unknown[~unknown] = ~other.head.folded.standing[there[~unknown]]
        mine = unknown[overlaid.version] if len(overlaid.version) else np.empty(0, bool)
        chunks, which = np.unique(overlaid.chunk[mine], return_inverse=True)
        mine[mine] = np.array([self._holds(chunk) for chunk in chunks.tolist()], bool)[which]
        rows = RowSet(overlaid.birth[mine], overlaid.start[mine], overlaid.stop[mine])
        return rows.renumbered(self.number)

    def _holds(self, chunk: int) -> bool:
        """Whether a chunk has values of a column that is read, ended or not: they replace others."""
        fields = self.head.columns.fields(int(self.head.log.chunk_schema[chunk]))
        read = {id for column in self.columns if column is not None for id in column.instances}
        return any(field.column in read for field in fields)

    def within(self, rows: RowSet, entries: Array) -> RowSet:
        """Those of some rows that are read from some entries."""
        chosen = self._pieces.take(np.isin(self._pieces.entry, entries))
        return rows & RowSet(chosen.birth, chosen.start, chosen.stop)

    def read(self, rows: RowSet) -> Iterator[tuple[pa.Table, tuple[Integers, Integers]]]:
        """Some rows in row order, entry by entry: storage arrays, and each row's birth and offset there."""
        parts, _ = split(self._pieces, Runs(rows.groups, rows.starts, rows.stops))
        for first, last in self._together(parts.entry):
            some = parts.take(np.arange(first, last))
            owner, along = expand(some.stop - some.start)
            entry, at = some.entry[owner], some.at[owner] + along
            birth, start = some.birth[owner], some.start[owner] + along
            if (entry != entry[0]).any():
                yield self._gathered(entry, at), (birth, start)
                continue
            for chosen in self._at_once(int(entry[0]), at):
                yield self._taken(int(entry[0]), at[chosen]), (birth[chosen], start[chosen])

    def _together(self, entries: Integers) -> Iterator[tuple[int, int]]:
        """Runs of pieces to be read together: those of one entry, or of some whose rows alternate."""
        edges = np.flatnonzero(np.diff(entries, prepend=-1))
        ends, runs = np.append(edges[1:], len(entries)).tolist(), entries[edges].tolist()
        left, nbytes = Counter(runs), self.head.rows.bytes_read
        first, held = 0, Alternating(UNIT_BYTES)
        for entry, end in zip(runs, ends[: len(runs)], strict=True):
            left[entry] -= 1
            if held.add(entry, int(nbytes[entry]), more=left[entry] > 0):
                yield first, end
                first, held = end, Alternating(UNIT_BYTES)

    def read_at(self, birth: Integers, offset: Integers) -> pa.Table:
        """Rows by birth, in the order given."""
        pieces = self._pieces.take(np.lexsort((self._pieces.start, self._pieces.birth)))
        starts = (pieces.birth << 32) | pieces.start
        which = np.searchsorted(starts, (birth << 32) | offset, side="right") - 1
        return self._gathered(pieces.entry[which], pieces.at[which] + offset - pieces.start[which])

    def _gathered(self, entry: Integers, at: Integers) -> pa.Table:
        """Rows of entries, in the order given, each entry read once."""
        parts, places = [], []
        for one in np.unique(entry).tolist():
            mine = np.flatnonzero(entry == one)
            for chosen in self._at_once(one, at[mine]):
                parts.append(self._taken(one, at[mine[chosen]]))
                places.append(mine[chosen])
        order = np.argsort(np.concatenate(places))
        return pa.concat_tables(parts).combine_chunks().take(pa.array(order))

    def _at_once(self, entry: int, offsets: Integers) -> Iterator[Integers]:
        """Which of some rows of an entry to read together: all of them, nearly always."""
        part = offsets // rows_at_once(self.head, entry)
        yield from (np.flatnonzero(part == number) for number in np.unique(part).tolist())

    def _taken(self, entry: int, offsets: Integers) -> pa.Table:
        """Rows of one entry, as storage arrays of the columns of the feed."""
        there = list({column.name: column for column in self.columns if column is not None}.values())
        first, stop = int(offsets.min()), int(offsets.max()) + 1
        rows = self._changed.read(entry, there, (first, stop))
        if not there:  # nothing to gather, and none of the rows may get lost
            rows = pa.table({"": pa.nulls(stop - first)})
        return brought(rows.take(pa.array(offsets - first)), self.columns, self.wanted)


def _numbers(part: Log, whole: Log) -> Array:
    """Per chunk of a log, its number in one that holds more; of a retried commit, the number of the first."""
    version = part.chunk_version.astype(np.int64)
    ordinal = np.arange(part.chunk_count) - part.chunk_start[version]
    at = whole.find(part.ids)
    number: Array = whole.chunk_start[at[version]] + ordinal
    if part.key.null_count == len(part):
        return number
    first: dict[tuple[bytes, bytes, int], int] = {}
    for copy in np.flatnonzero(np.asarray(whole.key.is_valid())).tolist():
        for chunk in range(int(whole.chunk_start[copy]), int(whole.chunk_start[copy + 1])):
            place = chunk - int(whole.chunk_start[copy])
            first.setdefault((whole.key[copy].as_py(), whole.hash[chunk].tobytes(), place), chunk)
    keyed = np.asarray(part.key.is_valid())[version]
    for chunk in np.flatnonzero(keyed).tolist():
        key = part.key[int(version[chunk])].as_py()
        number[chunk] = first[key, part.hash[chunk].tobytes(), int(ordinal[chunk])]
    return number


def changed_rows(old: Side, new: Side) -> tuple[RowSet, RowSet, RowSet]:
    """Rows that only the old side has, rows of both that were rewritten, rows that only the new one has.

    Rewritten by updates that only one side has, or read otherwise because columns are others. No request.
    Some of them may have been given the values they had.
    """
    before, after = old.live, new.live
    touched = old.rewritten(new) | new.rewritten(old) | read_otherwise(old.shown, new.shown)
    return before - after, touched & before & after, after - before

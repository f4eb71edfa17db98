"""Which of the chunks that lie over an entry show anything there: the others are never fetched.

Theory. A cell has the value of its greatest age. So what a chunk has for a row shows nowhere if younger ones
have that row with all of its columns, whatever else lies there. That is told by rows and columns alone, and
of a chunk all of whose rows are covered so nothing is read. Columns are compared as stored; where any was
dropped, what a version stored of it may be ended, and nothing is left out.

Chunks with none of the columns that are read show nothing to begin with. What covers a chunk has all of its
columns, so those can be left out first, of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.head.columns import Column
from crdtcat.head.head import Head
from crdtcat.head.patches import BY_STAMPS, Sheet
from crdtcat.head.rows import Rows
from crdtcat.intervals.runs import Integers, expand
from crdtcat.scan.as_born import Span


class Visible:
    """What lies over entries of one head and shows."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._known: dict[tuple[int, tuple[str, ...]], list[Sheet]] = {}
        self._fields: dict[int, frozenset[object]] = {}

    def sheets_of(self, entry: int, columns: Sequence[Column]) -> list[Sheet]:
        """As `Rows.sheets_of`, of chunks that have any of the columns, without what is covered. O(their cells
        over it + the chunks over it), once."""
        key = entry, tuple(column.name for column in columns)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._uncovered(entry, columns)
        return found

    def reaches(self, sheet: Sheet, within: Span) -> bool:
        """Whether what a chunk has lies over any of some rows of its entry. O(its cells over that)."""
        patches, mine = self._head.rows.patches, slice(sheet.first, sheet.last)
        at = patches.at[mine]
        return bool(((at < within[1]) & (at + patches.length[mine] > within[0])).any())

    def _uncovered(self, entry: int, columns: Sequence[Column]) -> list[Sheet]:
        head = self._head
        read = frozenset[object]().union(*(column.instances for column in columns))
        sheets = [sheet for sheet in head.rows.sheets_of(entry) if not read.isdisjoint(self._columns(sheet))]
        if len({sheet.age for sheet in sheets} - {BY_STAMPS}) < 2 or head.columns.hidden:
            return sheets  # a version has a row once
        covered: dict[frozenset[object], Array] = {}
        shown: list[Sheet] = []
        for age, of_age in groupby(reversed(sheets), attrgetter("age")):
            if age == BY_STAMPS:
                shown += of_age
                continue
            added = []
            for sheet in of_age:
                mine, rows = self._columns(sheet), self._rows(sheet)
                over = np.zeros(len(rows), bool)
                for wider in (mask for held, mask in covered.items() if mine <= held):
                    over |= wider[rows]
                if not over.all():
                    shown.append(sheet)
                    added.append((mine, rows))
            for mine, rows in added:
                if mine not in covered:
                    covered[mine] = np.zeros(int(head.log.rows[entry]), bool)
                covered[mine][rows] = True
        return shown[::-1]

    def _columns(self, sheet: Sheet) -> frozenset[object]:
        schema = int(self._head.log.chunk_schema[sheet.source])
        if schema not in self._fields:
            fields = self._head.columns.fields(schema)
            self._fields[schema] = frozenset(field.column for field in fields)
        return self._fields[schema]

    def _rows(self, sheet: Sheet) -> Integers:
        patches = self._head.rows.patches
        owner, offset = expand(patches.length[sheet.first : sheet.last])
        rows: Integers = patches.at[sheet.first : sheet.last][owner] + offset
        return rows


class Over:
    """What lies over entries that are read together, chunk by chunk, by rising age.

    Args:
        rows: of their head.
        sheets: what lies over each.
        start: the number of each entry's first row among the rows of all of them.
        within: if there is one entry, of which rows.
    """

    def __init__(
        self,
        rows: Rows,
        sheets: Sequence[Sequence[Sheet]],
        start: Integers,
        within: Span | None = None,
    ) -> None:
        self._rows, self._within = rows, within
        self._sheets: dict[tuple[int, int], list[tuple[int, slice]]] = {}
        for mine, before in zip(sheets, start[:-1].tolist(), strict=True):
            for age, source, first, last in mine:
                self._sheets.setdefault((age, source), []).append((before, slice(first, last)))

    def __bool__(self) -> bool:
        return bool(self._sheets)

    def __iter__(self) -> Iterator[tuple[int, int, Integers, Integers]]:
        """Chunk, age, the rows it lies over, rising, and where in it their cells are."""
        patches = self._rows.patches
        for (age, chunk), sheets in sorted(self._sheets.items()):
            target = np.concatenate([patches.at[mine] + before for before, mine in sheets])
            place = np.concatenate([patches.source_at[mine] for _, mine in sheets])
            length = np.concatenate([patches.length[mine] for _, mine in sheets])
            if (length != 1).any():  # else every row stands alone, as scattered ones do
                owner, offset = expand(length)
                target, place = target[owner] + offset, place[owner] + offset
            if self._within is not None:
                first, stop = self._within
                inside = (target >= first) & (target < stop)
                target, place = target[inside] - first, place[inside]
            if len(target):
                yield chunk, age, target, place

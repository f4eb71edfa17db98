"""Which of the chunks that lie over an entry show anything there: the others are never fetched.

Theory. A cell has the value of its greatest age. So what a chunk has for a row shows nowhere if younger ones
have that row with all of its columns, whatever else lies there. That is told by rows and columns alone, and
of a chunk all of whose rows are covered so nothing is read. Columns are compared as stored; where any was
dropped, what a version stored of it may be ended, and nothing is left out.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

import numpy as np

from crdtcat.format.sections import Array
from crdtcat.head.head import Head
from crdtcat.head.patches import BY_STAMPS, Sheet
from crdtcat.intervals.runs import Integers, expand


class Visible:
    """What lies over entries of one head and shows."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._known: dict[int, list[Sheet]] = {}

    def sheets_of(self, entry: int) -> list[Sheet]:
        """As `Rows.sheets_of`, without what is covered. O(cells over it), once."""
        found = self._known.get(entry)
        if found is None:
            found = self._known[entry] = self._uncovered(entry)
        return found

    def _uncovered(self, entry: int) -> list[Sheet]:
        head = self._head
        sheets = head.rows.sheets_of(entry)
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
                columns, rows = self._columns(sheet), self._rows(sheet)
                over = np.zeros(len(rows), bool)
                for wider in (mask for held, mask in covered.items() if columns <= held):
                    over |= wider[rows]
                if not over.all():
                    shown.append(sheet)
                    added.append((columns, rows))
            for columns, rows in added:
                if columns not in covered:
                    covered[columns] = np.zeros(int(head.log.rows[entry]), bool)
                covered[columns][rows] = True
        return shown[::-1]

    def _columns(self, sheet: Sheet) -> frozenset[object]:
        head = self._head
        return frozenset(
            field.column for field in head.columns.fields(int(head.log.chunk_schema[sheet.source]))
        )

    def _rows(self, sheet: Sheet) -> Integers:
        patches = self._head.rows.patches
        owner, offset = expand(patches.length[sheet.first : sheet.last])
        rows: Integers = patches.at[sheet.first : sheet.last][owner] + offset
        return rows

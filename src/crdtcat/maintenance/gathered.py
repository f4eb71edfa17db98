"""Rows on their way into other chunks: what a compaction has read, with everything folded in. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from crdtcat.chunks.cutting import light
from crdtcat.intervals.runs import Integers


@dataclass(frozen=True, eq=False)
class Gathered:
    """Rows to be written anew.

    Attributes:
        rows: as storage arrays of the columns; of those that were dropped, nulls.
        entry, offset: where each is read from.
        ages: per column, where any cell is newer than its row, the version that wrote each.
    """

    rows: pa.Table
    entry: Integers
    offset: Integers
    ages: dict[str, Integers]

    def take(self, index: Integers) -> Gathered:
        """Some of the rows, in that order."""
        ages = {name: found[index] for name, found in self.ages.items()}
        return Gathered(self.rows.take(pa.array(index)), self.entry[index], self.offset[index], ages)

    def cut(self, most: int) -> Iterator[Gathered]:
        """In as few pieces of at most so many rows as there can be, of about equal size; of wide rows in
        pieces of fewer, as where they are cut when written. Copies nothing."""
        count = len(self.entry)
        pieces = -(-count // most)
        ends = [0, *(count * at // pieces for at in range(1, pieces + 1))]
        for start, stop in pairwise(light(self.rows, ends)):
            ages = {name: found[start:stop] for name, found in self.ages.items()}
            rows = self.rows.slice(start, stop - start)
            yield Gathered(rows, self.entry[start:stop], self.offset[start:stop], ages)

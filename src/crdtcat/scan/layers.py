"""Newer values of one column of one entry, gathered until all are known and put over it in one go."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crdtcat.format.sections import Array
from crdtcat.intervals.runs import Integers
from crdtcat.scan.replace import Part, replaced

OLDEST = -1
"""Age of a cell that is as old as its row."""


class Layer:
    """Newer values for one column of one entry."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._parts: list[Part] = []
        self.ages: Integers | None = None

    def put(self, target: Integers, values: pa.Array, place: Integers, ages: Array | int) -> None:
        """Values over rows, where they are newer than what is there. Ages rise from call to call, but for
        those given row by row."""
        if self.ages is None and not isinstance(ages, int):
            self.ages = np.full(self._rows, OLDEST)
        if self.ages is not None:
            newer = ages > self.ages[target]
            target, place = target[newer], place[newer]
            self.ages[target] = ages if isinstance(ages, int) else ages[newer]
        self._parts.append(Part(target, values, place))

    def over(self, base: pa.Array, *, owned: bool) -> pa.Array:
        """The column with them; `owned` as for `replaced`."""
        return replaced(base, self._parts, owned=owned)

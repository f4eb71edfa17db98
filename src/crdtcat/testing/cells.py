"""Which values cells may show: a model made of intervals, for simulations, beside `crdtcat.testing.ledger`.

A write gives some cells one value, or nothing, which means that a key is deleted. Of two writes of a cell the
greater stamp wins, and stamps are above all that their writer had seen. So a write certainly lost if another
is stored whose writer had looked after the first had ended. Every other value that was or may have been
stored may show, and nothing else. Values are written once, so what shows tells who wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from crdtcat.testing.ledger import Outcome


@dataclass
class Write:
    """One write. `saw`: everything that had ended by then was seen by whoever made it."""

    cells: frozenset[Hashable]
    value: str | None
    saw: float
    outcome: Outcome = "running"
    ended: float = inf
    sure_from: float = inf


class Cells:
    """All writes of a simulation. `now` gives a new moment each time."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.writes: list[Write] = []

    @property
    def cells(self) -> set[Hashable]:
        """Every cell that anybody may have written."""
        return {cell for write in self.writes for cell in write.cells}

    def begin(self, cells: Iterable[Hashable], value: str | None, saw: float) -> int:
        """A write begins; returns its number."""
        self.writes.append(Write(frozenset(cells), value, saw))
        return len(self.writes) - 1

    def end(self, number: int, outcome: Outcome) -> None:
        """A write ends."""
        write, now = self.writes[number], self._now()
        write.outcome, write.ended = outcome, now
        if outcome == "done":
            write.sure_from = now

    def check(
        self, shown: Mapping[Hashable, str | None], began: float, first: Callable[[Hashable], str | None]
    ) -> None:
        """Hold what a read showed that began at `began` and has just ended against all that is certain.

        Args:
            shown: the value of each cell that was looked at.
            began: when the read began.
            first: the value of a cell that nobody has written.

        Raises `AssertionError`.
        """
        now = self._now()
        for cell, value in shown.items():
            writes = [write for write in self.writes if cell in write.cells and write.outcome != "nothing"]
            sure = [write for write in writes if write.sure_from < began]
            may = [one for one in writes if not any(other.saw > one.ended for other in sure)]
            values = {one.value for one in may} | (set() if sure else {first(cell)})
            assert value in values, f"{cell} is {value!r}, and may be one of {sorted(map(repr, values))}"
            for write in writes:
                if write.value == value and value is not None:
                    write.sure_from = min(write.sure_from, now)

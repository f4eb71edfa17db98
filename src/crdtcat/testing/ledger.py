"""What rows a table must, must not, or may show: a model made of intervals, for simulations.

A commit is an interval of logical time with an outcome: done, unknown, or nothing. What follows from that
alone, whatever happened inside, is little and certain:

- *must*: its commit was done, or its rows were seen, before the read began, and no overwrite was under way
  after it began;
- *must not*: its commit ended in nothing; or it ended before an overwrite began that was done before the
  read began;
- everything else *may*. Always: the rows of one commit are all there or none, and no row is there twice.

A delete names rows that its writer had seen. From when it is known to be stored they must not be there; from
when it began they may not; and of the rows of no other delete it takes all or none.

Tries of one idempotency key are one commit: it began with the first and ended with the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

Outcome = Literal["running", "done", "unknown", "nothing"]


@dataclass
class Entry:
    """One commit, or all tries of one key. `sure_from`: since when it is known to be stored."""

    rows: list[int]
    began: int
    overwrite: bool = False
    key: str | None = None
    ended: float = inf
    sure_from: float = inf
    tries: int = 1
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        """Whether a try is under way."""
        return len(self.outcomes) < self.tries

    @property
    def never_stored(self) -> bool:
        """Whether every try ended in nothing."""
        return not self.is_running and all(outcome == "nothing" for outcome in self.outcomes)


@dataclass
class Removal:
    """One delete of rows."""

    rows: frozenset[int]
    outcome: Outcome = "running"
    sure_from: float = inf


class Ledger:
    """All commits of a simulation."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.removals: list[Removal] = []
        self._time = 0
        self._rows = 0

    def now(self) -> int:
        """A new moment, later than all before."""
        self._time += 1
        return self._time

    def begin(self, rows: int, *, key: str | None = None, overwrite: bool = False) -> int:
        """A commit begins; returns its number. A key used before means the rows it had then."""
        for number, entry in enumerate(self.entries):
            if key is not None and entry.key == key:
                entry.tries += 1
                entry.ended = inf
                return number
        fresh = list(range(self._rows, self._rows + rows))
        self._rows += rows
        self.entries.append(Entry(fresh, self.now(), overwrite, key))
        return len(self.entries) - 1

    def end(self, number: int, outcome: Outcome) -> None:
        """A commit ends."""
        entry, now = self.entries[number], self.now()
        entry.outcomes.append(outcome)
        if not entry.is_running:
            entry.ended = now
        if outcome == "done":
            entry.sure_from = min(entry.sure_from, now)

    def begin_removal(self, rows: Iterable[int]) -> int:
        """A delete of rows begins; returns its number."""
        self.removals.append(Removal(frozenset(rows)))
        return len(self.removals) - 1

    def end_removal(self, number: int, outcome: Outcome) -> None:
        """A delete ends."""
        removal, now = self.removals[number], self.now()
        removal.outcome = outcome
        if outcome == "done":
            removal.sure_from = now

    def check(self, found: Sequence[int], began: int) -> None:
        """Hold the rows of a read that began at `began` and has just ended against all that is certain.

        Raises `AssertionError`.
        """
        counts = Counter(found)
        now = self.now()
        removals = [removal for removal in self.removals if removal.outcome != "nothing"]
        named = Counter(row for removal in removals for row in removal.rows)
        self._check_removals(counts, removals, named, began)
        for entry in self.entries:
            shown = {counts[row] for row in entry.rows if row not in named} or {0}
            assert shown in ({0}, {1}), f"rows {entry.rows} are there {sorted(shown)} times"
            loose = {counts[row] for row in entry.rows if row in named}
            assert loose <= {0, 1}, f"rows {entry.rows} are there {sorted(loose)} times"
            whole = len(named.keys() & set(entry.rows)) < len(entry.rows)
            there = 1 in shown | loose
            assert shown == {1} or not (there and whole), f"half of the rows {entry.rows} are there"
            for row in entry.rows:
                del counts[row]
            assert not (there and entry.never_stored), f"rows {entry.rows}, whose commit failed, are there"
            if entry.sure_from < began and not self._may_be_gone(entry):
                assert there or not whole, f"rows {entry.rows} were acknowledged and are not there"
            if self._must_be_gone(entry, began):
                assert not there, f"rows {entry.rows} were overwritten and are still there"
            if there:
                entry.sure_from = min(entry.sure_from, now)
        assert not counts, f"rows {sorted(counts)} were never written"

    def _check_removals(
        self, counts: Counter[int], removals: Sequence[Removal], named: Counter[int], began: int
    ) -> None:
        firm = {
            row
            for entry in self.entries
            if entry.sure_from < began and not self._may_be_gone(entry)
            for row in entry.rows
        }
        for removal in removals:
            if removal.sure_from < began:
                left = sorted(row for row in removal.rows if counts[row])
                assert not left, f"rows {left} were deleted and are still there"
            alone = {counts[row] for row in removal.rows if row in firm and named[row] == 1}
            assert len(alone) < 2, f"half of a delete of rows {sorted(removal.rows)} is there"

    def _may_be_gone(self, entry: Entry) -> bool:
        return any(
            other.overwrite and other is not entry and other.ended > entry.began and not other.never_stored
            for other in self.entries
        )

    def _must_be_gone(self, entry: Entry, began: int) -> bool:
        return any(
            other.overwrite and other.sure_from < began and entry.ended < other.began
            for other in self.entries
        )

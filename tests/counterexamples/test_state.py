"""The state keeps every delta. One that stores only the merged result cannot do three things.

`MergedOnly` is that wrong state: rows, and the stamps needed to merge rows, but not who did what.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crdtcat.lattice import LWWRegister
from tests.model.authors import Author
from tests.model.expiry import at
from tests.model.head import head
from tests.model.rows import live_rows
from tests.model.standing import view
from tests.model.versions import State, Version, column, state_of


@dataclass(frozen=True)
class MergedOnly:
    """Value per row id with its stamp, and deleted ids; merged as a good lattice would."""

    cells: dict[Any, tuple[Any, Any]] = field(default_factory=dict)
    deleted: frozenset[object] = frozenset()

    @classmethod
    def of(cls, state: State) -> MergedOnly:
        rows = live_rows(view(state))
        cells = {row.row: (row.cells[column("a")].stamp, row.cells[column("a")].value) for row in rows}
        return cls(cells, frozenset(row for version in state.versions for row in version.deletes))

    def merge(self, other: MergedOnly) -> MergedOnly:
        cells = dict(self.cells)
        for row, held in other.cells.items():
            cells[row] = max(cells.get(row, held), held)
        deleted = self.deleted | other.deleted
        return MergedOnly({row: held for row, held in cells.items() if row not in deleted}, deleted)

    def values(self) -> list[Any]:
        return sorted(value for _, value in self.cells.values())


def merged(*versions: Version) -> MergedOnly:
    """Each replica stores its own result, then they meet."""
    result = MergedOnly()
    for version in versions:
        result = result.merge(MergedOnly.of(state_of(version)))
    return result


def test_it_cannot_undo_a_version_that_turns_out_void() -> None:
    key = frozenset({"task"})
    retry = Author(1).append({"a": 1}, keys=key, time=5)
    first = Author(2).append({"a": 2}, keys=key, time=3)
    assert merged(retry, first).values() == [1, 2], "both tries of one task count"
    assert head(state_of(retry).join(state_of(first))).values("a") == [2]


def test_it_cannot_read_an_old_snapshot() -> None:
    author = Author(1)
    author.append({"a": 1})
    before = head(author.seen)
    author.update((author.find("a", 1), "a", 2))
    assert MergedOnly.of(author.seen).values() == [2], "the 1 is nowhere in it"
    assert head(at(author.seen, before.clock)) == before


def test_it_cannot_list_losers() -> None:
    author = Author(1)
    start = author.append({"a": 1})
    row = author.find("a", 1)
    rival = Author(2).learn(start)
    lost, won = author.update((row, "a", 2)), rival.update((row, "a", 3), time=9)
    both = state_of(start, lost, won)
    assert MergedOnly.of(both) == MergedOnly.of(state_of(start, won)), "nothing is left of the loser"
    assert [conflict.loser for conflict in head(both).conflicts] == [lost.id]


def test_timestamp_only_last_writer_wins_is_not_commutative() -> None:
    """Two writers in one millisecond: "keep mine unless theirs is newer" leaves two replicas apart."""
    mine, theirs = (7, "x"), (7, "y")

    def by_time(a: tuple[int, str], b: tuple[int, str]) -> tuple[int, str]:
        return b if b[0] > a[0] else a

    assert by_time(mine, theirs) != by_time(theirs, mine)
    one, two = Author(1).next_id(7), Author(2).next_id(7)
    a, b = LWWRegister(one, "x"), LWWRegister(two, "y")
    assert a.merge(b) == b.merge(a)

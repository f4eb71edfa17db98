"""Rule 9: statistics that are not joined with overlays, or copies pruned one by one, give wrong rows."""

from __future__ import annotations

from tests.model.authors import Author
from tests.model.pruning import Pruning, kept_entries
from tests.model.rows import live_rows
from tests.model.standing import view
from tests.model.versions import Version, column, state_of

A = column("a")


def scan(versions: list[Version], low: int, high: int, rule: Pruning) -> list[int]:
    """A pruned scan: read the kept entries, then filter."""
    judged = view(state_of(*versions))
    rows = live_rows(judged, only=kept_entries(judged, A, low, high, rule))
    return [row.cells[A].value for row in rows if low <= row.cells[A].value <= high]


def test_an_entrys_own_statistics_miss_rows_an_overlay_moved_into_the_filter() -> None:
    author = Author(1)
    versions = [author.append({"a": 1}), author.update((author.find("a", 1), "a", 50))]
    assert scan(versions, 40, 60, Pruning(with_overlays=False)) == []
    assert scan(versions, 40, 60, Pruning()) == [50]


def test_pruning_the_copy_that_has_the_newer_cell_shows_the_older_one() -> None:
    """Two compactions of one chunk, one of which folded an update. The filter matches the old value only."""
    author = Author(1)
    start = author.append({"a": 1})
    unaware = Author(2).learn(start)
    update = author.update((author.find("a", 1), "a", 50))
    versions = [start, update, author.compact(), unaware.compact()]
    assert scan(versions, 0, 9, Pruning(copies_together=False)) == [1]
    assert scan(versions, 0, 9, Pruning()) == []
    assert scan(versions, 40, 60, Pruning()) == [50]

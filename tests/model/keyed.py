"""The reference model, part 4: keyed tables.

A last-writer-wins register per (key, column) and a delete stamp per key. A row added is an upsert of its
cells; columns it does not have are left as they were. There are no row ids, overlays or positions.

Decisions:
- A cell counts if its stamp is *above* the key's delete stamp; within one version deletes come before
  upserts, so a cell of the deleting version counts.
- An overwrite takes away every cell of its scope that its author had seen, and no other: as in any table,
  what it had not seen survives it, whichever id is greater. To have seen one copy of a retried commit is to
  have seen them all.
- The greatest stamp is taken first, and only then asked whether it counts. Asking first would need cells that
  a compaction has already replaced.
- A cell written by an overwrite does not count if a greater standing overwrite's scope contains its row.
- Partition columns of a keyed table are key columns, so a row's partition follows from its key: here, the
  key's first column.
"""

from __future__ import annotations

from typing import Any

from tests.model.rows import LiveRow, contains, entries, join_cells
from tests.model.standing import View
from tests.model.versions import Cell, Settings, Version, column

Key = tuple[Any, ...]


def key_of(settings: Settings, cells: dict[Any, Any]) -> Key:
    return tuple(cells[column(name)] for name in settings.key)


def delete_stamps(view: View) -> dict[Key, Version]:
    """The greatest version that deleted each key."""
    return {key: version for version in view.standing for key in version.key_deletes}


def taken(view: View, key: Key, cell: Cell) -> bool:
    """Whether an overwrite that had seen a cell took it away."""
    author = view.by_id()[cell.stamp[0]]
    tries = [version for version in view.data if version is author or version.keys & author.keys]
    return any(
        version.overwrite is not None
        and contains(version.overwrite, key[0])
        and version is not author
        and any(map(version.saw, tries))
        for version in view.standing
    )


def counts(view: View, key: Key, cell: Cell) -> bool:
    """Whether a winning cell is there: above the key's delete, and neither taken nor replaced by an
    overwrite."""
    deleted = delete_stamps(view).get(key)
    if deleted is not None and cell.stamp[0] < deleted.id:
        return False
    if taken(view, key, cell):
        return False
    return not cell.overwrite or not any(
        version.overwrite is not None and version.id > cell.stamp[0] and contains(version.overwrite, key[0])
        for version in view.standing
    )


def live_rows(view: View, settings: Settings) -> list[LiveRow]:
    """Every row that has a cell that counts, by key."""
    joined: dict[Key, dict[Any, Cell]] = {}
    for stored in entries(view).values():
        for copy in stored:
            cells = dict(copy.cells)
            key = key_of(settings, {name: cell.value for name, cell in cells.items()})
            joined[key] = join_cells(joined.get(key, {}), cells)
    found = []
    for key, cells in sorted(joined.items()):
        counting = {name: cell for name, cell in cells.items() if counts(view, key, cell)}
        if counting:
            # Key columns hold the same value in every upsert of the key, whoever's cell is the greatest.
            whole = {column(name): cells[column(name)] for name in settings.key} | counting
            found.append(LiveRow(key, whole, key[0]))
    return found

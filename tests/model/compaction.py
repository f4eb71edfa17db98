"""The reference model, part 8: writing compactions (rule 4).

`compact` is the delta a compactor writes: every undeleted row of every entry it replaces, folded cells with
the stamps they had, overlays replaced per (overlay, row). Rows that a greater overwrite hides are written
too: hidden is not deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from crdtcat.clock import VectorClock, VersionId
from tests.model import rows
from tests.model.standing import View, view
from tests.model.versions import Birth, Cell, Compaction, Copy, Instance, RowId, State, Tag, Version

Keep = Callable[[View, Tag, Any], bool]


def keep_every_row(_view: View, _tag: Tag, _row: Any) -> bool:
    """The right rule: a compaction relies on nobody else's copy."""
    return True


def compact(
    state: State,
    version: VersionId,
    tags: Collection[Tag],
    *,
    keep: Keep = keep_every_row,
    chunk_rows: int = 1000,
) -> Version:
    """A compaction of the live entries `tags`, by somebody who has seen `state`.

    `keep` is replaced by counterexamples only. Works for keyed tables too: there the copies are upserts, and
    leaving cells unfolded is always right because the join takes the greatest stamp of all of them.
    """
    judged = view(state)
    live = rows.entries(judged)
    chosen = [tag for tag in live if tag in tags]
    deleted = rows.deleted_rows(judged)
    overlay_cells: dict[RowId, list[tuple[Tag, Instance, Cell]]] = {}
    for overlay, row, name, cell in rows.overlays(judged):
        if not rows.overlay_replaced(judged, overlay, row):
            overlay_cells.setdefault(row, []).append((overlay, name, cell))

    births: dict[Any, Birth] = {}
    cells: dict[Any, rows.Cells] = {}
    folded = _owners(judged, chosen)
    folded_deletes: set[RowId] = set()
    replaced: set[tuple[Tag, RowId]] = set()
    for tag in chosen:
        for copy in live[tag]:
            if copy.row in deleted:
                folded_deletes.add(copy.row)
                folded |= {author.id for author in judged.standing if copy.row in author.deletes}
                continue
            if not keep(judged, tag, copy.row):
                continue
            births.setdefault(copy.row, copy.birth)
            cells[copy.row] = rows.join_cells(cells.get(copy.row, {}), dict(copy.cells))
            for overlay, name, cell in overlay_cells.get(copy.row, ()):
                cells[copy.row] = rows.join_cells(cells[copy.row], {name: cell})
                replaced.add((overlay, copy.row))
                folded.add(cell.stamp[0])
    written = [
        Copy(row, births[row], tuple(sorted(cells[row].items())))
        for row in sorted(births, key=lambda row: rows.sort_key(births[row].position))
    ]
    delta = Compaction(
        entries=tuple(tuple(written[at : at + chunk_rows]) for at in range(0, len(written), chunk_rows)),
        replaces=frozenset(chosen),
        overlays=frozenset(replaced),
        folded=frozenset(folded),
        deletes=frozenset(folded_deletes),
    )
    clock = judged.clock.merge(VectorClock({version.writer: version.seq}))
    return Version(version, clock, compaction=delta)


def _owners(judged: View, tags: Collection[Tag]) -> set[VersionId]:
    """The versions whose entries `tags` are."""
    owners = {
        version.id
        for version in judged.standing
        for index in range(len(version.adds))
        if version.tag(index) in tags
    }
    return owners | {version.id for version in judged.compactions for tag in tags if tag[0] == version.id}

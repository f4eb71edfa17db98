"""The reference model, part 3: rows of a table without a key (rules 1 to 5).

Decisions:
- An overwrite's scope is held against a row's partition *at birth*: a row that moved since is still one of
  those that the greater overwrite replaced.
- Two insertions are one when their position and chunk hash are equal and neither's author saw the other.
  Taken in id order, each joins the first such; its rows are then known under the first one's ids, and its
  base values count as old as the first one's, so that an update of either holds.
- Siblings inserted after one row: the greater id comes first, because an author who saw the others and still
  named that row wanted to be next to it.
- A clustering version gives the rows it lists the places they would have if it had appended them; the
  greatest such version wins per row, and of two places in one version the first. A position is where a row
  was born, for life; an insertion names such a position, and so follows a row wherever that was put.
- A retry whose key was forgotten is a commit of its own, but an equal chunk has an equal tag: its rows are
  the same rows, and the first one's entry is the one read.

`Rules` holds the points at which counterexamples put wrong rules in; its defaults are the right ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crdtcat.clock import VersionId
from tests.model.standing import View
from tests.model.versions import ALL, Birth, Cell, Copy, Instance, Position, RowId, Scope, Tag, Version

Cells = dict[Instance, Cell]


@dataclass(frozen=True)
class LiveRow:
    """An alive row: its identity, the winning cell of every column instance, where it was born."""

    row: Any
    cells: Cells
    partition: Any = None
    position: Position = ()


def entries(view: View) -> dict[Tag, tuple[Copy, ...]]:
    """Every entry that no standing compaction replaced, by tag."""
    found: dict[Tag, tuple[Copy, ...]] = {}
    for version in view.standing:
        for index in range(len(version.adds)):
            found.setdefault(version.tag(index), tuple(copies_of(version, index)))
    for version in view.compactions:
        assert version.compaction is not None
        for index, copies in enumerate(version.compaction.entries):
            found[(version.id, index)] = copies
    replaced = {tag for version in view.compactions for tag in version.compaction.replaces}  # type: ignore[union-attr]
    return {tag: copies for tag, copies in found.items() if tag not in replaced}


def copies_of(version: Version, index: int) -> Iterator[Copy]:
    """The rows of an added chunk, as copies."""
    chunk = version.adds[index]
    overwrite = version.overwrite is not None
    for offset, row in enumerate(chunk.rows):
        step = (version.id, index, offset)
        birth = Birth(version.id, chunk.partition, overwrite, (*(chunk.after or ()), step))
        cells = tuple((name, Cell(step, value, version.type_of(name), overwrite)) for name, value in row)
        yield Copy((version.tag(index), offset), birth, cells)


def overlays(view: View) -> Iterator[tuple[Tag, RowId, Instance, Cell]]:
    """Every rewritten cell: overlay tag, row, column, cell."""
    for version in view.standing:
        for index, overlay in enumerate(version.overlays):
            for (row, name), value in overlay:
                cell = Cell((version.id, index, 0), value, version.type_of(name))
                yield (version.id, index), row, name, cell


def join_cells(*parts: Mapping[Instance, Cell]) -> Cells:
    """Cell by cell, the greatest stamp."""
    joined: Cells = {}
    for part in parts:
        for name, cell in part.items():
            if name not in joined or joined[name].stamp < cell.stamp:
                joined[name] = cell
    return joined


def join_copies(copies: Mapping[Tag, Copy]) -> Cells:
    """Rule 3: copies of one row are joined cell by cell, never chosen by entry."""
    return join_cells(*(dict(copy.cells) for copy in copies.values()))


def overlay_replaced(view: View, overlay: Tag, row: RowId) -> bool:
    """Rule 4: overlays are replaced per (overlay, row)."""
    return any((overlay, row) in version.compaction.overlays for version in view.compactions)  # type: ignore[union-attr]


def deleted_rows(view: View) -> frozenset[RowId]:
    """Rule 1: deletes are final, and folding one into a compaction does not forget it."""
    return frozenset(row for version in view.standing for row in version.deletes)


@dataclass(frozen=True)
class Rules:
    """How to read. The defaults are the design; each counterexample replaces one."""

    join_copies: Callable[[Mapping[Tag, Copy]], Cells] = join_copies
    overlay_replaced: Callable[[View, Tag, RowId], bool] = overlay_replaced
    deleted_rows: Callable[[View], frozenset[RowId]] = deleted_rows


RIGHT = Rules()


def contains(scope: Scope, partition: Any) -> bool:
    return scope == ALL or partition in scope


def replaced_by_overwrite(view: View, birth: Birth) -> bool:
    """Rule 1: born in an overwrite, and a greater standing overwrite's scope contains it."""
    return birth.overwrite and any(
        version.overwrite is not None
        and version.id > birth.version
        and contains(version.overwrite, birth.partition)
        for version in view.standing
    )


def twin_insertions(view: View) -> dict[Tag, tuple[Tag, Version, int]]:
    """For the tag of each insertion that repeats an earlier one: the first one's tag, version and index."""
    firsts: dict[tuple[Any, ...], list[tuple[Version, int]]] = {}
    twins: dict[Tag, tuple[Tag, Version, int]] = {}
    for version in view.standing:
        occurrences: dict[tuple[Any, ...], int] = {}
        for index, chunk in enumerate(version.adds):
            if chunk.after is None:
                continue
            place = (chunk.after, chunk.hash)
            occurrences[place] = occurrences.get(place, 0) + 1
            group = firsts.setdefault((*place, occurrences[place]), [])
            for first, at in group:
                if not version.saw(first) and not first.saw(version):
                    twins[version.tag(index)] = (first.tag(at), first, at)
                    break
            else:
                group.append((version, index))
    return twins


def known_as(twins: Mapping[Tag, tuple[Tag, Version, int]], row: RowId) -> RowId:
    """A row's id, or for a row of a twin insertion, the first one's."""
    return (twins[row[0]][0], row[1]) if row[0] in twins else row


def live_rows(view: View, rules: Rules = RIGHT, only: Collection[Tag] | None = None) -> list[LiveRow]:
    """Every alive row with its winning cells, in order. `only`: read no other entries (a pruned scan)."""
    twins = twin_insertions(view)
    copies: dict[RowId, dict[Tag, Copy]] = {}
    for tag, stored in entries(view).items():
        if only is not None and tag not in only:
            continue
        for copy in stored:
            copies.setdefault(known_as(twins, copy.row), {})[(tag, copy.row)] = _as_first(copy, twins)
    rewritten: dict[RowId, list[Cells]] = {}
    for overlay, row, name, cell in overlays(view):
        if not rules.overlay_replaced(view, overlay, row):
            rewritten.setdefault(known_as(twins, row), []).append({name: cell})
    deleted = {known_as(twins, row) for row in rules.deleted_rows(view)}
    places = Places(view, twins)

    found = []
    for row, held in copies.items():
        birth = min(copy.birth for copy in held.values())
        if row in deleted or replaced_by_overwrite(view, birth):
            continue
        cells = join_cells(rules.join_copies(held), *rewritten.get(row, []))
        live = LiveRow(row, cells, birth.partition, birth.position)
        found.append((sort_key(places.of(birth.position)), live))
    return [row for _, row in sorted(found, key=lambda item: item[0])]


def _as_first(copy: Copy, twins: Mapping[Tag, tuple[Tag, Version, int]]) -> Copy:
    """A twin insertion's copy, as if the first one had written it: birth, and stamps of base values."""
    tag, offset = copy.row
    if tag not in twins:
        return copy
    _, first, index = twins[tag]
    original = list(copies_of(first, index))[offset]
    stamp = (first.id, index, offset)
    cells = tuple(
        (name, cell._replace(stamp=stamp) if cell.stamp[0] == copy.birth.version else cell)
        for name, cell in copy.cells
    )
    return Copy(original.row, original.birth, cells)


class Places:
    """Where positions are, after clusterings and with twin insertions taken as one."""

    def __init__(self, view: View, twins: Mapping[Tag, tuple[Tag, Version, int]]) -> None:
        born: dict[RowId, Position] = {}
        for version in view.standing:
            for index in range(len(version.adds)):
                for copy in copies_of(version, index):
                    born.setdefault(copy.row, copy.birth.position)
        self._first = {
            position: born[known_as(twins, row)] for row, position in born.items() if row[0] in twins
        }
        self._clustered: dict[Position, Position] = {}
        for version in view.standing:
            for offset, row in reversed(list(enumerate(version.cluster or ()))):
                if known_as(twins, row) in born:
                    self._clustered[born[known_as(twins, row)]] = ((version.id, 0, offset),)

    def of(self, position: Position) -> Position:
        """Where a row stands that was born at a position."""
        position = self._first.get(position, position)
        if position in self._clustered:
            return self._clustered[position]
        *parent, step = position
        return (*self.of(tuple(parent)), step) if parent else position


def sort_key(position: Position) -> tuple[Any, ...]:
    """Depth first: a row, then what follows it; appends by rising id, siblings inserted by falling id."""
    first, *rest = position
    return (first, *((_falling(version), index, offset) for version, index, offset in rest))


def _falling(version: VersionId) -> tuple[Any, ...]:
    return (-version.hlc, -version.writer, -version.seq, tuple(-byte for byte in version.digest))

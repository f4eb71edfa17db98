"""The reference model, part 5: columns.

A column *instance* is (birth name, birth version), with ROOT for what the settings declared and for what
blind writers merely use. Definitions are a multi-value register: each names the definition ids it replaces.
What users see is a *visible column*: a display name, merging all live instances of that name.

Decisions:
- An instance is shown under the name its greatest unreplaced definition gives it; without one, under its
  birth name.
- A visible column's type is its greatest unreplaced definition's, widened by the others in falling id order
  where a lossless type exists; definitions that do not fit, or name the instance otherwise, are listed.
- Data never redefines a defined column. Where no definition is left, the type is that of the smallest
  standing version using it, widened by later ones in rising order.
- A drop ends, for each instance it names, every definition and every data version in its clock. What it had
  not seen keeps the instance alive: data still shows, and so does a concurrent definition.
- A cell is looked for per instance first (greatest stamp), then left out if its author's use was ended, then
  the greatest stamp among the instances of the name wins (of two that one version wrote, the later born,
  then the greater name at birth), then read as null if its type does not fit.
- Columns are ordered by the greatest standing `order`, then by birth: declared ones first, then by the id of
  the version that defined or first used them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crdtcat.clock import ROOT, VersionId
from tests.model.rows import Cells
from tests.model.standing import View
from tests.model.versions import Cell, Definition, Instance, Settings, Version, column

DefinitionId = tuple[VersionId, int]


@dataclass(frozen=True)
class VisibleColumn:
    """A column of the head."""

    name: str
    type: str
    instances: frozenset[Instance]


@dataclass(frozen=True)
class Schema:
    """The visible columns, what lost, and how to read a row through them."""

    columns: tuple[VisibleColumn, ...]
    lost_definitions: tuple[tuple[str, VersionId, VersionId], ...]  # name, winner, loser
    misfits: tuple[tuple[str, VersionId], ...]  # name, the data version whose values read as null
    _view: View
    _settings: Settings

    def read(self, cells: Cells) -> dict[str, Any]:
        """The row as users see it."""
        return {shown.name: self._value(shown, cells) for shown in self.columns}

    def _value(self, shown: VisibleColumn, cells: Cells) -> Any:
        held: list[tuple[Cell, Instance]] = [
            (cells[instance], instance)
            for instance in shown.instances
            if instance in cells and not ended(self._view, instance, cells[instance].stamp[0])
        ]
        if not held:
            return None
        winner, _ = max(held, key=lambda found: (found[0].stamp, found[1][1], found[1][0]))
        return winner.value if self._settings.widen(shown.type, winner.type) == shown.type else None


def ended(view: View, instance: Instance, author: VersionId) -> bool:
    """Whether a standing drop of `instance` had seen `author` (the table's creation was seen by all)."""
    return any(
        instance in version.drops and (author == ROOT or version.clock.saw(author.writer, author.seq))
        for version in view.standing
    )


def definitions(view: View, settings: Settings) -> dict[DefinitionId, Definition]:
    """Every definition no standing one replaced and no drop ended."""
    found: dict[DefinitionId, Definition] = {
        (ROOT, index): Definition(column(name), name, type_)
        for index, (name, type_) in enumerate(settings.columns)
    }
    for version in view.standing:
        found.update({(version.id, index): made for index, made in enumerate(version.defines)})
    replaced = {old for made in found.values() for old in made.replaces}
    return {
        made_id: made
        for made_id, made in found.items()
        if made_id not in replaced and not ended(view, made.instance, made_id[0])
    }


def uses(view: View) -> list[tuple[Version, int, Instance, str]]:
    """Every use of a column by a data version that no drop ended: version, place in it, instance, type."""
    return [
        (version, index, instance, type_)
        for version in view.standing
        for index, (instance, type_) in enumerate(version.columns)
        if not ended(view, instance, version.id)
    ]


def schema(view: View, settings: Settings) -> Schema:
    """Everything about columns, from the standing versions."""
    defined = definitions(view, settings)
    used = uses(view)
    display: dict[Instance, str] = {}
    for _, made in sorted(defined.items()):
        display[made.instance] = made.name
    for _, _, instance, _ in used:
        display.setdefault(instance, instance[0])

    columns = []
    lost: list[tuple[str, VersionId, VersionId]] = []
    misfits: set[tuple[str, VersionId]] = set()
    for name in dict.fromkeys(display.values()):
        instances = frozenset(instance for instance, shown in display.items() if shown == name)
        ours = sorted(
            ((at, made) for at, made in defined.items() if made.instance in instances), reverse=True
        )
        if ours:
            (winner, _), type_ = ours[0], ours[0][1].type
            for at, made in ours[1:]:
                wider = settings.widen(type_, made.type)
                if wider is None or made.name != name:
                    lost.append((name, winner[0], at[0]))
                type_ = wider or type_
        else:
            types = [type_ for _, _, instance, type_ in used if instance in instances]
            type_ = types[0]
            for other in types[1:]:
                type_ = settings.widen(type_, other) or type_
        columns.append(VisibleColumn(name, type_, instances))
        for version, _, instance, written in used:
            if instance in instances and settings.widen(type_, written) != type_:
                misfits.add((name, version.id))

    place = _places(view, settings, display)
    columns.sort(key=lambda shown: min(place[instance] for instance in shown.instances))
    return Schema(tuple(columns), tuple(sorted(lost)), tuple(sorted(misfits)), view, settings)


def _places(view: View, settings: Settings, display: dict[Instance, str]) -> dict[Instance, tuple[Any, ...]]:
    """Where each instance sorts: by the greatest order that lists it, else by birth."""
    births: dict[Instance, tuple[Any, ...]] = {
        column(name): (1, ROOT, index) for index, (name, _) in enumerate(settings.columns)
    }
    for version in view.standing:
        seen = [made.instance for made in version.defines] + [instance for instance, _ in version.columns]
        for index, instance in enumerate(seen):
            births.setdefault(instance, (1, version.id, index))
    orders = [version.order for version in view.standing if version.order is not None]
    for index, instance in enumerate(orders[-1] if orders else ()):
        births[instance] = (0, ROOT, index)
    return {instance: births[instance] for instance in display}

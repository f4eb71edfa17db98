"""The reference model, part 7: the head, a pure function of a state and a table's settings.

`head(state)` is what every reader that merged the same versions must hold (promise P3). Comparing two heads
with `==` compares all of it: rows in order, schema, properties, counters, conflicts, history, snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crdtcat.clock import VectorClock, VersionId
from tests.model import keyed
from tests.model.columns import schema
from tests.model.conflicts import Conflict, conflicts
from tests.model.rows import RIGHT, Rules, live_rows
from tests.model.standing import View, view
from tests.model.versions import Settings, State

PLAIN = Settings()


@dataclass(frozen=True)
class Head:
    """The linearized view. `row_ids` are keys in a keyed table."""

    rows: tuple[dict[str, Any], ...]
    row_ids: tuple[Any, ...]
    schema: tuple[tuple[str, str], ...]
    properties: dict[str, Any]
    counters: dict[str, int]
    conflicts: tuple[Conflict, ...]
    blind_replacements: int
    history: tuple[VersionId, ...]
    version: int  # how many versions stand, expired ones too
    snapshot: frozenset[VersionId]
    clock: VectorClock

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def values(self, name: str) -> list[Any]:
        """One column, for tests that look at one."""
        return [row[name] for row in self.rows]


def head(state: State, settings: Settings = PLAIN, rules: Rules = RIGHT) -> Head:
    """Fold a state. `rules` is replaced by counterexamples only."""
    judged = view(state)
    columns = schema(judged, settings)
    rows = keyed.live_rows(judged, settings) if settings.key else live_rows(judged, rules)
    lost = conflicts(judged, settings, columns)
    return Head(
        rows=tuple(columns.read(row.cells) for row in rows),
        row_ids=tuple(row.row for row in rows),
        schema=tuple((shown.name, shown.type) for shown in columns.columns),
        properties=properties(judged),
        counters=counters(judged),
        conflicts=lost.listed,
        blind_replacements=lost.blind,
        history=judged.history,
        version=len(judged.standing),
        snapshot=judged.snapshot,
        clock=judged.clock,
    )


def properties(judged: View) -> dict[str, Any]:
    """A register per name; the greatest id wins, None takes the name away."""
    found: dict[str, Any] = {}
    for version in judged.standing:
        found.update(version.properties)
    return {name: value for name, value in sorted(found.items()) if value is not None}


def counters(judged: View) -> dict[str, int]:
    """Sums over standing versions; `commits` and `rows` come for free."""
    totals = {"commits": len(judged.standing), "rows": 0}
    for version in judged.standing:
        totals["rows"] += sum(len(chunk.rows) for chunk in version.adds)
        for name, count in version.counters:
            totals[name] = totals.get(name, 0) + count
    return totals

"""What two writers do, row by row: a dict of rows with a stamp on every cell.

In this model there is no compaction, no expiry and no collection. Each verb stands beside what it means:
from what is, and what its author had seen, to what is then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from crdtcat import Version
from crdtcat.table import Table

SCHEMA: Final = pa.schema([("n", pa.int64()), ("x", pa.int64())])
OLD: Final = [(1, 0), (2, 0), (3, 0), (4, 0)]  # what was overwritten, and only history holds
FIRST: Final = [(5, 0), (6, 0)]
THEN: Final = [(7, 0), (8, 0)]
WRITTEN: Final = {6: 0, 7: 30, 9: 0}

RowId = tuple[Any, int]
Cell = tuple[Any, int]


@dataclass(frozen=True)
class Model:
    """Rows by id (the version that added them, and n), each with a stamped cell, and what was said of it."""

    cells: Mapping[RowId, Cell] = field(default_factory=dict)
    gone: frozenset[RowId] = frozenset()
    overwrites: frozenset[Any] = frozenset()

    @property
    def alive(self) -> dict[RowId, int]:
        """The rows there are. Of overwrites that did not know each other the greatest stands."""
        last = max(self.overwrites, default=None)
        return {
            row: value
            for row, (_, value) in self.cells.items()
            if row not in self.gone and (row[0] not in self.overwrites or row[0] == last)
        }

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted((row[1], value) for row, value in self.alive.items())

    def added(self, id: Any, rows: list[tuple[int, int]]) -> Model:
        return replace(self, cells={**self.cells, **{(id, n): (id, x) for n, x in rows}})

    def deleted(self, rows: Iterator[RowId]) -> Model:
        return replace(self, gone=self.gone.union(rows))

    def updated(self, id: Any, values: Mapping[RowId, int]) -> Model:
        cells = dict(self.cells)
        for row, value in values.items():
            cells[row] = max(cells[row], (id, value))
        return replace(self, cells=cells)


Said = Callable[[Model, Model, Any], Model]
"""From what is, what its author had seen, and its id, to what is then."""


@dataclass(frozen=True)
class Verb:
    """One thing that a writer does, and what it means."""

    name: str
    act: Callable[[Table, Any], Version]
    means: Said


def _update(now: Model, seen: Model, id: Any) -> Model:
    return now.updated(id, {row: 10 for row in seen.alive if row[1] in (5, 7)})


def _update_other(now: Model, seen: Model, id: Any) -> Model:
    return now.updated(id, {row: 20 for row in seen.alive if row[1] in (5, 6)})


def _delete(now: Model, seen: Model, id: Any) -> Model:
    return now.deleted(row for row in seen.alive if row[1] in (5, 8))


def _restore(now: Model, seen: Model, id: Any) -> Model:
    there = now.deleted(iter(seen.alive)).added(id, OLD)
    return replace(there, overwrites=there.overwrites | {id})


def overwritten(now: Model, seen: Model, id: Any) -> Model:
    there = now.deleted(iter(seen.alive)).added(id, FIRST)
    return replace(there, overwrites=there.overwrites | {id})


def _write(now: Model, seen: Model, id: Any) -> Model:
    """Rows that stay keep their identity."""
    known = {row[1] for row in seen.alive}
    now = now.deleted(row for row in seen.alive if row[1] not in WRITTEN)
    changed = {row: WRITTEN[row[1]] for row, x in seen.alive.items() if WRITTEN.get(row[1], x) != x}
    return now.updated(id, changed).added(id, [(n, x) for n, x in WRITTEN.items() if n not in known])


def as_table(rows: list[tuple[int, int]]) -> pa.Table:
    """Rows as the table has them."""
    return pa.table({"n": [n for n, _ in rows], "x": [x for _, x in rows]}, schema=SCHEMA)


UPDATE = Verb("update", lambda table, _: table.update("n in (5, 7)", {"x": 10}), _update)
UPDATE_OTHER = Verb("update", lambda table, _: table.update("n in (5, 6)", {"x": 20}), _update_other)
DELETE = Verb("delete", lambda table, _: table.delete("n in (5, 8)"), _delete)
RESTORE = Verb("restore", lambda table, old: table.restore(old), _restore)
OVERWRITE = Verb("overwrite", lambda table, _: table.overwrite(as_table(FIRST)), overwritten)
WRITE = Verb("write", lambda table, _: table.write(as_table([*WRITTEN.items()]), on=["n"]), _write)

PAIRS: Final = [
    (RESTORE, UPDATE),
    (UPDATE, UPDATE_OTHER),
    (UPDATE, DELETE),
    (RESTORE, OVERWRITE),
    (WRITE, UPDATE_OTHER),
    (WRITE, RESTORE),
]
"""The pairs of verbs whose orders are tried."""


def as_begun(table: Table, tick: Callable[[], None]) -> tuple[Model, Any]:
    """Give a table some history, between ticks of the clock: what it means, and the id of what is old."""
    model = Model()
    old = table.append(as_table(OLD)).id
    model = model.added(old, OLD)
    tick()
    model = overwritten(model, model, table.overwrite(as_table(FIRST)).id)
    tick()
    model = model.added(table.append(as_table(THEN)).id, THEN)
    tick()
    id = table.update("n = 6", {"x": 1}).id
    return model.updated(id, {row: 1 for row in model.alive if row[1] == 6}), old

"""Every verb of a table without a key against comparing all rows and cells: nothing missed, nothing made up.

What a verb touches is found by looking: it runs alone, on a branch, and every row and cell of before is held
against those of after, by row ids. What two of them both touched are the conflicts that there have to be,
each with its commit and its rows. Where there is none the table has to be what doing one after the other
gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.conflicts import Answer, Kind, Overlap
from crdtcat.conflicts.tagged_rows import Tag
from crdtcat.conflicts.write_set import Numbering
from crdtcat.errors import AlreadyExists, CommitConflict, UserError
from crdtcat.head.naming import row_ids
from crdtcat.intervals.runs import expand
from crdtcat.scan.located import rows_between
from crdtcat.table import Table
from crdtcat.transaction import Transaction
from tests.bounds import bounded
from tests.cas.scenes import DAYS, lake, meanwhile

SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64()), ("x", pa.int32()), ("y", pa.int64())])
NEW = "fr"
K = Kind
RowId = tuple[Tag, int]
Row = dict[str, Any]
Verb = Callable[[Any], Any]
FAIL_ALWAYS = {kind.value: "fail" for kind in Kind}


@dataclass(frozen=True)
class Shown:
    """A table: its rows by their ids, in order, by the names that columns were born with; its columns."""

    rows: dict[RowId, Row]
    columns: dict[str, tuple[str, str]]
    properties: dict[str, Any]


def shown(table: Any) -> Shown:
    head = table.head()
    ids, numbers = row_ids(head, *rows_between(head, 0, head.row_count)), Numbering()
    owner, along = expand(ids.stop.astype(np.int64) - ids.start.astype(np.int64))
    groups, starts = numbers.groups(ids)[owner], ids.start.astype(np.int64)[owner] + along
    names = [(numbers.tags[at], int(place)) for at, place in zip(groups, starts, strict=True)]
    born = {name: min(column.instances).name for name, column in head.columns.by_name.items()}
    rows = [{born[name]: value for name, value in row.items()} for row in table.read().to_pylist()]
    columns = {born[name]: (name, str(column.type)) for name, column in head.columns.by_name.items()}
    return Shown(dict(zip(names, rows, strict=True)), columns, dict(head.properties))


@dataclass(frozen=True)
class Effect:
    """What a verb did: what tells a table before it from the one after it."""

    deleted: frozenset[RowId]
    cells: dict[tuple[RowId, str], Any]
    added: tuple[Row, ...]
    scope: frozenset[str | None] | None
    defined: dict[str, tuple[str, str]]
    dropped: frozenset[str]
    properties: dict[str, Any]
    names: frozenset[str] = frozenset()
    """Columns that it has none of the rows of: of a `write` that leaves none."""

    @property
    def uses(self) -> frozenset[str]:
        names = {name for _, name in self.cells} | {name for row in self.added for name in row}
        return frozenset(names)


def effect(before: Shown, after: Shown, scope: frozenset[str | None] | None) -> Effect:
    kept = before.rows.keys() & after.rows.keys()
    columns = before.columns.keys() | after.columns.keys()
    return Effect(
        deleted=frozenset(before.rows.keys() - after.rows.keys()),
        cells={
            (id, name): after.rows[id].get(name)
            for id in kept
            for name in columns
            if name in after.columns and before.rows[id].get(name) != after.rows[id].get(name)
        },
        added=tuple(row for id, row in after.rows.items() if id not in before.rows),
        scope=scope,
        defined={name: face for name, face in after.columns.items() if before.columns.get(name) != face},
        dropped=frozenset(before.columns.keys() - after.columns.keys()),
        properties={
            name: value for name, value in after.properties.items() if before.properties.get(name) != value
        },
    )


def conflicts(mine: Effect, theirs: Effect, before: Shown) -> dict[Kind, set[RowId]]:
    """What both touched, by looking at each row, cell, column and name."""
    over, under = mine.scope is not None, theirs.scope is not None
    touched, by_them = ({id for id, _ in one.cells} for one in (mine, theirs))
    rows: dict[Kind, set[RowId]] = {
        K.UPDATE_UPDATE: {id for id, name in mine.cells if (id, name) in theirs.cells},
        K.UPDATE_OVERWRITE if under else K.UPDATE_DELETE: touched & theirs.deleted,
        K.OVERWRITE_UPDATE if over else K.DELETE_UPDATE: by_them & mine.deleted,
    }
    if not (over and under):
        kind = K.OVERWRITE_DELETE if over else K.DELETE_OVERWRITE if under else K.DELETE_DELETE
        rows[kind] = set(mine.deleted & theirs.deleted)
    found = {kind: held for kind, held in rows.items() if held}
    alike = {
        name for name in mine.defined.keys() & theirs.defined.keys()
        if mine.defined[name] == theirs.defined[name] and name not in before.columns
    }  # fmt: skip
    changed = (mine.defined.keys() | mine.dropped) & (theirs.defined.keys() | theirs.dropped)
    named = {face[0] for face in mine.defined.values()} & {face[0] for face in theirs.defined.values()}
    plain = {
        K.OVERWRITE_OVERWRITE: over and under and _meet(mine.scope, theirs.scope),
        K.OVERWRITE_APPEND: over and not under and _meet(mine.scope, _days(theirs)),
        K.APPEND_OVERWRITE: under and not over and _meet(theirs.scope, _days(mine)),
        K.COLUMN_COLUMN: bool((changed | named) - alike),
        K.WRITE_DROP: bool((mine.uses | mine.names) & theirs.dropped),
        K.DROP_WRITE: bool(mine.dropped & theirs.uses),
        K.PROPERTY_PROPERTY: bool(mine.properties.keys() & theirs.properties.keys()),
    }
    return found | {kind: set() for kind, holds in plain.items() if holds}


def _days(one: Effect) -> frozenset[str | None]:
    return frozenset(row["day"] for row in one.added)


def _meet(first: frozenset[str | None] | None, second: frozenset[str | None] | None) -> bool:
    """Whether sets of days meet; `None` in one stands for all of them."""
    assert first is not None
    assert second is not None
    return bool(first & second) or bool(None in first and second) or bool(None in second and first)


def told(found: Iterable[Overlap], known: Shown) -> dict[tuple[int, Kind], set[RowId]]:
    """Conflicts as an error has them; of whole chunks, which are rows up to the end of any, those that were
    there."""
    by_kind: dict[tuple[int, Kind], set[RowId]] = {}
    for item in found:
        held = by_kind.setdefault((item.number, item.kind), set())
        for group, start, stop in item.rows:
            tag = item.tags[group]
            held |= {id for id in known.rows if id[0] == tag and start <= id[1] < stop}
    return by_kind


ROWS = [{"day": DAYS[n % 3], "n": n, "x": n % 2, "y": 0} for n in range(9)]


class Verbs:
    """Verbs by name, with what is drawn for them: values that nobody else writes."""

    def __init__(self, first: int, *, partitioned: bool) -> None:
        self._next, self.partitioned = first, partitioned

    def value(self) -> int:
        self._next += 1
        return self._next

    def row(self, day: str) -> Row:
        return {"day": day, "n": self.value(), "x": self.value(), "y": self.value()}

    def drawn(self, draw: st.DrawFn, *, together: bool, tending: bool) -> Verb:
        names = [name.removeprefix("_do_") for name in dir(self) if name.startswith("_do_")]
        outside = ["restore", "cluster"] if together else []
        names = [name for name in [*names, "write", "write"] if name not in outside]
        name = draw(st.sampled_from(names + ["tend"] * (tending and not together)))
        event(name)
        verb: Verb
        if name == "tend":
            verb = lambda table: (table.checkpoint(), table.compact())  # noqa: E731
            verb.is_write = False  # type: ignore[attr-defined]
            return verb
        verb = getattr(self, f"_do_{name}")(draw)
        verb.is_blind = name in ("append", "evolve")  # type: ignore[attr-defined]
        verb.is_write = name == "write"  # type: ignore[attr-defined]
        return verb

    def _where(self, draw: st.DrawFn) -> Any:
        return [("n", "in", sorted(draw(st.sets(st.integers(0, 8), min_size=1, max_size=3))))]

    def _values(self, draw: st.DrawFn) -> Row:
        return {name: self.value() for name in sorted(draw(st.sets(st.sampled_from("nxy"), min_size=1)))}

    def _rows(self, draw: st.DrawFn, days: Sequence[str] = (*DAYS, NEW)) -> list[Row]:
        return [self.row(day) for day in draw(st.lists(st.sampled_from(days), min_size=1, max_size=2))]

    def _do_append(self, draw: st.DrawFn) -> Verb:
        rows, key = self._rows(draw), draw(st.sampled_from([None, f"key {self.value()}"]))
        return lambda table: table.append(_fitted(table, rows), key=key)

    def _do_update(self, draw: st.DrawFn) -> Verb:
        where, values = self._where(draw), self._values(draw)
        return lambda table: table.update(where, _fitting(table, values))

    def _do_move(self, draw: st.DrawFn) -> Verb:
        where, day = self._where(draw), draw(st.sampled_from([*DAYS, NEW]))
        return lambda table: table.update([*where, ("day", "!=", day)], {"day": day})

    def _do_update_rows(self, draw: st.DrawFn) -> Verb:
        start, values = draw(st.integers(0, 3)), self._values(draw)
        stop = start + draw(st.integers(1, 3))

        def verb(table: Table) -> Any:
            last = min(stop, table.head().row_count)
            first, made = min(start, max(0, last - 1)), _fitting(table, values)
            return table.update_rows(first, last, [made] * (last - first)) if last > first else None

        return verb

    def _do_delete(self, draw: st.DrawFn) -> Verb:
        where = draw(st.sampled_from([self._where(draw), "day = 'mo'", "x = 1", "n < 5", "true"]))
        return lambda table: table.delete(where)

    def _do_write(self, draw: st.DrawFn) -> Verb:
        """What was there without some rows, with other cells, new rows anywhere, perhaps in another order."""
        gone = draw(st.sets(st.integers(0, 9), max_size=3))
        cells = draw(
            st.dictionaries(st.integers(0, 9), st.sets(st.sampled_from("nxy"), min_size=1), max_size=3)
        )
        made = {at: {name: self.value() for name in sorted(names)} for at, names in cells.items()}
        added = draw(st.dictionaries(st.integers(0, 9), st.sampled_from([*DAYS, NEW]), max_size=2))
        rows = {at: self.row(day) for at, day in added.items()}
        turned = draw(st.integers(0, 9)) == 0
        all_new = draw(st.integers(0, 9)) == 0
        on = draw(st.sampled_from([None, None, ["n"]]))
        column = draw(st.sampled_from(["", "", "", "z"]))

        def verb(table: Table) -> Any:
            data: list[Row] = []
            for at, row in enumerate(table.read().to_pylist()):
                if at in rows:
                    data.append(rows[at])
                if at not in gone and not all_new:
                    data.append({**row, **_fitting(table, made.get(at, {}))})
            data = _fitted(table, data or list(rows.values()))
            schema = table.schema
            if column and column not in schema.names:
                data = [{**row, column: at + 1000 * self._next} for at, row in enumerate(data)]
                schema = schema.append(pa.field(column, pa.int64()))
            rowset = pa.Table.from_pylist(data[::-1] if turned else data, schema)
            unique = len(set(rowset.column("n").to_pylist())) == len(rowset) if "n" in schema.names else False
            return table.write(rowset, on=on if unique else None)

        return verb

    def _do_overwrite(self, draw: st.DrawFn) -> Verb:
        rows = self._rows(draw)
        return _scoped(lambda table: table.overwrite(_fitted(table, rows)), lambda _: frozenset([None]))

    def _do_overwrite_day(self, draw: st.DrawFn) -> Verb:
        if not self.partitioned:
            return self._do_overwrite(draw)
        day = draw(st.sampled_from([*DAYS, NEW]))
        rows = self._rows(draw, [day])
        return _scoped(
            lambda table: table.overwrite(_fitted(table, rows), where=f"day = '{day}'"),
            lambda _: frozenset([day]),
        )

    def _do_restore(self, draw: st.DrawFn) -> Verb:
        return _scoped(lambda table: table.restore(table.history()[0].id), lambda _: frozenset([None]))

    def _do_columns(self, draw: st.DrawFn) -> Verb:
        verbs: list[Verb] = [
            lambda table: table.add_column("z", pa.int64()),
            lambda table: table.add_column("z", pa.string()),
            lambda table: table.rename_column("x", "w"),
            lambda table: table.drop_column("x"),
            lambda table: table.drop_column("y"),
            lambda table: table.widen_column("x", pa.int64()),
        ]
        verb = draw(st.sampled_from(verbs))
        return lambda table: verb(table) if {"x", "y"} <= set(table.schema.names) else None

    def _do_cluster(self, draw: st.DrawFn) -> Verb:
        by = draw(st.sampled_from(["n", "day"]))
        return lambda table: table.compact(cluster_by=[by])

    def _do_evolve(self, draw: st.DrawFn) -> Verb:
        value = draw(st.sampled_from([self.value(), f"text {self.value()}"]))
        (row,) = self._rows(draw)[:1]
        return lambda table: table.append(
            [{**_fitted(table, [row])[0], "z": value}] if "z" not in table.schema.names else [], evolve=True
        )

    def _do_properties(self, draw: st.DrawFn) -> Verb:
        values = {name: self.value() for name in sorted(draw(st.sets(st.sampled_from("pq"), min_size=1)))}
        return lambda table: table.set_properties(values)


def _scoped(verb: Verb, scope: Callable[[Table], frozenset[str | None]]) -> Verb:
    verb.scope = scope  # type: ignore[attr-defined]
    return verb


def _fitting(table: Table, values: Row) -> Row:
    names = table.schema.names
    found = {name: value for name, value in values.items() if name in names}
    return found or ({"day": str(min(values.values()))} if values else {})


def _fitted(table: Table, rows: list[Row]) -> list[Row]:
    """Rows with all the columns that there are, and none besides."""
    return [{name: row.get(name) for name in table.schema.names} for row in rows]


def run(table: Any, verb: Verb) -> Effect:
    """Run it; what it did, which is nothing where it is refused."""
    before = shown(table)
    with suppress(AlreadyExists, UserError):
        verb(table)
    after = shown(table)
    found = effect(before, after, verb.scope(table) if hasattr(verb, "scope") else None)
    return replace(found, names=frozenset(after.columns)) if verb.is_write and not after.rows else found  # type: ignore[attr-defined]


def followed(theirs: Shown, mine: Effect, table: Table) -> None:
    """Assert that a table is what theirs made it, and mine then."""
    now = shown(table)
    names = now.columns.keys()
    left = {id: row for id, row in theirs.rows.items() if id not in mine.deleted}
    wanted = {
        id: {name: mine.cells.get((id, name), row.get(name)) for name in names} for id, row in left.items()
    }
    assert {id: row for id, row in now.rows.items() if id in theirs.rows} == wanted
    added = [tuple(row.get(name) for name in sorted(names)) for row in mine.added]
    rest = (row for id, row in now.rows.items() if id not in theirs.rows)
    assert Counter(tuple(row[name] for name in sorted(names)) for row in rest) == Counter(added)
    assert now.columns == {name: face for name, face in (theirs.columns | mine.defined).items()
                           if name not in mine.dropped}  # fmt: skip
    assert now.properties == theirs.properties | mine.properties


Work = tuple[bool, list[Verb]]
"""Verbs of one transaction; or one verb by itself."""


@st.composite
def works(draw: st.DrawFn, first: int, *, partitioned: bool, tending: bool) -> Work:
    count = draw(st.sampled_from([0, 0, 1, 2]))
    verbs = Verbs(first, partitioned=partitioned)
    return count > 0, [verbs.drawn(draw, together=count > 0, tending=tending) for _ in range(max(1, count))]


@st.composite
def races(draw: st.DrawFn) -> tuple[bool, list[Work], Work, bool]:
    partitioned = draw(st.booleans())
    others = [
        draw(works(10_000 * (at + 1), partitioned=partitioned, tending=True))
        for at in range(draw(st.integers(1, 2)))
    ]
    mine = draw(works(1_000, partitioned=partitioned, tending=False))
    return partitioned, others, mine, draw(st.booleans())


def staged(catalog: Catalog, verbs: list[Verb], branch: str = "main") -> tuple[Transaction, list[Effect]]:
    """A transaction in which they ran one after the other, and what each did there."""
    transaction = catalog.transaction()
    table = transaction.table("t", branch)
    return transaction, [run(table, verb) for verb in verbs]


def committed(catalog: Catalog, table: Table, work: Work) -> list[Effect]:
    """What each verb did."""
    together, verbs = work
    if not together:
        return [run(table, verb) for verb in verbs]
    transaction, done = staged(catalog, verbs, table.branch_name)
    transaction.commit()
    return done


@settings(max_examples=bounded(4_000, 200), deadline=None)
@given(races())
def test_exactly_the_conflicts_that_looking_at_every_row_finds(
    race: tuple[bool, list[Work], Work, bool],
) -> None:
    partitioned, others, work, is_refreshed = race
    catalog, url = lake(on_conflict=FAIL_ALWAYS)
    mine = catalog.create_table("t", SCHEMA, mode="cas", partition_by=["day"] if partitioned else [])
    mine.append(ROWS[:4])
    mine.append(ROWS[4:], key="twice")
    elsewhere = Catalog(url, upkeep=False)
    there, base = elsewhere.table("t"), shown(mine)
    branch = mine.branch("alone")
    alone = committed(Catalog(url, upkeep=False), branch, work)
    whole = effect(base, shown(branch), None)
    came: list[tuple[int, list[Effect], Shown]] = []
    # Then others are judged by the log, and not by their files. What reads nothing follows whatever is known.
    is_refreshed = is_refreshed and (work[0] or not work[1][0].is_blind)  # type: ignore[attr-defined]

    def come() -> None:
        for other in others:
            done = committed(elsewhere, there, other)
            came.append((int(there.head().log.number.max()), done, shown(there)))
            if is_refreshed:
                mine._session.refresh()

    found: dict[tuple[int, Kind], set[RowId]] = {}
    try:
        if work[0]:
            transaction, _ = staged(catalog, work[1])
            come()
            transaction.commit()
        else:
            meanwhile(mine, come)
            with suppress(AlreadyExists, UserError):
                work[1][0](mine)
    except CommitConflict as error:
        found = told(error.conflicts, base)
        assert shown(there) == came[-1][2], "nothing was committed"
        if all(kind.rule.default is Answer.BOTH for _, kind in found):
            error.retry({kind.value: "both" for _, kind in found})
            followed(came[-1][2], whole, there)
    else:
        followed(came[-1][2] if came else base, whole, there)
    wanted: dict[tuple[int, Kind], set[RowId]] = {}
    for number, done, _ in came:
        for ours, theirs in product(alone, done):
            for kind, held in conflicts(ours, theirs, base).items():
                wanted.setdefault((number, kind), set()).update(held)
    assert found == wanted
    event(f"{len(found)} kinds of conflicts")

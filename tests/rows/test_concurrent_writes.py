"""Two and three who `write` at once, none of whom has seen the others: rows merge row by row.

What each of them changed is told by the change feed of its version alone, which has to lead from what was to
its data. From these the model makes what all of them together mean, row by row and cell by cell, with no
regard to who arrives first, or whether somebody compacts meanwhile.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Snapshot, Table
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, objects
from tests.rows.late import held_back

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
COLUMNS = ("id", "name", "value", "more")
Row = dict[str, Any]
Moves = list[tuple[str, int, int]]


def row(at: int) -> Row:
    return {"id": at, "name": f"n{at}", "value": at / 2}


def edited(rows: list[Row], moves: Moves, writer: int, *, keyed: bool) -> list[Row]:
    """What a writer wants the table to be: rows changed, deleted, inserted, moved, repeated."""
    rows = [dict(each) for each in rows]
    for number, (verb, where, more) in enumerate(moves):
        at = where % (len(rows) + 1)
        if verb == "insert":
            rows[at:at] = [{"id": 1000 * writer + number, "name": f"w{writer}", "value": None}]
        elif at == len(rows):
            continue
        elif verb == "change":
            rows[at].update({"name": f"w{writer}"} if more % 2 else {"value": float(number)})
        elif verb == "delete":
            del rows[at : at + 1 + more % 3]
        elif verb == "column":
            rows = [{**each, "more": each["id"] % (2 + more)} for each in rows]
        elif verb == "move" and not keyed:
            rows.insert(more % len(rows), rows.pop(at))
        elif verb == "repeat" and not keyed:
            rows[at:at] = [dict(rows[more % len(rows)])]
    return rows


@dataclass(frozen=True)
class Said:
    """What one version changed: rows that went, rows that came, and the new cells of rows that stayed.

    A row that came exactly where another went is told as an update of that one, in all of its cells.
    """

    id: str
    deleted: frozenset[int]
    inserted: tuple[Row, ...]
    updated: dict[int, Row]


def said(catalog: Catalog, arrive: Any, before: Snapshot, wanted: list[Row]) -> Said:
    """What a version says, found by letting it arrive alone, and taking it back."""
    known = set(objects(catalog))
    arrive()
    (name,) = (each for each in set(objects(catalog)) - known if each.endswith(".v"))
    alone = another(catalog).table("t")
    assert counted(alone.read().to_pylist()) == counted(wanted)
    deleted, inserted, updated, old = set(), [], {}, {}
    for change in alone.changes(before).to_table().to_pylist():
        verb = change.pop("_change")
        if verb == "insert":
            inserted.append(change)
        elif verb == "delete":
            deleted.add(change["id"])
        elif verb == "update_before":
            old = change
        else:
            updated[old["id"]] = {key: new for key, new in change.items() if old.get(key) != new}
    catalog.store.delete([name])
    return Said(name, frozenset(deleted), tuple(inserted), updated)


def merged(base: list[Row], all_said: list[Said], *, keyed: bool) -> list[Row]:
    """What all of them mean together: the greatest version decides for a cell, whoever arrived first."""
    versions = sorted(all_said, key=lambda each: each.id)
    rows = {each["id"]: dict(each) for each in base}
    if not keyed:
        for version in versions:
            for at, cells in version.updated.items():
                rows[at].update(cells)
        gone = frozenset[int]().union(*(version.deleted for version in versions))
        stay = [each for at, each in rows.items() if at not in gone]
        return [*stay, *(each for version in versions for each in version.inserted)]
    for version in versions:  # a delete ends all cells below it; one above it is a row again
        for at in version.deleted:
            rows.pop(at, None)
        for at, cells in [*version.updated.items(), *((each["id"], each) for each in version.inserted)]:
            rows.setdefault(at, {"id": at}).update(cells)
    return [*rows.values()]


def counted(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(each.get(name) for name in COLUMNS) for each in rows)


moves = st.lists(
    st.tuples(
        st.sampled_from(("change", "change", "delete", "insert", "move", "repeat")),
        st.integers(0, 12),
        st.integers(0, 12),
    ),
    max_size=5,
)


@pytest.mark.parametrize("keyed", [False, True], ids=["by row", "by key"])
@given(
    st.lists(moves, min_size=2, max_size=3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0, 1]),
    st.integers(0, 5),
)
@settings(max_examples=bounded(60, 5), deadline=None)
def test_rows_merge_row_by_row(
    keyed: bool, writers: list[Moves], by_id: bool, compacting: bool, adds: int | None, order: int
) -> None:
    catalog = lake(chunk_rows=4, inline_bytes=0)
    table = catalog.create_table("t", SCHEMA, key=["id"] if keyed else ())
    base = [row(at) for at in range(10)]
    table.write(base[:6])
    table.write(base)
    before = table.head().snapshot
    arrivals, told = [], []
    for number, edits in enumerate(writers):
        extra: Moves = [("column", 0, 1)] if adds == number else []
        wanted = edited(base, edits + extra, number + 1, keyed=keyed)
        other = another(catalog, chunk_rows=4, inline_bytes=0).table("t")
        data = pa.Table.from_pylist(wanted, _schema(extra))
        arrive = held_back(other, partial(_write, other, data, by_id=by_id and not keyed))
        arrivals.append(arrive)
        told.append(said(catalog, arrive, before, wanted))
    for at in range(len(arrivals)):
        arrivals[(at + order) % len(arrivals)]()
        if compacting and at % 2 == order % 2:
            another(catalog, chunk_rows=4).table("t").compact(rows=8)
    found = another(catalog).table("t")
    assert counted(found.read().to_pylist()) == counted(merged(base, told, keyed=keyed))
    assert found.scan().count() == found.read().num_rows
    assert found.verify("content").ok
    if not keyed:
        _check_listed(found, told)


def _schema(extra: Moves) -> pa.Schema:
    return SCHEMA.append(pa.field("more", pa.int64())) if extra else SCHEMA


def _write(table: Table, data: pa.Table, *, by_id: bool) -> None:
    unique = len(set(data["id"].to_pylist())) == data.num_rows
    table.write(data, on=["id"]) if by_id and unique else table.write(data)


def _check_listed(table: Table, told: list[Said]) -> None:
    """Every cell that two of them changed, and every update of a row that another deleted, is listed."""
    lost = {(conflict.kind, conflict.subject) for conflict in table.conflicts()}
    for one in told:
        for two in told:
            if one is two:
                continue
            for at, cells in one.updated.items():
                for column in set(cells) & set(two.updated.get(at, {})):
                    assert ("cell", column) in lost or ("deleted", column) in lost
                if at in two.deleted:
                    assert all(("deleted", column) in lost for column in cells)

"""The change feed where columns change, too: applied to one snapshot it gives the other, whatever happened.

A column of the later snapshot is the one of the earlier with which it shares an instance, by whatever name;
where there is none, the one of its name, which it took the place of. Values that its type cannot hold, and
columns that are not there, are null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Head, Table
from crdtcat.chunks.types import is_lossless
from crdtcat.head.columns import Column
from tests.bounds import bounded
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("w", pa.string())])
TYPES = {"v": (pa.int32(), pa.int64()), "w": (pa.string(), pa.large_string())}

Values = dict[int, dict[str, Any]]


def values(table: Table, head: Head) -> Values:
    return {row["id"]: row for row in table.read(at=head.snapshot).to_pylist()}


def taken_from(old: Head, new: Head) -> dict[str, Column | None]:
    """By name of a column of the later snapshot, the column of the earlier."""
    found: dict[str, Column | None] = {}
    for column in new.columns.all:
        same = [held for held in old.columns.all if held.instances & column.instances]
        found[column.name] = same[0] if same else None
    kept = {column.name for column in found.values() if column is not None}
    for name in [name for name, column in found.items() if column is None and name not in kept]:
        found[name] = old.columns.by_name.get(name)
    return found


def in_columns_of(old: Head, new: Head, rows: Values) -> Values:
    sources = taken_from(old, new)

    def value(row: dict[str, Any], column: Column) -> Any:
        held = sources[column.name]
        return None if held is None or not is_lossless(held.type, column.type) else row[held.name]

    return {id: {column.name: value(row, column) for column in new.columns.all} for id, row in rows.items()}


def check(table: Table, old: Head, new: Head) -> None:
    rows = in_columns_of(old, new, values(table, old))
    for change in table.changes(old, new).to_table().to_pylist():
        kind, id = change.pop("_change"), change["id"]
        if kind == "insert":
            assert id not in rows
            rows[id] = change
        elif kind == "update_after":
            rows[id] = change
        else:
            assert rows[id] == change, kind
            if kind == "delete":
                del rows[id]
    assert rows == values(table, new)


def known(table: Table, number: int) -> dict[str, Any]:
    """Values for the columns that a handle knows, without a look."""
    types = {name: column.type for name, column in (table._session.known or {}).items() if name != "id"}
    return {name: number if pa.types.is_integer(type) else str(number) for name, type in types.items()}


VERBS: dict[str, Callable[[Table, int, int], object]] = {
    "append": lambda table, number, _: table.append([{"id": 100 * number, **known(table, number)}]),
    "update v": lambda table, number, what: table.update(f"id % 3 = {what % 3}", {"v": number}),
    "update w": lambda table, number, what: table.update(f"id % 3 = {what % 3}", {"w": str(number)}),
    "delete": lambda table, _, what: table.delete(f"id % 7 = {what % 7}"),
    "compact": lambda table, _, __: table.compact(),
    "drop v": lambda table, _, __: table.drop_column("v"),
    "drop w": lambda table, _, __: table.drop_column("w"),
    "add v": lambda table, _, what: table.add_column("v", TYPES["v"][what % 2]),
    "add w": lambda table, _, what: table.add_column("w", TYPES["w" if what % 3 else "v"][what % 2]),
    "rename": lambda table, _, what: table.rename_column("vwx"[what % 3], "vwx"[(what + 1) % 3]),
    "widen": lambda table, _, __: table.widen_column("v", pa.int64()),
    "write": lambda table, number, what: table.write(_written(table.read(), number, what)),
    "restore": lambda table, _, __: table.restore(table.history()[0]),
}


def _written(rows: pa.Table, number: int, what: int) -> pa.Table:
    """The rows without one column, or with one of another type, and one of them changed."""
    names = rows.column_names
    if what % 4 == 0 and len(names) > 1:
        rows = rows.drop_columns([names[-1]])
    elif what % 4 == 1:
        rows = rows.drop_columns([name for name in ("v",) if name in names])
        rows = rows.append_column("v", pa.array([str(number)] * rows.num_rows))
    return rows.slice(what % 2)


def _possible(table: Table, verb: str, what: int) -> bool:
    names = table.schema.names
    if verb.startswith("add"):
        return verb[-1] not in names
    if verb == "rename":
        return "vwx"[what % 3] in names and "vwx"[(what + 1) % 3] not in names
    if verb == "widen":
        return "v" in names and table.schema.field("v").type == pa.int32()
    if verb == "update v":
        return "v" in names and pa.types.is_integer(table.schema.field("v").type)
    if verb == "update w":
        return "w" in names and not pa.types.is_integer(table.schema.field("w").type)
    return verb[-1] not in "vw" or verb[-1] in names


steps = st.lists(
    st.tuples(st.sampled_from(sorted(VERBS)), st.integers(0, 11), st.integers(0, 1), st.booleans()),
    min_size=1,
    max_size=9,
)


@pytest.mark.parametrize("keyed", [False, True])
@given(moves=steps, data=st.data())
@settings(max_examples=bounded(80, 4), deadline=None)
def test_applied_to_one_snapshot_it_gives_the_other_whatever_columns_do(
    keyed: bool, moves: list[tuple[str, int, int, bool]], data: st.DataObject
) -> None:
    heads, table = played(keyed=keyed, moves=moves)
    for first in heads:
        check(table, first, data.draw(st.sampled_from(heads)))


def played(*, keyed: bool, moves: list[tuple[str, int, int, bool]]) -> tuple[list[Head], Table]:
    """The heads on the way: after each commit that is not held back, and each that arrives late."""
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, key=["id"] if keyed else ())
    tables = [table, another(catalog).table("t")]
    table.append([{"id": at, "v": 0, "w": "old"} for at in range(4)])
    heads, waiting = [table.head()], []
    for number, (verb, what, who, late) in enumerate(moves, 1):
        author = tables[who]
        if verb == "compact" and keyed:
            continue
        if not _possible(author, verb, what):
            continue

        def act(author: Table = author, verb: str = verb, number: int = number, what: int = what) -> None:
            VERBS[verb](author, number, what)

        if late:
            waiting.append(held_back(author, act))
        else:
            act()
            heads.append(table.head())
        if len(waiting) > 1:
            waiting.pop(0)()
            heads.append(table.head())
    for held in waiting:
        held()
        heads.append(table.head())
    return heads, table


@pytest.mark.parametrize("compacted", [False, True])
def test_a_drop_that_an_update_had_not_seen(compacted: bool) -> None:
    """The column stays for what it wrote, and all other rows become null there: the feed says so."""
    more = [("append", 1, 0, False), ("compact", 0, 0, False)] if compacted else []
    heads, table = played(keyed=False, moves=[*more, ("update w", 1, 1, True), ("drop w", 0, 0, False)])
    check(table, heads[0], heads[-1])
    check(table, heads[-1], heads[0])
    found = table.changes(heads[-3], heads[-1]).to_table().to_pylist()
    assert {row["id"]: row["w"] for row in found if row["_change"] == "update_after"}[0] is None


def test_a_drop_undone_and_a_name_taken_up_again() -> None:
    heads, table = played(keyed=False, moves=[("drop w", 0, 0, False), ("add w", 1, 0, False)])
    for first in heads:
        for second in heads:
            check(table, first, second)
    assert table.changes(heads[0], heads[1]).touched == 0  # that a column is gone is no change of rows
    assert table.changes(heads[1], heads[0]).touched == 4
    assert table.changes(heads[0], heads[2]).touched == 4


def test_columns_that_no_value_notices_are_free() -> None:
    moves = [("rename", 2, 0, False), ("widen", 0, 0, False), ("add w", 1, 0, False)]
    heads, table = played(keyed=False, moves=moves)
    assert table.changes(heads[0], heads[-2]).touched == 0
    check(table, heads[0], heads[-1])

"""Overwrites of partitions after updates that moved rows between them: what rows hold now decides."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.errors import InvalidArgument
from crdtcat.verbs import rows as row_verbs
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, refused, rows
from tests.rows.late import held_back
from tests.verbs.test_rows import Interrupted

SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.string()), ("day", pa.date32())])


def row(n: int, k: str | None) -> dict[str, Any]:
    return {"n": n, "k": k, "day": dt.date(2024, 1, 1 + n % 3)}


def held(table: Table) -> list[tuple[int, str | None]]:
    return sorted((one["n"], one["k"]) for one in rows(table.read()))


def moved(mode: str = "merge", *, load: str = "append") -> tuple[Catalog, Table]:
    """Rows 0 to 2 came to a, row 9 to b, and row 0 was moved to b."""
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, partition_by=["k"], mode=mode)
    getattr(table, load)([row(0, "a"), row(1, "a"), row(2, "a"), row(9, "b")])
    table.update("n = 0", {"k": "b"})
    return catalog, table


@pytest.mark.parametrize("mode", ["merge", "cas"])
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize(
    ("where", "left"),
    [("k = 'a'", [(0, "b"), (9, "b")]), ("k = 'b'", [(1, "a"), (2, "a")]), ("k in ('a', 'b')", [])],
)
def test_an_overwrite_goes_by_what_rows_hold_now(
    mode: str, compacted: bool, where: str, left: list[tuple[int, str]]
) -> None:
    _, table = moved(mode)
    if compacted:
        table.compact()
    table.overwrite([row(50, where[5:6] if "=" in where else "a")], where=where)
    assert [one for one in held(table) if one[0] < 50] == left
    table.compact()
    assert [one for one in held(table) if one[0] < 50] == left
    assert table.conflicts() == ()
    assert table.verify("content").ok


def test_a_partition_that_all_rows_have_left_is_empty() -> None:
    _, table = moved()
    table.update("k = 'a'", {"k": "c"})
    table.overwrite([row(50, "a")], where="k = 'a'")
    assert held(table) == [(0, "b"), (1, "c"), (2, "c"), (9, "b"), (50, "a")]
    table.overwrite(SCHEMA.empty_table(), where="k = 'c'")
    assert held(table) == [(0, "b"), (9, "b"), (50, "a")]


def test_rows_that_are_moved_meanwhile() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, partition_by=["k"])
    table.append([row(0, "a"), row(1, "a"), row(2, "b")])
    table.update("n = 1", {"day": None})
    other = another(catalog).table("t")

    def meanwhile() -> None:
        other.update("n = 0", {"k": "b"})
        other.update("n = 2", {"k": "a"})

    row_verbs.overwrite(table._session, Interrupted([row(50, "a")], meanwhile), where="k = 'a'")
    assert held(table) == [(2, "a"), (50, "a")]
    assert [(lost.kind, lost.subject) for lost in table.conflicts()] == [("deleted", "k")]


def test_two_who_overwrite_a_partition_that_rows_were_moved_into() -> None:
    """No chunk is stored in the partition c, and still the two meet there."""
    catalog, table = moved()
    table.update("n = 1", {"k": "c"})
    other = another(catalog).table("t")

    def meanwhile() -> None:
        other.overwrite([row(60, "c")], where="k = 'c'")

    row_verbs.overwrite(table._session, Interrupted([row(50, "c")], meanwhile), where="k = 'c'")
    assert [one for one in held(table) if one[1] == "c"] == [(50, "c")]
    assert [lost.kind for lost in table.conflicts()] == ["overwrite"]


@pytest.mark.parametrize("compacted", [False, True])
def test_rows_that_came_with_an_overwrite_and_were_moved_out_are_not_lost(compacted: bool) -> None:
    catalog, table = moved(load="overwrite")
    if compacted:
        table.compact()
    before = held(table)
    with refused(catalog, InvalidArgument, "1 rows", "transaction"):
        table.overwrite([row(50, "a")], where="k = 'a'")
    assert held(table) == before
    table.overwrite(SCHEMA.empty_table(), where="k = 'b'")  # moved in: nothing stands in the way
    assert held(table) == [(1, "a"), (2, "a")]
    table.overwrite([row(50, "a")], where="k = 'a'")
    assert held(table) == [(50, "a")]


def test_what_the_error_says_helps() -> None:
    catalog, table = moved(load="overwrite")
    with catalog.transaction() as changes:
        changes.delete("t", "k = 'a'")
        changes.append("t", [row(50, "a")])
    assert held(table) == [(0, "b"), (9, "b"), (50, "a")]


def test_rows_are_read_only_where_an_update_lies_over_partition_columns() -> None:
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t", SCHEMA, partition_by=["k"])
    table.append([row(0, "a"), row(1, "b")])
    table.update("n = 0", {"day": None})
    table.head()
    asked = catalog.store.requests.snapshot()
    table.overwrite([row(5, "a")], where="k = 'a'")
    assert catalog.store.requests.since(asked).get == 0
    table.update("n = 1", {"k": "c"})
    table.head()
    asked = catalog.store.requests.snapshot()
    table.overwrite([row(5, "a")], where="k = 'a'")
    assert catalog.store.requests.since(asked).get > 0


NAMES = ("a", "b", "c", None)
steps = st.lists(
    st.tuples(
        st.sampled_from(("append", "move", "move", "delete", "compact", "cluster", "write", "overwrite")),
        st.integers(0, 12),
        st.booleans(),
    ),
    max_size=7,
)


@given(steps, st.sampled_from(NAMES), st.sampled_from((["k"], ["k", "bucket(2, n)"], ["truncate(1, k)"])))
@settings(max_examples=bounded(160, 8), deadline=None)
def test_whatever_was_moved_and_compacted_before(
    moves: list[tuple[str, int, bool]], target: str | None, partition_by: list[str]
) -> None:
    catalog = lake(chunk_rows=3)
    table = catalog.create_table("t", SCHEMA, partition_by=partition_by)
    table.append([row(n, NAMES[n % 4]) for n in range(6)])
    waiting = []
    for verb, number, late in moves:
        author = another(catalog).table("t")

        def act(author: Table = author, verb: str = verb, number: int = number) -> None:
            _act(author, verb, number)

        waiting.append(held_back(author, act)) if late and verb != "overwrite" else act()
    for arrive in waiting:
        arrive()
    _overwritten(table, target)


def _act(table: Table, verb: str, number: int) -> None:
    if verb == "append":
        table.append([row(n, NAMES[n % 4]) for n in range(number, number + 3)])
    elif verb == "move":
        table.update(f"n >= {number % 7}", {"k": NAMES[number % 4]})
    elif verb == "delete":
        table.delete(f"n = {number}")
    elif verb == "overwrite":
        _overwritten(table, NAMES[number % 4])
    elif verb == "write":
        table.write(pa.Table.from_pylist([*rows(table.read())[1:], row(number, "b")], SCHEMA))
    else:
        table.compact(cluster_by=["n"] if verb == "cluster" else None)


def _overwritten(table: Table, target: str | None) -> None:
    """Overwrite one partition: exactly the rows that are in it now are replaced, or nothing happens."""
    before = rows(table.read())
    staying = [one for one in before if one["k"] != target]
    new = [row(100, target)]
    where = "k is null" if target is None else f"k = '{target}'"
    try:
        table.overwrite(pa.Table.from_pylist(new, SCHEMA), where=where)
    except InvalidArgument as error:
        assert "moved to others" in str(error) or "only part of" in str(error)  # noqa: PT017
        staying, new = before, []
    assert sorted(map(str, rows(table.read()))) == sorted(map(str, [*staying, *new]))

"""Restore: the table as it was, columns included, whatever happened in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Table
from crdtcat.errors import AlreadyExists, NotFound, UserError
from crdtcat.verbs import rows as row_verbs
from tests.catalog.lakes import another, lake, objects, rows
from tests.verbs.test_rows import Interrupted
from tests.verbs.test_travel import SameStore

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string())])
FIRST = [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": "z"}]

Change = Callable[[Table], Any]
CHANGES: dict[str, Change] = {
    "nothing": lambda t: None,
    "more rows": lambda t: t.append([{"a": 4, "b": "more"}]),
    "overwritten": lambda t: t.overwrite([{"a": 9}]),
    "emptied": lambda t: t.overwrite(t.schema.empty_table()),
    "column added": lambda t: t.add_column("c", pa.float64()),
    "column added and used": lambda t: t.append([{"a": 5, "c": 1.5}], evolve=True),
    "column dropped": lambda t: t.drop_column("b"),
    "dropped and added again": lambda t: (
        t.drop_column("b"),
        t.add_column("b", pa.int64()),
        t.append([{"b": 7}]),
    ),
    "renamed": lambda t: t.rename_column("b", "c"),
    "swapped": lambda t: (t.rename_column("a", "x"), t.rename_column("b", "a"), t.rename_column("x", "b")),
    "widened": lambda t: (t.widen_column("a", pa.int64()), t.append([{"a": 2**40}])),
    "reordered": lambda t: t.reorder_columns(["b", "a"]),
    "bundled": lambda t: (t.append([{"a": 4}]), t.checkpoint(), t.collect()),
    "everything": lambda t: (
        t.rename_column("a", "n"),
        t.widen_column("n", pa.float64()),
        t.add_column("a", pa.string()),
        t.overwrite([{"n": 1.5, "a": "new"}]),
        t.drop_column("b"),
    ),
}
KINDS: dict[str, dict[str, Any]] = {
    "inlined": {},
    "segments": {"inline_bytes": 0},
    "too much to inline twice": {"inline_bytes": 600},
    "small chunks": {"inline_bytes": 0, "chunk_rows": 2},
}


def made(kind: str, *, declared: bool, partition_by: list[str]) -> Table:
    catalog = lake(grace_seconds=0, **KINDS[kind])
    table = catalog.create_table("t", SCHEMA if declared else None, partition_by=partition_by)
    table.append(pa.Table.from_pylist(FIRST, SCHEMA))
    table.append(pa.Table.from_pylist([{"a": 7, "b": "x"}], SCHEMA))
    return table


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_restore_brings_back_rows_order_and_columns(change: str, kind: str, declared: bool) -> None:
    table = made(kind, declared=declared, partition_by=[])
    before, head = table.read(), table.head()
    CHANGES[change](table)
    lost = table.head().snapshot
    version = table.restore(head.snapshot, metadata={"why": "oops"})
    assert (version.operation, version.rows, version.metadata) == ("restore", 4, {"why": "oops"})
    fresh = another(SameStore(table)).table("t")  # type: ignore[arg-type]
    assert fresh.read() == before
    assert table.head().root_hash == head.root_hash
    # Rows of a type that the column no longer has stay listed, though the restore took them away.
    assert {conflict.kind for conflict in table.conflicts()} <= {"misfit"}
    assert table.history()[-1] == version
    fresh.append([{"a": 8, "b": "after"}])  # blindly, by another writer, and life goes on
    assert rows(table.read()) == [*rows(before), {"a": 8, "b": "after"}]
    assert {conflict.kind for conflict in table.conflicts()} <= {"misfit"}
    assert table.scan(filter="a = 2").count() == 1
    table.restore(lost)  # what was undone can be had again
    assert table.read() == table.read(at=lost)


@pytest.mark.parametrize("kind", KINDS)
def test_restore_of_partitions(kind: str) -> None:
    table = made(kind, declared=True, partition_by=["b"])
    before, snapshot = table.read(), table.head().snapshot
    table.overwrite([{"a": 100, "b": "x"}], where="b = 'x'")
    table.restore(snapshot)
    assert table.read() == before
    table.overwrite([{"a": 200, "b": "x"}], where="b = 'x'")  # partitions are known again
    assert sorted(row["a"] for row in rows(table.read())) == [2, 3, 200]


@pytest.mark.parametrize("changes", [False, True])
def test_the_order_of_partitions_is_as_it_was(changes: bool) -> None:
    table = lake().create_table("t", pa.schema([("n", pa.int64()), ("p", pa.int64())]), partition_by=["p"])
    table.append([{"n": 1, "p": 1}, {"n": 2, "p": 0}, {"n": 3, "p": 1}])
    table.overwrite([{"n": 4, "p": 0}, {"n": 5, "p": 0}], where="p = 0")
    table.append([{"n": 6, "p": 1}])
    if changes:
        table.update("n = 1", {"n": 10})
        table.update("n = 4", {"p": 1})
        table.delete("n = 5")
    before, snapshot = rows(table.read()), table.head().snapshot
    table.append([{"n": 7, "p": 0}])
    table.restore(snapshot)
    assert rows(table.read()) == before
    assert table.read(filter="p = 1").num_rows == (4 if changes else 3)


def test_rows_of_many_partitions_among_each_other_are_no_chunks_each() -> None:
    """What would be a chunk for each row is stored partition by partition."""
    table = lake().create_table("t", pa.schema([("n", pa.int64()), ("p", pa.int64())]), partition_by=["p"])
    table.append(pa.table({"n": range(4000), "p": [0] * 4000}))
    table.update("n % 2 = 0", {"p": 1})
    before, snapshot = rows(table.read()), table.head().snapshot
    table.append([{"n": -1, "p": 0}])
    table.restore(snapshot)
    assert len(table.head().chunks) == 2
    assert rows(table.read()) == sorted(before, key=lambda row: row["p"])


def test_restore_copies_no_segment() -> None:
    catalog = lake(inline_bytes=0)
    catalog.commit("t", {"a": list(range(1000))})
    table = catalog.table("t")
    snapshot = table.head().snapshot
    table.overwrite({"a": [1]})
    before = [name for name in objects(catalog) if name.startswith("data/")]
    table.restore(snapshot)
    assert [name for name in objects(catalog) if name.startswith("data/")] == before
    assert table.scan(filter="a >= 990").count() == 10


def test_statistics_and_pruning_survive_a_restore() -> None:
    catalog = lake(chunk_rows=10, inline_bytes=0)
    catalog.commit("t", {"a": list(range(100)), "s": [f"{n:03}" for n in range(100)]})
    table = catalog.table("t")
    snapshot = table.head().snapshot
    table.overwrite({"a": [1], "s": ["x"]})
    table.restore(snapshot)
    for filter in ("a = 55", "s = '055'"):
        assert len(table.scan(filter=filter).plan.chunks) == 1
        assert table.scan(filter=filter).count() == 1


def test_rows_that_others_add_meanwhile_survive() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    table.append([{"a": 1}])
    snapshot = table.head().snapshot
    table.append([{"a": 2}])
    table.head()
    other = another(catalog).table("t")
    session = table._session
    original = session.commit

    def commit(*arguments: Any, **options: Any) -> Any:
        other.append([{"a": 3}])  # after the restore looked, before it is published
        return original(*arguments, **options)

    session.commit = commit  # type: ignore[method-assign]
    table.restore(snapshot)
    assert sorted(row["a"] for row in rows(other.read())) == [1, 3]
    assert other.conflicts() == ()


def test_a_restore_concurrent_with_an_overwrite() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    table.append([{"a": 1}])
    snapshot = table.head().snapshot
    table.append([{"a": 2}])
    other = another(catalog).table("t")
    row_verbs.overwrite(other._session, Interrupted([{"a": 5}], lambda: table.restore(snapshot)))
    assert rows(table.read(["a"])) == rows(other.read(["a"])) == [{"a": 5}]
    assert [conflict.kind for conflict in table.conflicts()] == ["overwrite"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([name for name in CHANGES if name != "bundled"]), max_size=4),
    st.lists(st.integers(0, 50), min_size=1, max_size=4),
    st.booleans(),
)
def test_any_snapshot_can_be_restored_at_any_time(changes: list[str], picks: list[int], inline: bool) -> None:
    table = made("inlined" if inline else "segments", declared=True, partition_by=[])
    known = [(table.head().snapshot, table.read())]
    for change in changes:
        with suppress(UserError, NotFound, AlreadyExists):  # it may not apply to what the others left
            CHANGES[change](table)
        known.append((table.head().snapshot, table.read()))
    for pick in picks:
        snapshot, expected = known[pick % len(known)]
        table.restore(snapshot)
        assert table.read() == expected
        assert table.head().row_count == expected.num_rows

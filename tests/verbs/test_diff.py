"""`diff` between snapshots: exactly the chunks that came and went, found without reading data."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.merkle import Tree
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(str(tmp_path), upkeep=False, chunk_rows=10).create_table("t", SCHEMA)


def numbers(start: int, count: int) -> pa.Table:
    return pa.table({"n": range(start, start + count)}, schema=SCHEMA)


def test_an_append_adds_its_chunks(table: Table) -> None:
    first = table.append(numbers(0, 100))
    table.append(numbers(100, 25))
    found = table.diff(first)
    assert [chunk.rows for chunk in found.added] == [10, 10, 5]
    assert (found.removed, found.rows_added, found.rows_removed) == ([], 25, 0)
    assert found.added == list(table.head().chunks[10:])
    lines = str(found).splitlines()
    assert lines[0].endswith("3 chunks added (25 rows), 0 removed (0 rows), 10 the same")
    assert lines[1].startswith("  + chunk 10  ")
    back = table.diff(table.head().snapshot, first.id)
    assert (back.removed, back.added) == (found.added, [])


def test_equal_heads_do_not_differ_whatever_came_between(table: Table) -> None:
    first = table.append(numbers(0, 100))
    table.overwrite(numbers(5, 5))
    table.restore(first.id)
    found = table.diff(first)
    assert not found
    assert found.visited == 0
    assert str(found).endswith("0 chunks added (0 rows), 0 removed (0 rows), 10 the same")


def test_an_overwrite_keeps_the_chunks_that_are_the_same(table: Table) -> None:
    first = table.append(numbers(0, 1000))
    changed = numbers(0, 1000).to_pylist()
    changed[505] = {"n": -1}
    second = table.overwrite(changed)
    found = table.diff(first, second)
    ((run),) = found.runs
    assert (run.kind, run.old_start, run.new_start) == ("changed", 50, 50)
    assert (run.old_stop - run.old_start, run.new_stop - run.new_start) == (1, 1)
    assert (found.rows_removed, found.rows_added) == (10, 10)
    assert "- chunk 50 " in str(found)
    assert "+ chunk 50 " in str(found)


def test_long_diffs_print_short(table: Table) -> None:
    first = table.append(numbers(0, 1000))
    changed = numbers(0, 1000).to_pylist()
    for at in range(0, 1000, 40):
        changed[at] = {"n": -1 - at}
    table.overwrite(changed)
    found = table.diff(first)
    assert len(found.runs) == 25
    assert str(found).endswith("  ... and 5 more places")
    table.overwrite(numbers(5000, 300))
    assert "- ... and 97 more up to chunk 100" in str(table.diff(first))


def test_a_head_that_follows_another_hashes_what_is_new_only(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(numbers(0, 1000))
    before = table.head().tree
    table.append(numbers(1000, 10))
    monkeypatch.setattr(Tree, "build", None)  # to build it anew is not needed
    after = table.head()
    assert after.tree.root.leaves == before.root.leaves + 1
    monkeypatch.undo()
    cold = Catalog(table._session.store).table("t").head()
    assert cold.root_hash == after.root_hash


@pytest.mark.parametrize("key", [[], ["n"]])
def test_row_by_row(tmp_path: Path, key: list[str]) -> None:
    """The rows that differ, with values, are those that `changes` tells, in the chunks that differ."""
    schema = pa.schema([("n", pa.int64()), ("v", pa.string())])
    table = Catalog(str(tmp_path), upkeep=False, chunk_rows=10).create_table("t", schema, key=key)
    first = table.append({"n": list(range(100)), "v": ["old"] * 100})
    table.update("n = 42", {"v": "new"})
    table.delete("n = 7")
    table.append({"n": [100], "v": ["more"]})
    second = table.head().snapshot
    table.delete("n > 10")  # what came later is not in it
    found = table.diff(first, second)
    rows = found.rows().to_table()
    assert rows.to_pylist() == [
        {"_change": "delete", "n": 7, "v": "old"},
        {"_change": "update_before", "n": 42, "v": "old"},
        {"_change": "update_after", "n": 42, "v": "new"},
        {"_change": "insert", "n": 100, "v": "more"},
    ]
    assert rows.equals(table.changes(first, second).to_table())
    assert (found.rows().deleted, found.rows().inserted) == (1, 1)
    if not key:
        assert [(run.old_start, run.new_start) for run in found.runs] == [(0, 0), (4, 4), (10, 10)]
    assert table.diff(second, second).rows().to_table().num_rows == 0


def test_columns_that_differ(table: Table) -> None:
    first = table.append(numbers(0, 10))
    table.add_column("late", pa.string())
    table.rename_column("n", "m")
    second = table.head().snapshot
    found = table.diff(first, second)
    assert found
    assert not found.runs
    assert [(change.kind, change.old, change.new) for change in found.columns] == [
        ("changed", pa.field("n", pa.int64()), pa.field("m", pa.int64())),
        ("added", None, pa.field("late", pa.string())),
    ]
    assert str(found).splitlines()[1:] == ["  ~ column n: int64  is now  m: int64", "  + column late: string"]
    table.reorder_columns(["late", "m"])
    third = table.head().snapshot
    moved = table.diff(second, third)
    assert [(change.kind, change.new and change.new.name) for change in moved.columns] == [
        ("moved", "late"),
        ("moved", "m"),
    ]
    assert str(moved).splitlines()[1] == "  ~ column late: string  has another place"
    table.drop_column("late")
    gone = table.diff(third)
    assert [(change.kind, change.new) for change in gone.columns] == [("dropped", None)]
    assert str(gone).splitlines()[1:] == ["  - column late: string"]
    assert not table.diff(second, second).columns


def test_two_columns_that_are_one_in_the_other_head() -> None:
    """Two renamed two columns to one name, without seeing each other: a column with the values of both."""
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("n", pa.int64()), ("a", pa.int64()), ("b", pa.int64())]))
    table.append([{"n": 1, "a": 2, "b": 3}])
    start = table.head().snapshot
    other = another(catalog).table("t")
    arrive = held_back(other, lambda: other.rename_column("a", "x"))
    table.rename_column("b", "x")
    arrive()
    end = table.head().snapshot
    assert table.read().column_names == ["n", "x"]
    forth, back = table.diff(start, end), table.diff(end, start)
    assert [change.kind for change in forth.columns] == ["changed", "dropped"]
    assert [change.kind for change in back.columns] == ["changed", "added"]
    assert back.rows().to_table().to_pylist() == table.changes(end, start).to_table().to_pylist()

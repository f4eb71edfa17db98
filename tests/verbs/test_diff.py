"""`diff` between snapshots: exactly the chunks that came and went, found without reading data."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.merkle import Tree

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

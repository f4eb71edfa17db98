"""A column that was dropped is in nobody's way: rows that had it are compacted and clustered, without it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back
from tests.rows.test_compact import rows_of

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("old", pa.int64())])


def made(catalog: Catalog, **settings: Any) -> Table:
    """Rows in four small chunks, in no order, with a column to be dropped."""
    table = catalog.create_table("t", SCHEMA, **settings)
    for number in (5, 1, 7, 3):
        table.append([{"id": number + at, "v": f"{number}", "old": number} for at in range(2)])
    return table


@pytest.mark.parametrize("inline_bytes", [0, 65_536])
@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_rows_are_written_together_without_it(mode: str, inline_bytes: int) -> None:
    catalog = lake(inline_bytes=inline_bytes)
    table = made(catalog, mode=mode)
    before, snapshot = rows_of(table), table.tag("before")
    table.branch("b")
    table.drop_column("old")
    table.update("id = 6", {"v": "new"})
    table.delete("id = 3")
    shown = rows_of(table)
    assert "compact()" in str(table.stats())
    result = table.compact()
    assert (result.chunks_before, result.chunks_after, result.rows_left_out) == (4, 1, 1)
    head = table.head()
    assert [field.name for field in head.columns.fields(int(head.log.chunk_schema[head.live[0]]))] == [
        "id",
        "v",
    ]
    assert table.compact().versions == 0
    for handle in (table, another(catalog).table("t")):
        assert rows_of(handle) == shown
        assert handle.read(at="before").to_pylist() == before
        assert handle.read(at=str(snapshot)).column_names == ["id", "v", "old"]
        assert handle.changes("before").to_table()["_change"].to_pylist().count("delete") == 1
    assert rows_of(another(catalog).table("t", "b")) == before
    table.restore("before")
    assert rows_of(another(catalog).table("t")) == before


def test_rows_are_put_in_order_without_it() -> None:
    catalog = lake()
    table = made(catalog)
    table.compact()  # a copy that has it
    table.append([{"id": 0, "v": "0", "old": 0}])
    table.drop_column("old")
    table.compact(cluster_by=["id"])
    assert another(catalog).read("t")["id"].to_pylist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_cells_that_the_drop_had_not_seen_come_back_as_without_a_compaction() -> None:
    found = []
    for compacting in (False, True):
        catalog = lake()
        table, other = made(catalog), another(catalog).table("t")
        other.head()
        late = held_back(other, lambda other=other: other.update("id = 1", {"old": 100}))  # type: ignore[misc]
        table.drop_column("old")
        if compacting:
            assert table.compact().versions == 1
        late()
        reader = another(catalog).table("t")
        assert reader.compact().versions in (0, 1)
        found.append((rows_of(reader), [conflict.kind for conflict in reader.conflicts()]))
    assert found[0] == found[1]
    assert {row["id"]: row["old"] for row in found[0][0] if row["old"] is not None} == {1: 100}


@pytest.mark.parametrize("key", [[], ["id"]])
@pytest.mark.parametrize("arriving", [("older",), ("newer",), ("older", "newer")])
def test_what_hides_cells_that_come_late_goes_on_hiding_them(key: list[str], arriving: tuple[str]) -> None:
    """A cell that the drop had seen hides an older one that it had not, as null: in copies of copies, too."""
    found = []
    for rounds in range(3):
        catalog = lake()
        table, others = made(catalog, key=key), [another(catalog).table("t") for _ in range(2)]
        late = {}
        for value, name, other in zip((100, 300), ("older", "newer"), others, strict=True):
            other.head()
            late[name] = held_back(other, lambda: other.update("id in (1, 2)", {"old": value}))  # noqa: B023
            table.update("id = 1", {"old": 200})
        table.drop_column("old")
        for at in range(rounds):
            table.compact()
            assert len(table.head().chunks) == 1
            table.update("id = 5", {"v": f"{at}"}) if at else table.append([{"id": 50, "v": "more"}])
        for name in arriving:
            late[name]()
        reader = another(catalog).table("t")
        again = reader.read(["id", "old"], "id < 9").to_pylist()
        reader.compact()
        assert reader.read(["id", "old"], "id < 9").to_pylist() == again
        found.append(
            (again, sorted(item.kind for item in reader.conflicts()), len(reader.lost_cells()) if key else 0)
        )
    assert found[0] == found[1] == found[2]
    assert {row["old"] for row in found[0][0]} == {None, 100 if arriving == ("older",) else 300}


@pytest.mark.parametrize("key", [[], ["id"]])
def test_how_old_they_were_is_forgotten_below_the_horizon(key: list[str]) -> None:
    catalog = lake(max_commit_delay_seconds=0)
    table = made(catalog, key=key)
    table.update("id = 1", {"old": 200})
    table.drop_column("old")
    shown = rows_of(table)
    table.compact()
    assert len(stored_in(table)) == 3
    table.expire(older_than=timedelta(0))
    table.update("id = 2", {"v": "last"})
    table.compact()
    assert len(stored_in(table)) == 2
    assert rows_of(another(catalog).table("t")) == [
        {**row, "v": "last"} if row["id"] == 2 else row for row in shown
    ]


@pytest.mark.parametrize("expired", [False, True])
def test_a_key_that_only_cells_of_it_keep_there_stays(expired: bool) -> None:
    """The overwrite had not seen them, and took all else that the key had."""
    catalog = lake(max_commit_delay_seconds=0)
    table = catalog.create_table("t", SCHEMA, key=["id"])
    other = another(catalog).table("t")
    late = held_back(other, lambda: other.upsert([{"id": 1, "old": 5}]))
    table.upsert([{"id": 1, "v": "taken"}, {"id": 2, "v": "taken"}])
    table.overwrite([{"id": 9, "v": "z"}])
    late()
    table.drop_column("old")
    shown = [{"id": 1, "v": None}, {"id": 9, "v": "z"}]
    assert rows_of(table) == shown
    if expired:
        table.expire(older_than=timedelta(0))
    assert table.compact().versions
    assert rows_of(another(catalog).table("t")) == shown


def stored_in(table: Table) -> list[str]:
    """The stored fields of the only chunk."""
    head = table.head()
    (chunk,) = head.live
    return [field.name for field in head.columns.fields(int(head.log.chunk_schema[chunk]))]

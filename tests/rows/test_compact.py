"""Compaction changes where rows are and nothing else, beside whatever else is going on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.errors import InvalidArgument
from tests.bounds import bounded
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back


def rows_of(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.read().to_pylist()
    return found


def small_chunks(count: int = 6, **options: Any) -> Table:
    table = lake(**options).create_table("t", pa.schema([("id", pa.int64()), ("v", pa.string())]))
    for number in range(count):
        table.append([{"id": 3 * number + at, "v": f"{number}.{at}"} for at in range(3)])
    return table


def test_small_chunks_become_one() -> None:
    table = small_chunks()
    before, snapshot, history = rows_of(table), table.head().snapshot, list(table.history())
    result = table.compact()
    assert (result.chunks_before, result.chunks_after, result.rows) == (6, 1, 18)
    assert rows_of(table) == before
    head = table.head()
    assert len(head.chunks) == 1
    assert (head.snapshot, list(head.history), head.row_count) == (snapshot, history, 18)
    assert table.compact().versions == 0
    assert "nothing to compact" in str(table.compact())


def test_overlays_and_deletes_are_folded_in() -> None:
    table = small_chunks()
    table.update("id in (1, 4, 16)", {"v": "new"})
    table.delete("id in (0, 5, 6, 7, 8)")
    before = rows_of(table)
    result = table.compact()
    assert (result.cells_folded, result.rows_left_out) == (3, 2)
    assert rows_of(table) == before
    head = table.head()
    assert head.rows.untouched(head.live).all()
    assert table.read(["id"], "v = 'new'")["id"].to_pylist() == [1, 4, 16]


def test_changes_after_a_compaction() -> None:
    table = small_chunks()
    table.update("id = 4", {"v": "first"})
    table.compact()
    table.update("id in (4, 9)", {"v": "second"})
    table.delete("id = 10")
    table.update_rows(0, 1, {"v": ["number"]})
    expected = rows_of(table)
    assert [row["v"] for row in expected if row["id"] in (0, 4, 9)] == ["number", "second", "second"]
    table.compact()
    assert rows_of(table) == expected
    assert table.read(at=table.history()[5]).num_rows == 18


def test_a_late_update_meets_a_folded_one_as_if_nothing_had_been_compacted() -> None:
    """An update with a smaller id than one that was folded arrives afterwards: it must lose."""
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.string())]))
    table.append([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    late = another(catalog).table("t")
    held = held_back(late, lambda: late.update("id = 1", {"v": "older"}))
    table.update("id = 1", {"v": "newer"})
    table.compact()
    assert rows_of(table)[0]["v"] == "newer"
    held()
    assert rows_of(table)[0]["v"] == "newer"
    assert rows_of(another(catalog).table("t"))[0]["v"] == "newer"
    table.compact()
    assert rows_of(table)[0]["v"] == "newer"


def test_two_compactions_of_the_same_chunks_at_once() -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.string())]))
    for number in range(4):
        table.append([{"id": 2 * number, "v": "a"}, {"id": 2 * number + 1, "v": "b"}])
    other = another(catalog).table("t")
    held = held_back(other, other.compact)
    table.update("id = 3", {"v": "seen by one"})
    table.delete("id = 5")
    expected = rows_of(table)
    table.compact()
    held()
    assert rows_of(table) == expected
    table.update("id = 4", {"v": "after"})
    assert [row["v"] for row in rows_of(table) if row["id"] in (3, 4)] == ["seen by one", "after"]
    table.compact()
    assert [row["v"] for row in rows_of(table) if row["id"] in (3, 4)] == ["seen by one", "after"]
    assert len(table.head().chunks) == 1


def test_a_copy_of_a_copy_knows_whose_removal_it_left_out() -> None:
    """Who removed a whole chunk had not seen the first compaction, and is void when a smaller twin comes."""
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.string())]))
    for first in (0, 3, 6):
        table.append([{"id": first + at, "v": "a"} for at in range(3)])
    stale = another(catalog).table("t")
    twin = held_back(stale, lambda: stale.append([{"id": 100, "v": "twin"}], key="k"))
    removal = held_back(stale, lambda: stale.delete("id < 3", key="k"))
    table.compact()
    removal()
    table.append([{"id": 200, "v": "after"}])
    assert [row["id"] for row in rows_of(table)] == [*range(3, 9), 200]
    assert table.compact().versions == 1
    assert [row["id"] for row in rows_of(table)] == [*range(3, 9), 200]
    twin()
    assert sorted(row["id"] for row in rows_of(table)) == [*range(9), 100, 200]


def test_rows_that_moved_to_another_partition_are_stored_there() -> None:
    table = lake().create_table(
        "t", pa.schema([("shop", pa.string()), ("n", pa.int64())]), partition_by=["shop"]
    )
    table.append([{"shop": "a", "n": 1}, {"shop": "b", "n": 2}, {"shop": "a", "n": 3}])
    table.update("n = 3", {"shop": "b"})
    before = rows_of(table)
    table.compact()
    assert sorted(map(str, rows_of(table))) == sorted(map(str, before))
    assert sorted(table.read(filter="shop = 'b'")["n"].to_pylist()) == [2, 3]


@pytest.mark.parametrize("inline_bytes", [0, 64 * 1024])
@pytest.mark.parametrize("kind", ["defined", "used", "keyed"])
@pytest.mark.parametrize("again", [False, True])
def test_what_was_before_a_column_was_widened_reads_as_it_did(
    kind: str, again: bool, inline_bytes: int
) -> None:
    """Copies are as wide as the column is then: they do not count in a snapshot in which it is narrower."""
    catalog = lake(inline_bytes=inline_bytes)
    narrow = pa.schema([pa.field("n", pa.int64(), nullable=False), ("a", pa.int32())])
    table = catalog.create_table(
        "t", None if kind == "used" else narrow, key=["n"] if kind == "keyed" else []
    )
    add = table.upsert if kind == "keyed" else table.append
    add(pa.table({"n": [1, 2], "a": pa.array([10, None], pa.int32())}))
    add(pa.table({"n": [2, 3], "a": pa.array([20, 30], pa.int32())}))
    table.update("n = 3", {"a": 33})
    before, snapshot = rows_of(table), table.tag("before")
    table.branch("b")
    if kind == "used":
        another(catalog).table("t").append(pa.table({"n": [9], "a": [2**40]}))  # which has not seen the type
    else:
        table.widen_column("a", pa.int64())
    assert table.compact().versions > 0
    if again:
        add(pa.table({"n": [10], "a": pa.array([2**41])}))
        table.update("n = 1", {"a": 2**42})
        assert table.compact().versions > 0
    after = rows_of(table)
    assert table.head().schema.field("a").type == pa.int64()
    for handle in (table, another(catalog).table("t")):
        assert handle.read(at="before").to_pylist() == before
        assert handle.read(at=str(snapshot)).schema.field("a").type == pa.int32()
    assert rows_of(another(catalog).table("t", "b")) == before
    assert rows_of(another(catalog).table("t")) == after
    table.restore("before")
    assert rows_of(another(catalog).table("t")) == before


@pytest.mark.parametrize("rows", [4, 7])
def test_chunks_of_a_size(rows: int) -> None:
    table = small_chunks(8)
    before = rows_of(table)
    table.compact(rows=rows)
    assert rows_of(table) == before


@pytest.mark.parametrize("rows", [0, -3, "many", 1.5, True])
def test_a_size_that_is_none(rows: Any) -> None:
    with pytest.raises(InvalidArgument, match="rows="):
        small_chunks(2).compact(rows=rows)


Step = tuple[str, int, int, bool]


def steps_of(*verbs: str) -> st.SearchStrategy[list[Step]]:
    step = st.tuples(st.sampled_from(verbs), st.integers(0, 1), st.integers(0, 12), st.booleans())
    return st.lists(step, max_size=14)


@given(steps_of("append", "update", "delete", "compact", "overwrite", "number"))
@settings(max_examples=bounded(240, 4), deadline=None)
def test_with_and_without_compaction_the_same(steps: list[Step]) -> None:
    """Two handles, some of whose commits are held back and arrive late; compactions held back too."""
    _check_the_same(steps)


@given(steps_of("append", "update", "update", "delete", "compact", "compact", "drop", "add"))
@settings(max_examples=bounded(240, 8), deadline=None)
def test_with_and_without_compaction_the_same_where_columns_are_dropped(steps: list[Step]) -> None:
    """A drop ends what it had seen, cell by cell, whether the cells were folded into a copy or not."""
    _check_the_same(steps)


def test_a_late_drop_meets_a_folded_update_as_if_nothing_had_been_compacted() -> None:
    _check_the_same(
        [("append", 0, 2, False), ("drop", 1, 0, True), ("update", 0, 4, False), ("compact", 0, 0, False)]
    )


def _check_the_same(steps: list[Step]) -> None:
    plain, packed = lake(), lake()
    worlds = [_World(plain, compacting=False), _World(packed, compacting=True)]
    for step in steps:
        for world in worlds:
            world.do(*step[:3], late=step[3])
    for world in worlds:
        world.finish()
    first, second = (world.rows() for world in worlds)
    assert first == second


class _World:
    """The same steps on two catalogs with one clock each: ids sort alike in both."""

    def __init__(self, catalog: Catalog, *, compacting: bool) -> None:
        self.compacting = compacting
        first = catalog.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.int64())]))
        self.tables = [first, another(catalog).table("t")]
        self.waiting: list[Any] = []
        self.count = 0

    def do(self, verb: str, who: int, what: int, *, late: bool) -> None:
        self.count += 1
        table = self.tables[who]
        if not late:
            self._act(table, verb, what)
            if len(self.waiting) > 2:
                self.waiting.pop(0)()
        else:
            self.waiting.append(held_back(table, lambda: self._act(table, verb, what)))

    def _act(self, table: Table, verb: str, what: int) -> None:
        if verb == "append":
            more = {"v": 0} if "v" in (table._session.known or ()) else {}
            table.append([{"id": 10 * self.count + at, **more} for at in range(1 + what % 3)])
        elif verb == "drop" and "v" in table.schema.names:
            table.drop_column("v")
        elif verb == "add" and "v" not in table.schema.names:
            table.add_column("v", pa.int64())
        elif verb in ("update", "number") and "v" not in table.schema.names:
            return
        elif verb == "update":
            table.update(f"id % 7 = {what % 7}", {"v": self.count})
        elif verb == "delete":
            table.delete(f"id % 11 = {what % 11}")
        elif verb == "overwrite" and what == 3:
            table.overwrite([{"id": 10 * self.count, "v": 0}])
        elif verb == "number" and table.scan().count():
            table.update_rows(0, 1, {"v": [-self.count]})
        elif verb == "compact" and self.compacting:
            table.compact()
        elif verb == "compact":
            table.scan()  # a compaction reads the log, so its handle knows what others did to columns

    def finish(self) -> None:
        for held in self.waiting:
            held()
        if self.compacting:
            self.tables[0].compact()

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self.tables[1])

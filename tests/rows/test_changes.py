"""The change feed says exactly what turns one snapshot into the other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Table
from crdtcat.errors import InvalidArgument
from crdtcat.scan.changed import ChangedEntries
from tests.bounds import bounded
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def table_of(rows: int) -> Table:
    table = lake().create_table("t", SCHEMA)
    table.append([{"id": at, "v": 0} for at in range(rows)])
    return table


def feed(table: Table, since: Any, until: Any = None) -> list[tuple[str, int, int]]:
    return [
        (row["_change"], row["id"], row["v"]) for row in table.changes(since, until).to_table().to_pylist()
    ]


def test_inserts_updates_and_deletes() -> None:
    table = table_of(5)
    start = table.head().snapshot
    table.append([{"id": 10, "v": 1}])
    table.update("id in (1, 2)", {"v": 7})
    table.update("id = 3", {"v": 0})  # what it was
    table.delete("id = 4")
    changes = table.changes(start)
    assert (changes.inserted, changes.touched, changes.deleted) == (1, 3, 1)
    assert feed(table, start) == [
        ("delete", 4, 0),
        ("update_before", 1, 0),
        ("update_after", 1, 7),
        ("update_before", 2, 0),
        ("update_after", 2, 7),
        ("insert", 10, 1),
    ]
    assert "1 rows inserted, 3 touched, 1 deleted" in repr(changes)
    assert feed(table, changes.new) == []


def test_backwards_it_says_how_to_undo() -> None:
    table = table_of(3)
    start = table.head().snapshot
    table.update("id = 1", {"v": 5})
    table.append([{"id": 9, "v": 9}])
    assert feed(table, table.head().snapshot, start) == [
        ("delete", 9, 9),
        ("update_before", 1, 5),
        ("update_after", 1, 0),
    ]


def test_compactions_do_not_show() -> None:
    table = table_of(3)
    table.append([{"id": 9, "v": 9}])
    table.update("id = 9", {"v": 10})
    start = table.head().snapshot
    table.compact()
    assert feed(table, start) == []
    table.update("id = 0", {"v": 1})
    table.compact()
    assert feed(table, start) == [("update_before", 0, 0), ("update_after", 0, 1)]


def test_a_late_version_is_neither_lost_nor_repeated() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    table.append([{"id": 0, "v": 0}])
    other = another(catalog).table("t")
    arrive = held_back(other, lambda: other.append([{"id": 1, "v": 1}]))
    table.append([{"id": 2, "v": 2}])
    seen = table.head().snapshot
    arrive()
    first = table.changes(seen)
    assert first.to_table()["id"].to_pylist() == [1]
    assert feed(table, first.new) == []


def test_columns_renamed_and_widened_meanwhile() -> None:
    table = lake().create_table("t", pa.schema([("id", pa.int32()), ("v", pa.int64())]))
    table.append([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    start = table.head().snapshot
    table.rename_column("v", "w")
    table.widen_column("id", pa.int64())
    table.update("id = 1", {"w": 5})
    assert table.changes(start).to_table().to_pylist() == [
        {"_change": "update_before", "id": 1, "w": 1},
        {"_change": "update_after", "id": 1, "w": 5},
    ]


def test_the_feed_needs_its_column() -> None:
    table = lake().create_table("t", pa.schema([("_change", pa.string())]))
    table.append([{"_change": "x"}])
    with pytest.raises(InvalidArgument, match="_change"):
        table.changes(table.head().snapshot)


steps = st.lists(
    st.tuples(
        st.sampled_from(("append", "update", "delete", "compact", "overwrite", "write")),
        st.integers(0, 10),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
)


@given(steps, st.data())
@settings(max_examples=bounded(160, 8), deadline=None)
def test_applied_to_one_snapshot_it_gives_the_other(
    moves: list[tuple[str, int, bool]], data: st.DataObject
) -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    other = another(catalog).table("t")
    table.append([{"id": at, "v": 0} for at in range(4)])
    snapshots = [table.head().snapshot]
    waiting: list[Any] = []
    for number, (verb, what, late) in enumerate(moves, 1):
        who = other if late else table

        def act(who: Table = who, verb: str = verb, what: int = what, number: int = number) -> None:
            if verb == "append":
                who.append([{"id": 100 * number, "v": what}])
            elif verb == "update":
                who.update(f"id % 5 = {what % 5}", {"v": number})
            elif verb == "delete":
                who.delete(f"id % 7 = {what % 7}")
            elif verb == "overwrite" and what == 1:
                who.overwrite([{"id": 100 * number, "v": 0}])
            elif verb == "write":
                rows = who.read().to_pylist()
                rows[what : what + 1] = [{"id": 100 * number, "v": -1}]
                who.write(rows)
            elif verb == "compact":
                who.compact()

        if late:
            waiting.append(held_back(who, act))
        else:
            act()
            snapshots.append(table.head().snapshot)
        if len(waiting) > 1:
            waiting.pop(0)()
            snapshots.append(table.head().snapshot)
    for first in snapshots:
        second = data.draw(st.sampled_from(snapshots))
        before = [tuple(row.values()) for row in table.read(at=first).to_pylist()]
        after = [tuple(row.values()) for row in table.read(at=second).to_pylist()]
        for change, *row in feed(table, first, second):
            if change in ("delete", "update_before"):
                before.remove(tuple(row))
            else:
                before.append(tuple(row))
        assert sorted(before) == sorted(after)


def test_from_before_the_first_commit_to_now() -> None:
    """Everything that is there was inserted; a keyed table too, and one that was expired."""
    quick: dict[str, Any] = {"max_commit_delay_seconds": 0}
    for key in ([], ["n"]):
        table = lake(**quick).create_table("t", pa.schema([("n", pa.int64())]), key=key)
        assert table.changes(None).to_table().num_rows == 0
        (table.upsert if key else table.append)([{"n": 1}, {"n": 2}])
        for _ in range(2):
            found = table.changes(None)
            assert (found.inserted, found.touched, found.deleted) == (2, 0, 0)
            assert found.to_pandas()["_change"].tolist() == ["insert", "insert"]
            assert found.to_polars()["n"].to_list() == [1, 2]
            table.expire(older_than=timedelta(0))


def test_a_head_names_its_snapshot() -> None:
    table = lake().create_table("t", pa.schema([("n", pa.int64())]))
    table.append([{"n": 1}])
    before = table.head()
    table.append([{"n": 2}])
    assert table.changes(before).inserted == 1
    assert len(table.diff(before, table.head()).added) == 1
    assert table.read(at=before).num_rows == 1
    assert (len(table.diff(None).added), table.diff(None).rows_removed) == (2, 0)


def test_chunks_whose_rows_alternate_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk with rows inserted in many places was read for each of them, and the inserted ones, too."""
    table = lake(inline_bytes=0).create_table("t")
    rows = [{"n": at, "x": 0} for at in range(200)]
    table.append(rows)
    for at in range(195, -1, -5):
        rows.insert(at, {"n": 1000 + at, "x": 0})
    table.write(pa.Table.from_pylist(rows, table.schema))
    since = table.history()[-1]
    table.update(None, {"x": 1})
    entries: list[int] = []
    real = ChangedEntries.read

    def read(self: ChangedEntries, entry: int, *asked: Any) -> pa.Table:
        entries.append(entry)
        return real(self, entry, *asked)

    monkeypatch.setattr(ChangedEntries, "read", read)
    found = table.changes(since).to_table()
    assert found["n"].to_pylist() == [row["n"] for row in rows for _ in range(2)]
    assert found["x"].to_pylist() == [0, 1] * len(rows)
    assert len(entries) == 4, "each of two chunks, before and after"

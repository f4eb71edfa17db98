"""`write` makes the table equal the data, and stores only what differs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Table, Version
from crdtcat.chunks import cutting
from crdtcat.errors import InvalidArgument
from crdtcat.format.version import unpack
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, objects
from tests.rows.late import held_back

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64())])


def made(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"id": at, "name": f"n{at}", "value": at / 4} for at in range(start, stop)]


def written(rows: list[dict[str, Any]], **options: Any) -> Table:
    table = lake(**options).create_table("t", SCHEMA)
    table.write(rows)
    return table


def content(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.read().to_pylist()
    return found


def test_the_first_write_is_an_append() -> None:
    table = written(made(0, 10))
    assert content(table) == made(0, 10)
    assert table.head().rows.is_plain
    assert table.history()[-1].operation == "write"


def test_the_same_again_stores_no_rows() -> None:
    table = written(made(0, 1000), inline_bytes=0)
    version = table.write(made(0, 1000))
    assert (version.rows, version.chunks) == (0, 0)
    assert content(table) == made(0, 1000)


def test_rows_at_the_end_are_appended() -> None:
    table = written(made(0, 10))
    table.write(made(0, 15))
    assert content(table) == made(0, 15)
    assert table.head().rows.is_plain


def test_changes_of_every_kind_at_once() -> None:
    table = written(made(0, 40))
    rows = made(0, 40)
    rows[3]["name"] = "changed"
    rows[7]["value"] = None
    rows[8] = {"id": 8, "name": "both", "value": -1.0}
    del rows[20:23]
    rows[30:30] = [{"id": 100 + at, "name": "new", "value": 0.0} for at in range(3)]
    rows.insert(0, {"id": -1, "name": "first", "value": 9.0})
    version = table.write(rows)
    assert content(table) == rows
    assert version.rows == 4 + 3  # inserted, and updated
    assert table.conflicts() == ()


def test_reordered_and_replaced() -> None:
    table = written(made(0, 20))
    table.write(list(reversed(made(0, 20))))
    assert content(table) == list(reversed(made(0, 20)))
    table.write(made(50, 60))
    assert content(table) == made(50, 60)
    table.write([])
    assert content(table) == []
    table.write(made(0, 3))
    assert content(table) == made(0, 3)


def test_rows_that_stay_keep_their_identity() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    table.write(made(0, 20))
    other = another(catalog).table("t")
    arrive = held_back(other, lambda: other.update("id = 5", {"name": "updated"}))
    rows = made(0, 20)
    rows[5]["value"] = -5.0
    rows[2:2] = made(100, 102)
    table.write(rows)
    arrive()
    rows[7]["name"] = "updated"
    assert content(table) == rows


def test_two_who_write_at_once_merge_row_by_row() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    table.write(made(0, 20))
    other = another(catalog).table("t")
    mine, theirs = made(0, 20), made(0, 20)
    mine[3]["name"] = "mine"
    theirs[3]["value"] = 33.0
    theirs[9:9] = made(200, 202)
    del mine[15]
    arrive = held_back(other, lambda: other.write(theirs))
    table.write(mine)
    arrive()
    expected = made(0, 20)
    expected[3] = {"id": 3, "name": "mine", "value": 33.0}
    del expected[15]
    expected[9:9] = made(200, 202)
    assert content(table) == content(other) == expected


def test_the_same_rows_inserted_by_two_at_once_are_there_once() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    table.write(made(0, 6))
    other = another(catalog).table("t")
    rows = made(0, 6)
    rows[3:3] = made(50, 52)
    arrive = held_back(other, lambda: other.write(rows))
    table.write(rows)
    arrive()
    assert content(table) == content(other) == rows


def test_equal_rows_in_a_column_that_was_made_anew_are_other_rows() -> None:
    """As one insertion they would be in the older column, and gone when somebody drops it."""
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    table.write(made(0, 4))
    other = another(catalog).table("t")
    more = made(0, 2) + made(10, 12) + made(2, 4)
    arrive = held_back(other, lambda: other.write(more))
    table.drop_column("value")
    table.add_column("value", pa.float64())
    table.write(more)
    arrive()
    assert content(table) == made(0, 2) + 2 * made(10, 12) + made(2, 4)


def test_columns_added_dropped_widened_and_replaced() -> None:
    table = written(made(0, 5))
    table.write([{"id": at, "name": f"n{at}", "more": at * 2} for at in range(5)])
    assert table.schema.names == ["id", "name", "more"]
    assert content(table) == [{"id": at, "name": f"n{at}", "more": at * 2} for at in range(5)]
    table.write(pa.table({"id": [0.5, 1.5], "name": [1, 2], "more": [1, 2]}))
    assert content(table) == [{"id": 0.5, "name": 1, "more": 1}, {"id": 1.5, "name": 2, "more": 2}]


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("declared", [False, True])
def test_columns_stand_in_the_order_of_the_data(declared: bool, keyed: bool) -> None:
    if keyed:
        table = lake().create_table("t", SCHEMA, key=["id"])
    else:
        table = lake().create_table("t", SCHEMA if declared else None)
    table.write(pa.table({"id": [1], "name": ["x"], "value": [1.0]}))
    for data in (
        {"value": [1.0], "id": [1], "name": ["x"]},  # moved
        {"value": [1.0], "id": [1], "added": [True], "name": ["x"]},
        {"value": ["text"], "id": [1], "added": [True], "name": ["x"]},  # of another type: a new column
        {"value": ["text"], "id": [1], "name": ["x"]},
        {"zero": [0], "name": ["x"], "value": ["text"], "id": [1], "one": [1]},
        {"name": ["x"], "id": [1]},
    ):
        table.write(pa.table(data))
        assert table.read().to_pydict() == data
        assert table.schema.names == list(data)
        version = table.write(pa.table(data))  # again: nothing is said of columns
        assert "d" not in (decoded(table, version) or {})
    assert table.conflicts() == ()


@pytest.mark.parametrize("names", [["x", "b", "y", "a"], ["x", "b", "a"], ["a", "n", "b", "y", "x"]])
def test_columns_that_nobody_defined_stand_in_the_order_of_the_data(names: list[str]) -> None:
    """Two who commit first, neither knowing the other's columns."""
    catalog = lake()
    table = catalog.create_table("t")
    other = another(catalog).table("t")
    table.append({"x": [1], "y": [1]})
    other.append({"b": [1], "a": [2]})
    assert table.schema.names == ["x", "y", "b", "a"]
    data = pa.table({name: [3, 4] for name in names})
    table.write(data)
    assert table.read().equals(data)
    assert other.read().equals(data)
    version = table.write(data)
    assert "d" not in (decoded(table, version) or {})


def decoded(table: Table, version: Version) -> Any:
    """What a version does besides adding rows."""
    log = table.head().log
    ops = log.ops[log.index_of(version.id)].as_py()
    return None if ops is None else unpack(ops, "ops")


def test_types_and_order_change_at_once() -> None:
    table = lake().create_table("t", pa.schema([("a", pa.int32()), ("b", pa.string())]))
    table.write([{"a": 1, "b": "x"}])
    table.write(pa.table({"b": ["x"], "a": [2**40]}))
    assert table.schema == pa.schema([("b", pa.string()), ("a", pa.int64())])
    assert content(table) == [{"b": "x", "a": 2**40}]


def test_by_key_a_row_is_the_same_however_much_of_it_changed() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    table.write(made(0, 6))
    other = another(catalog).table("t")
    arrive = held_back(other, lambda: other.update("id = 4", {"value": 44.0}))
    rows = [{"id": at, "name": f"other {at}", "value": at / 4} for at in range(6)]
    table.write(rows, on=["id"])
    arrive()
    rows[4]["value"] = 44.0
    assert content(table) == rows


def test_partitioned_tables() -> None:
    table = lake().create_table("t", SCHEMA.append(pa.field("p", pa.string())), partition_by=["p"])
    rows = [{**row, "p": "ab"[row["id"] % 2]} for row in made(0, 20)]
    table.write(rows)
    rows[4]["name"] = "changed"
    rows[10:10] = [{"id": 77, "name": "new", "value": 1.0, "p": "b"}]
    table.write(rows)
    assert sorted(map(str, content(table))) == sorted(map(str, rows))
    assert table.scan(filter="p = 'b'").count() == sum(row["p"] == "b" for row in rows)


@pytest.mark.parametrize("on", ["id", [], ["nothing"], 5, {"id": 1}, [["id"]]])
def test_wrong_keys(on: Any) -> None:
    with pytest.raises(InvalidArgument, match="on="):
        written(made(0, 3)).write(made(0, 3), on=on)


@pytest.mark.parametrize("wide", ["all", "few"])
def test_wide_rows_that_are_inserted_or_changed_make_chunks_of_fewer(
    wide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where they are appended; also where most rows of the table are narrow."""
    monkeypatch.setattr(cutting, "CHUNK_BYTES_TARGET", 64 * 1024)
    rows = made(0, 2000)
    table = written(rows, inline_bytes=0)
    chance = random.Random(0)
    text = [chance.randbytes(1000).hex() for _ in range(400)]
    for at in range(400):
        rows[3 * at] = {**rows[3 * at], "name": text[at][:: 1 if wide == "all" or at % 2 else 200]}
    table.write(rows)
    assert content(table) == rows
    new = [{"id": 10_000 + at, "name": text[at], "value": 0.0} for at in range(400)]
    rows = [row for at, old in enumerate(rows) for row in ([old, new[at]] if at < 400 else [old])]
    table.write(rows)
    assert content(table) == rows
    log = table.head().log
    assert len(log.nbytes) > 10
    assert log.nbytes.max() <= 2 * 64 * 1024 + 4096
    version = table.write(rows)
    assert (version.rows, version.chunks) == (0, 0)


def test_five_percent_scattered_stores_about_five_percent() -> None:
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.float64())]))
    random = np.random.default_rng(1)
    values = random.random(100_000)
    table.write(pa.table({"id": np.arange(100_000), "v": values}))
    base = sum(objects(catalog).values())
    changed = random.choice(100_000, 5_000, replace=False)
    values[changed] = random.random(5_000)
    table.write(pa.table({"id": np.arange(100_000), "v": values}))
    assert sum(objects(catalog).values()) - base < 0.12 * base
    assert np.array_equal(table.read()["v"].to_numpy(), values)


edits = st.lists(
    st.tuples(
        st.sampled_from(("change", "delete", "insert", "move")), st.integers(0, 30), st.integers(0, 30)
    ),
    max_size=6,
)


@given(st.lists(edits, min_size=1, max_size=4), st.booleans(), st.booleans())
@settings(max_examples=bounded(160, 4), deadline=None)
def test_whatever_changed_the_table_equals_the_data(
    rounds: list[list[tuple[str, int, int]]], fixed: bool, compacting: bool
) -> None:
    table = written(made(0, 12), **({"chunk_rows": 4} if fixed else {}))
    rows = made(0, 12)
    number = 1000
    for moves in rounds:
        for verb, where, more in moves:
            number += 1
            at = where % (len(rows) + 1)
            if verb == "insert":
                rows[at:at] = [{"id": number, "name": f"i{more}", "value": None}] * (1 + more % 3)
            elif at < len(rows) and verb == "change":
                rows[at] = {**rows[at], **({"name": str(number)} if more % 2 else {"value": float(number)})}
            elif at < len(rows) and verb == "delete":
                del rows[at : at + 1 + more % 2]
            elif at < len(rows) and verb == "move":
                rows.insert(more % len(rows), rows.pop(at))
        table.write(rows)
        assert content(table) == rows
        assert table.head().row_count == len(rows)
        if compacting:
            table.compact()
            assert content(table) == rows

"""`write` of a keyed table: by key, cell by cell."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.errors import InvalidArgument, SchemaMismatch
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.int64())])


def made(*ids: int) -> list[dict[str, Any]]:
    return [{"id": at, "a": f"a{at}", "b": at} for at in ids]


def content(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.read().to_pylist()
    return found


def test_inserts_deletes_and_changes() -> None:
    table = lake().create_table("t", SCHEMA, key=["id"])
    table.write(made(3, 1, 2))
    assert content(table) == made(1, 2, 3)
    rows: list[dict[str, Any]] = [
        {"id": 5, "a": "new", "b": 5},
        {"id": 2, "a": "changed", "b": 2},
        {"id": 1, "a": "a1", "b": -1},
    ]
    version = table.write(rows)
    assert content(table) == sorted(rows, key=lambda row: row["id"])
    assert version.operation == "write"
    assert table.write(rows).chunks == 0
    table.write([])
    assert content(table) == []


def test_concurrent_writes_merge_cell_by_cell() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, key=["id"])
    table.write(made(1, 2, 3))
    other = another(catalog).table("t")
    theirs, mine = made(1, 2, 3, 9), made(1, 2, 3)
    theirs[0]["a"] = "theirs"
    mine[0]["b"] = 77
    arrive = held_back(other, lambda: other.write(theirs))
    table.write(mine)
    arrive()
    expected = made(1, 2, 3, 9)
    expected[0] = {"id": 1, "a": "theirs", "b": 77}
    assert content(table) == content(other) == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.string_view(),
        pa.binary_view(),
        pa.list_view(pa.int64()),
        pa.run_end_encoded(pa.int32(), pa.int64()),
        pa.month_day_nano_interval(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.uuid(),
    ],
    ids=str,
)
def test_types_of_which_arrow_takes_no_rows(kind: pa.DataType) -> None:
    table = lake(chunk_rows=3).create_table("t", pa.schema([("id", pa.int64()), ("v", kind)]), key=["id"])
    before, after = (rows_of_any(kind, *numbers) for numbers in ((0, 1, 2, 3), (3, 1, 0, 0, 2)))
    for rows in (before, after, before.slice(1), after.slice(0, 2)):
        table.write(rows)
        assert table.read().to_pylist() == rows.to_pylist()
    table.compact(rows=8)
    assert table.read().to_pylist() == after.slice(0, 2).to_pylist()


def rows_of_any(kind: pa.DataType, *numbers: int) -> pa.Table:
    """Rows 0 to n with these values of a type, 0 being null."""
    made: dict[str, list[Any]] = {
        "uuid": [None, *(bytes([n]) * 16 for n in (1, 2, 3))],
        "interval": [None, *(pa.MonthDayNano([n, n, n]) for n in (1, 2, 3))],
        "list": [None, [], [1], [2, None]],
        "number": [None, 1, 2, 3],
        "text": [None, "", "b", "a text that does not fit into a view"],
    }
    plain = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    form = {"fixed_size_binary": "uuid", "month_day_nano_interval": "interval", "list_view": "list"}
    name = form.get(str(plain).split("[")[0].split("<")[0], "text")
    if pa.types.is_run_end_encoded(plain):
        values = pa.array([made["number"][n] for n in numbers], plain.value_type)
        ends = pa.array(range(1, len(numbers) + 1), plain.run_end_type)
        array = pa.RunEndEncodedArray.from_arrays(ends, values)
    else:
        array = pa.array([made[name][n] for n in numbers], plain)
        array = pa.ExtensionArray.from_storage(kind, array) if plain is not kind else array
    return pa.table({"id": range(len(numbers)), "v": array})


def test_wrong_calls() -> None:
    table = lake().create_table("t", SCHEMA, key=["id"])
    with pytest.raises(InvalidArgument, match="on="):
        table.write(made(1), on=["id"])
    with pytest.raises(SchemaMismatch, match="key"):
        table.write([{"a": "x"}])


def test_the_change_feed() -> None:
    table = lake().create_table("t", SCHEMA, key=["id"])
    table.upsert(made(1, 2, 3))
    start = table.head().snapshot
    table.upsert([{"id": 2, "b": 20}])
    table.upsert([{"id": 4, "a": "new"}])
    table.upsert([{"id": 3, "b": 3}])  # what it was
    table.delete(keys=[1])
    changes = table.changes(start)
    assert (changes.deleted, changes.touched, changes.inserted) == (1, 1, 1)
    assert changes.to_table().to_pylist() == [
        {"_change": "delete", "id": 1, "a": "a1", "b": 1},
        {"_change": "update_before", "id": 2, "a": "a2", "b": 2},
        {"_change": "update_after", "id": 2, "a": "a2", "b": 20},
        {"_change": "insert", "id": 4, "a": "new", "b": None},
    ]
    assert table.changes(changes.new).to_table().num_rows == 0

"""Update, update_rows and delete: only the cells named change, whoever changes others meanwhile."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import InvalidArgument, InvalidFilter, LimitExceeded, SchemaMismatch
from crdtcat.limits import CONDITIONS_MAX
from tests.catalog.lakes import another, lake

ROWS: list[dict[str, Any]] = [
    {"id": number, "name": f"n{number}", "value": number / 2} for number in range(10)
]


def filled(catalog: Catalog | None = None, *, parts: int = 2) -> Table:
    table = (catalog or lake()).create_table(
        "t", pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
    )
    for part in range(parts):
        table.append(ROWS[part * 10 // parts : (part + 1) * 10 // parts])
    return table


def names(table: Table) -> list[Any]:
    found: list[Any] = table.read(["name"])["name"].to_pylist()
    return found


def test_an_update_changes_the_rows_and_columns_it_names() -> None:
    table = filled()
    version = table.update("id >= 3 and id < 7", {"name": "x"})
    assert (version.operation, version.rows) == ("update", 4)
    expected = [{**row, "name": "x"} if 3 <= row["id"] < 7 else row for row in ROWS]
    assert table.read().to_pylist() == expected
    assert table.head().row_count == 10
    assert table.read(at=table.history()[1]).to_pylist() == ROWS


def test_updates_by_expression_by_function_and_by_table() -> None:
    table = filled()
    table.update("id < 2", {"value": pc.field("value") * 10 + 1})
    table.update("id in (2, 3)", {"name": lambda rows: pc.utf8_upper(rows["name"])})
    table.update("id > 7", {"name": pa.array(["a", "b"]), "value": pa.array([None, 0.25])})
    rows = table.read().to_pylist()
    assert [row["value"] for row in rows[:2]] == [1.0, 6.0]
    assert [row["name"] for row in rows[2:4]] == ["N2", "N3"]
    assert rows[8:] == [{"id": 8, "name": "a", "value": None}, {"id": 9, "name": "b", "value": 0.25}]


@pytest.mark.parametrize("key", [[], ["id"]])
@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (pa.map_(pa.string(), pa.int64()), [], [("a", 1)]),
        (pa.list_(pa.float32(), 2), [1.0, 2.0], None),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1, "b": None}, {"a": None, "b": "x"}),
        (pa.uint64(), 2**64 - 1, 0),
        (pa.list_(pa.map_(pa.int8(), pa.string())), [[(1, "x")]], [None]),
        (pa.run_end_encoded(pa.int32(), pa.string()), "a", None),
    ],
)
def test_rows_of_new_values_are_taken_as_appended_rows_are(
    kind: pa.DataType, first: Any, second: Any, key: list[str]
) -> None:
    """Dicts have no types of their own: they take those of the columns."""
    table = lake().create_table("t", pa.schema([("id", pa.int64()), ("x", kind)]), key=key)
    table.append([{"id": 1, "x": first}, {"id": 2, "x": second}, {"id": 3, "x": None}])
    table.update("id < 3", [{"x": second}, {"x": first}])
    table.update("id = 3", iter([{"x": first}]))
    assert table.read()["x"].to_pylist() == [second, first, first]
    assert table.schema.field("x").type == kind
    nothing: Any
    for nothing in ([], iter([])):
        with pytest.raises(InvalidArgument, match="no columns"):
            table.update("id < 3", nothing)


def test_an_update_of_all_rows_and_of_none() -> None:
    table = filled()
    table.update(None, {"value": 1})
    assert set(table.read(["value"])["value"].to_pylist()) == {1.0}
    assert table.update("id > 100", {"value": 2}).rows == 0
    assert set(table.read(["value"])["value"].to_pylist()) == {1.0}


def test_rows_by_number() -> None:
    table = filled()
    table.delete("id = 1")
    table.update_rows(0, 3, {"name": ["a", "b", "c"]})
    assert names(table)[:4] == ["a", "b", "c", "n4"]
    table.update_rows(4, 4, pa.table({"name": pa.array([], pa.string())}))
    assert len(names(table)) == 9


def test_deletes_by_filter() -> None:
    table = filled()
    table.delete("value > 2.0 and value < 4.5")
    assert table.read(["id"])["id"].to_pylist() == [0, 1, 2, 3, 4, 9]
    table.delete("id < 5")  # all of the first chunk
    assert table.head().row_count == 1
    table.delete("true")
    assert table.read().num_rows == table.head().row_count == 0
    assert len(table.head().chunks) == 0
    table.append(ROWS[:1])
    assert table.read().to_pylist() == ROWS[:1]


def test_filters_and_counts_see_what_rows_hold_now() -> None:
    table = filled()
    table.update("id = 2", {"value": 1000.0})
    table.update("id = 3", {"value": None})
    table.delete("id = 4")
    assert table.read(["id"], "value > 500")["id"].to_pylist() == [2]
    assert table.scan(filter="value is null").count() == 1
    assert table.scan(filter="value = 1.0").count() == 0
    assert table.scan(filter="id >= 0").count() == table.scan().count() == 9
    assert table.scan(["name"], "value = 1000").to_table().to_pylist() == [{"name": "n2"}]


@pytest.mark.parametrize("inline_bytes", [0, 64 * 1024])
@pytest.mark.parametrize("compacts", [False, True])
def test_neighbours_that_have_no_value_have_none(inline_bytes: int, compacts: bool) -> None:
    """A column that had no type at first, and one whose values do not fit: nulls of Arrow's own making."""
    catalog = lake(inline_bytes=inline_bytes)
    table = catalog.create_table("t")
    table.append(pa.table({"n": range(20), "x": pa.nulls(20)}))
    table.append(pa.table({"n": [20], "x": [7]}))
    table.update("n = 0", {"x": 2**40 - 1})
    expected = [2**40 - 1, *[None] * 19, 7]
    handles = [catalog.create_table("u"), another(catalog, inline_bytes=inline_bytes).table("u")]
    handles[0].append(pa.table({"n": [20], "y": [7]}))
    handles[1].append(pa.table({"n": range(20), "y": map(str, range(20))}))  # without knowing
    others = another(catalog, inline_bytes=inline_bytes).table("u")
    others.update("n = 0", {"y": 2**40 - 1})
    if compacts:
        table.compact()
        others.compact()
    assert another(catalog).read("t")["x"].to_pylist() == expected
    assert another(catalog).read("u")["y"].to_pylist() == [7, *expected[:-1]]
    assert another(catalog).table("t").verify("content").ok


def test_two_handles_change_different_cells_of_one_row() -> None:
    catalog = lake()
    first = filled(catalog)
    second = another(catalog).table("t")
    first.update("id = 1", {"name": "one"})
    second.update("id = 1", {"value": -1.0})
    second.update("id = 2", {"name": "two"})
    for table in (first, second):
        rows = table.read().to_pylist()
        assert rows[1] == {"id": 1, "name": "one", "value": -1.0}
        assert rows[2]["name"] == "two"
        assert table.conflicts() == ()


def test_a_snapshot_reads_the_same_whatever_is_changed_later() -> None:
    table = filled()
    before = table.head().snapshot
    table.update("id = 1", {"name": "one"})
    middle = table.head().snapshot
    table.delete("id <> 1")
    assert table.read(at=before).to_pylist() == ROWS
    assert table.read(["name"], at=middle)["name"].to_pylist()[:3] == ["n0", "one", "n2"]
    assert names(table) == ["one"]


def test_overwrites_and_restores_of_changed_tables() -> None:
    table = filled()
    table.update("id = 1", {"name": "one"})
    table.delete("id = 2")
    changed = table.read()
    table.tag("changed")
    table.overwrite(ROWS[:2])
    assert table.read().to_pylist() == ROWS[:2]
    table.restore("changed")
    assert table.read().equals(changed)


@pytest.mark.parametrize(
    "values",
    [
        pa.table({"name": ["x", "y", "z"], "value": [1.5, 2.5, 3.5]}),
        pa.table({"value": [1.5, 2.5, 3.5], "name": pa.chunked_array([["x"], ["y", "z"]])}),
        {"name": pa.array(["x", "y", "z"]), "value": pa.array([1.5, 2.5, 3.5])},
    ],
)
def test_a_table_of_new_values_goes_to_the_matching_rows_in_row_order(values: Any) -> None:
    table = filled()
    assert table.update("id in (7, 2, 4)", values).rows == 3  # of both chunks
    expected = [dict(row) for row in ROWS]
    for at, name, value in ((2, "x", 1.5), (4, "y", 2.5), (7, "z", 3.5)):
        expected[at] |= {"name": name, "value": value}
    assert table.read().to_pylist() == expected


@pytest.mark.parametrize(
    ("where", "values", "error"),
    [
        ("id = 1", {"nothing": 1}, SchemaMismatch),
        ("id = 1", {"id": "text"}, SchemaMismatch),
        ("id = -7", {"id": "text"}, SchemaMismatch),  # no row matches, and it is wrong all the same
        ("id = 1", {}, InvalidArgument),
        ("id = 1", {"id": 1.5}, SchemaMismatch),
        ("nothing = 1", {"id": 1}, InvalidFilter),
        ("id = 1", {"name": object()}, (InvalidArgument, SchemaMismatch)),
        ("id = 1", {"id": lambda _: pa.array([1, 2, 3])}, InvalidArgument),
        ("id = 1", {"id": pc.field("nothing") + 1}, InvalidArgument),
        ("id = 1", pa.table({"id": [1, 2]}), InvalidArgument),
        ("id = 1", 7, InvalidArgument),
    ],
)
def test_wrong_updates_write_nothing(where: Any, values: Any, error: type[Exception]) -> None:
    table = filled()
    with pytest.raises(error):
        table.update(where, values)
    assert len(table.history()) == 2


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (5, 4), (0, 11), ("a", 2), (0, 1.5), (False, True)])
def test_rows_that_are_not_there(start: Any, stop: Any) -> None:
    with pytest.raises(InvalidArgument, match="row_count"):
        filled().update_rows(start, stop, {"name": ["a"]})


def test_another_number_of_values_than_rows() -> None:
    with pytest.raises(InvalidArgument, match="2 rows of new values for 3"):
        filled().update_rows(0, 3, {"name": ["a", "b"]})


def test_a_table_without_columns() -> None:
    table = lake().create_table("t")
    with pytest.raises((SchemaMismatch, InvalidFilter)):
        table.update("a = 1", {"a": 1})
    with pytest.raises(InvalidFilter, match=r"'t' has no columns yet: .*'a'"):
        table.delete("a = 1")
    for constant in ("true", "1 = 1", "false"):
        assert table.delete(constant).rows == 0
        assert table.read(filter=constant).num_rows == table.scan(filter=constant).count() == 0
        assert "0 of 0 kept" in table.scan(filter=constant).explain()


def test_an_expression_that_would_end_the_process_is_refused() -> None:
    table = lake().create_table("t", pa.schema([("n", pa.int64())]))
    table.append([{"n": 1}])
    value = pc.field("n")
    for _ in range(CONDITIONS_MAX + 2):
        value = value + 1
    with pytest.raises(LimitExceeded, match="inside each other"):
        table.update(None, {"n": value})
    assert table.read().to_pylist() == [{"n": 1}]


@pytest.mark.parametrize(
    "type", [pa.string_view(), pa.run_end_encoded(pa.int32(), pa.string()), pa.large_string()]
)
def test_expressions_over_columns_that_arrow_does_not_compute_with(type: pa.DataType) -> None:
    table = lake().create_table("t")
    texts = pa.array(["x", "x", "y"])
    held = pc.run_end_encode(texts) if pa.types.is_run_end_encoded(type) else texts.cast(type)
    table.append(pa.table({"n": [1, 2, 3], "s": held}))
    table.update("n < 3", {"s": pc.utf8_upper(pc.field("s"))})
    assert table.schema.field("s").type == held.type
    assert table.read()["s"].to_pylist() == ["X", "X", "y"]

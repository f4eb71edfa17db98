"""A filter looks at its own columns: what others hold does not matter, whether pyarrow can make it or not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat.chunks.types import no_rows
from tests.catalog.lakes import lake

ODD: dict[pa.DataType, Any] = {
    pa.list_(pa.uuid()): [b"x" * 16],
    pa.struct([("a", pa.uuid()), ("b", pa.int64())]): {"a": b"x" * 16, "b": 1},
    pa.map_(pa.string(), pa.json_()): [("a", "{}")],
    pa.list_(pa.fixed_shape_tensor(pa.int32(), [2])): [[1, 2]],
    pa.list_(pa.dictionary(pa.int8(), pa.decimal128(5, 2))): [Decimal("1.50")],
    pa.large_list(pa.dictionary(pa.int32(), pa.timestamp("us"))): [],
    pa.list_(pa.run_end_encoded(pa.int32(), pa.int64())): [5],
    pa.struct([("a", pa.run_end_encoded(pa.int32(), pa.string()))]): {"a": "x"},
    pa.dictionary(pa.int8(), pa.string(), ordered=True): "x",
    pa.dictionary(pa.int16(), pa.timestamp("s")): None,
    pa.run_end_encoded(pa.int16(), pa.string()): "x",
    pa.list_view(pa.string_view()): ["x"],
    pa.fixed_shape_tensor(pa.float32(), [2]): [1.0, 2.0],
    pa.month_day_nano_interval(): None,
}


@pytest.mark.parametrize("kind", ODD, ids=str)
def test_no_rows_of_any_type(kind: pa.DataType) -> None:
    made = no_rows(pa.schema([("odd", kind), ("id", pa.int64())]))
    made.validate(full=True)
    assert (made.num_rows, made.schema.field("odd").type) == (0, kind)


@pytest.mark.parametrize("kind", ODD, ids=str)
def test_rows_are_found_changed_and_deleted(kind: pa.DataType) -> None:
    table = lake().create_table("t", pa.schema([("id", pa.int64()), ("odd", kind)]))
    assert table.read(filter="id = 1").num_rows == 0
    table.append([{"id": 1, "odd": ODD[kind]}, {"id": 2, "odd": None}, {"id": 3}])
    before = table.head()
    for filter in ("id = 2", [("id", "=", 2)], pc.field("id") == 2):
        assert table.read(filter=filter)["id"].to_pylist() == [2]
    assert table.changes(before).to_table().num_rows == 0
    table.update("id >= 2", {"odd": ODD[kind]})
    shown = table.read()["odd"].to_pylist()
    assert shown[0] == shown[1] == shown[2]
    table.update("id = 3", {"odd": None})
    table.update("id = 99", {"odd": ODD[kind]})
    table.delete("id = 1")
    assert table.read()["odd"].to_pylist() == [shown[0], None]

"""Nulls that an array does not count: those of a dictionary's entries, and of a run's value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crdtcat.errors import SchemaMismatch
from tests.catalog.lakes import lake, refused

VALUES = {"text": ["a", None], "number": [7, None], "truth": [False, None]}


def _behind_entries(values: list[Any]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(values))


def _in_runs(values: list[Any]) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(values))


@pytest.mark.parametrize("settings", [{}, {"key": ["k"]}])
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("encoded", [_behind_entries, _in_runs])
def test_a_column_that_may_not_be_null_has_none_of_them(
    encoded: Any, kind: str, settings: dict[str, Any]
) -> None:
    array = encoded(VALUES[kind])
    assert array.null_count == 0
    catalog = lake()
    schema = pa.schema([pa.field("k", array.type, nullable=False), ("v", pa.int64())])
    table = catalog.create_table("t", schema, **settings)
    data = pa.table([array, pa.array([1, 2, 3])], names=["k", "v"])
    for give in (table.append, table.overwrite, *([table.upsert] if settings else [])):
        with refused(catalog, SchemaMismatch, "'k' may not be null, and 1 rows are"):
            give(data)
    with refused(catalog, SchemaMismatch, "'k' may not be null, and 1 rows are"), table.stream() as stream:
        stream.write(data)
    with refused(catalog, SchemaMismatch, "'k'"):
        table.append({"k": array, "v": [1, 2, 3]})
    catalog.commit("free", data)  # elsewhere they are nulls like others
    assert catalog.read("free", filter="k is null").num_rows == 1

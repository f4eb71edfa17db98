"""Updates by functions: each run of rows is asked for by itself, and may be given values of another type."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.errors import SchemaMismatch
from tests.catalog.lakes import lake, refused


def two_chunks(kind: pa.DataType | None) -> Table:
    """Rows of two chunks, which an update sees one after the other; the column is null in all of them."""
    fields = None if kind is None else pa.schema([("id", pa.int64()), ("x", kind)])
    table = lake(inline_bytes=0).create_table("t", fields)
    for number in (1, 2):
        table.append([{"id": number, "x": None}] * 3)
    return table


def by_id(first: Any, second: Any, made: Callable[[list[Any]], Any] = list) -> Callable[[pa.Table], Any]:
    """A function that gives rows one value by their id."""
    return lambda rows: made([first if number == 1 else second for number in rows["id"].to_pylist()])


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (pa.float64(), 1, 1.5),
        (pa.float64(), None, 1.5),
        (pa.string(), "a", None),
        (pa.decimal128(9, 3), Decimal("1.5"), Decimal("12.125")),
        (pa.decimal128(38, 0), 2**70, 1),
        (pa.struct([("a", pa.int64())]), {"a": 1}, {"a": None}),
        (pa.list_(pa.int64()), [1], []),
        (pa.dictionary(pa.int32(), pa.string()), "a", "b"),
    ],
)
def test_python_values_are_taken_as_those_of_appended_rows(
    kind: pa.DataType, first: Any, second: Any
) -> None:
    table = two_chunks(kind)
    table.update(None, {"x": by_id(first, second)})
    assert table.read()["x"].to_pylist() == [first] * 3 + [second] * 3
    assert table.schema.field("x").type == kind


@pytest.mark.parametrize("made", [pa.array, np.array, pd.Series])
def test_arrays_of_two_types_meet_in_that_of_the_column(made: Callable[[list[Any]], Any]) -> None:
    table = two_chunks(pa.float64())
    table.update(None, {"x": by_id(1, 1.5, made)})
    assert table.read()["x"].to_pylist() == [1.0] * 3 + [1.5] * 3


def test_a_column_that_nobody_declared_takes_a_type_that_holds_all() -> None:
    table = two_chunks(None)
    table.update(None, {"x": by_id(pa.scalar(1, pa.int8()), pa.scalar(1.5, pa.float32()), pa.array)})
    assert table.read()["x"].to_pylist() == [1.0] * 3 + [1.5] * 3


def test_what_does_not_fit_is_refused_by_name() -> None:
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t", pa.schema([("id", pa.int64()), ("x", pa.int64())]))
    for number in (1, 2):
        table.append([{"id": number, "x": None}] * 3)
    with refused(catalog, SchemaMismatch, "'x'", "2.5"):
        table.update(None, {"x": by_id(1, 2.5, pa.array)})
    with refused(catalog, SchemaMismatch, "'x'", "string"):
        table.update(None, {"x": by_id(1, "a", pa.array)})
    with refused(catalog, SchemaMismatch, "'x'", "no type holds both"):
        two = two_chunks(None)
        two.update(None, {"x": by_id(1, "a", pa.array)})

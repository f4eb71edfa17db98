"""Lists of values that a decimal column meets in two ways: some exactly, some by way of floats."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from crdtcat.scan.filters import parse_filter

VALUES = [Decimal("0.1"), Decimal("2.5"), Decimal(1), Decimal("7.25"), None]
KINDS = [pa.decimal128(9, 3), pa.decimal128(38, 10), pa.decimal256(60, 4)]


def kept(filter: Any, kind: pa.DataType) -> list[int]:
    table = pa.table({"row": list(range(len(VALUES))), "d": pa.array(VALUES, kind)})
    parsed = parse_filter(filter, table.schema)
    found: list[int] = table.filter(parsed.expression)["row"].to_pylist()
    return found


@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
@pytest.mark.parametrize("negated", ["", "not "])
def test_rows_are_those_duckdb_gives_in_any_order_of_the_list(kind: pa.DataType, negated: str) -> None:
    table = pa.table({"row": list(range(len(VALUES))), "d": pa.array(VALUES, kind)})
    connection = duckdb.connect()
    connection.register("held", table)
    for some in [*permutations(["0.1e0", "2.5", "1"]), *permutations(["1e-1", "7.25", "null"])]:
        condition = f"d {negated}in ({', '.join(some)})"
        wanted = connection.sql(f"select row from held where {condition} order by row").fetchall()
        assert kept(condition, kind) == [row for (row,) in wanted], condition


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_in_tuples_null_is_a_value_like_others(kind: pa.DataType) -> None:
    for some in permutations([0.1, Decimal("2.5")]):
        assert kept([("d", "in", list(some))], kind) == [0, 1]
        assert kept([("d", "not in", list(some))], kind) == [2, 3, 4]
        assert kept([("d", "in", [*some, None])], kind) == [0, 1, 4]
        assert kept([("d", "not in", [None, *some])], kind) == [2, 3]
    assert kept([("d", "not in", [0.1])], kind) == [1, 2, 3, 4]

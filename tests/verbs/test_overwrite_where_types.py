"""`overwrite(where=...)` by the value that a table is partitioned by, of every type that can be one."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import InvalidArgument
from tests.catalog.lakes import lake, refused

DAY = dt.date(2020, 1, 1)
VALUES: dict[pa.DataType, tuple[Any, Any]] = {
    pa.bool_(): (True, False),
    pa.int8(): (-128, 0),
    pa.uint64(): (2**63 + 5, 2**63 + 6),
    pa.float16(): (1.5, 0.25),
    pa.float32(): (1.5, -2.0),
    pa.float64(): (0.1, math.inf),
    pa.decimal128(6, 2): (Decimal("0.10"), Decimal("0.20")),
    pa.decimal128(38, 20): (Decimal("0.10000000000000000001"), Decimal("0.10000000000000000002")),
    pa.decimal128(5, -2): (Decimal(1200), Decimal(1300)),
    pa.decimal256(40, 3): (Decimal("1.125"), Decimal("-0.001")),
    pa.date32(): (DAY, dt.date(1960, 1, 1)),
    pa.date64(): (DAY, dt.date(1960, 1, 1)),
    pa.time32("s"): (dt.time(1), dt.time(2)),
    pa.time64("ns"): (dt.time(1), dt.time(2, 0, 1)),
    pa.timestamp("s"): (dt.datetime(2020, 1, 1), dt.datetime(1960, 1, 1)),  # noqa: DTZ001
    pa.timestamp("us", "Europe/Rome"): (
        dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2020, 1, 2, tzinfo=dt.UTC),
    ),
    pa.duration("ms"): (dt.timedelta(seconds=1), dt.timedelta(days=-1)),
    pa.string(): ("a", "ab"),
    pa.string_view(): ("a", "ab"),
    pa.dictionary(pa.int8(), pa.string()): ("a", "ab"),
    pa.binary(): (b"", b"\xff"),
    pa.binary(2): (b"ab", b"\0\0"),
    pa.uuid(): (b"x" * 16, b"y" * 16),
}


def made(kind: pa.DataType, *values: Any) -> Table:
    table = lake().create_table("t", pa.schema([("v", kind), ("n", pa.int64())]), partition_by=["v"])
    table.append([{"v": value, "n": number} for number, value in enumerate(values)])
    return table


def numbers(table: Table) -> list[int]:
    return sorted(table.read()["n"].to_pylist())


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_one_partition_is_replaced_and_the_others_stay(kind: pa.DataType) -> None:
    first, second = VALUES[kind]
    table = made(kind, first, second, None, first)
    shown = table.read(["v"])["v"].combine_chunks()
    here = next(value for value in shown if value.is_valid and str(value) == str(_scalar(kind, first)))
    table.overwrite([{"v": first, "n": 10}], where=[("v", "=", here)])
    assert numbers(table) == [1, 2, 10]
    table.overwrite([{"v": None, "n": 20}], where="v is null")
    assert numbers(table) == [1, 10, 20]
    table.overwrite([{"v": first, "n": 30}], where=[("v", "in", [here])])
    assert numbers(table) == [1, 20, 30]


def _scalar(kind: pa.DataType, value: Any) -> pa.Scalar:
    table = lake().create_table("t", pa.schema([("v", kind)]))
    table.append([{"v": value}])
    return table.read()["v"][0]


@pytest.mark.parametrize("filter", ["v = 0.1", "v in (0.10, 5)", "v < 0.15", "v between 0.05 and 0.1"])
def test_decimals_that_no_float_holds_are_told_apart(filter: str) -> None:
    table = made(pa.decimal128(6, 2), Decimal("0.10"), Decimal("0.20"))
    table.overwrite([{"v": Decimal("0.10"), "n": 10}], where=filter)
    assert numbers(table) == [1, 10]


def test_both_zeros_are_one_partition_and_are_replaced_together_or_not() -> None:
    table = made(pa.float64(), 0.0, -0.0, 1.0, math.nan, None)
    for where in (pc.field("v").isin([0.0]), [("v", "in", [-0.0])]):
        with refused(Catalog(table._session.store), InvalidArgument, "selects only part of"):
            table.overwrite([], where=where)
    for where in ("v = 0", [("v", "=", -0.0)], "v in (0.0)"):
        table.overwrite([{"v": 0.0, "n": 10}, {"v": -0.0, "n": 11}], where=where)
        assert numbers(table) == [2, 3, 4, 10, 11]

"""Numbers in SQL filters that are larger, or have more digits, than what usually computes with them."""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog
from crdtcat.errors import InvalidFilter, LimitExceeded
from crdtcat.scan.filters import parse_filter
from crdtcat.scan.filters.sql_values import Values

LEAST, OTHER = Decimal("-9999999999999999999999999999.9999999999"), "1234567890123456789012345678.1234567890"
ROWS = pa.table(
    {
        "row": [0, 1, 2, 3],
        "wide": pa.array(
            [LEAST, Decimal(f"-{OTHER}"), LEAST.copy_negate(), Decimal(1)], pa.decimal128(38, 10)
        ),
        "ratio": [1.0, -1.0, None, float("inf")],
        "great": pa.array([1, 2, 3, None], pa.uint64()),
        "half": pa.array([1.0, -1.0, None, float("inf")], pa.float32()),
        "at": pa.array([0, 1, 2, None], pa.timestamp("us")),
    }
)


def kept(condition: object) -> list[int]:
    found: list[int] = ROWS.filter(parse_filter(condition, ROWS.schema).expression)["row"].to_pylist()
    return found


@pytest.mark.parametrize("digits", [28, 5])
@pytest.mark.parametrize("rounding", [decimal.ROUND_HALF_EVEN, decimal.ROUND_DOWN])
def test_no_digit_of_a_decimal_is_lost_whatever_the_context_of_the_caller(digits: int, rounding: str) -> None:
    with decimal.localcontext(prec=digits, rounding=rounding):
        assert kept(f"wide = -{OTHER}") == kept(f"wide = - {OTHER}") == [1]
        assert kept(f"wide <> -{OTHER}") == [0, 2, 3]
        assert kept(f"wide in (-{OTHER}, 1)") == [1, 3]
        assert kept(f"wide between -{OTHER[:-1]}1 and -{OTHER[:-2]}89") == [1]
        assert kept(f"wide = {LEAST}") == kept(("wide", "=", LEAST)) == [0]
        assert kept(f"wide < {LEAST}") == kept(("wide", "<", LEAST)) == []
        assert kept("wide < -9999999999999999999999999999.99999999991") == []
        assert kept("wide >= -10000000000000000000000000000") == [0, 1, 2, 3]
        assert kept("wide = 9999999999999999999999999999.9999999998 + 0.0000000001") == [2]
        assert kept("wide = 9999999999999999999999999999.9999999999::decimal(38, 10)") == [2]


def test_a_delete_takes_the_row_that_it_names() -> None:
    table = Catalog("memory://digits", upkeep=False).create_table("t", ROWS.schema)
    table.append(ROWS)
    table.delete(f"wide = -{OTHER}")
    assert table.read()["row"].to_pylist() == [0, 2, 3]


def test_an_integer_beyond_all_floats_is_above_them() -> None:
    for column in ("ratio", "half"):
        assert kept(f"{column} < 1{'0' * 400}") == [0, 1]
        assert kept(f"{column} > -1{'0' * 400}") == [0, 1, 3]
        assert kept(f"{column} in (1{'0' * 400}, 1)") in ([0], [0, 3])  # as a literal it is infinity


def not_a_number(bits: int) -> float:
    found: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return found


NANS = [math.nan, not_a_number(0xFFF8_0000_0000_0000), not_a_number(0x7FF8_0000_0000_0001)]
"""Python's own, what 0/0 is on most machines, and one with something to say."""
FLOATS = pa.table({"row": [0, 1, 2, 3, 4], "a": [*NANS, 1.5, None]})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = 'nan'::double", [0, 1, 2]),
        ("a in ('nan'::double)", [0, 1, 2]),
        ("a in (1.5, 'nan'::double, null)", [0, 1, 2, 3]),
        ("a not in ('nan'::double)", [3]),
        ("a not in (1.5, null)", []),
        ("a is not distinct from 'nan'::double", [0, 1, 2]),
        ("a is distinct from 'nan'::double", [3, 4]),
        ("not (a is not distinct from 'nan'::double)", [3, 4]),
    ],
)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_every_nan_is_one_in_sql(kind: pa.DataType, condition: str, expected: list[int]) -> None:
    rows = FLOATS.set_column(1, "a", FLOATS["a"].cast(kind))
    found = parse_filter(condition, rows.schema)
    assert rows.filter(found.expression)["row"].to_pylist() == expected
    by_duckdb = duckdb.sql(f"select row from rows where {condition} order by row").fetchall()
    assert [row for (row,) in by_duckdb] == expected


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("as_given", [float, np.float64])
def test_in_lists_of_tuples_nan_goes_by_its_bits_as_in_arrow(
    row: int, as_given: Callable[[float], Any]
) -> None:
    values = [as_given(NANS[row]), as_given(1.5)]
    found = parse_filter([("a", "in", values)], FLOATS.schema).expression
    by_arrow = FLOATS.filter(pc.is_in(FLOATS["a"], pa.array(values, pa.float64())))
    assert FLOATS.filter(found)["row"].to_pylist() == by_arrow["row"].to_pylist() == [row, 3]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("wide % 3 = 1", "'wide % 3' at character 1 is not supported"),
        ("coalesce(wide, 'nan'::double) = 1", "is not supported"),
        ("coalesce('nan'::double, great) = 1", "is not supported"),
        ("wide // 3 = 1", "'wide // 3' at character 1 is not supported"),
        (f"wide + 0.{'0' * 80}1 > 1", "is not supported"),
        (f"wide * {'9' * 77}.5 > 1", "is not supported"),
        (f"ratio < 1{'0' * 400} / 2", "is too large"),
        (f"ratio < 1{'0' * 400} + 1e0", "is too large"),
        (f"ratio < {'9' * 3000}.5 + 0.{'1' * 100}", "too many digits"),
        ("half < 1e39::float", "beyond the greatest float of 32 bits"),
        ("wide < 'inf'::decimal(5, 2)", "is not supported"),
        ("ratio < 1e", "'1e' is no number"),
        ("-great < 1", "is not supported"),
        ("abs(great) = 1", "is not supported"),
        *(
            (f"at < timestamp '2026-01-01' + interval '{n}' day", "not supported")
            for n in ("nan", "-inf", "9" * 99)
        ),
    ],
)
def test_what_cannot_be_computed_is_refused(condition: str, message: str) -> None:
    with pytest.raises(InvalidFilter) as raised:
        parse_filter(condition, ROWS.schema)
    assert message in str(raised.value)


def test_a_product_of_more_digits_than_can_be_told_is_refused() -> None:
    with pytest.raises(LimitExceeded):
        parse_filter(f"at = {'9' * 3000} * {'9' * 3000}", ROWS.schema)


def test_signs_before_signs_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    term = Values.term

    def counted(self: Values, node: Any) -> Any:
        read.append(node)
        return term(self, node)

    monkeypatch.setattr(Values, "term", counted)
    assert kept("- " * 12 + "row = 2") == [2]
    assert len(read) < 20

"""Statistics: bounds contain every value, in every type and layout; literals fall where values do."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from crdtcat.chunks.literals import value_in_domain
from crdtcat.chunks.statistics import (
    ColumnStatistics,
    convert_statistics,
    domain,
    merge_statistics,
    nanoseconds_per_unit,
    statistics,
    time_range,
    value_type,
)
from crdtcat.chunks.types import cast_lossless, to_storage, widen
from crdtcat.testing.strategies import arrow_arrays, arrow_types

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def plain(array: pa.Array) -> list[Any]:
    """The oracle: each value that is not null, one by one, in its domain but exactly."""
    t = value_type(array.type)
    while array.type != t:
        array = cast_lossless(array, t)
    unit = nanoseconds_per_unit(t)
    values = []
    for scalar in array:
        if not scalar.is_valid:
            continue
        value = scalar.value if unit is not None else scalar.as_py()
        values.append(value.encode() if isinstance(value, str) else value)
    return values


def contains(known: ColumnStatistics, value: Any) -> bool:
    exact: Any = Decimal(value) if isinstance(value, float) and math.isfinite(value) else value
    return (known.min is None or known.min <= exact) and (known.max is None or known.max >= exact)


@given(arrow_arrays(arrow_types(depth=1)))
@relaxed
def test_bounds_contain_every_value(array: pa.Array) -> None:
    known = statistics(array)
    assert known.nulls == to_storage(array).null_count
    kind = domain(array.type)
    if kind is None:
        assert known.min is None
        assert known.max is None
        return
    values = plain(array)
    nan = any(isinstance(value, float) and math.isnan(value) for value in values)
    if nan or not values:
        assert known.min is None
        assert known.max is None
        return
    assert all(contains(known, value) for value in values)
    assert type(known.min).__name__ == kind
    assert known.max is None or type(known.max).__name__ == kind
    if kind == "int":
        assert (known.min, known.max) == (min(values), max(values))
    if kind == "bytes":
        assert len(known.min) <= 64  # type: ignore[arg-type]
        assert known.max is None or len(known.max) <= 64  # type: ignore[arg-type]


@given(st.lists(arrow_arrays(pa.float64()), min_size=1, max_size=4))
@relaxed
def test_merging_is_what_the_whole_would_give(arrays: list[pa.Array]) -> None:
    parts = [(statistics(array), len(array)) for array in arrays]
    whole = statistics(pa.concat_arrays(arrays))
    assert merge_statistics(parts) == merge_statistics(reversed(parts)) == whole
    assert statistics(pa.chunked_array(arrays)) == whole


@pytest.mark.parametrize(
    ("array", "least", "greatest"),
    [
        (pa.array([True, False]), 0, 1),
        (pa.array([2**64 - 1], pa.uint64()), 18446744073709549568.0, 18446744073709551616.0),
        (pa.array([Decimal("0.1")]), 0.09999999999999999, 0.1),
        (pa.array([1.0, float("nan")]), None, None),
        (pa.array([-math.inf, math.inf]), -math.inf, math.inf),
        (pa.array(["b", "a"]), b"a", b"b"),
        (pa.array(["x" * 65]), b"x" * 64, b"x" * 63 + b"y"),
        (pa.array([b"\xff" * 65]), b"\xff" * 64, None),
        (pa.array([b"a" + b"\xff" * 65]), b"a" + b"\xff" * 63, b"b"),
        (pa.array([1, 2], pa.time32("s")), 1, 2),
        (pa.array([[1]]), None, None),
        (pa.nulls(2), None, None),
        (pa.array([None], pa.int64()), None, None),
    ],
)
def test_bounds(array: pa.Array, least: Any, greatest: Any) -> None:
    known = statistics(array)
    assert (known.min, known.max) == (least, greatest)


def test_negative_zero_is_not_a_bound() -> None:
    assert math.copysign(1, statistics(pa.array([-0.0])).min) == 1.0  # type: ignore[arg-type]


WIDENINGS = [
    (pa.int8(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.date32(), pa.timestamp("us")),
    (pa.date64(), pa.timestamp("us")),
    (pa.time32("s"), pa.time64("ns")),
    (pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC")),
    (pa.string(), pa.large_string()),
    (pa.binary(3), pa.binary()),
    (pa.decimal64(10, 3), pa.decimal128(20, 5)),
    (pa.dictionary(pa.int8(), pa.string()), pa.string()),
]


@given(st.sampled_from(WIDENINGS), st.data())
@relaxed
def test_converted_bounds_contain_the_widened_values(pair: Any, data: st.DataObject) -> None:
    before, after = pair
    assert widen(before, after) == after
    array = data.draw(arrow_arrays(before))
    known = convert_statistics(statistics(array), before, after)
    assert all(contains(known, value) for value in plain(cast_lossless(array, after)))
    assert known == statistics(cast_lossless(array, after))


def test_conversions_that_change_meaning_are_unknown() -> None:
    known = ColumnStatistics(1, 2, 3)
    for before, after in (
        (pa.int64(), pa.timestamp("us")),
        (pa.int64(), pa.string()),
        (pa.date32(), pa.float64()),
    ):
        assert convert_statistics(known, before, after) == ColumnStatistics(None, None, 3)


@given(arrow_types(depth=0), st.data())
@relaxed
def test_a_value_taken_as_literal_falls_inside_the_bounds(t: pa.DataType, data: st.DataObject) -> None:
    assume(domain(t) is not None)
    array = data.draw(arrow_arrays(t, min_size=1))
    known = statistics(array)
    for scalar in cast_lossless(array, value_type(t)):
        place = value_in_domain(scalar, t)
        if place is None:
            value = scalar.as_py()
            assert value is None or (isinstance(value, float) and not math.isfinite(value))
            continue
        lo, hi = place
        assert lo <= hi
        assert known.max is None or lo <= known.max
        assert known.min is None or hi >= known.min


COMPARE: dict[str, tuple[Any, Any]] = {
    "<": (lambda x, v: x < v, lambda known, lo, hi: known.min is not None and known.min >= hi),
    "<=": (lambda x, v: x <= v, lambda known, lo, hi: known.min is not None and known.min > lo),
    "==": (
        lambda x, v: x == v,
        lambda known, lo, hi: (
            (known.max is not None and known.max < lo) or (known.min is not None and known.min > hi)
        ),
    ),
    ">=": (lambda x, v: x >= v, lambda known, lo, hi: known.max is not None and known.max < hi),
    ">": (lambda x, v: x > v, lambda known, lo, hi: known.max is not None and known.max <= lo),
}


@given(
    st.sampled_from((pa.int8(), pa.uint64(), pa.float64(), pa.decimal128(5, 2))),
    st.integers(-5, 5) | st.floats(-5, 5) | st.decimals(-5, 5, places=3),
    st.sampled_from(sorted(COMPARE)),
    st.data(),
)
@relaxed
def test_the_pruning_table_never_skips_a_match(
    t: pa.DataType, literal: Any, op: str, data: st.DataObject
) -> None:
    array = data.draw(arrow_arrays(t))
    matches, skips = COMPARE[op]
    place = value_in_domain(literal, t)
    assert place is not None
    if skips(statistics(array), *place):
        exact = Decimal(literal)
        assert not any(
            matches(value if not isinstance(value, float) else Decimal(value), exact)
            for value in plain(array)
        )


NOON = dt.datetime(2024, 1, 2, 12, 0, 0, 5)  # noqa: DTZ001 (a column without a zone takes such literals)
DAY = 19724


@pytest.mark.parametrize(
    ("value", "t", "place"),
    [
        (1.5, pa.int64(), (1, 2)),
        (True, pa.bool_(), (1, 1)),
        (np.int16(7), pa.int64(), (7, 7)),
        (Decimal("0.1"), pa.float64(), (0.09999999999999999, 0.1)),
        (10**400, pa.float64(), (1.7976931348623157e308, math.inf)),
        (math.nan, pa.float64(), None),
        (math.inf, pa.int64(), None),
        (None, pa.int64(), None),
        (pa.scalar(None, pa.int64()), pa.int64(), None),
        ("x", pa.int64(), None),
        ("ä", pa.large_string(), (b"\xc3\xa4", b"\xc3\xa4")),
        ("x", pa.binary(), None),
        (b"x", pa.binary_view(), (b"x", b"x")),
        (uuid.UUID(int=1), pa.uuid(), (bytes(15) + b"\1", bytes(15) + b"\1")),
        (dt.date(2024, 1, 2), pa.date32(), (DAY, DAY)),
        (NOON, pa.date32(), (DAY, DAY + 1)),
        (NOON, pa.timestamp("s"), (DAY * 86400 + 43200, DAY * 86400 + 43201)),
        (NOON, pa.timestamp("us", "UTC"), None),
        (
            NOON.replace(tzinfo=dt.UTC),
            pa.timestamp("s", "Asia/Tokyo"),
            (DAY * 86400 + 43200, DAY * 86400 + 43201),
        ),
        (dt.date(2024, 1, 2), pa.timestamp("ms"), (DAY * 86400000, DAY * 86400000)),
        (np.datetime64("2024-01-02T00:00:00.000000001", "ns"), pa.date32(), (DAY, DAY + 1)),
        (dt.time(0, 0, 1), pa.time64("ns"), (10**9, 10**9)),
        (dt.timedelta(seconds=-1), pa.duration("ms"), (-1000, -1000)),
        (5, pa.timestamp("us"), None),
        (5, pa.list_(pa.int64()), None),
        (pa.scalar(5, pa.duration("s")), pa.time32("s"), None),
    ],
)
def test_literals(value: Any, t: pa.DataType, place: Any) -> None:
    assert value_in_domain(value, t) == place


def test_time_range_in_microseconds() -> None:
    table = pa.table(
        {
            "ns": pa.array([-1, 1, None], pa.timestamp("ns")),
            "day": pa.array([1, 0, None], pa.date32()),
            "zoned": pa.array([5, 5, 5], pa.timestamp("s", "Europe/Paris")),
            "none": pa.nulls(3, pa.timestamp("us")),
            "int": [1, 2, 3],
        }
    )
    assert time_range(table, "ns") == (-1, 1)
    assert time_range(table, "day") == (0, 86_400_000_000)
    assert time_range(table, "zoned") == (5_000_000, 5_000_000)
    assert time_range(table, "none") is None
    assert time_range(table, "int") is None

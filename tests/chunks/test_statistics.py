"""Statistics: bounds contain every value, in every type and layout."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat.chunks.statistics import (
    ColumnStatistics,
    domain,
    merge_statistics,
    nanoseconds_per_unit,
    statistics,
    time_range,
    value_type,
)
from crdtcat.chunks.types import cast_lossless, to_storage
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


BOUNDS = st.none() | st.integers(0, 5)
KNOWN = st.builds(ColumnStatistics, BOUNDS, BOUNDS, st.integers(0, 2)).flatmap(
    lambda known: st.tuples(st.just(known), st.integers(known.nulls, 3))
)


@given(st.lists(st.lists(KNOWN, max_size=3), max_size=4))
def test_runs_may_be_merged_in_groups_and_in_any_order(
    groups: list[list[tuple[ColumnStatistics, int]]],
) -> None:
    every = [part for group in groups for part in group]
    whole = merge_statistics(every)
    at_once = [(merge_statistics(group), sum(rows for _, rows in group)) for group in groups]
    assert merge_statistics(at_once) == merge_statistics(reversed(every)) == whole
    with_values = [known for known, rows in every if known.nulls < rows]
    for bound, of_each in (
        (whole.min, [one.min for one in with_values]),
        (whole.max, [one.max for one in with_values]),
    ):
        assert (bound is None) == (not of_each or None in of_each)
        assert bound is None or bound in of_each


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

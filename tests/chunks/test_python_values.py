"""Python values: what is taken reads back equal, what would be cut is refused by column and row."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crdtcat.chunks.python_values import python_array
from crdtcat.errors import SchemaMismatch
from crdtcat.testing.strategies import arrow_types
from tests.bounds import bounded

MIDNIGHT = dt.datetime.combine(dt.date(2024, 5, 1), dt.time())
NOON = MIDNIGHT.replace(hour=12, microsecond=5)
PARIS = dt.timezone(dt.timedelta(hours=2))

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 300),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from([0.5, 2.0, 1e300, 2.0**53, -0.0]),
    st.decimals(places=2, min_value=-1000, max_value=1000),
    st.text(max_size=3),
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([dt.UTC, PARIS])),
    st.datetimes().map(lambda moment: moment.replace(hour=0, minute=0, second=0, microsecond=0)),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.integers(-(2**31), 2**31 - 1).map(np.int32),
    st.floats(width=32).map(np.float32),
    st.integers(0, 2**62).map(pd.Timestamp),
    st.integers(0, 2**62).map(pd.Timedelta),
    st.integers(0, 2**62).map(lambda count: np.datetime64(count, "ns")),
    st.integers(0, 2**40).map(lambda count: np.timedelta64(count, "ms")),
    st.sampled_from([pd.NaT, pd.NA, np.bool_(True), Decimal("NaN"), Decimal("1E+5")]),
)
VALUES = st.recursive(
    LEAVES,
    lambda item: st.one_of(
        st.lists(item, max_size=3),
        st.dictionaries(st.sampled_from("abcde"), item, max_size=3),
        st.lists(st.tuples(st.sampled_from("abcde"), item), max_size=2),
    ),
    max_leaves=6,
)


def alike(t: pa.DataType) -> st.SearchStrategy[Any]:
    """Values that have a chance to fit a type."""
    if isinstance(t, pa.BaseExtensionType):
        return alike(t.storage_type) | LEAVES
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return alike(t.value_type)
    if pa.types.is_struct(t):
        names = {field.name: alike(field.type) for field in t}
        return st.fixed_dictionaries({}, optional={**names, "extra": st.none() | st.integers()})
    if pa.types.is_map(t):
        pairs = st.lists(st.tuples(alike(t.key_type), alike(t.item_type)), max_size=3)
        return pairs | st.dictionaries(alike(t.key_type).filter(_hashable), alike(t.item_type), max_size=2)
    if t.num_fields:
        size = getattr(t, "list_size", None)
        return st.lists(alike(t.value_type), min_size=size or 0, max_size=3 if size is None else size)
    return LEAVES


def _hashable(value: Any) -> bool:
    return getattr(value, "__hash__", None) is not None and not isinstance(value, Decimal)


def null(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT


def same(given: Any, back: Any, t: pa.DataType) -> bool:
    """A slow model of "reading back gives an equal value", from Python's own notion of equal."""
    if isinstance(t, pa.BaseExtensionType):
        return same(given, back, t.storage_type)
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return same(given, back, t.value_type)
    if null(given) or null(back):
        return null(given) and null(back)
    if pa.types.is_struct(t):
        assert isinstance(given, Mapping)
        return all(
            null(value) if name not in back else same(value, back[name], t.field(name).type)
            for name, value in given.items()
        ) and all(null(value) for name, value in back.items() if name not in given)
    if pa.types.is_map(t):
        pairs = list(given.items() if isinstance(given, Mapping) else given)
        return len(pairs) == len(back) and all(
            same(a[0], b[0], t.key_type) and same(a[1], b[1], t.item_type)
            for a, b in zip(pairs, back, strict=True)
        )
    if t.num_fields:
        return (
            not isinstance(given, Mapping | str | bytes)
            and len(given) == len(back)
            and all(same(a, b, t.value_type) for a, b in zip(given, back, strict=True))
        )
    return same_leaf(given, back, t)


def same_leaf(given: Any, back: Any, t: pa.DataType) -> bool:
    if isinstance(given, np.datetime64):
        given = pd.Timestamp(given)
    if isinstance(given, np.timedelta64):
        given = pd.Timedelta(given)
    if isinstance(given, uuid.UUID):
        return back in (given, given.bytes)
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(given, bool) or isinstance(back, bool):
        return given is back
    if isinstance(given, dt.date) and isinstance(back, dt.date):
        return midnight(given) == midnight(back)
    if isinstance(given, int | float | Decimal) and isinstance(back, int | float | Decimal):
        if math.isnan(given):
            return math.isnan(back)
        if isinstance(given, float) and t.bit_width < 64 and pa.types.is_floating(t):
            return math.isinf(given) == math.isinf(back) and np.dtype(t.to_pandas_dtype()).type(given) == back
        return bool(float(back) == given if isinstance(given, float) else back == given)
    return bool(given == back)


def midnight(value: dt.date) -> dt.datetime:
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


@st.composite
def columns(draw: Any) -> tuple[pa.DataType, list[Any]]:
    t = draw(arrow_types(depth=2))
    item = draw(st.sampled_from([alike(t), alike(t), VALUES]))
    return t, draw(st.lists(item, min_size=1, max_size=4))


@settings(max_examples=bounded(600, 6), deadline=None, suppress_health_check=list(HealthCheck))
@given(columns())
@example((pa.int64(), [1.5]))
@example((pa.decimal64(1, 1), [np.float32(5.9577695e-13)]))
@example((pa.decimal32(1, 1), [Decimal("1E-13"), Decimal("0.50000"), 0, Decimal("1E-13")]))
@example((pa.int64(), [np.timedelta64(5, "s")]))
@example((pa.timestamp("us"), [pd.Timestamp(1)]))
@example((pa.timestamp("us", "UTC"), [NOON]))
@example((pa.time32("s"), [NOON.time()]))
@example((pa.list_(pa.float32()), [[1e300]]))
def test_values_read_back_equal_or_are_refused(column: tuple[pa.DataType, list[Any]]) -> None:
    t, values = column
    try:
        array = python_array(values, t, "a")
    except SchemaMismatch as error:
        told = str(error)
        array = None
    if array is None:
        assert "column 'a'" in told
        assert "row" in told
        return
    assert array.type == t
    array.validate(full=True)
    back = _decoded(array)
    assert len(back) == len(values)
    assert all(same(a, b, t) for a, b in zip(values, back, strict=True))


def _decoded(array: pa.Array) -> list[Any]:
    try:
        found: list[Any] = array.to_pylist(maps_as_pydicts=None)
    except (ValueError, OverflowError):  # a duration that Python's timedelta cannot hold was never given
        pytest.fail(f"unreadable {array.type}")
    return found


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(LEAVES.filter(lambda value: not isinstance(value, np.generic)), min_size=1, max_size=3))
@example([NOON, NOON.replace(tzinfo=PARIS)])
@example([NOON.replace(tzinfo=PARIS), NOON])
@example([NOON.date(), NOON])
@example(["a", b"a"])
@example([pd.Timestamp(1)])
@example([pd.Timedelta(1), pd.NaT])
@example([dt.time(1, tzinfo=dt.UTC)])
def test_values_of_no_declared_type_too(values: list[Any]) -> None:
    try:
        array = python_array(values, None, "a")
    except SchemaMismatch:
        return
    assert all(same(a, b, array.type) for a, b in zip(values, _decoded(array), strict=True))


TAKEN: list[tuple[pa.DataType, Any, Any]] = [
    (pa.int8(), 2.0, 2),
    (pa.int64(), Decimal("7.00"), 7),
    (pa.int64(), np.int8(3), 3),
    (pa.float64(), 3, 3.0),
    (pa.float64(), float("inf"), float("inf")),
    (pa.float32(), 0.1, float(np.float32(0.1))),
    (pa.float32(), Decimal("0.5"), 0.5),
    (pa.decimal128(9, 2), 3, Decimal("3.00")),
    (pa.decimal128(9, 2), 1.25, Decimal("1.25")),
    (pa.timestamp("s"), dt.date(2024, 5, 1), MIDNIGHT),
    (pa.date32(), MIDNIGHT, dt.date(2024, 5, 1)),
    (pa.timestamp("ms"), np.datetime64("2024-05"), MIDNIGHT),
    (pa.timestamp("ns"), pd.Timestamp(17), pd.Timestamp(17)),
    (pa.timestamp("us", "Europe/Paris"), NOON.replace(tzinfo=dt.UTC), NOON.replace(tzinfo=dt.UTC)),
    (pa.duration("s"), dt.timedelta(days=-1), dt.timedelta(days=-1)),
    (pa.duration("ns"), pd.Timedelta(-1), pd.Timedelta(-1)),
    (pa.binary(), bytearray(b"x"), b"x"),
    (pa.uuid(), uuid.UUID(int=5), uuid.UUID(int=5)),
    (pa.list_(pa.int64()), np.array([1, 2]), [1, 2]),
    (pa.list_(pa.int64()), (), []),
    (pa.list_(pa.date32(), 1), np.array(["2024-05-01"], "datetime64[D]"), [dt.date(2024, 5, 1)]),
    (pa.struct([("x", pa.int8()), ("y", pa.int8())]), {"x": 1, "z": None}, {"x": 1, "y": None}),
    (pa.map_(pa.string(), pa.int64()), {"a": 1.0}, [("a", 1)]),
    (pa.map_(pa.string(), pa.int64()), [("a", 1), ["a", 2]], [("a", 1), ("a", 2)]),
    (pa.dictionary(pa.int8(), pa.string()), "x", "x"),
    (pa.run_end_encoded(pa.int32(), pa.int64()), 4.0, 4),
    (pa.month_day_nano_interval(), (1, 2, 3), pa.MonthDayNano([1, 2, 3])),
    (pa.int64(), pa.scalar(5), 5),
]


@pytest.mark.parametrize(("t", "given_value", "back"), TAKEN, ids=lambda case: str(case)[:30])
def test_what_is_taken(t: pa.DataType, given_value: Any, back: Any) -> None:
    assert python_array([None, given_value], t, "a").to_pylist() == [None, back]


REFUSED: list[tuple[pa.DataType, Any, str]] = [
    (pa.int64(), 1.5, "int64 cannot be widened to double without loss"),
    (pa.int64(), Decimal("1.5"), "whole"),
    (pa.int64(), True, "bool"),
    (pa.int64(), float("nan"), "NaN"),
    (pa.int8(), 300, "widen the column to int64"),
    (pa.list_(pa.int64()), [1, 1.5], "at []"),
    (pa.float32(), 1e300, "widen the column to double"),
    (pa.float32(), 2**24 + 1, "exact"),
    (pa.float64(), 2**53 + 1, "exact"),
    (pa.date32(), NOON, "finer"),
    (pa.timestamp("s"), NOON, "widen the column to timestamp[us]"),
    (pa.timestamp("us", "UTC"), NOON, "add a timezone"),
    (pa.timestamp("us"), NOON.replace(tzinfo=dt.UTC), "take the timezone off"),
    (pa.timestamp("us"), 5, "int"),
    (pa.timestamp("us"), pd.Timestamp(1), "finer"),
    (pa.time32("s"), NOON.time(), "finer"),
    (pa.time64("us"), dt.time(1, tzinfo=dt.UTC), "timezone"),
    (pa.duration("s"), dt.timedelta(microseconds=1), "finer"),
    (pa.string(), b"x", "bytes"),
    (pa.binary(), "x", "str"),
    (pa.string(), "\ud800", "surrogates"),
    (pa.binary(2), b"x", "1"),
    (pa.struct([("x", pa.int64())]), {"x": 1, "y": 2}, "no field 'y'"),
    (pa.struct([("x", pa.int64())]), [("x", 1)], "not a dict"),
    (pa.map_(pa.string(), pa.int64()), {None: 1}, "never null"),
    (pa.list_(pa.int64(), 2), [1], "1 items, not 2"),
    (pa.list_(pa.string()), "text", "str in place of a list"),
    (pa.null(), 1, "widen_column"),
]


@pytest.mark.parametrize(("t", "value", "told"), REFUSED, ids=lambda case: str(case)[:30])
def test_what_is_refused(t: pa.DataType, value: Any, told: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        python_array([None, None, value], t, "a")
    assert f"column 'a' holds {t}, and row 2 has" in str(caught.value)
    assert told in str(caught.value)
    assert "truncated" not in str(caught.value)


def test_a_first_value_that_fits_nothing_is_not_held_against_rows_before_it() -> None:
    for values in ([2**70], [None, object()], [1, 2**70]):
        with pytest.raises(SchemaMismatch, match="no value that Arrow has a type for") as told:
            python_array(values, None, "c")
        assert f"row {len(values) - 1}" in str(told.value)
    with pytest.raises(SchemaMismatch, match="the rows before"):
        python_array(["a", 1], None, "c")

"""`in` with long lists: converted, sorted and looked up as one array, with the same answers as one by one."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.scan.filters import compare, parse_filter
from crdtcat.scan.filters.members import Members
from tests.bounds import bounded
from tests.catalog.lakes import lake

MANY = 20_000
MOMENT = datetime(2020, 1, 1, tzinfo=UTC).replace(tzinfo=None)
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "integers": (pa.int64(), list(range(MANY))),
    "integers in an array of numpy": (pa.int16(), np.arange(MANY)),
    "texts": (pa.string(), [f"k{number}" for number in range(MANY)]),
    "bytes": (pa.binary(), [b"%d" % number for number in range(MANY)]),
    "bytes of one length": (pa.binary(4), [number.to_bytes(4, "big") for number in range(MANY)]),
    "floats": (pa.float64(), [number / 3 for number in range(MANY)]),
    "moments": (pa.timestamp("us"), pa.array(range(MANY), pa.timestamp("us"))),
    "dates in chunks": (pa.date32(), pa.chunked_array([pa.array(range(MANY), pa.int32()).cast(pa.date32())])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_is_looked_at_by_itself(kind: str) -> None:
    type, values = KINDS[kind]
    with mock.patch.object(compare, "fit", side_effect=AssertionError("one by one")):
        found = parse_filter([("a", "in", values)], pa.schema([("a", type)]))
        given = values if isinstance(values, pa.Array) else pa.array(list(values)[:50], type)
        parse_filter(pc.field("a").isin(given), pa.schema([("a", type)]))
    assert len(found.text) < 10_000
    assert found.text.endswith(f"... {MANY - 100:,} more)")
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(found.predicate) == hash(pickle.loads(pickle.dumps(found)).predicate)
    plain = values.to_pylist() if isinstance(values, pa.ChunkedArray) else list(values)
    table = pa.table({"a": pa.array([*plain[10:13], None], type)})
    assert table.filter(found.expression).num_rows == 3


FAMILIES: dict[str, tuple[list[pa.DataType], st.SearchStrategy[Any]]] = {
    "integers": ([pa.int8(), pa.int64(), pa.uint8(), pa.uint64()], st.integers(-(2**65), 2**65)),
    "small integers": ([pa.int8(), pa.int64(), pa.uint8(), pa.uint64()], st.integers(0, 9)),
    "floats": ([pa.float64(), pa.float32()], st.floats() | st.sampled_from([0.0, -0.0, 1.5])),
    "texts": ([pa.string(), pa.large_string()], st.text(max_size=3)),
    "bytes": ([pa.binary(), pa.large_binary(), pa.binary(2)], st.binary(max_size=3)),
    "moments": ([pa.timestamp("s"), pa.timestamp("us")], st.datetimes(MOMENT)),
}


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=bounded(300, 6), deadline=None)
def test_as_one_by_one(family: str, data: st.DataObject) -> None:
    types, values = FAMILIES[family]
    kind = data.draw(st.sampled_from(types))
    members = data.draw(st.lists(values | st.none(), max_size=6))
    sign = data.draw(st.sampled_from(["in", "not in"]))
    schema = pa.schema([("a", kind)])
    held = [item for item in members if _fits(item, kind)] + [None]
    table = pa.table({"a": pa.array([*held, *_some(kind)], kind)})
    found = parse_filter([("a", sign, members)], schema)
    with mock.patch.object(Members, "at_once", return_value=None):
        slowly = parse_filter([("a", sign, members)], schema)
    rows, others = (table.filter(each.expression).to_pylist() for each in (found, slowly))
    assert repr(rows) == repr(others)
    assert sorted(map(repr, _values(found.predicate))) == sorted(map(repr, _values(slowly.predicate)))


def _values(predicate: Any) -> set[str]:
    """What is in the list that a filter holds, each value once, as it is written."""
    inner = getattr(predicate, "part", predicate)
    return {str(value) for value in inner.values}


def _fits(item: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([item], kind)
    except (pa.ArrowException, OverflowError):
        return False
    return True


def _some(kind: pa.DataType) -> list[Any]:
    if pa.types.is_integer(kind):
        return [0, 1, 9]
    if pa.types.is_floating(kind):
        return [0.0, -0.0, float("nan"), 2.5]
    if pa.types.is_timestamp(kind):
        return [MOMENT]
    return ["aa"] if pa.types.is_string(kind) or pa.types.is_large_string(kind) else [b"aa"]


@pytest.mark.parametrize("values", [[5, 70_005, 10**9], np.array([5, 70_005]), pa.array([5, 70_005, None])])
def test_chunks_are_left_out(values: Any) -> None:
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]))
    for start in range(0, 100_000, 10_000):
        table.append(pa.table({"n": range(start, start + 10_000)}))
    scan = table.scan(filter=[("n", "in", values)])
    assert scan.to_table()["n"].to_pylist() == [5, 70_005]
    assert len(scan.plan.chunks) == 2


@pytest.mark.parametrize("values", [[True, 1], ["a", 1], [1, "a"], [b"a"], [[1]], [1, 2.5]])
def test_what_is_no_integer_is_told_or_looked_at_by_itself(values: Any) -> None:
    schema = pa.schema([("n", pa.int64())])
    said = []
    for at_once in (Members.at_once, lambda *_: None):
        with mock.patch.object(Members, "at_once", at_once):
            try:
                said.append(str(parse_filter([("n", "in", values)], schema)))
            except Exception as error:  # noqa: BLE001 (whatever it says, both say it)
                said.append(repr(error))
    assert said[0] == said[1]

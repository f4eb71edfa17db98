"""Canonical bytes: one encoding per value, readable by any MessagePack reader, everything else refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import VersionId
from crdtcat.errors import InvalidArgument
from crdtcat.lattice import GCounter, LWWRegister, ORSet, canonical_bytes

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_any_reader_gets_the_value_back(value: Any) -> None:
    assert msgpack.unpackb(canonical_bytes(value), strict_map_key=False) == value


@given(st.dictionaries(st.integers(0, 300) | st.text(max_size=2) | st.binary(max_size=2), st.integers(0, 9)))
def test_the_order_in_which_keys_were_added_does_not_matter(mapping: dict[Any, int]) -> None:
    assert canonical_bytes(mapping) == canonical_bytes(dict(reversed(mapping.items())))


def test_values_python_calls_equal_but_that_are_different_data_have_different_bytes() -> None:
    assert len({canonical_bytes(value) for value in (1, True, 1.0, "1", b"1")}) == 5
    assert canonical_bytes(0.0) != canonical_bytes(-0.0)
    assert canonical_bytes("a") != canonical_bytes(b"a")


def test_there_is_one_not_a_number() -> None:
    assert canonical_bytes(math.nan) == canonical_bytes(-math.nan)


def test_version_ids_and_tuples_can_be_keys() -> None:
    first, second = VersionId(1, 2, 3, bytes(16)), VersionId(2, 2, 4, bytes(16))
    assert canonical_bytes({second: 1, first: 2}) == canonical_bytes({first: 2, second: 1})


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 2**64, -(2**63) - 1, "\ud800", {1.5: 0}, {True: 0}, {None: 0}]
)
def test_what_has_no_canonical_bytes_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument):
        canonical_bytes(value)


@pytest.mark.parametrize(
    "deeper",
    [lambda inner: [inner], lambda inner: (inner,), lambda inner: {"k": inner}],
    ids=["list", "tuple", "mapping"],
)
def test_nesting_is_bounded(deeper: Callable[[Any], Any]) -> None:
    value: Any = None
    for _ in range(64):
        value = deeper(value)
    assert canonical_bytes(value)
    with pytest.raises(InvalidArgument, match="nested deeper than 64"):
        canonical_bytes(deeper(value))


def test_nesting_counts_within_keys_too() -> None:
    key: Any = 1
    for _ in range(63):
        key = (key,)
    assert canonical_bytes({key: None})
    with pytest.raises(InvalidArgument, match="nested deeper than 64"):
        canonical_bytes({(key,): None})
    for _ in range(1500):  # as deep as Python's own stack, and deeper
        key = (key,)
    with pytest.raises(InvalidArgument, match="nested deeper than 64"):
        GCounter({key: 1})


def test_lattices_refuse_what_cannot_be_encoded_before_anything_is_merged() -> None:
    with pytest.raises(InvalidArgument):
        LWWRegister(1, object())
    with pytest.raises(InvalidArgument):
        GCounter({1.5: 1})
    with pytest.raises(InvalidArgument):
        ORSet({True: "x"})
    with pytest.raises(InvalidArgument):
        ORSet({1: frozenset({1})})

"""What a property may hold: what is not refused can be read back, by everybody, for ever."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.errors import Corrupt, CrdtcatError, InvalidArgument
from tests.catalog.lakes import another, lake, objects, refused

SCHEMA = pa.schema([("n", pa.int64())])


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


ODD: list[Any] = [
    {1.5: 2},
    {True: 1},
    {None: 1},
    [{"a": {0.5: []}}],
    msgpack.Timestamp(1, 2),
    nested(64),
    nested(400),
]
"""MessagePack holds these; registers do not: their keys and values have no one form, or are too deep."""


@pytest.mark.parametrize("value", ODD)
def test_a_value_that_no_head_could_hold_is_refused_before_it_is_stored(value: Any) -> None:
    """It was stored, and nobody could read the table again."""
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    with refused(catalog, InvalidArgument, "'x'"):
        table.set_properties(x=value)
    good = {"x": nested(63), "y": {1: "a", "b": 2, b"c": [None]}}
    table.set_properties(good)
    assert another(catalog).table("t").properties == good


@pytest.mark.parametrize("value", ODD)
def test_such_a_value_of_a_faulty_writer_is_damage_by_name(value: Any) -> None:
    catalog = lake()
    session = catalog.create_table("t", SCHEMA)._session
    body = {"x": msgpack.packb({"v": {"x": value}})}
    with suppress(Corrupt):  # who has stored it looks at it
        session.commit("properties", body=body, seen=session.head())
    (file,) = (name for name in objects(catalog) if name.endswith(".v"))
    with pytest.raises(Corrupt, match=file.rpartition("/")[2].removesuffix(".v")):
        another(catalog).read("t")


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**65)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=3))
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text(max_size=2)
            | st.tuples(st.text()),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(anything)
@settings(max_examples=150, deadline=None)
def test_whatever_is_taken_can_be_read(value: Any) -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    stores: list[Callable[[], object]] = [
        lambda: table.set_properties(x=value),
        lambda: table.append([{"n": 1}], metadata={"x": value}),
    ]
    for store in stores:
        try:
            store()
        except CrdtcatError:
            assert not another(catalog).table("t").history()[1:]
    cold = another(catalog).table("t")
    assert cold.read().num_rows == len([version for version in cold.history() if version.metadata])
    assert cold.verify().ok
    table.checkpoint()
    assert another(catalog).table("t").properties.keys() <= {"x"}

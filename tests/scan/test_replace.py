"""Values put in place of others, whatever the type: as a list does it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.chunks.types import storage_type, to_storage
from crdtcat.scan.layers import Cells, Orders, Part
from crdtcat.scan.replace import replaced
from crdtcat.testing.strategies import arrow_arrays, arrow_types
from tests.bounds import bounded

WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def laid_over(base: pa.Array, parts: list[Part], *, owned: bool = False) -> pa.Array:
    """The array with all parts over it, whole and in two pieces, as entries that are read together are."""
    middle = len(base) // 2
    cells = Orders(np.array([0, middle, len(base)])).cells(parts)
    pieces = [
        replaced(base.slice(start, stop - start), None if cells is None else cells[at])
        for at, (start, stop) in enumerate(((0, middle), (middle, len(base))))
    ]
    found = replaced(base, one_entry(base, parts), owned=owned)
    assert [repr(item) for piece in pieces for item in piece.to_pylist()] == [
        repr(item) for item in found.to_pylist()
    ]
    return found


def one_entry(base: pa.Array, parts: list[Part], orders: Orders | None = None) -> Cells | None:
    cells = (orders or Orders(np.array([0, len(base)]))).cells(parts)
    return None if cells is None else cells[0]


@given(st.data())
@settings(max_examples=bounded(300, 4), deadline=None)
def test_as_a_list_does_it(data: st.DataObject) -> None:
    """Whatever the type, whichever values are used, however often; texts as dictionaries too."""
    kind = storage_type(data.draw(arrow_types()))
    base = to_storage(data.draw(arrow_arrays(kind)))
    expected, parts = base.to_pylist(), []
    before = [repr(item) for item in expected]
    for _ in range(data.draw(st.integers(0, 3))):
        values = to_storage(data.draw(arrow_arrays(kind)))
        pairs = st.tuples(st.integers(0, max(len(base) - 1, 0)), st.integers(0, max(len(values) - 1, 0)))
        drawn = (
            data.draw(st.lists(pairs, unique_by=lambda pair: pair[0])) if len(base) and len(values) else []
        )
        parts.append(Part(np.array([r for r, _ in drawn], int), values, np.array([p for _, p in drawn], int)))
        held = values.to_pylist()
        for row, place in drawn:
            expected[row] = held[place]
    forms = [base]
    if kind in (pa.string(), pa.binary()):
        forms += [base.dictionary_encode(), base.cast(WIDE[kind])]
    for form in forms:
        found = laid_over(form, parts)
        assert [repr(item) for item in form.to_pylist()] == before  # it is somebody else's
        found.validate(full=True)
        assert found.type == base.type
        assert [repr(item) for item in found.to_pylist()] == [repr(item) for item in expected]


def test_slices_and_nulls() -> None:
    base = pa.array([None, 1, 2, None, 4, 5]).slice(1)
    found = laid_over(base, [Part(np.array([0, 2]), pa.array([7, None, 8]).slice(1), np.array([0, 1]))])
    assert found.to_pylist() == [None, 2, 8, 4, 5]


def test_a_dictionary_with_nulls_some_of_which_get_values() -> None:
    base = pa.array(["a", None, "b", None, "a"]).dictionary_encode()
    new = Part(np.array([1, 4]), pa.array(["x", None, "y"]), np.array([2, 1]))
    assert laid_over(base, [new]).to_pylist() == ["a", "y", "b", None, None]
    assert laid_over(base, []).equals(pa.array(["a", None, "b", None, "a"]))


@pytest.mark.parametrize("type", [pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.timestamp("us")])
@pytest.mark.parametrize("made", [pa.nulls, lambda n, t: pa.nulls(n).cast(t)])
def test_nulls_whose_values_and_validity_are_one_memory(type: pa.DataType, made: Any) -> None:
    values = pa.array([127], pa.int8()).cast(pa.int64()).cast(type)
    found = replaced(made(20, type), Cells(np.array([0]), values), owned=True)
    assert found.to_pylist() == [values[0].as_py(), *[None] * 19]
    found.validate(full=True)


def test_memory_that_is_nobody_elses_is_used_again_and_only_then() -> None:
    memory = pa.py_buffer(bytearray(np.arange(8).tobytes()))
    base = pa.Array.from_buffers(pa.int64(), 8, [None, memory])
    new = [Part(np.array([1, 5]), pa.array([70, 80]), np.array([1, 0]))]
    assert laid_over(base, new).to_pylist() == [0, 80, 2, 3, 4, 70, 6, 7]
    assert base.to_pylist() == list(range(8))
    found = replaced(base, one_entry(base, new), owned=True)
    assert found.to_pylist() == [0, 80, 2, 3, 4, 70, 6, 7]
    assert found.buffers()[1].address == memory.address
    read_only = pa.array(np.arange(3)).slice(1)
    new = [Part(np.array([0]), pa.array([9]), np.array([0]))]
    assert laid_over(read_only, new, owned=True).to_pylist() == [9, 2]


@given(st.data())
@settings(max_examples=bounded(300, 2), deadline=None)
def test_few_texts_of_many_as_a_list_does_it(data: st.DataObject) -> None:
    """Where runs between replaced texts are copied in one go: at both ends, side by side, empty, null, none
    ASCII, as parts of other arrays, by several parts that disagree."""
    texts = st.lists(st.none() | st.text(max_size=4))
    held = data.draw(st.lists(st.none() | st.text(max_size=4), min_size=8, max_size=40))
    kind = data.draw(st.sampled_from([pa.string(), pa.binary()]))
    before, behind = data.draw(texts), data.draw(texts)

    def array(values: list[str | None]) -> pa.Array:
        whole = [None if text is None else text.encode() for text in [*before, *values, *behind]]
        return pa.array(whole, pa.binary()).cast(kind).slice(len(before), len(values))

    base, parts, left = array(held), [], len(held) // 4
    expected = base.to_pylist()
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(st.lists(st.integers(0, len(held) - 1), unique=True, max_size=left))
        left -= len(rows)
        values = array(data.draw(st.lists(st.none() | st.text(max_size=4), min_size=1)))
        place = data.draw(
            st.lists(st.integers(0, len(values) - 1), min_size=len(rows), max_size=len(rows))
            if rows
            else st.just([])
        )
        parts.append(Part(np.array(rows, int), values, np.array(place, int)))
        for row, at in zip(rows, place, strict=True):
            expected[row] = values[at].as_py()
    for form in (base, base.cast(WIDE[kind])):
        found = laid_over(form, parts)
        found.validate(full=True)
        assert found.to_pylist() == expected
        assert found.type == kind


@given(st.data())
@settings(max_examples=bounded(200, 2), deadline=None)
def test_columns_with_the_same_rows_share_an_order_and_nothing_else(data: st.DataObject) -> None:
    """Two columns of the same parts, a third that lacks some of their rows: each gets what it gets alone."""
    rows = st.lists(st.integers(0, 19), min_size=1, unique=True)
    drawn = [np.array(data.draw(rows)) for _ in range(data.draw(st.integers(1, 3)))]
    places = [np.array(data.draw(st.permutations(range(len(at))))) for at in drawn]
    columns = [
        [Part(at, pa.array(range(base + 100 * i, base + 100 * i + 20)), to) for i, (at, to) in pairs]
        for base in (0, 1000)
        for pairs in [list(enumerate(zip(drawn, places, strict=True)))]
    ]
    columns.append([Part(part.rows[1:], part.values, part.place[1:]) for part in columns[0]])
    shared, base = Orders(np.array([0, 20])), pa.array(range(-20, 0))
    for parts in columns:
        expected = base.to_pylist()
        for part in parts:
            for row, place in zip(part.rows.tolist(), part.place.tolist(), strict=True):
                expected[row] = part.values[place].as_py()
        assert replaced(base, one_entry(base, parts, shared)).to_pylist() == expected

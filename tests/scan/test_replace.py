"""Values put in place of others, whatever the type: as a list does it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.chunks.types import storage_type, to_storage
from crdtcat.scan.replace import Part, replaced
from crdtcat.testing.strategies import arrow_arrays, arrow_types
from tests.bounds import bounded


@given(st.data())
@settings(max_examples=bounded(300, 2), deadline=None)
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
        forms.append(base.dictionary_encode())
    for form in forms:
        found = replaced(form, parts)
        assert [repr(item) for item in form.to_pylist()] == before  # it is somebody else's
        found.validate(full=True)
        assert found.type == base.type
        assert [repr(item) for item in found.to_pylist()] == [repr(item) for item in expected]


def test_slices_and_nulls() -> None:
    base = pa.array([None, 1, 2, None, 4, 5]).slice(1)
    found = replaced(base, [Part(np.array([0, 2]), pa.array([7, None, 8]).slice(1), np.array([0, 1]))])
    assert found.to_pylist() == [None, 2, 8, 4, 5]


def test_a_dictionary_with_nulls_some_of_which_get_values() -> None:
    base = pa.array(["a", None, "b", None, "a"]).dictionary_encode()
    new = Part(np.array([1, 4]), pa.array(["x", None, "y"]), np.array([2, 1]))
    assert replaced(base, [new]).to_pylist() == ["a", "y", "b", None, None]
    assert replaced(base, []).equals(pa.array(["a", None, "b", None, "a"]))


def test_memory_that_is_nobody_elses_is_used_again_and_only_then() -> None:
    memory = pa.py_buffer(bytearray(np.arange(8).tobytes()))
    base = pa.Array.from_buffers(pa.int64(), 8, [None, memory])
    new = [Part(np.array([1, 5]), pa.array([70, 80]), np.array([1, 0]))]
    assert replaced(base, new).to_pylist() == [0, 80, 2, 3, 4, 70, 6, 7]
    assert base.to_pylist() == list(range(8))
    found = replaced(base, new, owned=True)
    assert found.to_pylist() == [0, 80, 2, 3, 4, 70, 6, 7]
    assert found.buffers()[1].address == memory.address
    read_only = pa.array(np.arange(3)).slice(1)
    assert replaced(
        read_only, [Part(np.array([0]), pa.array([9]), np.array([0]))], owned=True
    ).to_pylist() == [9, 2]


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
    found = replaced(base, parts)
    found.validate(full=True)
    assert found.to_pylist() == expected
    assert found.type == kind

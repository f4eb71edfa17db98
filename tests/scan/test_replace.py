"""Values put in place of others, whatever the type: as a list does it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.chunks.types import storage_type, to_storage
from crdtcat.scan.replace import replaced
from crdtcat.testing.strategies import arrow_arrays, arrow_types


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_as_a_list_does_it(data: st.DataObject) -> None:
    kind = storage_type(data.draw(arrow_types()))
    base, values = (to_storage(data.draw(arrow_arrays(kind))) for _ in range(2))
    count = min(len(base), len(values))
    rows = np.sort(np.array(data.draw(st.permutations(range(len(base)))), np.int64)[:count])
    values = values.slice(len(values) - count)
    expected = base.to_pylist()
    for row, value in zip(rows.tolist(), values.to_pylist(), strict=True):
        expected[row] = value
    found = replaced(base, rows, values)
    found.validate(full=True)
    assert found.type == base.type
    assert [repr(item) for item in found.to_pylist()] == [repr(item) for item in expected]


def test_slices_and_nulls() -> None:
    base = pa.array([None, 1, 2, None, 4, 5]).slice(1)
    found = replaced(base, np.array([0, 2]), pa.array([7, None, 8]).slice(1))
    assert found.to_pylist() == [None, 2, 8, 4, 5]

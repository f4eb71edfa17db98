"""Cells that differ: the same answer as hashes give, for all types and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat.chunks.row_hash import column_hashes
from crdtcat.chunks.storage_types import storage_type
from crdtcat.difference.cells import differing
from crdtcat.difference.script import EditScript
from crdtcat.testing.strategies import arrow_arrays, arrow_types
from crdtcat.verbs.write import OVERLAYS_MAX, change_sets
from tests.bounds import bounded


@settings(max_examples=bounded(100, 2), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_values_are_compared_as_their_hashes_are(data: Any) -> None:
    type = data.draw(arrow_types(depth=1).map(storage_type))
    old = data.draw(arrow_arrays(type, min_size=1))
    new = data.draw(arrow_arrays(type, min_size=len(old), max_size=len(old)))
    # Cells of the old side here and there, so that some are equal.
    kept = data.draw(st.lists(st.booleans(), min_size=len(old), max_size=len(old)))
    at = data.draw(st.integers(0, len(old)))
    chunks = [new.slice(i, 1) if own else old.slice(i, 1) for i, own in enumerate(kept)]
    left = pa.chunked_array([old.slice(0, at), old.slice(at)], type)
    right = pa.chunked_array(chunks, type)
    found = differing(left, right, "c").tolist()
    assert found == (column_hashes(left, "c") != column_hashes(right, "c")).tolist()


def test_floats_are_compared_by_their_bits() -> None:
    nan, other = np.array([0x7FF8_0000_0000_0000, 0x7FF8_0000_0000_0001], np.uint64).view(np.float64)
    old, new = [nan, nan, 0.0, 0.0, None, None, 1.0], [nan, other, -0.0, 0.0, None, 1.0, None]
    found = differing(pa.chunked_array([pa.array(old)]), pa.chunked_array([pa.array(new)]), "c")
    assert found.tolist() == [False, True, True, False, False, True, True]


@given(st.integers(1, 70), st.integers(1, 40), st.integers(1, 300), st.randoms(use_true_random=False))
def test_sets_of_columns_hold_every_changed_cell_once(
    columns: int, kinds: int, rows: int, random: Any
) -> None:
    chance = np.random.default_rng(random.getrandbits(32))
    flags = (chance.random((kinds, columns)) < 0.4)[chance.integers(0, kinds, rows)]
    flags[~flags.any(axis=1), 0] = True
    changed = {str(at): flags[:, at] for at in range(columns) if flags[:, at].any()}
    nothing = np.zeros((0, 3), np.int64)
    script = EditScript(rows, rows, nothing, np.arange(rows), np.arange(rows), changed, np.arange(0), nothing)
    sets = list(change_sets(script))
    found = np.zeros((rows, columns), np.int64)
    for names, which in sets:
        assert len(which)
        for name in names:
            found[which, int(name)] += 1
    assert (found == flags).all()
    if len(np.unique(flags, axis=0)) <= OVERLAYS_MAX:
        assert len(sets) == len(np.unique(flags, axis=0))
    else:
        assert all(len(names) == 1 for names, _ in sets)

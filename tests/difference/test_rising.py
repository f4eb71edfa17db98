"""Rows matched by a column that rises: the same as rows aligned by their hashes, and as little travels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.difference import find
from tests.difference.test_difference import compare


def numbered(numbers: list[int], salt: int) -> pa.Table:
    """Rows of which everything but the salt follows from a number that rises."""
    values = np.array(numbers, np.int64)
    return pa.table(
        {
            "kind": pa.array([("red", "green", None)[number % 3] for number in numbers], pa.string()),
            "id": pa.array(values, pa.timestamp("us")),
            "value": values * 0.5,
            "salt": np.where(values % 7 == salt, salt, 0),
        }
    )


@settings(deadline=None)
@given(st.sets(st.integers(0, 500)), st.sets(st.integers(0, 500)), st.integers(0, 7))
def test_as_little_travels_as_by_hashes(before: set[int], after: set[int], salt: int) -> None:
    old, new = numbered(sorted(before), 0), numbered(sorted(after), salt)
    found = compare(old, new)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(find, "match_rising", lambda *_: None)
        expected = compare(old, new)
    assert found.kept_rows >= expected.kept_rows
    assert found.inserted_rows <= expected.inserted_rows


def test_rows_that_went_all_over_a_table_are_named_and_nothing_is_sent() -> None:
    chance = np.random.default_rng(0)
    old = numbered(list(range(5_000)), 0)
    kept = np.flatnonzero(chance.random(5_000) >= 0.03)
    script = compare(old, old.take(pa.array(kept)))
    assert len(script.deleted) == 5_000 - len(kept)
    assert not len(script.updated_old)
    assert not script.inserted_rows


def test_numbers_given_anew_match_nothing() -> None:
    chance = np.random.default_rng(0)
    rows = {name: chance.random(2_000) for name in ("a", "b", "c")}
    old = pa.table({"number": np.arange(2_000), **rows})
    new = pa.table({"number": np.arange(1_999), **{name: values[1:] for name, values in rows.items()}})
    script = compare(old, new)
    assert set(script.changed) == {"number"}  # not three columns of a row that has another's number
    assert len(script.deleted) == 1


def test_a_column_alone() -> None:
    script = compare(pa.table({"id": np.arange(1_000)}), pa.table({"id": np.arange(0, 1_000, 3)}))
    assert (script.kept_rows, len(script.deleted)) == (334, 666)

"""Row hashes against a slow model over scalars: equal hash exactly where the rows are equal."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat.chunks import row_hash, value_hash
from crdtcat.chunks.row_hash import column_hashes, finish, null_hash, row_hashes
from crdtcat.errors import UnsupportedType
from crdtcat.testing.strategies import arrow_arrays, arrow_tables
from tests.bounds import bounded
from tests.chunks.test_hashing import plain, unrolled

NO_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def model(array: pa.Array) -> list[Any]:
    return [
        plain(scalar) for scalar in (unrolled(array) if pa.types.is_run_end_encoded(array.type) else array)
    ]


@settings(NO_DEADLINE, max_examples=bounded(100, 2))
@given(arrow_arrays(max_size=12), st.integers(0, 1))
def test_hashes_are_equal_exactly_where_values_are(array: pa.Array, lane: int) -> None:
    hashes = column_hashes(array, "a", lane=lane).tolist()
    values = model(array)
    for left in range(len(array)):
        for right in range(left):
            assert (hashes[left] == hashes[right]) == (values[left] == values[right])
    assert [hash == null_hash("a", lane=lane) for hash in hashes] == [value is None for value in values]


@settings(NO_DEADLINE, max_examples=bounded(100, 2))
@given(st.data())
def test_slices_and_chunks_do_not_count(data: st.DataObject) -> None:
    array = data.draw(arrow_arrays(max_size=40))
    whole = column_hashes(array, "a")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(array)), max_size=4)))
    parts = [array.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(array)], strict=True)]
    assert (column_hashes(pa.chunked_array(parts, array.type), "a") == whole).all()


@settings(NO_DEADLINE, max_examples=bounded(100, 2))
@given(arrow_tables())
def test_a_row_is_the_sum_of_its_cells(table: pa.Table) -> None:
    total = np.zeros(table.num_rows, np.uint64)
    for name in table.column_names:
        total += column_hashes(table.column(name), name)
    assert (row_hashes(table) == finish(total)).all()
    assert (row_hashes(table.select(table.column_names[::-1])) == row_hashes(table)).all()


@pytest.mark.parametrize("t", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
@pytest.mark.parametrize("lane", [0, 1])
def test_every_length_and_every_byte_of_a_text_counts(t: pa.DataType, lane: int) -> None:
    texts = ["x" * length for length in range(80)]
    texts += [f"{'x' * at}y{'x' * (59 - at)}" for at in range(60)]
    array = pa.array(texts).cast(t)
    hashes = column_hashes(array, "a", lane=lane)
    assert len(np.unique(hashes)) == len(texts)
    alone = [column_hashes(pa.array([text]).cast(t), "a", lane=lane)[0] for text in texts]
    assert alone == hashes.tolist()
    assert (column_hashes(array.slice(7), "a", lane=lane) == hashes[7:]).all()


def test_texts_of_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_hash, "_FLAT_WORDS_MAX", 16)
    chance = np.random.default_rng(1)
    texts = [chance.bytes(int(size)) for size in chance.integers(0, 400, 300)]
    hashes = column_hashes(pa.array(texts), "a")
    assert len(np.unique(hashes)) == len(set(texts))
    assert [column_hashes(pa.array([text]), "a")[0] for text in texts] == hashes.tolist()


def test_blocks_join_seamlessly(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 1000
    chance = np.random.default_rng(1)
    values = pa.array(chance.integers(0, 99, rows), mask=chance.random(rows) < 0.3)
    lists = pa.ListArray.from_arrays(
        pa.array(np.r_[0, np.sort(chance.integers(0, 1000, rows - 1)), 1000]), values
    )
    table = pa.table({"n": values, "s": values.cast(pa.string()), "b": pc.greater(values, 50), "l": lists})
    whole = row_hashes(table)
    monkeypatch.setattr(row_hash, "_BLOCK_ROWS", 7)
    assert (row_hashes(table) == whole).all()


def bits(text: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(text))[0])


def test_floats_count_by_their_bits_as_in_chunk_hashes() -> None:
    nans = pa.array(np.array([bits("7ff8000000000000"), bits("7ff8000000000001")]))
    hashes = [*column_hashes(pa.array([0.0, -0.0, None]), "a"), *column_hashes(nans, "a")]
    assert len(set(hashes)) == 5


def test_cells_that_change_places_make_another_row() -> None:
    table = pa.table({"a": [1, 2, None, 0], "b": [2, 1, 0, None]})
    assert len(np.unique(row_hashes(table))) == 4
    assert row_hashes(table, ["a"])[0] == finish(column_hashes(table["a"], "a"))[0]


def test_lanes_are_independent() -> None:
    table = pa.table({"s": ["a", "b" * 40], "l": [[1, 2], []], "n": [1, None]})
    for name in table.column_names:
        one, other = (column_hashes(table[name], name, lane=lane) for lane in (0, 1))
        assert not (one == other).any()
        assert one[0] ^ one[1] != other[0] ^ other[1]


GRID = np.stack(np.meshgrid(np.arange(400), np.arange(400)), axis=-1).reshape(-1, 2)
STRUCTURED: dict[str, Callable[[], pa.Table]] = {
    "integers": lambda: pa.table({"a": GRID[:, 0], "b": GRID[:, 1]}),
    "round floats": lambda: pa.table({"a": GRID[:, 0] * 1.0, "b": GRID[:, 1] * 1024.0}),
    "high bits": lambda: pa.table({"a": GRID[:, 0] << 32, "b": GRID[:, 1] << 50}),
    "short texts": lambda: pa.table({"a": [f"item {a}{b}" for a, b in (GRID + 1000).tolist()]}),
    "long texts": lambda: pa.table({"a": [f"{'x' * 40} {a:08d} {b:09d}" for a, b in GRID.tolist()]}),
    "lists": lambda: pa.table({"a": GRID.tolist()}),
    "decimals": lambda: pa.table({"a": pa.array(GRID[:, 0] * 1000 + GRID[:, 1]).cast(pa.decimal128(30, 5))}),
}


@pytest.mark.parametrize("kind", STRUCTURED)
@pytest.mark.parametrize("lane", [0, 1])
def test_structured_rows_collide_no_more_than_chance(kind: str, lane: int) -> None:
    """160,000 rows that differ in a few bits: none collide; 32-bit parts about as often as random ones."""
    hashes = row_hashes(STRUCTURED[kind](), lane=lane)
    assert len(np.unique(hashes)) == len(GRID)
    expected = len(GRID) ** 2 / 2 / 2**32  # 3
    for shift in (0, 16, 32):
        part = (hashes >> np.uint64(shift)).astype(np.uint32)
        assert len(GRID) - len(np.unique(part)) < 6 * expected


@settings(NO_DEADLINE, max_examples=bounded(100, 2))
@given(arrow_tables())
def test_cheap_hashes_of_equal_rows_are_equal(table: pa.Table) -> None:
    cheap, full = row_hashes(table, cheap=True), row_hashes(table)
    for row in range(table.num_rows):
        assert (cheap[full == full[row]] == cheap[row]).all()


def test_cheap_hashes_see_length_first_and_last_bytes() -> None:
    texts = ["", "a", "b", "aa", "x" * 30, "x" * 31, "y" + "x" * 29, "x" * 29 + "y"]
    assert len(np.unique(row_hashes(pa.table({"a": texts}), cheap=True))) == len(texts)


def test_what_has_no_canonical_form_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(UnsupportedType, match="union"):
        column_hashes(union, "a")

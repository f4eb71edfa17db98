"""Texts of few values as numbers: what Arrow's own dictionaries hold, whatever the texts are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.chunks import few_texts, stretch
from crdtcat.chunks.few_texts import BYTES_MAX, VALUES_MAX, numbered
from crdtcat.chunks.segment import encode_segment

# Texts that differ in length alone, in zeros at their ends, and in one byte on either side of a word.
TEXTS = st.one_of(
    st.binary(max_size=BYTES_MAX),
    st.text("a\0", max_size=7).map(str.encode),
    st.text("ab", min_size=6, max_size=10).map(str.encode),
)


def rows_of(values: list[bytes], picks: list[int], ends: list[int], kind: pa.DataType) -> pa.ChunkedArray:
    """Rows with these values, in chunks that begin anywhere in an array."""
    texts = pa.array([b"before", *(values[pick % len(values)] for pick in picks)], pa.binary()).view(kind)
    at = sorted({0, *(end % (len(picks) + 1) for end in ends), len(picks)})
    chunks = [texts.slice(1 + low, high - low) for low, high in pairwise(at)]
    return pa.chunked_array(chunks, kind)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(TEXTS, min_size=1, max_size=12),
    st.lists(st.integers(0, 11), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=3),
    st.sampled_from([pa.string(), pa.binary()]),
    st.sampled_from([1, 7, 1 << 14]),
)
def test_they_are_the_values_there_are(
    values: list[bytes], picks: list[int], ends: list[int], kind: pa.DataType, block: int
) -> None:
    rows = rows_of(values, picks, ends, kind)
    with mock.patch.object(few_texts, "_BLOCK_ROWS", block):
        found = numbered(rows)
    assert found is not None
    as_bytes = pa.chunked_array([chunk.view(pa.binary()) for chunk in rows.chunks])
    gathered = found.dictionary.view(pa.binary()).take(found.indices)
    assert gathered.to_pylist() == as_bytes.to_pylist()
    assert sorted(found.dictionary.view(pa.binary()).to_pylist()) == sorted(as_bytes.unique().to_pylist())


@pytest.mark.parametrize("length", [3, 12])
@pytest.mark.parametrize("count", [VALUES_MAX, VALUES_MAX + 1])
def test_as_many_as_a_byte_can_number(count: int, length: int) -> None:
    texts = np.array([f"{number:0{length}}" for number in range(count)])
    rows = pa.chunked_array([texts[np.random.default_rng(0).permutation(np.arange(40_000) % count)]])
    found = numbered(rows)
    assert (found is not None) == (count <= VALUES_MAX)
    if found is not None:
        assert found.dictionary.take(found.indices).equals(rows.combine_chunks())


@pytest.mark.parametrize("rows", [["a", None], [], ["x" * (BYTES_MAX + 1)]])
def test_what_it_leaves_to_others(rows: list[Any]) -> None:
    assert numbered(pa.chunked_array([pa.array(rows, pa.string())])) is None


@pytest.mark.parametrize("odd", ["green", "a text that is longer than most", None])
def test_segments_are_the_same_for_every_reader(odd: str | None) -> None:
    """Whether numbers were found or not, and whether in all chunks or only in some."""
    rng = np.random.default_rng(0)
    chunks = [pa.table({"kind": np.array(["red", "green", ""])[rng.integers(0, 3, 3000)]}) for _ in range(2)]
    chunks[1] = pa.table({"kind": [*chunks[1]["kind"].to_pylist()[1:], odd]})
    quick = encode_segment(chunks)
    with mock.patch.object(stretch, "numbered", return_value=None):
        slow = encode_segment(chunks)
    files = [pq.ParquetFile(pa.BufferReader(each.data)) for each in (quick, slow)]
    assert files[0].schema_arrow == files[1].schema_arrow
    assert files[0].read().equals(files[1].read())
    for group in range(2):
        one, two = (file.metadata.row_group(group).column(0) for file in files)
        assert one.statistics == two.statistics
        assert set(one.encodings) == set(two.encodings)
    assert quick.bounds == slow.bounds
    assert quick.chunk_hashes == slow.chunk_hashes
    assert abs(quick.size - slow.size) < 64

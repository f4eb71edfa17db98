"""Canonical hashes against a slow model over scalars: equal hash exactly where type and values are equal."""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat.chunks.hashing import chunk_hash, column_hash, hash_table, value_type
from crdtcat.errors import InvalidArgument, UnsupportedType
from crdtcat.testing.strategies import arrow_arrays, arrow_tables, arrow_types
from tests.bounds import bounded

NO_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plain(scalar: pa.Scalar) -> Any:
    """A scalar as nested tuples of bytes and texts: the model of what a value is."""
    if not scalar.is_valid:
        return None
    t = scalar.type
    if isinstance(t, (pa.DictionaryType, pa.BaseExtensionType)):
        return plain(scalar.value)
    if pa.types.is_run_end_encoded(t):
        return plain(pa.scalar(scalar.as_py(), t.value_type))
    if pa.types.is_struct(t):
        return tuple((name, plain(scalar[i])) for i, name in enumerate(t.names))
    if pa.types.is_map(t):
        return tuple((plain(entry[0]), plain(entry[1])) for entry in scalar.values)
    if t.num_fields:
        return tuple(plain(item) for item in scalar.values)
    if pa.types.is_boolean(t):
        return scalar.as_py()
    data = scalar.as_py() if value_type(t) in ("string", "binary") else None
    return data if data is not None else pa.repeat(scalar, 1).buffers()[1].to_pybytes()


def model(array: pa.Array | pa.ChunkedArray) -> tuple[Any, ...]:
    if pa.types.is_run_end_encoded(array.type):
        return value_type(array.type.value_type), *(plain(scalar) for scalar in unrolled(array))
    return value_type(array.type), *(plain(scalar) for scalar in array)


def unrolled(array: pa.Array | pa.ChunkedArray) -> list[pa.Scalar]:
    """The rows of runs, one by one: pyarrow does not decode runs of every type."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return [
        chunk.values[bisect_right(chunk.run_ends.to_pylist(), row)]
        for chunk in chunks
        for row in range(chunk.offset, chunk.offset + len(chunk))
    ]


@st.composite
def pairs(draw: Any) -> tuple[pa.Array, pa.Array]:
    t = draw(arrow_types(depth=1))
    same = arrow_arrays(t, max_size=3)
    return draw(same), draw(st.one_of(same, arrow_arrays(max_size=3)))


@settings(NO_DEADLINE, max_examples=bounded(100, 2))
@given(pairs())
def test_hashes_are_equal_exactly_where_type_and_values_are(both: tuple[pa.Array, pa.Array]) -> None:
    left, right = both
    assert (column_hash(left) == column_hash(right)) == (model(left) == model(right))


@settings(NO_DEADLINE, max_examples=bounded(100, 2))
@given(st.data())
def test_slices_and_chunks_do_not_count(data: st.DataObject) -> None:
    array = data.draw(arrow_arrays(max_size=40))
    whole = column_hash(array)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(array)), max_size=4)))
    parts = [array.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(array)], strict=True)]
    assert column_hash(pa.chunked_array(parts, array.type)) == whole
    if not pa.types.is_run_end_encoded(array.type):
        try:
            moved = pa.concat_arrays([array.slice(0, min(3, len(array))), array])
        except pa.ArrowNotImplementedError:
            return
        assert column_hash(moved.slice(min(3, len(array)))) == whole


@settings(NO_DEADLINE, max_examples=bounded(100, 2))
@given(arrow_tables())
def test_a_table_hashes_as_its_batches_do(table: pa.Table) -> None:
    chunk, columns = hash_table(table)
    assert columns == [column_hash(column) for column in table.columns]
    codes = [value_type(t) for t in table.schema.types]
    assert chunk == chunk_hash(table.column_names, codes, columns, table.num_rows)


def garbage_under_null(width: int = 8) -> tuple[pa.Array, pa.Array]:
    bits = pa.py_buffer(bytes([0b101]))
    kind = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64(), 16: pa.decimal128(5, 0)}[width]
    junk = pa.py_buffer(bytes([7] + [0] * (width - 1)) * 3)
    return (
        pa.Array.from_buffers(kind, 3, [bits, junk]),
        pa.array([7, None, 7], pa.int64()).cast(kind if width < 16 else pa.decimal128(19, 0)).cast(kind),
    )


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_bytes_under_nulls_do_not_count(width: int) -> None:
    dirty, clean = garbage_under_null(width)
    assert dirty.to_pylist() == clean.to_pylist()
    assert column_hash(dirty) == column_hash(clean)


@pytest.mark.parametrize("t", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_text_under_nulls_does_not_count(t: pa.DataType) -> None:
    width = "i8" if "large" in str(t) else "i4"
    ends = pa.py_buffer(np.array([0, 1, 3, 4], width).tobytes())
    dirty = pa.Array.from_buffers(t, 3, [pa.py_buffer(b"\x05"), ends, pa.py_buffer(b"axxb")])
    assert column_hash(dirty) == column_hash(pa.array(["a", None, "b"], pa.string()).cast(t))


@pytest.mark.parametrize("kind", [np.bool_, np.int16, np.float64])
@pytest.mark.parametrize("offset", range(10))
def test_every_offset_of_a_bitmap(kind: type, offset: int) -> None:
    values: npt.NDArray[Any] = np.random.default_rng(offset).integers(0, 2, 30).astype(kind)
    array = pa.array(values, mask=values[::-1] > 0)
    for rows in range(19):
        part = array.slice(offset, rows)
        assert column_hash(part) == column_hash(pa.array(part.to_pylist(), part.type))


def test_an_all_valid_bitmap_counts_as_none() -> None:
    ones = pa.Array.from_buffers(pa.int8(), 3, [pa.py_buffer(b"\xff"), pa.py_buffer(b"abc")])
    none = pa.Array.from_buffers(pa.int8(), 3, [None, pa.py_buffer(b"abc")])
    assert column_hash(ones) == column_hash(none)


def test_layouts_of_text_hash_equally() -> None:
    text = pa.array(["a", None, "", "long enough not to be inlined", "a"])
    layouts = [text.cast(t) for t in (pa.string(), pa.large_string(), pa.string_view())]
    layouts += [text.dictionary_encode(), pc.run_end_encode(text)]
    assert len({column_hash(array) for array in layouts}) == 1
    assert column_hash(text.cast(pa.binary())) == column_hash(text.cast(pa.binary_view()))
    assert column_hash(text.cast(pa.binary())) != column_hash(text)


def test_what_looks_alike_hashes_differently() -> None:
    nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
    different = [
        pa.array(["a", "bc"]),
        pa.array(["ab", "c"]),
        pa.array(["abc", ""]),
        pa.array(["abc", None]),
        pa.array(["abc"]),
        pa.array([0.0]),
        pa.array([-0.0]),
        pa.array([0]),
        pa.array([float("nan")]),
        pa.array(np.array([nan])),
        pa.array([None], pa.int64()),
        pa.nulls(1),
        pa.nulls(2),
        pa.array([], pa.int64()),
        pa.array([], pa.int32()),
        pa.array([[1], [2]]),
        pa.array([[1, 2], []]),
        pa.array([[1, 2], None]),
        pa.array([[1, 2]]),
        pa.array([{"a": 1}]),
        pa.array([{"b": 1}]),
        pa.array([{"a": None}], pa.struct([("a", pa.int64())])),
        pa.array([None], pa.struct([("a", pa.int64())])),
        pa.array([1], pa.timestamp("us")),
        pa.array([1], pa.timestamp("us", "UTC")),
        pa.array([True, False]),
        pa.array([True, False, False]),
    ]
    assert len({column_hash(array) for array in different}) == len(different)


def test_blocks_join_seamlessly() -> None:
    rows = 3 * (1 << 16) + 5
    rng = np.random.default_rng(1)
    values = pa.array(rng.integers(0, 99, rows), mask=rng.random(rows) < 0.3)
    text = values.cast(pa.string())
    for array in (values, text, text.cast(pa.large_string())):
        pieces = [array.slice(start, 1000) for start in range(0, rows, 1000)]
        assert column_hash(pa.chunked_array(pieces)) == column_hash(array)
        tail = array.slice(7)
        assert column_hash(tail) == column_hash(pa.array(tail.to_pylist(), array.type))


def test_the_documented_bytes_are_what_is_hashed() -> None:
    """The format is written down; this writes it out by hand, so that a change cannot go unnoticed."""
    ends = struct.pack("<Q3i", 3, 2, 2, 3)
    expected = b"crdtcat column 1\0" + struct.pack("<IQ", 6, 3) + b"string" + b"\1\x05" + ends + b"abc"
    assert column_hash(pa.array(["ab", None, "c"])) == blake3(expected).digest()
    expected = b"crdtcat column 1\0" + struct.pack("<IQ", 5, 2) + b"int16" + b"\0" + struct.pack("<2h", 1, -2)
    digest = blake3(expected).digest()
    assert column_hash(pa.array([1, -2], pa.int16())) == digest
    framed = struct.pack("<QII", 2, 1, 1) + b"n" + struct.pack("<I", 5) + b"int16" + digest
    expected = b"crdtcat chunk 1\0" + framed
    assert chunk_hash(["n"], ["int16"], [digest], 2) == blake3(expected).digest()


def test_the_hash_is_the_same_for_ever() -> None:
    table = pa.table({"n": pa.array([1, None, 3]), "s": ["a", "", None], "l": [[1.5], None, []]})
    assert hash_table(table)[0].hex() == GOLDEN


GOLDEN = "c08c2e52d0f77ed066e3f77db8d0b8631b251b48a05261789b802524b379330e"


def test_names_order_and_rows_count_in_a_chunk() -> None:
    a, b = column_hash(pa.array([1])), column_hash(pa.array([2]))
    different = {
        chunk_hash(["a", "b"], ["int64", "int64"], [a, b], 1),
        chunk_hash(["b", "a"], ["int64", "int64"], [a, b], 1),
        chunk_hash(["a", "b"], ["int64", "int64"], [b, a], 1),
        chunk_hash(["a", "b"], ["int64", "int64"], [a, b], 2),
        chunk_hash(["a", "b"], ["int64", "int32"], [a, b], 1),
        chunk_hash(["ab", ""], ["int64", "int64"], [a, b], 1),
        chunk_hash(["a"], ["int64"], [a], 1),
        chunk_hash([], [], [], 1),
    }
    assert len(different) == 8


def test_bad_calls_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="do not make a chunk"):
        chunk_hash(["a"], [], [], 1)
    with pytest.raises(InvalidArgument, match="not 32"):
        chunk_hash(["a"], ["int64"], [b"short"], 1)
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(UnsupportedType, match="union"):
        column_hash(union)

"""Inlined rows: exact round trips, and `Corrupt` for every damaged byte."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat.chunks import inline
from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.inline import decode_inline, encode_inline
from crdtcat.chunks.storage_types import storage_type
from crdtcat.errors import Corrupt, InvalidArgument, UnsupportedFormat
from crdtcat.testing.strategies import arrow_tables, arrow_types

NO_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TABLE = pa.table({"a": [1, None, 3], "b": ["x", "", None], "c": [[1.5], None, []]})


@NO_DEADLINE
@given(arrow_tables(arrow_types(depth=1).map(storage_type)))
def test_every_storage_type_comes_back_exactly(table: pa.Table) -> None:
    hash = hash_table(table)[0]
    back = decode_inline(encode_inline(table), "file.v", hash)
    assert back.schema.equals(table.schema)
    assert hash_table(back)[0] == hash
    back.validate(full=True)


def test_every_flipped_byte_is_noticed() -> None:
    data = encode_inline(TABLE)
    for verify in (True, False):
        for position in range(len(data)):
            damaged = bytearray(data)
            damaged[position] ^= 0x11
            with pytest.raises(Corrupt, match=r"file\.v"):
                decode_inline(bytes(damaged), "file.v", None, verify=verify)


def test_every_truncation_is_noticed() -> None:
    data = encode_inline(TABLE)
    for length in range(len(data)):
        with pytest.raises(Corrupt):
            decode_inline(data[:length], "file.v", None)


@NO_DEADLINE
@given(st.binary(max_size=100))
def test_noise_is_noticed(noise: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_inline(noise, "file.v", None)


def sealed(number: int, length: int, packed: bytes) -> bytes:
    header = inline._HEADER.pack(number, length)
    return header + inline._check(header, packed) + packed


def test_well_sealed_nonsense_is_noticed() -> None:
    stream = b"not an Arrow stream"
    packed = inline._codec().compress(stream, asbytes=True)
    for length in (len(stream), 0, 3, 2**20):
        with pytest.raises(Corrupt, match="cannot be decoded"):
            decode_inline(sealed(1, length, packed), "file.v", None)
    with pytest.raises(Corrupt, match="cannot be decoded"):
        decode_inline(sealed(1, 10, b"not zstd"), "file.v", None)
    with pytest.raises(UnsupportedFormat, match="format 2"):
        decode_inline(sealed(2, len(stream), packed), "file.v", None)


def test_another_chunk_is_noticed() -> None:
    data = encode_inline(TABLE)
    with pytest.raises(Corrupt, match="not chunk"):
        decode_inline(data, "file.v", bytes(32))
    assert decode_inline(data, "file.v", bytes(32), verify=False).equals(TABLE)
    assert decode_inline(data, "file.v", None).equals(TABLE)


def test_columns_come_in_the_order_asked_for() -> None:
    data, hash = encode_inline(TABLE), hash_table(TABLE)[0]
    assert decode_inline(data, "file.v", hash, columns=["c", "a"]).equals(TABLE.select(["c", "a"]))
    with pytest.raises(InvalidArgument, match="no column z"):
        decode_inline(data, "file.v", hash, columns=["a", "z"])


def test_slices_carry_only_their_rows_and_no_metadata() -> None:
    long = pa.table({"a": pa.array(range(100_000))}).replace_schema_metadata({"k": "v" * 1000})
    data = encode_inline(long.slice(500, 3))
    assert len(data) < 500
    back = decode_inline(data, "file.v", None)
    assert back["a"].to_pylist() == [500, 501, 502]
    assert back.schema.metadata is None

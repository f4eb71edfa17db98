"""Segments: one row group for each chunk, values and types kept exactly, open to any Parquet reader."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat.chunks import stretch
from crdtcat.chunks.encodings import writer_options
from crdtcat.chunks.footer import decode_footer, footer_digest
from crdtcat.chunks.hashing import column_hash, hash_table
from crdtcat.chunks.segment import SegmentName, encode_segment, joined, segment_name
from crdtcat.chunks.storage_types import storage_type
from crdtcat.chunks.stretch import encode_stretch
from crdtcat.errors import InvalidArgument
from crdtcat.testing.strategies import arrow_tables, arrow_types
from tests.bounds import bounded

SLOW_TO_DRAW = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@st.composite
def same_schema_tables(draw: Any) -> list[pa.Table]:
    """One to three tables of one schema, in storage types."""
    first = draw(arrow_tables(arrow_types(depth=1).map(storage_type), min_rows=1, max_rows=6, max_columns=3))
    more = arrow_tables(schema=first.schema, min_rows=1, max_rows=4)
    return [first, *draw(st.lists(more, max_size=2))]


def sample(rows: int = 5000) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "id": np.arange(rows),
            "random": rng.integers(-(2**62), 2**62, rows),
            "few": rng.integers(0, 2**62, 5)[rng.integers(0, 5, rows)],
            "precise": rng.normal(size=rows),
            "rounded": pa.array(np.round(rng.gamma(2, 50, rows), 1), mask=rng.random(rows) < 0.1),
            "category": np.array(["red", "green", "blue"])[rng.integers(0, 3, rows)],
            "text": [f"session {i:x}" for i in rng.integers(0, 2**40, rows)],
            "flag": rng.random(rows) < 0.5,
            "list": pa.array([[i, i + 1] for i in range(rows)]),
        }
    )


@SLOW_TO_DRAW
@given(same_schema_tables())
def test_every_storage_type_comes_back_exactly(chunks: list[pa.Table]) -> None:
    segment = encode_segment(chunks)
    file = pq.ParquetFile(pa.BufferReader(segment.data), page_checksum_verification=True)
    assert file.num_row_groups == len(chunks)
    for i, chunk in enumerate(chunks):
        table = file.reader.read_row_group(i)
        assert table.schema.names == chunk.schema.names
        assert hash_table(table)[0] == hash_table(chunk)[0] == segment.chunk_hashes[i]
    assert segment.rows == tuple(chunk.num_rows for chunk in chunks)


@SLOW_TO_DRAW
@given(same_schema_tables())
def test_the_footer_describes_every_column_of_every_chunk(chunks: list[pa.Table]) -> None:
    segment = encode_segment(chunks)
    tail = segment.data[-segment.footer_length :]
    assert segment.digest == footer_digest(segment.size, tail)
    footer = decode_footer(segment.ref("name"), tail)
    end = 4
    for group, chunk in enumerate(chunks):
        assert footer.chunk_hash(group) == segment.chunk_hashes[group]
        for place, column in zip(footer.places[group], chunk.columns, strict=True):
            assert place.start == end, "column chunks lie back to back"
            end = place.stop
            assert place.content == column_hash(column)
            assert place.encoded == blake3(segment.data[place.start : place.stop]).digest()
    assert end == segment.size - segment.footer_length, "the footer accounts for every byte"
    assert sum(segment.encoded_bytes) == end - 4


@settings(SLOW_TO_DRAW, max_examples=bounded(100, 2))
@given(same_schema_tables())
def test_encodings_name_only_paths_the_file_has(chunks: list[pa.Table]) -> None:
    table = chunks[0]
    paths = set(writer_options(table)["compression"])
    schema = pq.ParquetFile(pa.BufferReader(encode_segment([table]).data)).schema
    assert paths == {schema.column(i).path for i in range(len(schema))}


def test_encodings_follow_the_data() -> None:
    options = writer_options(sample())
    encodings = options["column_encoding"]
    assert sorted(options["use_dictionary"]) == ["category", "few"]
    assert encodings["id"] == encodings["random"] == encodings["list.list.element"] == "DELTA_BINARY_PACKED"
    assert encodings["precise"] == "BYTE_STREAM_SPLIT"
    assert encodings["rounded"] == encodings["text"] == encodings["flag"] == "PLAIN"


def test_a_segment_is_smaller_than_a_default_parquet_file() -> None:
    table = sample(20_000)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    assert encode_segment([table]).size < sink.getvalue().size


def test_pages_carry_checksums_and_columns_statistics() -> None:
    segment = encode_segment([sample(100)])
    column = pq.ParquetFile(pa.BufferReader(segment.data)).metadata.row_group(0).column(0)
    assert (column.statistics.min, column.statistics.max) == (0, 99)
    damaged = bytearray(segment.data)
    damaged[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    file = pq.ParquetFile(pa.BufferReader(damaged), page_checksum_verification=True)
    with pytest.raises(OSError, match="CRC"):
        file.read(columns=["id"])


def test_other_readers_open_a_segment(tmp_path: Path) -> None:
    chunks = [sample(1000), sample(500)]
    path = tmp_path / "segment.parquet"
    path.write_bytes(encode_segment(chunks).data)
    whole = pa.concat_tables(chunks)
    assert pq.read_table(path).cast(whole.schema).equals(whole)
    assert pl.read_parquet(path).equals(pl.DataFrame(pl.from_arrow(whole)))
    query = f"select count(*), sum(id), count(rounded), max(text) from '{path}'"
    answer = duckdb.connect().execute(query).fetchone()
    columns = whole.to_pydict()
    rounded = [value for value in columns["rounded"] if value is not None]
    assert answer == (1500, sum(columns["id"]), len(rounded), max(columns["text"]))


def test_columns_whose_paths_look_alike_are_kept_apart() -> None:
    table = pa.table({"a.b": [1, 2], "a": [{"b": "x"}, {"b": "y"}], "a.list.element": [0.5, 1.5]})
    segment = encode_segment([table])
    assert pq.ParquetFile(pa.BufferReader(segment.data)).reader.read_all().cast(table.schema).equals(table)


def test_given_hashes_are_used_and_counted() -> None:
    table = sample(10)
    assert bytes(encode_segment([table], [hash_table(table)]).data) == bytes(encode_segment([table]).data)
    for wrong in ([], [hash_table(table.select(["id"]))]):
        with pytest.raises(InvalidArgument, match="one hash for each"):
            encode_segment([table], wrong)


def test_threads_encode_as_one_does() -> None:
    tables = [sample(1000 + i) for i in range(8)]
    with ThreadPoolExecutor(2) as pool:
        digests = [segment.digest for segment in pool.map(lambda table: encode_segment([table]), tables)]
    assert digests == [encode_segment([table]).digest for table in tables]


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [pa.table({"a": pa.array([], pa.int64())})],
        [pa.table({"a": [1]}), pa.table({"b": [1]})],
        [pa.table({"a": [1]}), pa.table({"a": ["1"]})],
        [pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])],
        [pa.table({})],
    ],
)
def test_what_is_no_segment_is_refused(chunks: list[pa.Table]) -> None:
    with pytest.raises(InvalidArgument):
        encode_segment(chunks)


@SLOW_TO_DRAW
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=8, max_size=8))
def test_names_parse_back(chunk_hash: bytes, random: bytes) -> None:
    name = segment_name(chunk_hash, random)
    assert name.startswith(f"data/{chunk_hash[:1].hex()}/{chunk_hash[:16].hex()}-")
    assert SegmentName.parse(name) == (chunk_hash[:16], random)
    assert str(SegmentName.parse(name)) == name
    for wrong in (name[1:], name + "x", name.replace("/", "//"), name.upper(), "data/zz" + name[7:]):
        with pytest.raises(InvalidArgument):
            SegmentName.parse(wrong)


def test_bad_parts_make_no_name() -> None:
    with pytest.raises(InvalidArgument):
        segment_name(b"short", bytes(8))
    with pytest.raises(InvalidArgument):
        segment_name(bytes(32), bytes(7))


def test_what_encodes_larger_than_expected_is_written_all_the_same() -> None:
    noise = np.random.default_rng(0).bytes(4000)  # bounds in the page and in the footer: three times its size
    rows = pa.table({f"column {number}": [noise] for number in range(20)})
    segment = encode_segment([rows])
    assert segment.size > 2 * rows.nbytes + 20 * 1024
    assert pq.read_table(pa.BufferReader(segment.data)).cast(rows.schema).equals(rows)


def test_columns_without_nulls_need_no_levels(tmp_path: Path) -> None:
    chunks = [sample(1000).drop_columns(["rounded"]), sample(500).drop_columns(["rounded"])]
    full = ["id", "precise", "category", "text", "flag"]
    segment = joined([encode_stretch([chunk], full=full) for chunk in chunks])
    path = tmp_path / "segment.parquet"
    path.write_bytes(segment.data)
    file = pq.ParquetFile(path)
    assert [field.name for field in file.schema_arrow if not field.nullable] == full
    whole = pa.concat_tables(chunks)
    assert file.read().cast(whole.schema).equals(whole)
    assert pl.read_parquet(path).equals(pl.DataFrame(pl.from_arrow(whole)))
    assert duckdb.connect().execute(f"select count(text), sum(id) from '{path}'").fetchone() == (
        1500,
        sum(whole["id"].to_pylist()),
    )
    assert segment.chunk_hashes == tuple(hash_table(chunk)[0] for chunk in chunks)
    assert segment.size < joined([encode_stretch(chunks)]).size
    found = pq.ParquetFile(pa.BufferReader(encode_segment([sample(1000)]).data)).schema_arrow  # by itself
    leaves = [field for field in sample(1000).schema if not field.type.num_fields]
    without = [field.name for field in leaves if not sample(1000)[field.name].null_count]
    assert [field.name for field in found if not field.nullable] == without
    assert "rounded" not in without
    with pytest.raises(InvalidArgument, match="nulls in columns that have none"):
        encode_stretch([pa.table({"a": [1, None]})], full=["a"])
    with pytest.raises(InvalidArgument, match="one schema"):
        joined([encode_stretch([chunks[0]], full=full), encode_stretch([chunks[1]])])


def test_pages_of_wide_rows_are_no_larger_for_it() -> None:
    """Parquet's writer ends a page between two batches of rows: wide rows come in small ones."""
    wide = pa.table({"text": ["x" * 5000 + str(number) for number in range(4000)], "id": np.arange(4000)})
    file = pq.ParquetFile(pa.BufferReader(encode_segment([wide]).data))
    pages = file.metadata.row_group(0).column(0).total_uncompressed_size / 2**20
    assert pages > 10
    assert stretch._batch_rows(wide) == 1024
    assert stretch._batch_rows(wide.select(["id"])) == 2**14


def test_texts_are_stored_alike_whether_they_were_numbered_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["", "a", "tea", "coffee", "hot chocolate", "é"]
    texts = [words[number % 6] for number in range(9000)]
    chunks = [pa.table({"kind": texts[: 3000 * rows], "id": np.arange(3000 * rows)}) for rows in (1, 2, 3)]
    files = []
    for least in (1, 2**40):
        monkeypatch.setattr(stretch, "_NUMBERED_ROWS_MIN", least)
        files.append(pq.ParquetFile(pa.BufferReader(encode_segment(chunks).data)))
    first, second = files
    assert first.read().equals(second.read())
    assert first.read().cast(chunks[0].schema).equals(pa.concat_tables(chunks))
    for group in range(3):
        one, other = (file.metadata.row_group(group).column(0) for file in files)
        assert one.encodings == other.encodings
        assert (one.statistics.min, one.statistics.max) == (other.statistics.min, other.statistics.max)

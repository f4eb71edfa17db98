"""Segments joined from stretches: the file that one writer would have made, for every reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.chunks.footer import decode_footer
from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.parquet_footer import joined_footer
from crdtcat.chunks.segment import encode_segment, joined
from crdtcat.chunks.storage_types import storage_type
from crdtcat.chunks.stretch import encode_stretch
from crdtcat.errors import InvalidArgument
from crdtcat.testing.strategies import arrow_tables, arrow_types
from tests.bounds import bounded


@st.composite
def stretches_of_chunks(draw: Any) -> list[list[pa.Table]]:
    """One to three stretches of one to three chunks, all of one schema in storage types."""
    first = draw(arrow_tables(arrow_types(depth=1).map(storage_type), min_rows=1, max_rows=6, max_columns=3))
    more = st.lists(arrow_tables(schema=first.schema, min_rows=1, max_rows=4), min_size=1, max_size=3)
    return [[first, *draw(more)], *draw(st.lists(more, max_size=2))]


@settings(max_examples=bounded(200, 5), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(stretches_of_chunks())
def test_joined_is_as_one_writer_makes_it(stretches: list[list[pa.Table]]) -> None:
    chunks = [chunk for stretch in stretches for chunk in stretch]
    one, many = encode_segment(chunks), joined([encode_stretch(stretch) for stretch in stretches])
    assert (many.chunk_hashes, many.rows, many.chunk_bytes) == (one.chunk_hashes, one.rows, one.chunk_bytes)
    assert many.bounds == one.bounds
    file = pq.ParquetFile(pa.BufferReader(many.data), page_checksum_verification=True)
    assert file.num_row_groups == len(chunks)
    assert file.metadata.num_rows == sum(chunk.num_rows for chunk in chunks)
    for group, chunk in enumerate(chunks):
        assert hash_table(file.read_row_group(group)) == hash_table(chunk)  # NaN equals NaN here
    data = bytes(many.data)
    footer = decode_footer(many.ref("data/x"), data[-many.footer_length :])
    assert list(footer.rows) == [chunk.num_rows for chunk in chunks]


def events(number: int, rows: int) -> pa.Table:
    chance = np.random.default_rng(number)
    return pa.table(
        {
            "id": np.arange(rows) + number * rows,
            "value": chance.random(rows),
            "kind": np.array(["red", "green"])[chance.integers(0, 2, rows)],
        }
    )


def test_many_row_groups_are_found_by_every_reader(tmp_path: Path) -> None:
    """More than fit a short list, and offsets of several lengths."""
    chunks = [events(number, 700 + number) for number in range(40)]
    segment = joined([encode_stretch(chunks[at : at + 7]) for at in range(0, 40, 7)])
    path = tmp_path / "joined.parquet"
    path.write_bytes(segment.data)
    expected = pa.concat_tables(chunks)
    assert pq.read_table(path).equals(expected)
    assert pq.read_table(path, filters=[("id", ">=", 30_000)]).equals(
        expected.filter(pa.compute.greater_equal(expected["id"], 30_000))
    )
    assert duckdb.sql(f"select sum(id), count(*) from '{path}'").fetchall() == [
        (pa.compute.sum(expected["id"]).as_py(), len(expected))
    ]
    assert pl.read_parquet(path).to_arrow().column("id").to_pylist() == expected["id"].to_pylist()
    metadata = pq.read_metadata(path)
    for group in range(40):
        column = metadata.row_group(group).column(0)
        assert column.data_page_offset + column.total_compressed_size <= len(segment.data)
        assert column.statistics.min == chunks[group]["id"][0].as_py()


def test_stretches_of_other_columns_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="one schema"):
        joined([encode_stretch([pa.table({"a": [1]})]), encode_stretch([pa.table({"b": [1]})])])


def test_what_lies_outside_row_groups_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "indexed.parquet"
    pq.write_table(events(0, 10), path, write_page_index=True)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    with pytest.raises(ValueError, match="indexes"):
        joined_footer([footer, footer], [0, 100])


def test_an_append_of_any_size_is_two_puts(tmp_path: Path) -> None:
    """Encoded by several threads, and still one object of rows and one of the version."""
    rows = pa.table({"id": np.arange(6_000_000), "value": np.random.default_rng(0).random(6_000_000)})
    assert rows.nbytes > 2 * 2**25  # three stretches
    catalog = Catalog(tmp_path, upkeep=False)
    table = catalog.create_table("t", rows.schema)
    before = catalog.store.requests.snapshot()
    table.append(rows)
    made = catalog.store.requests.since(before)
    assert (made.put, made.get, made.list) == (2, 0, 0)
    assert table.read().equals(rows)
    assert table.verify("content").problems == ()


def test_a_segment_is_stored_for_each_so_many_bytes(tmp_path: Path) -> None:
    """Who wants smaller files says so."""
    rows = pa.table({"value": np.random.default_rng(0).random(1_000_000)})
    for bound, segments in ((2**22, 2), (2**24, 1)):
        catalog = Catalog(tmp_path / str(bound), upkeep=False, segment_bytes=bound)
        table = catalog.create_table("t", rows.schema)
        before = catalog.store.requests.snapshot()
        table.append(rows)
        made = catalog.store.requests.since(before)
        assert (made.put, made.get, made.list) == (segments + 1, 0, 0)
        assert table.read().equals(rows)

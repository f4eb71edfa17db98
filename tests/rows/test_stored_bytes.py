"""How many bytes versions take: the figures of the benchmarks that depend on nothing but the rows."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.changes import change, rewritten
from benchmarks.rows import batch, wide
from crdtcat import Catalog, Table
from tests.catalog.lakes import lake, objects

LANCE_BYTES = {"clustered": 2_640_000, "scattered": 2_730_000}
"""What Lance's `merge_insert` stores for the same ten versions."""


def filled(rows: pa.Table) -> tuple[Catalog, Table]:
    catalog = lake()
    table = catalog.create_table("t", rows.schema)
    table.append(rows)
    return catalog, table


def stored(catalog: Catalog) -> int:
    return sum(objects(catalog).values())


@pytest.mark.parametrize("case", ["clustered", "scattered"])
def test_ten_versions_of_which_each_changes_five_percent(case: str) -> None:
    rows = batch(0, 100_000)
    catalog, table = filled(rows)
    one = stored(catalog)
    for number in range(1, 10):
        rows, _ = rewritten(rows, number, scattered=case == "scattered")
        table.write(rows)
    assert len(table.history()) == 10
    assert table.read().equals(rows)
    assert stored(catalog) <= 1.6 * one
    assert stored(catalog) < LANCE_BYTES[case]


@pytest.mark.parametrize("case", ["3 % inserted", "4 % deleted"])
def test_inserted_and_deleted_rows_take_what_they_take_alone(case: str) -> None:
    rows = wide(100_000, 0)
    catalog, table = filled(rows)
    before = stored(catalog)
    after, came, gone = change(rows, case, 1)
    table.write(after)
    own = io.BytesIO()
    pq.write_table(came if came.num_rows else gone, own, compression="zstd")
    assert table.read().equals(after)
    assert stored(catalog) - before <= 1.2 * own.tell()


def test_encodings_as_any_parquet_reader_finds_them() -> None:
    """Delta for integers and moments, split bytes for floats of full precision, dictionaries where values
    repeat; zstd but for packed and full-precision numbers that it hardly makes smaller."""
    chance = np.random.default_rng(0)
    count = 20_000
    rows = pa.table(
        {
            "id": np.arange(count),
            "random": chance.integers(0, 2**40, count),
            "at": pa.array(np.arange(count) * 1000, pa.timestamp("us")),
            "seconds": pa.array(np.cumsum(chance.integers(0, 3, count)) * 1_000_000, pa.timestamp("us")),
            "precise": chance.random(count),
            "rounded": np.round(chance.random(count), 2) * 100,
            "few": np.array(["red", "green"])[chance.integers(0, 2, count)],
            "many": [f"text {number}" for number in chance.integers(0, 2**40, count).tolist()],
        }
    )
    catalog, _ = filled(rows)
    (name,) = (name for name in objects(catalog) if name.endswith(".parquet"))
    file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(bytes(catalog.store.get(name)))))
    assert file.read().columns == rows.columns
    group = file.metadata.row_group(0)
    found = {
        leaf.path_in_schema: ({*leaf.encodings} - {"RLE"}, leaf.compression)
        for leaf in (group.column(at) for at in range(group.num_columns))
    }
    assert found == {
        "id": ({"DELTA_BINARY_PACKED"}, "SNAPPY"),
        "random": ({"DELTA_BINARY_PACKED"}, "SNAPPY"),
        "at": ({"DELTA_BINARY_PACKED"}, "SNAPPY"),
        "seconds": ({"DELTA_BINARY_PACKED"}, "ZSTD"),
        "precise": ({"BYTE_STREAM_SPLIT"}, "SNAPPY"),
        "rounded": ({"PLAIN", "RLE_DICTIONARY"}, "ZSTD"),
        "few": ({"PLAIN", "RLE_DICTIONARY"}, "ZSTD"),
        "many": ({"PLAIN"}, "ZSTD"),
    }
    assert all(group.column(at).is_stats_set for at in range(group.num_columns))

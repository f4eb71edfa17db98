"""Upkeep on Spark gives what the local engine gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument
from crdtcat.spark import compact, load, verify
from tests.spark.rows import values

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("text", pa.string())])


def test_verify_finds_what_the_local_one_finds(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, inline_bytes=0, upkeep=False)
    for n in range(6):
        lake.commit("t", {"id": list(range(n * 100, n * 100 + 100)), "text": ["x" * 20] * 100})
    assert verify(spark, lake, "t", "content").ok
    segments = sorted(tmp_path.glob("data/*/*.parquet"))
    segments[0].unlink()
    damaged = bytearray(segments[1].read_bytes())
    damaged[50] ^= 1
    segments[1].write_bytes(damaged)
    for depth in ("metadata", "bytes", "content"):
        there, here = verify(spark, lake, "t", depth), lake.table("t").verify(depth)
        assert there.problems == here.problems
        assert (there.rows, there.bytes, there.segments) == (here.rows, here.bytes, here.segments)
    assert len(there.problems) == 2


def test_compact_changes_nothing_but_the_chunks(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, inline_bytes=0, chunk_rows=100, upkeep=False)
    for n in range(40):
        lake.commit("t", {"id": list(range(n * 10, n * 10 + 10))})
    table = lake.table("t")
    table.delete("id % 7 = 0")
    table.update("id > 300", {"id": 1})
    before, local = table.read(), Catalog(tmp_path, upkeep=False).table("t")
    done = compact(spark, lake, "t")
    assert done.versions >= 1
    assert done.chunks_after < done.chunks_before == 40
    assert done.rows == before.num_rows
    assert table.read().equals(before)  # rows and their order
    assert values(load(spark, lake, "t")) == values(before)
    assert len(local.head().chunks) < 20
    assert compact(spark, lake, "empty" if "empty" in lake else "t").versions == 0


def test_compact_of_a_keyed_table_changes_nothing_but_the_chunks(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, inline_bytes=0, chunk_rows=50, upkeep=False)
    tables = [lake.create_table(name, SCHEMA, key=["id"]) for name in ("here", "there")]
    for table in tables:
        for n in range(12):
            rows = [{"id": 10 * n + at, "n": n} for at in range(25)]
            table.upsert(rows if n % 3 else [{**row, "text": f"t{n}"} for row in rows])
        table.delete(keys=[{"id": 5}, {"id": 77}])
    before = tables[0].read()
    local, done = tables[0].compact(), compact(spark, lake, "there")
    assert replace(done, seconds=0.0, bytes=0) == replace(local, seconds=0.0, bytes=0)
    assert done.versions >= 1
    assert done.chunks_after < done.chunks_before
    assert tables[1].read().equals(before)
    assert tables[0].read().equals(before)
    late = Catalog(tmp_path, upkeep=False).table("there")
    late.upsert([{"id": 12, "n": -1}])
    assert values(load(spark, lake, "there", filter="id = 12")) == values(late.read(filter="id = 12"))
    with pytest.raises(InvalidArgument, match="rows=0"):
        compact(spark, lake, "there", rows=0)

"""Upkeep on Spark gives what the local engine gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crdtcat import Catalog
from crdtcat.spark import compact, load, verify
from tests.spark.rows import values


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

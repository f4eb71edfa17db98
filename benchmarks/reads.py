"""Full reads of an append-only table, against pyarrow reading the same Parquet files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import best, progress, table
from crdtcat import Catalog


def rows_of(count: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count) + seed * count,
            "a": chance.random(count),
            "b": chance.integers(0, 1_000_000, count),
            "kind": np.array(["red", "green", "blue", "grey"])[chance.integers(0, 4, count)],
            "at": pa.array(1_700_000_000_000_000 + np.arange(count) * 1000, pa.timestamp("us", "UTC")),
            "text": pa.array([f"item {number}" for number in chance.integers(0, 50_000, count)]),
        }
    )


def run(*, full: bool) -> list[str]:
    commits, count = (20, 500_000) if full else (10, 500_000)
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
        handle = Catalog(folder, upkeep=False).create_table("bench")
        for seed in range(commits):
            progress(f"commit {seed + 1} of {commits}")
            handle.append(rows_of(count, seed))
        files = sorted(str(path) for path in Path(folder).rglob("*.parquet"))
        handle.head()
        expected = commits * count
        found: dict[str, float] = {}

        def plain(columns: list[str] | None) -> None:
            assert pq.ParquetDataset(files).read(columns).num_rows == expected

        def ours(columns: list[str] | None, *, verify: bool) -> None:
            assert handle.scan(columns, verify=verify).to_table().num_rows == expected

        rows = []
        for title, columns in (("all 6 columns", None), ("2 of 6 columns", ["id", "a"])):
            progress(title)
            found["pyarrow"] = best(lambda c=columns: plain(c), 5)  # type: ignore[misc]
            found["off"] = best(lambda c=columns: ours(c, verify=False), 5)  # type: ignore[misc]
            found["on"] = best(lambda c=columns: ours(c, verify=True), 5)  # type: ignore[misc]
            raw = found["pyarrow"]
            rows.append([title, raw, found["off"], found["off"] / raw, found["on"], found["on"] / raw])
    return [
        table(
            f"Full read of {commits} commits x {count:,} rows, warm files",
            ["read", "pyarrow s", "unverified s", "ratio (aim 1.1)", "verified s", "ratio (aim 1.3)"],
            rows,
        )
    ]

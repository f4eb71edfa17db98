"""Full reads of an append-only table, against pyarrow reading the same Parquet files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.job import Job
from benchmarks.report import Results, best, progress
from benchmarks.rows import wide
from crdtcat import Catalog

PURPOSE = (
    "Full reads of an append-only table, all columns and 2 of 6, verified and not, against pyarrow "
    "reading the same Parquet files (aim: at most 1.3 times verified, 1.1 unverified)."
)


def run(job: Job) -> Results:
    commits, count = job.pick((2, 1_000), (10, 500_000), (20, 500_000))
    results = Results()
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
        handle = Catalog(folder, upkeep=False, inline_bytes=0).create_table("bench")
        for seed in range(commits):
            progress(f"commit {seed + 1} of {commits}")
            handle.append(wide(count, seed))
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
    results.add(
        f"Full read of {commits} commits x {count:,} rows, warm files",
        ["read", "pyarrow s", "unverified s", "ratio (aim 1.1)", "verified s", "ratio (aim 1.3)"],
        rows,
    )
    return results

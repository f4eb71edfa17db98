"""Full reads: of an append-only table against pyarrow reading the same files, of a changed table against the
same clean and compacted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.changes import change
from benchmarks.job import Job
from benchmarks.report import Results, best, progress
from benchmarks.rows import wide
from crdtcat import Catalog
from crdtcat.table import Table

PURPOSE = (
    "Full reads of an append-only table, all columns and 2 of 6, verified and not, against pyarrow "
    "reading the same Parquet files (aim: at most 1.3 times verified, 1.1 unverified); and of tables of "
    "which "
    "5 % of the rows, chosen by chance, were changed, against the same table before (aim: at most 1.5 "
    "times) and "
    "after `compact` (1.1)."
)


def run(job: Job) -> Results:
    results = Results()
    _appended(results, *job.pick((2, 1_000), (10, 500_000), (20, 500_000)))
    _changed(results, *job.pick((20_000, 1), (2_000_000, 5), (5_000_000, 9)))
    return results


def _appended(results: Results, commits: int, count: int) -> None:
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


def _changed(results: Results, count: int, times: int) -> None:
    """Scans of tables with changed rows, beside the same table clean and compacted."""
    rows = wide(count, 0)
    table: list[list[Any]] = []
    ways: dict[str, Callable[[Table], pa.Table]] = {
        "overlays, 1 column of 6": lambda handle: _write(handle, change(rows, "5 % scattered", 1)[0]),
        "overlays, 5 columns of 6": lambda handle: _write(handle, _shuffled(rows)),
        "keyed, upserted rows": lambda handle: _upsert(handle, rows),
    }
    for title, alter in ways.items():
        progress(title)
        with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
            key = ["id"] if "keyed" in title else []
            catalog = Catalog(folder, upkeep=False)
            names = ("clean", "changed", "compacted", "at_once")
            clean, changed, compacted, at_once = (
                catalog.create_table(name, rows.schema, key=key) for name in names
            )
            for handle in (clean, changed, compacted):
                handle.append(rows)
            for handle in (changed, compacted):
                expected = alter(handle)
            compacted.compact()
            at_once.append(expected)
            for handle in (changed, compacted, at_once):
                assert handle.read().columns == expected.columns
            # In turns, so that whatever else happens on the machine happens to all of them.
            turns = _turns((clean, changed, compacted, at_once), times)
            raw, *found = (min(times) for times in zip(*turns, strict=True))
        table.append([title, raw, *(figure for one in found for figure in (one, one / raw))])
    results.add(
        f"Full read of {count:,} rows x 6 after 5 % of the rows, chosen by chance, were changed",
        [
            "changed by",
            "clean s",
            "changed s",
            "ratio (aim 1.5)",
            "compacted s",
            "ratio (aim 1.1)",
            "at once s",
            "ratio",
        ],
        table,
        "Warm files, verified. The aim is for overlays; rows of a keyed table are merged by key on all "
        "cores. At once: the changed rows, written to a table of their own. They are other data than before, "
        "and take longer to decode: moments that were evenly spaced are not any more.",
    )


def _turns(handles: tuple[Table, ...], times: int) -> list[list[float]]:
    return [[best(handle.read, 1) for handle in handles] for _ in range(times)]


def _write(handle: Table, rows: pa.Table) -> pa.Table:
    handle.write(rows)
    return rows


def _shuffled(rows: pa.Table) -> pa.Table:
    """5 % of the rows exchange all values but their ids."""
    chance, source = np.random.default_rng(1), np.arange(rows.num_rows)
    at = np.sort(chance.choice(rows.num_rows, rows.num_rows // 20, replace=False))
    source[at] = chance.permutation(at)
    return rows.take(pa.array(source)).set_column(0, "id", rows["id"])


def _upsert(handle: Table, rows: pa.Table) -> pa.Table:
    after, changed, _ = change(rows, "5 % scattered", 1)
    handle.upsert(changed)
    return after

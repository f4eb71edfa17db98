"""`write`: a table is handed in again, a little different; what that takes, in time and in bytes."""

from __future__ import annotations

import tempfile
import time
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

PURPOSE = (
    "`write` of 5,000,000 rows x 6 columns of which 5 % changed, against pyarrow writing all of them; "
    "new bytes "
    "where rows were inserted or deleted, against a Parquet file of those rows alone; and how much of a "
    "table of "
    "random values is found again after 5 % of its rows, chosen by chance, got others."
)
AIMS = {"5 % clustered": 4.0, "5 % scattered": 1.5}
WIDE_ROWS = 100_000


def run(job: Job) -> Results:
    results = Results()
    _times(results, job.pick(20_000, 5_000_000, 5_000_000), job.pick(1, 5, 5))
    _bytes_of_rows(results)
    _found_again(results)
    return results


def _times(results: Results, count: int, times: int) -> None:
    rows = wide(count, 0)
    table: list[list[Any]] = []
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
        progress("pyarrow writes all")
        plain = best(lambda: pq.write_table(rows, Path(folder) / "plain.parquet"), times)
        lake = f"{folder}/lake"
        start = Catalog(lake, upkeep=False).create_table("bench")
        start.append(rows)
        one = _stored(lake)
        cases: list[tuple[str, pa.Table, float | None]]
        cases = [(case, change(rows, case, 1)[0].combine_chunks(), aim) for case, aim in AIMS.items()]
        cases += [("1 % deleted by chance", _thinned(rows), None), ("nothing", rows, None)]
        for case, new, aim in cases:
            progress(case)
            taken, grown = [], 0
            for number in range(times):  # each from the same start, by a handle that knows nothing
                branch = Catalog(lake, upkeep=False).table("bench").branch(f"{len(table)}-{number}")
                before, began = _stored(lake), time.perf_counter()
                branch.write(new)
                taken.append(time.perf_counter() - began)
                grown = _stored(lake) - before
            assert branch.read(["id", "a"]).equals(new.select(["id", "a"]))
            table.append([case, min(taken), plain, plain / min(taken), aim, grown / 1e6, grown / one])
    results.add(
        f"`write` of {count:,} rows x {rows.num_columns}",
        ["changed", "write s", "pyarrow writes all s", "times as fast", "aim", "new MB", "of one version"],
        table,
        "From a handle without a head: refresh, cut, hash, compare, store and commit. pyarrow writes "
        "with its "
        "defaults, on one core, and does not wait for the disk.",
    )


def _thinned(rows: pa.Table) -> pa.Table:
    kept = np.random.default_rng(1).random(rows.num_rows) >= 0.01
    return rows.filter(pa.array(kept)).combine_chunks()


def _bytes_of_rows(results: Results) -> None:
    rows = wide(WIDE_ROWS, 0)
    table: list[list[Any]] = []
    for case in ("3 % inserted", "4 % deleted"):
        progress(case)
        new, came, gone = change(rows, case, 1)
        with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
            lake, file = f"{folder}/lake", Path(folder) / "own.parquet"
            handle = Catalog(lake, upkeep=False).create_table("bench")
            handle.append(rows)
            before = _stored(lake)
            handle.write(new)
            assert handle.read().equals(new)
            pq.write_table(came if came.num_rows else gone, file, compression="zstd")
            own = file.stat().st_size
            grown = _stored(lake) - before
        table.append([case, before / 1e6, own / 1e3, grown / 1e3, grown / own, 1.2])
    results.add(
        f"New bytes of a table of {WIDE_ROWS:,} rows x {rows.num_columns}",
        ["changed", "one version MB", "Parquet of those rows KB", "new KB", "ratio", "aim at most"],
        table,
        "The Parquet file is zstd, by pyarrow. A deleted row costs its name in the version file, and no "
        "data.",
    )


def _found_again(results: Results) -> None:
    progress("random rows")
    chance = np.random.default_rng(0)
    values = chance.random(WIDE_ROWS)
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
        handle = Catalog(folder, upkeep=False).create_table("bench")
        handle.append(pa.table({"id": np.arange(WIDE_ROWS), "value": values}))
        first = _stored(folder)
        changed = chance.choice(WIDE_ROWS, WIDE_ROWS // 20, replace=False)
        values[changed] = chance.random(len(changed))
        handle.write(pa.table({"id": np.arange(WIDE_ROWS), "value": values}))
        grown = _stored(folder) - first
    ids = np.log2(np.e / 0.05) / 8  # of naming one in twenty, in bytes for each row named
    theory = (8 * 52 / 64 + ids) * len(changed) / first
    results.add(
        "5 % of 100,000 random rows changed, found again by `write`",
        ["one version KB", "new KB", "found again %", "theory %", "aim %"],
        [[first / 1e3, grown / 1e3, 100 * (1 - grown / first), 100 * (1 - theory), 85.0]],
        "Theory: a changed value has 52 random bits, and saying which rows changed takes log2(e / 0.05) "
        "more.",
    )


def _stored(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())

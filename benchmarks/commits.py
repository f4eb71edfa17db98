"""Commits per second: many processes append to one table, against a raw writer that only stores two files.

The raw writer is as durable (the same store) and does what no catalog can do without: it PUTs one Parquet
file and one small file per commit. It keeps no table: nobody could read its rows consistently. Every
acknowledged row of ours is counted afterwards by a cold reader.
"""

from __future__ import annotations

import multiprocessing
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.latency_proxy import delayed
from benchmarks.report import progress, table
from crdtcat import Catalog
from crdtcat.store import open_store
from crdtcat.testing.s3_server import real_s3

ROWS = 1_000
COMMITS = 25
PRELOAD = ["crdtcat", "crdtcat.testing.s3_server", "pyarrow.parquet", "numpy", "s3fs", "benchmarks.commits"]


def batch(seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(seed * ROWS, (seed + 1) * ROWS),
            "value": chance.random(ROWS),
            "kind": np.array(["red", "green", "blue", "grey"])[chance.integers(0, 4, ROWS)],
            "at": pa.array(
                1_700_000_000_000_000 + chance.integers(0, 10**9, ROWS), pa.timestamp("us", "UTC")
            ),
        }
    )


def work(how: str, where: tuple[str, dict[str, Any]], number: int, start: Any, answers: Any) -> None:
    """One process: 25 commits, each timed."""
    batches = [batch(number * COMMITS + at) for at in range(COMMITS)]
    commit = {"crdtcat": _ours, "raw": _raw}[how](where)
    start.wait()
    began = time.time()
    taken = []
    for rows in batches:
        at = time.perf_counter()
        commit(rows)
        taken.append(time.perf_counter() - at)
    answers.put((began, time.time(), taken))


def _ours(where: tuple[str, dict[str, Any]]) -> Any:
    handle = Catalog(where[0], where[1]).table("bench")
    return handle.append


def _raw(where: tuple[str, dict[str, Any]]) -> Any:
    store = open_store(*where)

    def commit(rows: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        name = secrets.token_hex(16)
        store.put(f"raw/{name}.parquet", sink.getvalue().to_pybytes())
        store.put(f"raw/{name}.json", b'{"file": "%s", "rows": 1000}' % name.encode())

    return commit


def measure(how: str, where: tuple[str, dict[str, Any]], processes: int) -> tuple[float, list[float]]:
    """Commits per second over all processes, and every commit's latency."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    start, answers = context.Barrier(processes), context.Queue()
    started = [
        context.Process(target=work, args=(how, where, number, start, answers)) for number in range(processes)
    ]
    for process in started:
        process.start()
    found = [answers.get(timeout=300) for _ in started]
    for process in started:
        process.join()
    seconds = max(end for _, end, _ in found) - min(began for began, _, _ in found)
    return processes * COMMITS / seconds, [one for _, _, taken in found for one in taken]


@contextmanager
def backends() -> Iterator[dict[str, Any]]:
    """Where to write: name to a function that gives a fresh place."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtcat-bench-"))
        server = stack.enter_context(real_s3())
        far = stack.enter_context(delayed(server.endpoint_url))

        def at_s3(endpoint: str) -> tuple[str, dict[str, Any]]:
            return f"{server.fresh_bucket()}/bench", {**server.storage_options, "endpoint_url": endpoint}

        yield {
            "local disk": lambda: (f"{folder}/{secrets.token_hex(8)}", {}),
            "S3": lambda: at_s3(server.endpoint_url),
            "S3 + 20 ms each way": lambda: at_s3(far),
        }


def run(*, full: bool) -> list[str]:
    counts = (1, 4, 16, 32, 64) if full else (1, 4, 16, 32)
    texts = []
    with backends() as places:
        for name, fresh in places.items():
            rows = []
            for processes in counts:
                progress(f"{name}, {processes} processes")
                raw, raw_taken = measure("raw", fresh(), processes)
                where = fresh()
                Catalog(*where).create_table("bench")
                ours, taken = measure("crdtcat", where, processes)
                expected = processes * COMMITS * ROWS
                counted = Catalog(*where).table("bench").head().row_count
                assert counted == expected, f"{counted} of {expected} acknowledged rows are readable"
                p50, p99 = np.percentile(taken, [50, 99]) * 1000
                raw50 = float(np.percentile(raw_taken, 50)) * 1000
                rows.append(
                    [
                        processes,
                        ours,
                        raw,
                        ours / raw,
                        float(p50),
                        float(p99),
                        raw50,
                        f"{counted:,} / {expected:,}",
                    ]
                )
            texts.append(
                table(
                    f"Commits to one table, {name}: processes x {COMMITS} appends of {ROWS:,} rows",
                    [
                        "processes",
                        "commits/s",
                        "raw/s",
                        "ratio",
                        "p50 ms",
                        "p99 ms",
                        "raw p50 ms",
                        "rows readable / acknowledged",
                    ],
                    rows,
                )
            )
    return texts

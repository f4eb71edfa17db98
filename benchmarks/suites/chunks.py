"""Chunks: how much of a changed table is found again, what ingest and comparison cost beside pyarrow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.changes import change
from benchmarks.job import Job
from benchmarks.report import Results, best, progress
from benchmarks.rows import wide
from crdtcat import Catalog
from crdtcat.chunks.cutting import Sizes, cut
from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.read import FooterCache, SegmentRef, read_chunks
from crdtcat.chunks.segment import encode_segment
from crdtcat.difference import NewChunk, OldChunk, difference
from crdtcat.store import Store, open_store

PURPOSE = (
    "Chunk re-use after 1, 5, 10 and 25 % of 100,000 rows changed, in chunks of 1,000 rows, against theory; "
    "one commit of 10,000,000 rows x 6 against pyarrow's writer; cutting, "
    "hashing and comparing 5,000,000 rows x 6 of which 5 % changed, against pyarrow writing all of them."
)
AIMS = {0.01: 0.988, 0.05: 0.95, 0.10: 0.90, 0.25: 0.75}
BY_CONTENT: dict[str, Any] = {"chunk_rows_min": 250, "chunk_rows_target": 1000, "chunk_rows_max": 2000}
ROWS = 100_000
T = TypeVar("T")


def run(job: Job) -> Results:
    results = Results()
    _reuse(results, job.pick(1, 5, 20))
    _ingest(results, *job.pick((10_000, 1), (10_000_000, 3), (10_000_000, 5)))
    _compare(results, job.pick(300_000, 5_000_000, 5_000_000))
    return results


def _reuse(results: Results, trials: int) -> None:
    rows = []
    for share, aim in AIMS.items():
        progress(f"re-use, {share:.0%}")
        count = int(ROWS * share)
        fixed = [_overwritten({"chunk_rows": 1000}, _run(count, at * 1000)) for at in range(trials)]
        anywhere = [
            _overwritten(BY_CONTENT, _run(count, int(at)))
            for at in np.random.default_rng(1).integers(0, ROWS - count, trials)
        ]
        by_chance = np.random.default_rng(2).choice(ROWS, count, replace=False)
        scattered = _overwritten(BY_CONTENT, by_chance)
        written = [_overwritten(BY_CONTENT, found, by="write") for found in (_run(count, 333), by_chance)]
        theory = 1 - share - float(np.mean([found["edge"] for found in anywhere]))
        rows.append(
            [
                f"{share:.0%}",
                100 * aim,
                100 * (1 - share),
                100 * _mean(fixed, "kept"),
                100 * theory,
                100 * _mean(anywhere, "kept"),
                100 * _mean(anywhere, "bytes"),
                100 * (1 - share) ** 1000,
                100 * scattered["kept"],
                *(100 * (1 - found["bytes"]) for found in written),
            ]
        )
    results.add(
        f"% of {ROWS:,} rows in chunks that an overwrite finds again, 1,000 rows a chunk",
        [
            "changed",
            "aim",
            "theory, fixed",
            "fixed rows, run at a boundary",
            "theory, by content",
            "by content, run anywhere",
            "its bytes, % of one version",
            "theory, scattered",
            "by content, scattered",
            "of bytes, by `write`, clustered",
            "of bytes, by `write`, scattered",
        ],
        rows,
        "Theory: a run of changed rows also costs the rest of the chunks at its ends, on average the mean "
        "of the squares of the chunk sizes over their mean, as a share of the table: the aims are for a "
        "run that "
        "begins at a boundary. Scattered changes touch every chunk: chunks alone do not help, the edit "
        "scripts "
        "of `write` do (share of one version's bytes that need not be stored again).",
    )


def _run(count: int, start: int) -> Any:
    start = min(start, ROWS - count)
    return np.arange(start, start + count)


def _overwritten(options: dict[str, Any], changed: Any, by: str = "overwrite") -> dict[str, float]:
    """Replace a table with one of which some rows changed; what was kept, and what was stored."""
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
        handle = Catalog(folder, **{"upkeep": False, "inline_bytes": 0, **options}).create_table("bench")
        values = np.random.default_rng(0).random(ROWS)
        handle.append(pa.table({"id": np.arange(ROWS), "value": values}))
        first, before = _bytes(folder), {chunk.hash: chunk.rows for chunk in handle.head().chunks}
        values[changed] = np.random.default_rng(9).random(len(changed))
        getattr(handle, by)(pa.table({"id": np.arange(ROWS), "value": values}))
        kept = sum(chunk.rows for chunk in handle.head().chunks if chunk.hash in before)
        sizes = np.array([*before.values()], float)
        return {
            "kept": kept / ROWS,
            "bytes": (_bytes(folder) - first) / first,
            "edge": float((sizes**2).mean() / sizes.mean() / ROWS),
        }


def _bytes(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def _mean(found: Sequence[dict[str, float]], name: str) -> float:
    return float(np.mean([one[name] for one in found]))


def _ingest(results: Results, count: int, rounds: int) -> None:
    progress(f"ingest of {count:,} rows")
    part = min(count, 500_000)
    rows = pa.concat_tables([wide(part, number) for number in range(count // part)]).combine_chunks()
    size = rows.nbytes / 1e6
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
        file = Path(folder) / "plain.parquet"
        handle = Catalog(f"{folder}/lake", upkeep=False).create_table("bench")
        taken = [
            (_alone(lambda: pq.write_table(rows, file)), _alone(lambda: handle.append(rows)))
            for _ in range(rounds)
        ]
        plain, ours = (min(times) for times in zip(*taken, strict=True))
        stored = {"plain": file.stat().st_size / 1e6, "ours": _bytes(f"{folder}/lake") / 1e6 / rounds}
    results.add(
        f"One commit of {count:,} rows x {rows.num_columns}, {size:,.0f} MB of Arrow",
        ["", "seconds", "MB/s", "stored MB", "times pyarrow's speed (aim 1.5)"],
        [
            ["pyarrow.parquet.write_table", plain, size / plain, stored["plain"], 1.0],
            ["crdtcat, append", ours, size / ours, stored["ours"], plain / ours],
        ],
        f"In turns, the best of {rounds} each; what the one before left to be written is on the disk first. "
        "pyarrow writes one file on one core, with dictionaries everywhere and without hashes, and does not "
        "wait for the disk; crdtcat does.",
    )


def _alone(work: Callable[[], object]) -> float:
    """Seconds it takes once the disk has nothing else to do."""
    os.sync()
    return best(work, 1)


def _compare(results: Results, count: int) -> None:
    rows = wide(count, 0)
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
        progress("pyarrow writes all")
        plain = best(lambda: pq.write_table(rows, Path(folder) / "plain.parquet"), 3)
        old = _stored(rows, open_store(folder))
        found = []
        for case in ("5 % clustered", "5 % scattered", "3 % inserted", "4 % deleted"):
            progress(case)
            new = change(rows, case, 1)[0].combine_chunks()
            cutting, pieces = _timed(partial(_pieces, new))
            hashing, chunks = _timed(partial(_hashed, pieces))
            comparing, script = _timed(partial(difference, old, rows.schema, new, chunks))
            assert script.kept_rows + len(script.updated_new) + script.inserted_rows == new.num_rows
            times = plain / (cutting + hashing + comparing)
            sent = len(script.updated_old) + script.inserted_rows
            gone = len(script.deleted)
            found.append([case, cutting, hashing, comparing, plain, times, sent / new.num_rows, gone])
    results.add(
        f"What changed in {count:,} rows x 6",
        [
            "case",
            "cut s",
            "hash s",
            "compare s",
            "pyarrow writes all s",
            "times as fast",
            "rows sent / all",
            "rows deleted",
        ],
        found,
        "Aims for the whole of `write`, which then stores what is sent: 4 times clustered, 1.5 scattered.",
    )


def _timed(action: Callable[[], T]) -> tuple[float, T]:
    answers: list[T] = []
    return best(lambda: answers.append(action()), 2), answers[-1]


def _hashed(pieces: Sequence[pa.Table]) -> list[NewChunk]:
    with ThreadPoolExecutor() as pool:
        hashes = [*pool.map(hash_table, pieces)]
    return [
        NewChunk(piece.num_rows, hash, dict(zip(piece.column_names, columns, strict=True)))
        for piece, (hash, columns) in zip(pieces, hashes, strict=True)
    ]


def _pieces(table: pa.Table) -> list[pa.Table]:
    return [table.slice(start, end - start) for start, end in pairwise(cut(table, Sizes()))]


def _stored(table: pa.Table, store: Store) -> list[OldChunk]:
    """The rows as chunks of segments, as a table has them."""
    found = []
    footers = FooterCache()
    for piece in _pieces(table):
        hash, columns = hash_table(piece)
        segment = encode_segment([piece], [(hash, columns)])
        ref = segment.ref(segment.name(bytes(8)))
        store.put(ref.name, segment.data)
        named = dict(zip(piece.column_names, columns, strict=True))
        found.append(
            OldChunk(piece.num_rows, partial(_read, store, footers, ref, hash), hash, partial(dict, named))
        )
    return found


def _read(
    store: Store, footers: FooterCache, ref: SegmentRef, hash: bytes, columns: Sequence[str]
) -> pa.Table:
    return read_chunks(store, ref, [(0, hash)], columns, footers=footers, threads=1)[0]

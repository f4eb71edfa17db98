"""The price of merging on read: joining logs, against only decoding the same bytes, and as a share of a
whole read."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.job import Job
from benchmarks.plots import Plot
from benchmarks.report import Results, best, progress
from benchmarks.rows import batch
from benchmarks.small_commits import FOLDER, small_commits
from benchmarks.suites.heads import synthetic
from crdtcat import Catalog
from crdtcat.format.frame import digest
from crdtcat.format.settings import Settings
from crdtcat.format.version import decode_version
from crdtcat.head import Head
from crdtcat.log import State, decode_bundle, encode_bundle, select
from crdtcat.protocol import bundle_name

PURPOSE = (
    "Joins of 100 to 1,000,000 versions, from eight bundles whose versions interleave and from single "
    "files, against decoding the same bytes and merging nothing. Then the merge as a share of a whole "
    "read (aim: under 10 %)."
)
PIECES = 8


def run(job: Job) -> Results:
    results = Results()
    _bundles(job, results)
    _files(job, results)
    _share(job, results)
    return results


def _bundles(job: Job, results: Results) -> None:
    rows: list[list[Any]] = []
    for count in job.pick((100,), (100, 10_000, 1_000_000), (100, 1_000, 10_000, 100_000, 1_000_000)):
        progress(f"{count:,} versions in {PIECES} bundles")
        log = synthetic(count, 1)
        owner = np.random.default_rng(0).integers(0, PIECES, count)
        files = []
        for piece in range(PIECES):
            data = encode_bundle(select(log, owner == piece), FOLDER)
            files.append((bundle_name(FOLDER, 1, digest(data)), data))
        decoding = best(partial(_decode_bundles, files))
        joining = best(partial(State(FOLDER).joined, files))
        state = State(FOLDER).joined(files)
        assert len(state.log) == count
        folding = best(partial(_fold, state))
        rows.append([count, decoding * 1000, joining * 1000, joining / decoding, folding * 1000])
    results.add(
        f"Join of {PIECES} bundles whose versions interleave (one chunk each, 6 columns of statistics)",
        ["versions", "decode ms", "decode and join ms", "ratio", "fold into a head ms"],
        rows,
        "Both check every byte against the file's BLAKE3, and leave statistics unloaded.",
    )
    lines = {
        "decode": [(row[0], row[1]) for row in rows],
        "decode and join": [(row[0], row[2]) for row in rows],
        "fold into a head": [(row[0], row[4]) for row in rows],
    }
    results.plots.append(Plot("1", "Joining interleaved bundles", "versions", "ms", lines))


def _files(job: Job, results: Results) -> None:
    rows: list[list[Any]] = []
    for count in job.pick((20,), (100, 10_000), (100, 1_000, 10_000, 100_000)):
        progress(f"{count:,} version files")
        versions = sorted((Path(small_commits(count)) / FOLDER).glob("*.v"))
        files = [(f"{FOLDER}{path.name}", path.read_bytes()) for path in versions]
        decoding = best(partial(_decode_versions, files))
        joining = best(partial(State(FOLDER).joined, files))
        rows.append([count, decoding * 1000, joining * 1000, joining / decoding])
    results.add(
        "Join of single version files, rows inlined",
        ["versions", "decode ms", "decode and join ms", "ratio"],
        rows,
    )


def _share(job: Job, results: Results) -> None:
    rows: list[list[Any]] = []
    for count in job.pick((10,), (100, 1_000), (10, 100, 1_000, 10_000)):
        progress(f"whole read after {count:,} commits")
        with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder, mock.patch("os.fsync"):
            handle = Catalog(folder).create_table("bench")
            content = [batch(number, 1_000) for number in range(10)]
            for number in range(count):
                handle.append(content[number % 10])
            handle.checkpoint()
            head = best(partial(_open, folder))
            whole = best(partial(_read, folder))
        rows.append([count, head * 1000, whole * 1000, f"{head / whole:.0%}"])
    results.add(
        "List, load, join and fold as a share of a cold read (commits of 1,000 rows, after a checkpoint)",
        ["commits", "head ms", "whole read ms", "share"],
        rows,
        "Aim: under 10 %.",
    )


Files = list[tuple[str, bytes]]


def _decode_bundles(files: Files) -> None:
    for name, data in files:
        decode_bundle(data, FOLDER, name)


def _decode_versions(files: Files) -> None:
    kept = [decode_version(data, name) for name, data in files]
    assert len(kept) == len(files)


def _fold(state: State) -> None:
    assert Head("bench", state.log, Settings()).snapshot.id


def _open(folder: str) -> None:
    assert Catalog(folder).table("bench").head().row_count


def _read(folder: str) -> None:
    assert Catalog(folder).table("bench").read().num_rows

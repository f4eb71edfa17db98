"""The contention of crdtcat against the raw limit alone: quick, and the first figure to look at after a
change."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.job import Job
from benchmarks.places import FAR, LOCAL, NEAR
from benchmarks.report import Results
from benchmarks.suites.contention import Kinds, series

PURPOSE = (
    "1 to 32 processes make 25 appends of 1,000 rows each to one table, against a raw writer, equally "
    "durable, that only PUTs one Parquet file and one small file per commit. Aim: at least 0.9 of raw on S3 "
    "with latency, 0.5 on local disk, rising with writers."
)
SECONDS_MAX = 20.0


def run(job: Job) -> Results:
    job = replace(job, engines=tuple(name for name in ("raw", "crdtcat") if name in job.engines))
    tiny: Kinds = {LOCAL: (2,)}
    short: Kinds = {LOCAL: (1, 4, 16, 32), NEAR: (16,), FAR: (1, 32)}  # FAR, 16 is in `contention`
    full: Kinds = dict.fromkeys((LOCAL, NEAR, FAR), (1, 4, 16, 32))
    kinds, commits = job.pick((tiny, 3), (short, 25), (full, 25))
    rounds = job.pick({}, dict.fromkeys(short, 3), dict.fromkeys(full, 5))
    return series(job, kinds, SECONDS_MAX, commits, rounds=rounds)

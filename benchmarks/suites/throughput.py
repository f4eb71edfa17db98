"""Bulk: six columns in, all of them out, and a filtered hundredth of them. Against pyarrow on plain
Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.crew import Crew, EngineFailed, crew
from benchmarks.engines import UNFORCED
from benchmarks.job import Job, label
from benchmarks.places import LOCAL, places
from benchmarks.report import Results, progress
from benchmarks.suites.contention import WAITS

PURPOSE = (
    "One process writes 10,000,000 rows x 6 columns in ten commits (1,000,000 in the short run), reads "
    "all of them, 2 of 6 columns, and the 1 % of rows whose id is in a range; then it gives 5 % of them a "
    "new value in one column. Local disk, warm files, defaults; MB are of Arrow content."
)
PARTS = 10
COLUMNS = 6
HEADER = [
    "engine",
    "ingest MB/s",
    "ingest x raw",
    "full scan MB/s",
    "scan x raw",
    "2 columns ms",
    "2 columns x raw",
    "1 % by id ms",
    "1 % x raw",
    "5 % rewrite s",
    "rewrite x raw",
    "full scan memory MB",
    "stored MB",
    WAITS,
]


def run(job: Job) -> Results:
    rows = job.pick(20_000, 1_000_000, 10_000_000)
    results = Results()
    found: dict[str, dict[str, Any]] = {}
    waits: dict[str, str] = {}
    notes: list[str] = []
    with places() as where:
        for entrant in job.entrants():
            with crew(entrant, new=True) as workers:
                for variant in ("default", UNFORCED) if entrant.forces else ("default",):
                    name = label(entrant, variant)
                    progress(f"{name}: {rows:,} x {COLUMNS}")
                    place = where.fresh(LOCAL)
                    common: dict[str, Any] = {"place": place.to_json(), "variant": variant}
                    try:
                        found[name] = _measured(job, workers, common, rows)
                    except EngineFailed as error:
                        notes.append(f"{name}: {error}.")
                        continue
                    finally:
                        where.forget(place)
                    waits[name] = "0" if variant == UNFORCED else entrant.disk_waits
                    notes += _missing(name, found[name], rows)
    raw = found.get("raw", {})
    results.add(
        f"{rows:,} rows x {COLUMNS} columns in {PARTS} commits",
        HEADER,
        [[*_row(name, answers, raw), waits[name]] for name, answers in found.items()],
        " ".join(
            [
                "x raw: time as a multiple of pyarrow's on plain Parquet files; below 1 is faster. Raw's",
                "rewrite is a file of the new values, which a reader lays over the others. `no fsync` is no",
                "setting of crdtcat's: it shows what waiting for the disk takes.",
                "Icechunk stores strings as integers, so its bytes are fewer.",
                *notes,
                job.absent(),
            ]
        ).strip(),
    )
    results.bars("ingest MB/s")
    results.bars("full scan MB/s")
    return results


def _measured(job: Job, workers: Crew, common: dict[str, Any], rows: int) -> dict[str, Any]:
    low, times = rows // 2, job.pick(1, 3, 5)
    workers.ask("warm", seconds=60)
    return {
        "ingest": workers.ask("ingest", **common, rows=rows // PARTS, parts=PARTS, seconds=900),
        "all": workers.ask("read", **common, times=times),
        "narrow": workers.ask("read", **common, times=times, columns=["id", "a"]),
        "filtered": workers.ask("read", **common, times=times, where=("id", low, low + rows // 100)),
        "rewrite": workers.ask("rewrite", **common, low=low, high=low + rows // 20),
    }


def _missing(name: str, answers: dict[str, Any], rows: int) -> list[str]:
    """What is not as it was written."""
    wanted = {"all": rows, "narrow": rows, "filtered": rows // 100, "rewrite": rows // 20}
    return [
        f"{name} ({what}): {answers[what]['rows']:,} of {expected:,} rows are readable."
        for what, expected in wanted.items()
        if answers[what]["rows"] != expected
    ]


def _row(name: str, answers: dict[str, Any], raw: dict[str, Any]) -> list[Any]:
    megabytes = answers["ingest"]["nbytes"] / 1e6
    shown: dict[str, Callable[[float], float]] = {
        "ingest": lambda seconds: megabytes / seconds,
        "all": lambda seconds: megabytes / seconds,
        "narrow": lambda seconds: seconds * 1000,
        "filtered": lambda seconds: seconds * 1000,
        "rewrite": lambda seconds: seconds,
    }
    line: list[Any] = [name]
    for what, figure in shown.items():
        seconds = answers[what]["seconds"]
        line += [figure(seconds), seconds / raw[what]["seconds"] if raw else None]
    return [*line, answers["all"]["memory"] / 1e6, answers["ingest"]["stored"] / 1e6]

"""Bulk: six columns in, all of them out, and a filtered hundredth of them. Against pyarrow on plain
Parquet files."""

from __future__ import annotations

from typing import Any

from benchmarks.crew import EngineFailed, crew
from benchmarks.job import Job
from benchmarks.places import LOCAL, places
from benchmarks.report import Results, progress

PURPOSE = (
    "One process writes 10,000,000 rows x 6 columns in ten commits (2,000,000 in the short run), reads "
    "all of them, 2 of 6 columns, and the 1 % of rows whose id is in a range; then it gives 5 % of them a "
    "new value in one column. Local disk, warm files, defaults; MB are of Arrow content."
)
PARTS = 10
COLUMNS = 6


def run(job: Job) -> Results:
    rows = job.pick(20_000, 1_000_000, 10_000_000)
    part = rows // PARTS
    results = Results()
    found: dict[str, dict[str, Any]] = {}
    notes = []
    with places() as where:
        for entrant in job.entrants():
            progress(f"{entrant.name}: {rows:,} x {COLUMNS}")
            place = where.fresh(LOCAL)
            common: dict[str, Any] = {"place": place.to_json(), "variant": "default"}
            with crew(entrant) as workers:
                try:
                    workers.ask("warm", seconds=60)
                    ingest = workers.ask("ingest", **common, rows=part, parts=PARTS, seconds=900)
                    times = job.pick(1, 3, 5)
                    full = workers.ask("read", **common, times=times)
                    narrow = workers.ask("read", **common, times=times, columns=["id", "a"])
                    low = rows // 2
                    filtered = workers.ask(
                        "read", **common, times=times, where=("id", low, low + rows // 100)
                    )
                    rewrite = None
                    if entrant.name != "raw":
                        rewrite = workers.ask("rewrite", **common, low=low, high=low + rows // 20)
                except EngineFailed as error:
                    notes.append(f"{entrant.name}: {error}.")
                    continue
                finally:
                    where.forget(place)
            wanted = {"all": (full, rows), "narrow": (narrow, rows), "filtered": (filtered, rows // 100)}
            for what, (answer, expected) in wanted.items():
                if answer["rows"] != expected:
                    notes.append(
                        f"{entrant.name} ({what}): {answer['rows']:,} of {expected:,} rows are readable."
                    )
            found[entrant.name] = {"ingest": ingest, "all": full, "narrow": narrow, "filtered": filtered}
            if rewrite:
                found[entrant.name]["rewrite"] = rewrite
                if rewrite["rows"] != rows // 20:
                    notes.append(f"{entrant.name} (rewrite): {rewrite['rows']:,} of {rows // 20:,} rows.")
    raw = found.get("raw")
    table = []
    for name, answers in found.items():
        megabytes = answers["ingest"]["nbytes"] / 1e6
        line: list[Any] = [name]
        for what in ("ingest", "all"):
            line.append(megabytes / answers[what]["seconds"])
            line.append(answers[what]["seconds"] / raw[what]["seconds"] if raw else None)
        for what in ("narrow", "filtered"):
            line.append(answers[what]["seconds"] * 1000)
            line.append(answers[what]["seconds"] / raw[what]["seconds"] if raw else None)
        line.append(answers["rewrite"]["seconds"] if "rewrite" in answers else None)
        line.append(answers["all"]["memory"] / 1e6)
        line.append(answers["ingest"]["stored"] / 1e6)
        table.append(line)
    results.add(
        f"{rows:,} rows x {COLUMNS} columns in {PARTS} commits",
        [
            "engine",
            "ingest MB/s",
            "x raw",
            "full scan MB/s",
            "x raw",
            "2 columns ms",
            "x raw",
            "1 % by id ms",
            "x raw",
            "5 % rewrite s",
            "full scan memory MB",
            "stored MB",
        ],
        table,
        " ".join(
            [
                "x raw: time as a multiple of pyarrow's on plain Parquet files; below 1 is faster.",
                "Icechunk stores strings as integers, so its bytes are fewer.",
                *notes,
                job.absent(),
            ]
        ).strip(),
    )
    return results

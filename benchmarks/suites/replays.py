"""Reports from peers' own trackers, replayed on this machine with today's releases, and with crdtcat."""

from __future__ import annotations

from typing import Any

from benchmarks.crew import EngineFailed, crew
from benchmarks.job import Job, label
from benchmarks.places import FAR, LOCAL, NEAR, places
from benchmarks.report import Results, progress
from benchmarks.suites.contention import measure

PURPOSE = (
    "delta-io/delta-rs#3736 (2,000 appends, 10 at a time, local disk), earth-mover/icechunk#1012 (100 "
    "uncooperative tasks), delta-io/delta-rs#2518 (a table with 6,000 commits and no checkpoint, opened)."
)
OPENED = {"crdtcat": ("no upkeep", "default"), "Delta": ("no checkpoints", "default")}


def run(job: Job) -> Results:
    results = Results()
    with places() as where:
        _appends(job, where, results)
        _tasks(job, where, results)
        _opening(job, where, results)
    return results


def _appends(job: Job, where: Any, results: Results) -> None:
    """delta-rs#3736: how many of 2,000 appends are given up at concurrency 10."""
    processes, rows = job.pick(2, 10, 10), 100
    commits, seconds = job.pick(3, 20, 200), job.pick(30.0, 3.0, 300.0)
    table, notes = [], []
    for entrant in job.entrants("raw"):
        with crew(entrant) as workers:
            for variant in job.pick(entrant.variants, entrant.variants[:1], entrant.variants):
                name = label(entrant, variant)
                progress(f"delta-rs#3736, {name}")
                try:
                    point = measure(workers, where, LOCAL, variant, processes, commits, seconds, rows)
                except EngineFailed as error:
                    notes.append(f"{name}: {error}.")
                    continue
                done = len(point.taken)
                table.append(
                    [
                        name,
                        done,
                        point.failed,
                        processes * commits - done - point.failed,
                        point.lost,
                        point.rate,
                    ]
                )
    results.add(
        f"delta-rs#3736: {processes * commits:,} appends of {rows} rows, {processes} at a time, local disk",
        [
            "engine",
            "acknowledged",
            "failed",
            f"not reached in {seconds:g} s",
            "acknowledged rows lost",
            "commits/s",
        ],
        table,
        " ".join(["The report: 142 of 2,000 given up.", *notes, job.absent()]).strip(),
    )


def _tasks(job: Job, where: Any, results: Results) -> None:
    """icechunk#1012: many tasks that know nothing of each other commit once each, at the same time."""
    tasks, rows = job.pick(3, 12, 100), 100
    kind = job.pick(LOCAL, NEAR, FAR)
    table, notes = [], []
    for entrant in job.entrants():
        with crew(entrant) as workers:
            for variant in job.pick(entrant.variants, entrant.variants[:1], entrant.variants):
                name = label(entrant, variant)
                progress(f"icechunk#1012, {name}")
                try:
                    point = measure(
                        workers, where, kind, variant, tasks, 1, job.pick(30.0, 10.0, 120.0), rows
                    )
                except EngineFailed as error:
                    notes.append(f"{name}: {error}.")
                    continue
                slowest = max(point.taken) if point.taken else None
                median = point.latency(50)
                table.append(
                    [
                        name,
                        len(point.taken),
                        point.failed,
                        median / 1000 if median else None,
                        slowest,
                        point.requests,
                        point.lost,
                    ]
                )
    results.add(
        f"icechunk#1012: {tasks} tasks commit once each, all at once, {kind}",
        [
            "engine",
            "acknowledged",
            "failed",
            "p50 s",
            "slowest s",
            "requests/commit",
            "acknowledged rows lost",
        ],
        table,
        " ".join(["The report: up to 20 s per commit.", *notes, job.absent()]).strip(),
    )


def _opening(job: Job, where: Any, results: Results) -> None:
    """delta-rs#2518: what it takes to open a table with many commits and nothing tidied."""
    commits, limit = job.pick(10, 600, 6_000), job.pick(60.0, 4.0, 600.0)
    kind = job.pick(LOCAL, LOCAL, NEAR)
    table, notes = [], []
    for entrant in job.entrants("raw", "Icechunk"):
        for variant in OPENED.get(entrant.name, ("default",)):
            name = label(entrant, variant)
            progress(f"delta-rs#2518, {name}")
            with crew(entrant) as workers:
                place = where.fresh(kind)
                common: dict[str, Any] = {"place": place.to_json(), "variant": variant}
                try:
                    workers.ask("create", **common, rows=10, rows_max=0)
                    built = workers.ask(
                        "build", first=0, commits=commits, rows=10, limit=limit, seconds=limit
                    )
                    seen = where.far(place) if kind != LOCAL else place
                    found = workers.fresh("opening", place=seen.to_json(), variant=variant)
                except EngineFailed as error:
                    notes.append(f"{name}: {error}.")
                    continue
                table.append([name, built["commits"], built["seconds"], found["seconds"], found["rows"] / 10])
                where.forget(place)
    place_text = "local disk" if kind == LOCAL else "S3, 20 ms each way for the reader"
    results.add(
        f"delta-rs#2518: open a table of {commits:,} commits of 10 rows and count its rows, {place_text}",
        ["engine", "commits made", "seconds to make them", "seconds to open and count", "commits found"],
        table,
        " ".join(["The report: 30 s to open, on S3.", *notes, job.absent()]).strip(),
    )

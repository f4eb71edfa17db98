"""Reports from peers' own trackers, replayed on this machine with today's releases, and with crdtcat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.crew import Crew, EngineFailed, crew
from benchmarks.engines import Entrant
from benchmarks.job import Job, label
from benchmarks.places import FAR, LOCAL, NEAR, Places, places
from benchmarks.report import Results, progress
from benchmarks.suites.contention import WAITS, measure, waiting

PURPOSE = (
    "delta-io/delta-rs#3736 (2,000 appends, 10 at a time, local disk), earth-mover/icechunk#1012 (100 "
    "uncooperative tasks), delta-io/delta-rs#2518 (a table with 6,000 commits and no checkpoint, opened)."
)
OPENED = {"crdtcat": ("no upkeep", "default"), "Delta": ("no checkpoints", "default")}
ROWS = 100
ROWS_OPENED = 10


@dataclass
class Replay:
    """One report: its table and what is to be said about it."""

    rows: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(
        self, job: Job, results: Results, title: str, header: list[str], report: str, figure: str
    ) -> None:
        results.add(title, header, self.rows, " ".join([report, *self.notes, job.absent()]).strip())
        results.bars(figure)


def run(job: Job) -> Results:
    results = Results()
    appends, tasks, opening = _Appends(job), _Tasks(job), _Opening(job)
    with places() as where:
        for entrant in job.entrants(in_database=job.size == "full"):
            with crew(entrant, job.overtime) as workers:
                for replay in (appends, tasks, opening):
                    replay.take(entrant, workers, where)
    for replay in (appends, tasks, opening):
        replay.report(results)
    return results


class _Appends:
    """delta-rs#3736: how many of 2,000 appends are given up at concurrency 10."""

    def __init__(self, job: Job) -> None:
        self.job, self.found = job, Replay()
        self.processes = job.pick(2, 10, 10)
        self.commits, self.seconds = job.pick((3, 30.0), (20, 2.0), (200, 150.0))

    def take(self, entrant: Entrant, workers: Crew, where: Places) -> None:
        total = self.processes * self.commits
        for variant in self.job.variants(entrant):
            name = label(entrant, variant)
            progress(f"delta-rs#3736, {name}")
            try:
                point = measure(
                    workers, where, LOCAL, variant, self.processes, self.commits, self.seconds, ROWS
                )
            except EngineFailed as error:
                self.found.notes.append(f"{name}: {error}.")
                continue
            done = len(point.taken)
            row = [name, done, point.failed, total - done - point.failed, point.lost, point.rate]
            self.found.rows.append(waiting(row, entrant, LOCAL, variant))

    def report(self, results: Results) -> None:
        header = ["engine", "acknowledged", "failed", f"not reached in {self.seconds:g} s"]
        self.found.show(
            self.job,
            results,
            f"delta-rs#3736: {self.processes * self.commits:,} appends of {ROWS} rows, {self.processes} at a "
            "time, local disk",
            [*header, "acknowledged rows lost", "commits/s", WAITS],
            "The report: 142 of 2,000 given up.",
            "commits/s",
        )


class _Tasks:
    """icechunk#1012: many tasks that know nothing of each other commit once each, at the same time."""

    def __init__(self, job: Job) -> None:
        self.job, self.found = job, Replay()
        self.tasks, self.seconds = job.pick((3, 30.0), (12, 5.0), (100, 60.0))
        self.kind = job.pick(LOCAL, NEAR, FAR)

    def take(self, entrant: Entrant, workers: Crew, where: Places) -> None:
        for variant in self.job.variants(entrant):
            name = label(entrant, variant)
            progress(f"icechunk#1012, {name}")
            try:
                point = measure(workers, where, self.kind, variant, self.tasks, 1, self.seconds, ROWS)
            except EngineFailed as error:
                self.found.notes.append(f"{name}: {error}.")
                continue
            median = point.latency(50)
            self.found.rows.append(
                [
                    name,
                    len(point.taken),
                    point.failed,
                    point.cut,
                    median / 1000 if median else None,
                    max(point.taken) if point.taken else None,
                    point.requests,
                    point.lost,
                ]
            )

    def report(self, results: Results) -> None:
        self.found.show(
            self.job,
            results,
            f"icechunk#1012: {self.tasks} tasks commit once each, all at once, {self.kind}",
            [
                "engine",
                "acknowledged",
                "failed",
                "cut off",
                "p50 s",
                "slowest s",
                "requests/commit",
                "acknowledged rows lost",
            ],
            "The report: up to 20 s per commit.",
            "slowest s",
        )


class _Opening:
    """delta-rs#2518: what it takes to open a table with many commits and nothing tidied."""

    def __init__(self, job: Job) -> None:
        self.job, self.found = job, Replay()
        self.commits, self.limit = job.pick((10, 60.0), (200, 2.0), (6_000, 240.0))
        self.kind = job.pick(LOCAL, LOCAL, NEAR)

    def take(self, entrant: Entrant, workers: Crew, where: Places) -> None:
        if entrant.name == "Icechunk":
            return
        for variant in OPENED.get(entrant.name, ("default",)):
            name = label(entrant, variant)
            progress(f"delta-rs#2518, {name}")
            place = where.fresh(self.kind, entrant)
            common: dict[str, Any] = {"place": place.to_json(), "variant": variant}
            try:
                workers.ask("create", **common, rows=ROWS_OPENED, rows_max=0)
                built = workers.ask(
                    "build",
                    first=0,
                    commits=self.commits,
                    rows=ROWS_OPENED,
                    limit=self.limit,
                    seconds=self.limit,
                )
                seen = where.far(place) if self.kind != LOCAL else place
                found = workers.fresh("opening", place=seen.to_json(), variant=variant)
            except EngineFailed as error:
                self.found.notes.append(f"{name}: {error}.")
                continue
            finally:
                where.forget(place)
            count = found["rows"] / ROWS_OPENED
            self.found.rows.append([name, built["commits"], built["seconds"], found["seconds"], count])

    def report(self, results: Results) -> None:
        place = "local disk" if self.kind == LOCAL else "S3, 20 ms each way for the reader"
        self.found.show(
            self.job,
            results,
            f"delta-rs#2518: open a table of {self.commits:,} commits of {ROWS_OPENED} rows and count its "
            f"rows, {place}",
            ["engine", "commits made", "seconds to make them", "seconds to open and count", "commits found"],
            "The report: 30 s to open, on S3. Raw reads the ids of all its files. Icechunk is left out: its "
            "arrays are as long as they were made, and have no rows to count.",
            "seconds to open and count",
        )

"""Many processes append to one table: how many commits a second, how many fail, and whether every promise
was kept."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.crew import Answer, Crew, EngineFailed, crew
from benchmarks.engines import UNFORCED, Entrant
from benchmarks.job import Job, label
from benchmarks.places import FAR, LOCAL, NEAR, Places, places
from benchmarks.plots import Plot
from benchmarks.report import Results, progress

PURPOSE = (
    "1 to 64 processes append 1,000 rows at a time to one table, on local disk, on a real S3 server, and "
    "on that server behind a proxy that adds 20 ms each way. A cold reader then counts what was "
    "acknowledged."
)
ROWS = 1_000
COMMITS_PER_SECOND = 1_000
"""Rows are made before, for so many commits of all processes together; whoever has none left has done."""
ENOUGH = 10**9
Kinds = dict[str, tuple[int, ...]]
ERROR_LENGTH = 160
HEADER = [
    "engine",
    "processes",
    "commits/s",
    "of raw",
    "p50 ms",
    "p99 ms",
    "acknowledged",
    "failed",
    "cut off",
    "retries",
    "requests/commit",
    "rows readable / acknowledged",
    "lost rows",
    "rows twice",
]


WAITS = "disk waits/commit"


@dataclass
class Point:
    """One engine, one place, one number of processes."""

    processes: int
    taken: list[float] = field(default_factory=list)
    failed: int = 0
    cut: int = 0
    retries: int | None = 0
    seconds: float = 1.0
    limit: float = 1.0
    in_time: int = 0
    requests: float | None = None
    acknowledged: int = 0
    readable: int = 0
    lost: int = 0
    repeated: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Commits per second: in the point's own time, or until the last one under way was done, whichever
        is better. The first is steady where commits are many; where few commits take long, most of what
        the time was spent on is in the second."""
        return max(self.in_time / self.limit, len(self.taken) / self.seconds)

    def latency(self, percent: float) -> float | None:
        return float(np.percentile(self.taken, percent)) * 1000 if self.taken else None


def measure(
    workers: Crew,
    where: Places,
    kind: str,
    variant: str,
    processes: int,
    commits: int,
    seconds: float,
    rows: int = ROWS,
) -> Point:
    """One point: a fresh table, `processes` writers at once, then a cold reader. Only the writers are far
    away: nobody waits for what is not measured."""
    place = where.fresh(NEAR if kind == FAR else kind, workers.entrant)
    total = processes * commits
    common: dict[str, Any] = {"place": place.to_json(), "variant": variant}
    workers.ask("create", **common, rows=rows, rows_max=total * rows)
    seen = {**common, "place": (where.far(place) if kind == FAR else place).to_json()}
    shares = [{**seen, "first": at * commits, "commits": commits, "rows": rows} for at in range(processes)]
    for answer in workers.together("ready", shares, seconds=120):
        answer.result()
    before = where.now() if kind == FAR else None
    began = time.time()
    answers = workers.together("appends", [{"seconds": seconds}] * processes, seconds=seconds)
    point = _account(processes, answers, rows, time.time() - began)
    point.limit = seconds
    point.in_time = sum(event.get("at", math.inf) <= began + seconds for event in _events(answers))
    if before is not None:
        requests, _ = where.since(before)
        point.requests = sum(requests.values()) / len(point.taken) if point.taken else None
    found = workers.ask("count", **common, rows=rows, commits=total)
    _compare(point, answers, found, rows)
    where.forget(place)
    return point


def middle(points: list[Point]) -> Point:
    """The one of the middle rate, with what went wrong in any of them."""
    chosen = sorted(points, key=lambda point: point.rate)[len(points) // 2]
    return replace(
        chosen,
        failed=sum(point.failed for point in points),
        cut=sum(point.cut for point in points),
        lost=sum(point.lost for point in points),
        repeated=sum(point.repeated for point in points),
        errors=sum((point.errors for point in points), Counter()),
    )


def _how_long(seconds: float, commits: int, rounds: int) -> str:
    each = f"for {seconds:g} s" if commits == ENOUGH else f"{commits} times each"
    return each if rounds == 1 else f"{each}, the middle of {rounds} rounds"


def _account(processes: int, answers: list[Answer], rows: int, seconds: float) -> Point:
    """What the writers told; `seconds` is what it took if some of them were ended."""
    point = Point(processes, cut=sum(answer.cut for answer in answers))
    for event in _events(answers):
        if "error" in event:
            point.failed += 1
            point.errors[event["error"][:ERROR_LENGTH]] += 1
            continue
        point.taken.append(event["seconds"])
        known = event["retries"] is not None and point.retries is not None
        point.retries = point.retries + event["retries"] if known else None
    finished = [answer.done for answer in answers if answer.done]
    for answer in answers:
        if answer.done is None and not answer.cut:
            point.errors[answer.problem] += 1
    if point.cut:
        point.seconds = seconds
    elif finished:
        point.seconds = max(one["ended"] for one in finished) - min(one["began"] for one in finished)
    point.acknowledged = len(point.taken) * rows
    return point


def _events(answers: list[Answer]) -> Iterator[dict[str, Any]]:
    return (event for answer in answers for event in answer.events)


def _compare(point: Point, answers: list[Answer], found: dict[str, Any], rows: int) -> None:
    kept = {event["commit"] for event in _events(answers) if "error" not in event}
    point.readable = sum(found["present"][number] for number in kept)
    point.lost = sum(rows - found["present"][number] for number in kept)
    point.repeated = found["repeated"]


def series(
    job: Job,
    kinds: Kinds,
    seconds: float,
    commits: int = ENOUGH,
    *,
    rounds: Mapping[str, int] = MappingProxyType({}),
    unforced: bool = False,
) -> Results:
    """All points of all engines, at most `commits` by each process: a table for each place, and a plot. In
    places with `rounds`, each point is the middle one of so many. With `unforced`, those who wait for the
    disk run without waiting, too."""
    results = Results()
    rows: dict[str, list[list[Any]]] = {kind: [] for kind in kinds}
    lines: dict[str, dict[str, list[tuple[float, float]]]] = {kind: {} for kind in kinds}
    limits: dict[tuple[str, int], float] = {}
    notes: dict[str, list[str]] = {kind: [] for kind in kinds}
    with places() as where:
        for entrant in job.entrants(in_database=True):
            with crew(entrant, job.overtime) as workers:
                for kind, counts in kinds.items():
                    # In a short run it failed nobody: what more retries would change is in the full one.
                    variants = job.variants(entrant) if entrant.in_database else entrant.variants
                    if unforced and entrant.forces and kind == LOCAL:
                        variants = (*variants, UNFORCED)
                    for variant in variants:
                        name = label(entrant, variant)
                        for processes in counts:
                            if variant == "generous" and processes == 1:
                                continue  # nobody is in the way: the setting changes nothing
                            progress(f"{kind}, {processes} processes, {name}")
                            try:
                                most = min(commits, math.ceil(COMMITS_PER_SECOND * seconds / processes))
                                point = middle(
                                    [
                                        measure(workers, where, kind, variant, processes, most, seconds)
                                        for _ in range(rounds.get(kind, 1))
                                    ]
                                )
                            except EngineFailed as error:
                                row = [name, processes, *[None] * (len(HEADER) - 2)]
                                rows[kind].append(waiting(row, entrant, kind, variant))
                                notes[kind].append(f"{name}, {processes} processes: {error}.")
                                continue
                            if name == "raw":
                                limits[kind, processes] = point.rate
                            limit = limits.get((kind, processes))
                            rows[kind].append(waiting(_row(name, point, limit), entrant, kind, variant))
                            lines[kind].setdefault(name, []).append((processes, point.rate))
                            if point.errors:
                                (error_name, count), *_ = point.errors.most_common(1)
                                notes[kind].append(
                                    f"{name}, {processes} processes: {error_name} ({count} times)."
                                )
    for number, kind in enumerate(kinds):
        how_long = _how_long(seconds, commits, rounds.get(kind, 1))
        title = f"{kind}: processes append {ROWS:,} rows at a time {how_long}"
        header = [*HEADER, WAITS] if kind == LOCAL else HEADER
        results.add(title, header, rows[kind], " ".join([*notes[kind], job.absent()]).strip())
        results.plots.append(
            Plot(f"{number + 1}", f"Commits per second, {kind}", "processes", "commits/s", lines[kind])
        )
    return results


def waiting(row: list[Any], entrant: Entrant, kind: str, variant: str) -> list[Any]:
    """The row, and on local disk how often one commit waits for it: who does not wait is quicker."""
    if kind != LOCAL:
        return row
    return [*row, "0" if variant == UNFORCED else entrant.disk_waits]


def _row(name: str, point: Point, limit: float | None) -> list[Any]:
    return [
        name,
        point.processes,
        point.rate,
        point.rate / limit if limit else None,
        point.latency(50),
        point.latency(99),
        len(point.taken),
        point.failed,
        point.cut,
        point.retries,
        point.requests,
        f"{point.readable:,} / {point.acknowledged:,}",
        point.lost,
        point.repeated,
    ]


def run(job: Job) -> Results:
    tiny: Kinds = {LOCAL: (1, 2)}
    short: Kinds = dict.fromkeys((LOCAL, FAR), (16,))
    full: Kinds = dict.fromkeys((LOCAL, NEAR, FAR), (1, 4, 16, 64))
    kinds, seconds, commits = job.pick((tiny, 20.0, 3), (short, 2.0, ENOUGH), (full, 5.0, ENOUGH))
    return series(job, kinds, seconds, commits, unforced=True)

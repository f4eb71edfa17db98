"""What many small commits cost a reader: a cold open and a full read, before and after the engine's
upkeep."""

from __future__ import annotations

from typing import Any

from benchmarks.crew import Crew, EngineCannot, EngineFailed, crew
from benchmarks.engines import Entrant
from benchmarks.job import Job, label
from benchmarks.places import FAR, LOCAL, NEAR, Places, places
from benchmarks.plots import Plot
from benchmarks.report import Results, progress
from benchmarks.suites.contention import Kinds

PURPOSE = (
    "Commits of 10 rows, one after the other; then a new handle opens the table and reads all of it, as "
    "it is, and after the upkeep that the engine's documentation tells users to run."
)
ROWS = 10
HEADER = [
    "engine",
    "commits",
    "upkeep",
    "seconds",
    "of raw",
    "requests",
    "MB down",
    "peak memory MB",
    "build s",
]
VARIANTS = {"crdtcat": ("no upkeep", "default")}
"""crdtcat bundles by itself, by default; without that it is measured as the others are."""


class Line:
    """One engine in one place, with more and more commits."""

    def __init__(self, job: Job, workers: Crew, where: Places, kind: str, variant: str) -> None:
        self.job, self.workers, self.where, self.variant = job, workers, where, variant
        self.place = where.fresh(NEAR if kind == FAR else kind)
        self.is_far = kind == FAR
        self.built, self.seconds = 0, 0.0
        self.common: dict[str, Any] = {"place": self.place.to_json(), "variant": variant}

    def start(self) -> None:
        self.workers.ask("create", **self.common, rows=ROWS, rows_max=0)

    def grow(self, commits: int, seconds: float) -> bool:
        """Commit until there are `commits`; whether that was done within `seconds` in all."""
        done = self.workers.ask(
            "build",
            first=self.built,
            commits=commits - self.built,
            rows=ROWS,
            limit=seconds - self.seconds,
            seconds=seconds,
        )
        self.built += done["commits"]
        self.seconds += done["seconds"]
        return self.built == commits

    def read(self) -> list[Any]:
        """seconds, requests, MB down, peak memory MB; every row must be there."""
        seen = self.where.far(self.place) if self.is_far else self.place
        times = self.job.pick(1, 2, 3)
        before = self.where.now() if self.is_far else None
        found = self.workers.fresh("read", place=seen.to_json(), variant=self.variant, times=times)
        if found["rows"] != self.built * ROWS:
            raise EngineFailed(f"{found['rows']} of {self.built * ROWS} acknowledged rows are readable")
        requests = down = None
        if before is not None:
            counted, traffic = self.where.since(before)
            requests, down = sum(counted.values()) / times, traffic["down"] / times / 1e6
        return [found["seconds"], requests, down, found["memory"] / 1e6]


def run(job: Job) -> Results:
    tiny: Kinds = {LOCAL: (5, 10)}
    short: Kinds = {LOCAL: (100, 1_000), FAR: (100,)}
    full: Kinds = {LOCAL: (10, 100, 1_000, 10_000), FAR: (10, 100, 1_000)}
    kinds = job.pick(tiny, short, full)
    limit = job.pick(60.0, 2.0, 180.0)
    results = Results()
    with places() as where:
        rows: dict[str, list[list[Any]]] = {kind: [] for kind in kinds}
        notes: dict[str, list[str]] = {kind: [] for kind in kinds}
        for entrant in job.entrants():
            with crew(entrant) as workers:
                for kind, counts in kinds.items():
                    for variant in VARIANTS.get(entrant.name, ("default",)):
                        name = label(entrant, variant)
                        progress(f"{kind}, {name}")
                        line = Line(job, workers, where, kind, variant)
                        try:
                            _measure(line, entrant, name, counts, limit, rows[kind], notes[kind])
                        except EngineFailed as error:
                            notes[kind].append(f"{name}: {error}.")
                        where.forget(line.place)
        for number, kind in enumerate(kinds):
            _with_ratios(rows[kind])
            title = f"{kind}: cold open and full read after commits of {ROWS} rows"
            results.add(title, HEADER, rows[kind], " ".join([*notes[kind], job.absent()]).strip())
            lines: dict[str, list[tuple[float, float]]] = {}
            for row in rows[kind]:
                if row[2] == "before":
                    lines.setdefault(row[0], []).append((row[1], row[3]))
            results.plots.append(
                Plot(f"{number + 1}", f"Cold open and full read, {kind}", "commits", "seconds", lines)
            )
    return results


def _measure(
    line: Line,
    entrant: Entrant,
    name: str,
    counts: tuple[int, ...],
    limit: float,
    rows: list[list[Any]],
    notes: list[str],
) -> None:
    line.start()
    for count in counts:
        if not line.grow(count, limit):
            notes.append(f"{name}: {line.built:,} commits in {line.seconds:.0f} s, then given up.")
            if line.built > (rows[-1][1] if rows and rows[-1][0] == name else 0):
                rows.append(_row(name, line.built, "before", line))
            break
        rows.append(_row(name, count, "before", line))
    if entrant.name == "raw":
        return
    try:
        taken = line.workers.fresh("upkeep", **line.common)["seconds"]
    except EngineCannot as error:
        notes.append(f"{name}: {error}.")
        return
    rows.append(_row(name, line.built, f"after ({taken:.1f} s)", line))


def _row(name: str, count: int, upkeep: str, line: Line) -> list[Any]:
    progress(f"  {count:,} commits, {upkeep} upkeep")
    seconds, requests, down, memory = line.read()
    return [name, count, upkeep, seconds, None, requests, down, memory, line.seconds]


def _with_ratios(rows: list[list[Any]]) -> None:
    raw = {row[1]: row[3] for row in rows if row[0] == "raw"}
    for row in rows:
        row[4] = row[3] / raw[row[1]] if row[1] in raw else None

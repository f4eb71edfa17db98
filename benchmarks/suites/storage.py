"""Bytes kept for many versions of one table, each a little different from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.changes import CASES
from benchmarks.crew import Crew, EngineCannot, EngineFailed, crew
from benchmarks.job import Job
from benchmarks.places import LOCAL, Places, places
from benchmarks.report import Results, progress

PURPOSE = (
    "10 versions (50 in the full run) of a table of 6 columns, each 3 to 5 % different from the one before, "
    "every version kept readable; and 10 versions of 100,000 rows of 4 columns (id, random float, one of 4 "
    "strings, random moment), of which 5 % of the rows are new each time. Each engine stores them by handing "
    "in the whole table (crdtcat: `write`), and by its merge where it has one (crdtcat: `upsert` and "
    "`delete` of a table with a key), which is told exactly which rows changed."
)
FLOORS = {
    "5 % clustered": 0.05,
    "5 % scattered": 0.05,
    "3 % inserted": 0.03,
    "4 % deleted": 0.0,
    "5 % appended": 0.05,
    "clustered": 0.05,
    "scattered": 0.05,
}
"""What the changed rows alone would take, as a part of one version: nobody who keeps them can need less."""
HEADER = [
    "case",
    "engine",
    "stored by",
    "one version MB",
    "all versions MB",
    "ratio to one",
    "ratio to floor",
    "s/version",
]


def run(job: Job) -> Results:
    results = Results()
    rewritten = Versions(("clustered", "scattered"), *job.pick((2_000, 3), (100_000, 10), (100_000, 10)))
    changed = Versions(tuple(CASES), *job.pick((2_000, 3), (20_000, 10), (200_000, 50)))
    limit = job.pick(60.0, 4.0, 120.0)
    with places() as where:
        for entrant in job.entrants():
            with crew(entrant) as workers:
                for versions in (rewritten, changed):
                    versions.store(entrant.name, workers, where, limit)
    table, notes = rewritten.found()
    results.add(
        f"{rewritten.count} versions of {rewritten.rows:,} rows x 4 columns, 5 % of the rows rewritten "
        "each time",
        HEADER,
        table,
        " ".join(
            [
                "Aim: at most 1.6 times one version, and less than Lance's merge.",
                "Floor: one version and the changed rows, nothing else, ids included.",
                "crdtcat keeps what it bundles twice for a grace period; one run in four has a bundle.",
                *notes,
            ]
        ),
    )
    for case in rewritten.cases:
        results.bars("all versions MB", ("engine", "stored by"), {"case": case})
    table, notes = changed.found()
    results.add(
        f"{changed.count} versions of {changed.rows:,} rows x 6 columns",
        HEADER,
        table,
        " ".join(
            [
                "Floor: one version and the changed rows, nothing else.",
                "Raw writes whole files, or the changed rows beside the old ones.",
                *notes,
                job.absent(),
            ]
        ).strip(),
    )
    return results


@dataclass
class Versions:
    """So many versions of one table, for each of several ways to change it; and what they took."""

    cases: Sequence[str]
    rows: int
    count: int
    table: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def store(self, engine: str, workers: Crew, where: Places, limit: float) -> None:
        """A line for every way and case."""
        for how in ("replace", "merge"):
            for case in self.cases:
                progress(f"{engine}, {how}, {case}")
                place = where.fresh(LOCAL)
                try:
                    found = workers.ask(
                        "versions",
                        place=place.to_json(),
                        variant="default",
                        case=case,
                        rows=self.rows,
                        count=self.count,
                        how=how,
                        seconds=limit,
                    )
                except EngineCannot as error:
                    self.notes.append(f"{engine}, {how}: {error}.")
                    break
                except EngineFailed as error:
                    self.notes.append(f"{engine}, {how}, {case}: {error}; other cases left out.")
                    break
                finally:
                    where.forget(place)
                self._take(engine, how, case, found)

    def _take(self, engine: str, how: str, case: str, found: dict[str, Any]) -> None:
        if not found["right"] and engine != "raw":
            self.notes.append(f"{engine}, {how}, {case}: the last version reads back WRONG.")
        one, last = found["sizes"][0], found["sizes"][-1]
        floor = one * (1 + (self.count - 1) * FLOORS[case])
        each = found["seconds"] / (self.count - 1)
        ratios = [last / one, last / floor]
        self.table.append([case, engine, how, one / 1e6, last / 1e6, *ratios, each])

    def found(self) -> tuple[list[list[Any]], list[str]]:
        """By case and ratio; and what is to be said."""
        rows = sorted(self.table, key=lambda row: (self.cases.index(row[0]), row[5]))
        return rows, sorted(set(self.notes))

"""Bytes kept for many versions of one table, each a little different from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.changes import CASES
from benchmarks.crew import EngineCannot, EngineFailed, crew
from benchmarks.job import Job
from benchmarks.places import LOCAL, places
from benchmarks.report import Results, progress

PURPOSE = (
    "4 versions (50 in the full run) of a table of 6 columns, each 3 to 5 % different from the one "
    "before, every version kept readable; and 10 versions of 100,000 rows of 4 columns (id, random "
    "float, one "
    "of 4 strings, random moment), of which 5 % of the rows are new each time. Each engine stores them "
    "by handing "
    "in the whole table (crdtcat: `write`), and by its merge where it has one, which is told exactly which "
    "rows changed."
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
WAYS = {"raw": ("replace",)}
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
    rows, count = job.pick((2_000, 3), (100_000, 10), (100_000, 10))
    table, notes = _stored(job, ("clustered", "scattered"), rows, count)
    results.add(
        f"{count} versions of {rows:,} rows x 4 columns, 5 % of the rows rewritten each time",
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
    rows, count = job.pick((2_000, 3), (30_000, 4), (1_000_000, 50))
    table, notes = _stored(job, tuple(CASES), rows, count)
    results.add(
        f"{count} versions of {rows:,} rows x 6 columns",
        HEADER,
        table,
        " ".join(
            [
                "Floor: one version and the changed rows, nothing else. Raw writes whole files.",
                *notes,
                job.absent(),
            ]
        ).strip(),
    )
    return results


def _stored(job: Job, cases: Sequence[str], rows: int, count: int) -> tuple[list[list[Any]], list[str]]:
    """A line for every engine, way and case, by case and ratio; and what is to be said about them."""
    limit = job.pick(60.0, 4.0, 3_600.0)
    notes: list[str] = []
    table: list[list[Any]] = []
    with places() as where:
        for entrant in job.entrants():
            with crew(entrant) as workers:
                for how in WAYS.get(entrant.name, ("replace", "merge")):
                    for case in cases:
                        progress(f"{entrant.name}, {how}, {case}")
                        place = where.fresh(LOCAL)
                        try:
                            found = workers.ask(
                                "versions",
                                place=place.to_json(),
                                variant="default",
                                case=case,
                                rows=rows,
                                count=count,
                                how=how,
                                seconds=limit,
                            )
                        except EngineCannot as error:
                            notes.append(f"{entrant.name}, {how}: {error}.")
                            break
                        except EngineFailed as error:
                            notes.append(f"{entrant.name}, {how}, {case}: {error}; other cases left out.")
                            break
                        finally:
                            where.forget(place)
                        if not found["right"] and entrant.name != "raw":
                            notes.append(f"{entrant.name}, {how}, {case}: the last version reads back WRONG.")
                        one, last = found["sizes"][0], found["sizes"][-1]
                        floor = one * (1 + (count - 1) * FLOORS[case])
                        table.append(
                            [
                                case,
                                entrant.name,
                                how,
                                one / 1e6,
                                last / 1e6,
                                last / one,
                                last / floor,
                                found["seconds"] / (count - 1),
                            ]
                        )
    table.sort(key=lambda row: (cases.index(row[0]), row[5]))
    return table, sorted(set(notes))

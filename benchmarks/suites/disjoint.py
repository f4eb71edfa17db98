"""Many processes update rows of their own in one table; and what it takes to find what two commits share."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from benchmarks import passing
from benchmarks.crew import Crew, EngineFailed, crew
from benchmarks.engines import UNFORCED, Entrant
from benchmarks.job import Job, label
from benchmarks.passing import AT_ONCE, ROWS_EACH
from benchmarks.places import FAR, LOCAL, NEAR, Places, places
from benchmarks.report import Results, progress
from benchmarks.suites.contention import WAITS, waiting

PURPOSE = (
    "Processes update rows of their own, 10 at a time, in one table and one file. Disjoint rows need not "
    "conflict: whoever is refused, or gives up, did its work for nothing. A cold reader then looks whether "
    "every acknowledged value is there."
)
HEADER = [
    "engine",
    "processes",
    "updates/s",
    "of raw",
    "p50 ms",
    "p99 ms",
    "committed",
    "failed",
    "cut off",
    "retries by the caller",
    "requests/commit",
    "others meanwhile",
    "lost",
]
Kinds = dict[str, tuple[int, ...]]
ALL = (2, 8, 32)
"""Processes of crdtcat and raw in a short run. In a full one everybody has all counts."""
FEWER = {LOCAL: (8,), FAR: (8, 32)}
"""Those of the peers below by their defaults, in a short run; with generous retries 8."""
NEAREST = ("Delta", "Lance", "Icechunk")
"""The peers that crdtcat is held against in a short run, too."""


class Part(NamedTuple):
    """One point."""

    kind: str
    variant: str
    processes: int
    commits: int
    seconds: float


def run(job: Job) -> Results:
    results = Results()
    tiny: Kinds = {LOCAL: (2,)}
    short: Kinds = dict.fromkeys((LOCAL, FAR), (8,))
    full: Kinds = dict.fromkeys((LOCAL, FAR), ALL)
    kinds = job.pick(tiny, short, full)
    commits, seconds = job.pick((2, 20.0), (30, 1.5), (200, 6.0))
    rows: dict[str, list[list[Any]]] = {kind: [] for kind in kinds}
    notes: dict[str, list[str]] = {kind: [] for kind in kinds}
    with places() as where:
        for entrant in job.entrants(in_database=job.size == "full"):
            if entrant.is_peer and job.size != "full" and entrant.name not in NEAREST:
                continue
            with crew(entrant, job.overtime) as workers:
                for part in (
                    Part(kind, variant, processes, commits, seconds)
                    for kind, counts in kinds.items()
                    for variant in _variants(entrant, kind)
                    for processes in _processes(job, entrant, variant, kind, counts)
                ):
                    name = label(entrant, part.variant)
                    progress(f"{part.kind}, {part.processes} processes, {name}")
                    row: list[Any] = [None] * (len(HEADER) - 2)
                    try:
                        row, note = _measured(workers, where, part)
                    except EngineFailed as error:
                        note = str(error)[:160]
                    row = [name, part.processes, *row]
                    rows[part.kind].append(waiting(row, entrant, part.kind, part.variant))
                    notes[part.kind] += [f"{name}, {part.processes} processes: {note}."] if note else []
    for kind in kinds:
        title = f"{kind}: processes x up to {commits} updates of {AT_ONCE} own rows, at most {seconds:g} s"
        _with_ratios(rows[kind])
        header = [*HEADER, WAITS] if kind == LOCAL else HEADER
        results.add(title, header, rows[kind], " ".join([*notes[kind], job.absent()]).strip())
    passing.requests(results)
    passing.between(job, results)
    passing.overlapping(job, results)
    return results


def _variants(entrant: Entrant, kind: str) -> tuple[str, ...]:
    variants = ("default", "CAS") if entrant.name == "crdtcat" else entrant.variants
    return (*variants, UNFORCED) if entrant.forces and kind == LOCAL else variants


def _processes(
    job: Job, entrant: Entrant, variant: str, kind: str, counts: tuple[int, ...]
) -> tuple[int, ...]:
    if job.size != "short" or variant in ("generous", UNFORCED):
        return counts
    return FEWER[kind] if entrant.is_peer else ALL


def _with_ratios(rows: list[list[Any]]) -> None:
    raw = {row[1]: row[2] for row in rows if row[0] == "raw"}
    for row in rows:
        row[3] = row[2] / raw[row[1]] if row[2] is not None and raw.get(row[1]) else None


def _measured(workers: Crew, where: Places, part: Part) -> tuple[list[Any], str]:
    kind, variant, processes, commits, seconds = part
    place = where.fresh(NEAR if kind == FAR else kind, workers.entrant)
    common: dict[str, Any] = {"place": place.to_json(), "variant": variant}
    workers.ask("filled", **common, rows=processes * ROWS_EACH)
    seen = {**common, "place": (where.far(place) if kind == FAR else place).to_json()}
    shares = [{**seen, "first": me * ROWS_EACH, "each": ROWS_EACH} for me in range(processes)]
    for answer in workers.together("ready_to_update", shares, seconds=120):
        answer.result()
    before = where.now() if kind == FAR else None
    asked = [{"commits": commits, "seconds": seconds, "at_once": AT_ONCE}] * processes
    began = time.monotonic()
    answers = workers.together("updates_of_own", asked, seconds=seconds)
    wall = time.monotonic() - began
    requests = None if before is None else sum(where.since(before)[0].values())
    told = [event for answer in answers for event in answer.events]
    events = [event for event in told if "error" not in event and "cut" not in event]
    taken = [event["seconds"] for event in events]
    errors = [event["error"] for event in told if "error" in event]
    cut = sum("cut" in event for event in told) + sum(answer.cut for answer in answers)
    retries = sum(event["retries"] for event in told)
    cold = workers.ask("values", **common)
    found = dict(zip(cold["ids"], cold["values"], strict=True))
    last: dict[int, float] = {}
    for event in events:
        last |= dict.fromkeys(range(event["low"], event["high"]), event["value"])
    # Values rise; a greater one is of a commit that was cut off and stood.
    lost = sum(found.get(id, -1.0) < value for id, value in last.items())
    done = [answer.done for answer in answers if answer.done]
    if len(done) == len(answers):
        wall = max(one["ended"] for one in done) - min(one["began"] for one in done)
    where.forget(place)
    p50, p99 = (float(np.percentile(taken, at)) * 1000 if taken else None for at in (50, 99))
    per = None if requests is None or not taken else requests / len(taken)
    meanwhile = _meanwhile(events)
    row = [len(taken) / wall, None, p50, p99, len(taken), len(errors), cut, retries, per, meanwhile, lost]
    return row, errors[0][:160] if errors else ""


def _meanwhile(events: list[dict[str, Any]]) -> float | None:
    """How many commits were acknowledged from the beginning of one to its own end, on average: those that it
    had to pass, as far as a clock tells."""
    if not events:
        return None
    ends = np.sort([event["at"] for event in events])
    began = np.array([event["at"] - event["seconds"] for event in events])
    at = np.array([event["at"] for event in events])
    return float(np.mean(np.searchsorted(ends, at) - np.searchsorted(ends, began)))

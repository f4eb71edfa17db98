"""Writers while compactors run: what compaction does to those who append, and to those who update rows."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np

from benchmarks.crew import Answer, Crew, EngineCannot, EngineFailed, crew
from benchmarks.job import Job, label
from benchmarks.places import LOCAL, Places, places
from benchmarks.report import Results, progress
from benchmarks.suites.contention import ERROR_LENGTH, ROWS, WAITS, waiting

PURPOSE = (
    "Writers append, or update single rows, at a steady pace, first alone and then beside two processes "
    "that run the engine's own upkeep again and again. Failed writes, and how the writers' latency "
    "changes."
)
WRITERS, UPDATERS, COMPACTORS = 4, 2, 2
LOADS = ("append", "update")
PAUSE = 0.05
UPKEEP_PAUSE = 0.2


def run(job: Job) -> Results:
    seconds = job.pick(1.0, 1.0, 10.0)
    results = Results()
    tables: dict[str, list[list[Any]]] = {load: [] for load in LOADS}
    notes: dict[str, list[str]] = {load: [] for load in LOADS}
    with places() as where:
        for entrant in job.entrants():
            with crew(entrant, job.overtime) as workers:
                for load, variant in product(LOADS, job.variants(entrant)):
                    name = label(entrant, variant)
                    progress(f"{load}, {name}")
                    try:
                        row, note = _measure(workers, where, load, variant, seconds)
                        tables[load].append(waiting([name, *row], entrant, LOCAL, variant))
                        notes[load] += [f"{name}: {note}."] if note else []
                    except EngineFailed as error:
                        notes[load].append(f"{name}: failed, {error}.")
    for load, table in tables.items():
        count = WRITERS if load == "append" else UPDATERS
        results.add(
            f"{count} writers {load}, {COMPACTORS} compactors, local disk, {seconds:g} s",
            [
                "engine",
                "writes alone",
                "failed alone",
                "writes beside",
                "failed beside",
                "p50 alone ms",
                "p50 beside ms",
                "p99 alone ms",
                "p99 beside ms",
                "upkeep runs",
                "upkeep failed",
                "acknowledged writes lost",
                WAITS,
            ],
            table,
            " ".join([*notes[load], job.absent()]).strip(),
        )
        results.bars("p99 beside ms")
    return results


def _measure(workers: Crew, where: Places, load: str, variant: str, seconds: float) -> tuple[list[Any], str]:
    """Alone and beside compactors; alone only where there is nothing to compact with, and why."""
    alone, note = _once(workers, where, load, variant, seconds, compactors=0), ""
    try:
        beside = _once(workers, where, load, variant, seconds, compactors=COMPACTORS)
    except EngineCannot as error:
        beside, note = dict.fromkeys(alone), str(error)
    if errors := alone["errors"] + (beside["errors"] or Counter()):
        (error_name, count), *_ = errors.most_common(1)
        note = f"{note + '; ' if note else ''}{error_name} ({count} times)"
    found: list[Any] = [alone["done"], alone["failed"], beside["done"], beside["failed"]]
    for percent in (50, 99):
        for side in (alone, beside):
            taken = side["taken"]
            found.append(float(np.percentile(taken, percent)) * 1000 if taken else None)
    lost = alone["lost"] + (beside["lost"] or 0)
    return [*found, beside["upkeeps"], beside["upkeeps failed"], lost], note


def _once(
    workers: Crew, where: Places, load: str, variant: str, seconds: float, *, compactors: int
) -> dict[str, Any]:
    place = where.fresh(LOCAL)
    writers = WRITERS if load == "append" else UPDATERS
    commits = int(seconds / PAUSE) + 1
    start = writers * commits
    common: dict[str, Any] = {"place": place.to_json(), "variant": variant}
    total = start + 10
    workers.ask("create", **common, rows=ROWS, rows_max=total * ROWS)
    workers.ask(
        "build", first=start, commits=10, rows=ROWS, limit=60.0
    )  # something to compact, and to update
    shares = [{**common, "first": at * commits, "commits": commits, "rows": ROWS} for at in range(writers)]
    shares += [{**common, "first": 0, "commits": 0, "rows": ROWS}] * compactors
    for answer in workers.together("ready", shares, seconds=120):
        answer.result()
    work: list[tuple[str, dict[str, Any]]] = []
    for at in range(writers):
        if load == "append":
            work.append(("appends", {"seconds": seconds, "pause": PAUSE}))
        else:
            low = start * ROWS + at * ROWS  # rows of one commit each: no two writers touch one row
            work.append(("updates", {"low": low, "high": low + ROWS, "seconds": seconds, "pause": PAUSE}))
    work += [("upkeeps", {"seconds": seconds, "pause": UPKEEP_PAUSE})] * compactors
    answers = workers.mixed(work, seconds=seconds)
    for answer in answers:
        if answer.cannot:
            raise EngineCannot(answer.problem)
    found = _account(answers[:writers], answers[writers:])
    found["lost"] = _lost(workers, answers[:writers], common, load, total)
    where.forget(place)
    return found


def _account(writers: list[Answer], compactors: list[Answer]) -> dict[str, Any]:
    events = [event for answer in writers for event in answer.events]
    upkeeps = [event for answer in compactors for event in answer.events]
    errors = Counter(event["error"][:ERROR_LENGTH] for event in [*events, *upkeeps] if "error" in event)
    errors.update(answer.problem for answer in [*writers, *compactors] if answer.done is None)
    return {
        "errors": errors,
        "done": sum("error" not in event for event in events),
        "failed": sum("error" in event for event in events),
        "taken": [event["seconds"] for event in events if "error" not in event],
        "upkeeps": len(upkeeps),
        "upkeeps failed": sum("error" in event for event in upkeeps),
    }


def _lost(workers: Crew, writers: list[Answer], common: dict[str, Any], load: str, commits: int) -> int:
    events = [event for answer in writers for event in answer.events if "error" not in event]
    if load == "append":
        present = workers.ask("count", **common, rows=ROWS, commits=commits)["present"]
        return sum(present[event["commit"]] != ROWS for event in events)
    ids = set(workers.ask("updated", **common)["ids"])
    return sum(event["update"] not in ids for event in events)

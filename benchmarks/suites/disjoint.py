"""Many processes update rows of their own in one table; and what it takes to find what two commits share."""

from __future__ import annotations

import secrets
import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.crew import Crew, EngineCannot, EngineFailed, crew
from benchmarks.job import Job
from benchmarks.places import FAR, LOCAL, Places, places
from benchmarks.report import Results, progress
from crdtcat import Catalog
from crdtcat.intervals import RowSet

PURPOSE = (
    "Processes update rows of their own, 10 at a time, in one table and one file. Disjoint rows need not "
    "conflict: whoever is refused, or gives up, did its work for nothing. A cold reader then looks whether "
    "every acknowledged value is there."
)
ROWS_EACH = 100
AT_ONCE = 10
TAKES_PART = ("crdtcat", "Delta", "Lance", "Icechunk")
HEADER = [
    "engine",
    "processes",
    "updates/s",
    "p50 ms",
    "p99 ms",
    "committed",
    "failed",
    "requests/commit",
    "lost",
]
Kinds = dict[str, tuple[int, ...]]
OURS = (2, 8, 32)
"""Processes of crdtcat in a short run, where peers have fewer: every one of its commits has to stand."""


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
    short: Kinds = {LOCAL: (8,), FAR: (8,)}
    full: Kinds = dict.fromkeys((LOCAL, FAR), (2, 8, 32))
    kinds = job.pick(tiny, short, full)
    commits, seconds = job.pick(2, 5, 20), job.pick(20.0, 4.0, 60.0)
    rows: dict[str, list[list[Any]]] = {kind: [] for kind in kinds}
    notes: dict[str, list[str]] = {kind: [] for kind in kinds}
    with places() as where:
        for entrant in (item for item in job.entrants("raw") if item.name in TAKES_PART):
            variants = ("default", "CAS") if entrant.name == "crdtcat" else entrant.variants[-1:]
            with crew(entrant) as workers:
                for part in (
                    Part(kind, variant, processes, commits, seconds)
                    for kind, counts in kinds.items()
                    for variant in variants
                    for processes in job.pick(counts, OURS if entrant.name == "crdtcat" else counts, counts)
                ):
                    name = entrant.name if part.variant == "default" else f"{entrant.name}, {part.variant}"
                    progress(f"{part.kind}, {part.processes} processes, {name}")
                    row: list[Any] = [None] * (len(HEADER) - 2)
                    try:
                        row, note = _measured(workers, where, part)
                    except (EngineCannot, EngineFailed) as error:
                        note = str(error)[:160]
                    rows[part.kind].append([name, part.processes, *row])
                    notes[part.kind] += [f"{name}, {part.processes} processes: {note}."] if note else []
    for kind in kinds:
        title = f"{kind}: processes x up to {commits} updates of {AT_ONCE} own rows, at most {seconds:g} s"
        results.add(title, HEADER, rows[kind], " ".join([*notes[kind], job.absent()]).strip())
    _requests(results)
    _overlaps(job, results)
    return results


def _measured(workers: Crew, where: Places, part: Part) -> tuple[list[Any], str]:
    kind, variant, processes, commits, seconds = part
    place = where.fresh(kind)
    common: dict[str, Any] = {"place": place.to_json(), "variant": variant}
    workers.ask("filled", **common, rows=processes * ROWS_EACH)
    shares = [{**common, "first": me * ROWS_EACH, "each": ROWS_EACH} for me in range(processes)]
    for answer in workers.together("ready_to_update", shares, seconds=120):
        answer.result()
    before = where.proxy().now() if kind == FAR else None
    asked = [{"commits": commits, "seconds": seconds, "at_once": AT_ONCE}] * processes
    answers = workers.together("updates_of_own", asked, seconds=seconds)
    requests = None if before is None else sum(where.proxy().since(before)[0].values())
    events = [event for answer in answers for event in answer.events]
    taken = [event["seconds"] for event in events if "error" not in event]
    errors = [event["error"] for event in events if "error" in event]
    cold = workers.ask("values", **common)
    found = dict(zip(cold["ids"], cold["values"], strict=True))
    last: dict[int, float] = {}
    for event in events:
        if "error" not in event:
            last |= dict.fromkeys(range(event["low"], event["high"]), event["value"])
    lost = sum(found.get(id) != value for id, value in last.items())
    done = [answer.done for answer in answers if answer.done]
    wall = max(one["ended"] for one in done) - min(one["began"] for one in done) if done else seconds
    where.forget(place)
    p50, p99 = (float(np.percentile(taken, at)) * 1000 if taken else None for at in (50, 99))
    per = None if requests is None or not taken else requests / len(taken)
    row = [len(taken) / wall, p50, p99, len(taken), len(errors), per, lost]
    return row, errors[0][:160] if errors else ""


def _requests(results: Results) -> None:
    """Counted, not timed: what an append in CAS mode asks for that comes after others, nobody racing."""
    rows = [
        [between, _asked(between, met=False), _asked(between, met=True), 2 + between]
        for between in (0, 1, 2, 5, 10)
    ]
    results.add(
        "Requests of a commit past others, CAS mode",
        ["commits between", "of a handle that had met nobody", "of one that had met others", "2 + between"],
        rows,
        "Each race lost costs a try and a look besides; what no scheme can have together is in "
        "[008](../design/008-cas.md#what-a-commit-past-k-others-must-cost).",
    )


def _asked(between: int, *, met: bool) -> int:
    url = f"memory://disjoint-{secrets.token_hex(8)}"
    catalog, other = Catalog(url, upkeep=False), Catalog(url, upkeep=False)
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]), mode="cas")
    table.append([{"n": 0}])
    theirs = other.table("t")
    if met:
        theirs.append([{"n": 1}])
        table.append([{"n": 2}])
    for _ in range(between):
        theirs.append([{"n": 3}])
    before = catalog.store.requests.snapshot()
    table.append([{"n": 4}])
    cost = catalog.store.requests.since(before)
    return int(cost.put + cost.get + cost.list)


def _overlaps(job: Job, results: Results) -> None:
    rows = []
    small = [(10, 1_000)]
    sizes = [*small, (10, 10_000), (10, 100_000), (10, 1_000_000), (100_000, 100_000)]
    for mine, theirs in job.pick(small, sizes, [*sizes, (1_000_000, 1_000_000)]):
        one, other = _spread(mine, 0), _spread(theirs, 5)
        best = min(_timed(one, other) for _ in range(20 if theirs < 1_000_000 else 5))
        rows.append([f"{mine:,}", f"{theirs:,}", best * 1e6])
    results.add(
        "What two write sets share: intervals of mine against intervals of theirs, none of which meet",
        ["intervals of mine", "of theirs", "microseconds"],
        rows,
    )


def _spread(count: int, offset: int) -> RowSet:
    """Intervals of 3 rows, evenly over ten million rows of 1,000 chunks."""
    place = np.linspace(0, 9_999_980, count).astype(np.int64) // 10 * 10 + offset
    groups, starts = place // 10_000, place % 10_000
    return RowSet(groups, starts, starts + 3)


def _timed(mine: RowSet, theirs: RowSet) -> float:
    began = time.perf_counter()
    assert not len(mine & theirs)
    return time.perf_counter() - began

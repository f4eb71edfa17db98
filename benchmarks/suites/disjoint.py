"""Many processes update rows of their own in one table; and what it takes to find what two commits share."""

from __future__ import annotations

import secrets
import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.crew import Crew, EngineFailed, crew
from benchmarks.engines import UNFORCED, Entrant
from benchmarks.job import Job, label
from benchmarks.places import FAR, LOCAL, NEAR, Places, places
from benchmarks.report import Results, progress
from benchmarks.suites.contention import WAITS, waiting
from crdtcat import Catalog
from crdtcat.intervals import RowSet

PURPOSE = (
    "Processes update rows of their own, 10 at a time, in one table and one file. Disjoint rows need not "
    "conflict: whoever is refused, or gives up, did its work for nothing. A cold reader then looks whether "
    "every acknowledged value is there."
)
ROWS_EACH = 100
AT_ONCE = 10
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
    "lost",
]
Kinds = dict[str, tuple[int, ...]]
OURS = (8, 32)
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
    commits, seconds = job.pick((2, 20.0), (30, 1.5), (200, 20.0))
    rows: dict[str, list[list[Any]]] = {kind: [] for kind in kinds}
    notes: dict[str, list[str]] = {kind: [] for kind in kinds}
    with places() as where:
        for entrant in job.entrants(in_database=job.size == "full"):
            with crew(entrant, job.overtime) as workers:
                for part in (
                    Part(kind, variant, processes, commits, seconds)
                    for kind, counts in kinds.items()
                    for variant in _variants(entrant, kind)
                    for processes in _processes(job, entrant, variant, counts)
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
    _requests(results)
    _overlaps(job, results)
    return results


def _variants(entrant: Entrant, kind: str) -> tuple[str, ...]:
    variants = ("default", "CAS") if entrant.name == "crdtcat" else entrant.variants
    return (*variants, UNFORCED) if entrant.forces and kind == LOCAL else variants


def _processes(job: Job, entrant: Entrant, variant: str, counts: tuple[int, ...]) -> tuple[int, ...]:
    more = entrant.name == "crdtcat" and variant != UNFORCED
    return job.pick(counts, OURS if more else counts, counts)


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
    row = [len(taken) / wall, None, p50, p99, len(taken), len(errors), cut, retries, per, lost]
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

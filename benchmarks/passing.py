"""What a commit past others asks for, alone and in races, and how long it takes to find what two share."""

from __future__ import annotations

import secrets
import time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.crew import crew
from benchmarks.engines import ENTRANTS
from benchmarks.job import Job
from benchmarks.places import FAR, LOCAL, NEAR, places
from benchmarks.report import Results, progress
from crdtcat import Catalog
from crdtcat.clock import VersionId
from crdtcat.conflicts import WriteSet, overlaps
from crdtcat.conflicts.write_set import Cells
from crdtcat.format.ops import ColumnId, Ops
from crdtcat.format.row_ids import ID, RowIds, Tags

ROWS_EACH = 100
AT_ONCE = 10


def requests(results: Results) -> None:
    """Counted, not timed: what an append in CAS mode asks for that comes after others, nobody racing."""
    rows = [
        [count, _asked(count, met=False), _asked(count, met=True), 2 + count] for count in (0, 1, 2, 5, 10)
    ]
    results.add(
        "Requests of a commit past others, CAS mode",
        ["commits between", "of a handle that had met nobody", "of one that had met others", "2 + between"],
        rows,
        "Each race lost costs a try and a look besides; what no scheme can have together is in "
        "[008](../design/008-cas.md#what-a-commit-past-k-others-must-cost).",
    )


def _asked(count: int, *, met: bool) -> int:
    url = f"memory://disjoint-{secrets.token_hex(8)}"
    catalog, other = Catalog(url, upkeep=False), Catalog(url, upkeep=False)
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]), mode="cas")
    table.append([{"n": 0}])
    theirs = other.table("t")
    if met:
        theirs.append([{"n": 1}])
        table.append([{"n": 2}])
    for _ in range(count):
        theirs.append([{"n": 3}])
    before = catalog.store.requests.snapshot()
    table.append([{"n": 4}])
    cost = catalog.store.requests.since(before)
    return int(cost.put + cost.get + cost.list)


def between(job: Job, results: Results) -> None:
    """The same of real processes that race: each keeps a handle and updates rows of its own, in turn."""
    if "crdtcat" not in job.engines:
        return
    kind, commits, seconds = job.pick((LOCAL, 2, 20.0), (FAR, 1_000, 2.0), (FAR, 1_000, 10.0))
    rows = []
    with places() as where, crew(ENTRANTS["crdtcat"], job.overtime) as workers:
        for processes in job.pick((2,), (2, 8, 32), (2, 4, 8, 16, 32)):
            progress(f"{kind}, {processes} processes, kept handles")
            place = where.fresh(NEAR if kind == FAR else kind, workers.entrant)
            common: dict[str, Any] = {"place": place.to_json(), "variant": "CAS"}
            workers.ask("filled", **common, rows=processes * ROWS_EACH)
            far = (where.far(place) if kind == FAR else place).to_json()
            shares = [{"place": far, "first": me * ROWS_EACH, "each": ROWS_EACH} for me in range(processes)]
            for answer in workers.together("ready_to_count", shares, seconds=120):
                answer.result()
            asked = [{"commits": commits, "seconds": seconds, "at_once": AT_ONCE}] * processes
            answers = workers.together("counted_updates", asked, seconds=seconds)
            where.forget(place)
            events = [event for answer in answers for event in answer.events]
            rows.append([processes, sum(answer.cut for answer in answers), *_counted(events)])
    results.add(
        f"{kind}: requests of updates by handles that are kept, CAS mode, for {seconds:g} s",
        ["processes", "cut off", "committed", "failed", "commits between", "races lost", "requests",
         "2 + between", "within 2 + between"],
        rows,
        "Averages of a commit. A race lost is a number that was looked at, found free and taken by somebody "
        "else before the try: it costs a try, and mostly a look. Everything that the verb asked for is "
        "counted, the refresh too.",
    )  # fmt: skip


def _counted(events: list[dict[str, Any]]) -> list[Any]:
    made = [event for event in events if "error" not in event]
    if not made:
        return [0, len(events), *[None] * 5]
    others, lost, asked = (np.array([one[name] for one in made]) for name in ("between", "lost", "requests"))
    within = float(np.mean(asked <= 2 + others))
    means = (float(np.mean(one)) for one in (others, lost, asked, 2 + others))
    return [len(made), len(events) - len(made), *means, f"{within:.0%}"]


def overlapping(job: Job, results: Results) -> None:
    """What the detector asks two commits: first, which makes both of them sets, and then, as it is asked of
    a commit that has met others, and of each further version of it."""
    rows = []
    small = [(10, 1_000, 1_000)]
    sizes = [*small, (10, 10_000, 1_000), (10, 100_000, 1_000), (10, 1_000_000, 1_000)]
    sizes += [(10, 1_000_000, 50_000), (100_000, 100_000, 1_000), (100_000, 100_000, 50_000)]
    for mine, theirs, chunks in job.pick(small, sizes, [*sizes, (1_000_000, 1_000_000, 1_000)]):
        one, other = _updated(mine, 0, chunks), _updated(theirs, 5, chunks)
        taken = [_timed(_written(one, 2), _written(other, 3)) for _ in range(20 if theirs < 1_000_000 else 5)]
        made, asked = (min(times) * 1e6 for times in zip(*taken, strict=True))
        rows.append([f"{mine:,}", f"{theirs:,}", f"{chunks:,}", asked, made - asked])
    results.add(
        "What two commits share: intervals of mine against intervals of theirs, none of which meet",
        ["intervals of mine", "of theirs", "in chunks", "microseconds", "making both sets, once"],
        rows,
    )


def _updated(count: int, offset: int, chunks: int) -> RowIds:
    """Intervals of 3 rows, evenly over ten million rows of so many chunks."""
    place = np.arange(count, dtype=np.int64) * (10_000_000 // count) + offset
    used, tag = np.unique(place // (10_000_000 // chunks), return_inverse=True)
    start = place % (10_000_000 // chunks)
    ids = [VersionId(1, 1, 1 + chunk // 256, bytes(16)).to_bytes() for chunk in used.tolist()]
    tags = Tags(np.array(ids, ID), (used % 256).astype(np.uint32))
    return RowIds(tags, tag.astype(np.uint32), start.astype(np.uint32), (start + 3).astype(np.uint32))


def _written(rows: RowIds, number: int) -> WriteSet:
    """A commit that updates one column of some rows."""
    id, columns = VersionId(number, number, 1, bytes(16)), frozenset({ColumnId("value")})
    none = frozenset[Any]()
    return WriteSet(
        id=id, number=number, operation="update", ops=Ops(), added=none, chunks=(), deleted=None,
        removed=None, cells=(Cells(columns, rows),), columns=none, names=none, brings=none, definitions=(),
    )  # fmt: skip


def _timed(mine: WriteSet, theirs: WriteSet) -> tuple[float, float]:
    began = time.perf_counter()
    assert not overlaps(mine, theirs)
    between = time.perf_counter()
    assert not overlaps(mine, theirs)
    return between - began, time.perf_counter() - between

"""Two changes that read the same snapshot and commit one after the other: committed, refused, or wrong.

Wrong: what is there afterwards is not the result of the acknowledged changes in any serial order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from benchmarks.crew import EngineCannot, EngineFailed, crew
from benchmarks.job import Job, label
from benchmarks.places import LOCAL, places
from benchmarks.report import Results, progress

PURPOSE = (
    "Two writers read the same snapshot; each changes rows of one file or chunk; the first commits, then "
    "the second. A refusal costs the second writer its work. An answer that no serial order explains is "
    "wrong."
)
ROWS = 1_000
PARTS = 4
"""Files, where there must be something to compact. Otherwise all rows are in one."""
Change = dict[str, Any]


def _update(low: int, high: int, value: float) -> Change:
    return {"kind": "update", "low": low, "high": high, "column": "value", "value": value}


def _delete(low: int, high: int) -> Change:
    return {"kind": "delete", "low": low, "high": high, "column": "value", "value": 0.0}


COMPACT: Change = {"kind": "compact", "low": 0, "high": 0, "column": "value", "value": 0.0}

PAIRS: dict[str, tuple[Change, Change]] = {
    "update / update, disjoint rows": (_update(0, 100, -1.0), _update(500, 600, -2.0)),
    "update / update, overlapping rows": (_update(0, 100, -1.0), _update(50, 150, -2.0)),
    "update / delete, disjoint rows": (_update(0, 100, -1.0), _delete(500, 600)),
    "update / delete, overlapping rows": (_update(0, 100, -1.0), _delete(50, 150)),
    "delete / update, overlapping rows": (_delete(50, 150), _update(0, 100, -1.0)),
    "delete / delete, disjoint rows": (_delete(0, 100), _delete(500, 600)),
    "delete / delete, overlapping rows": (_delete(0, 100), _delete(50, 150)),
    "compact / update": (COMPACT, _update(0, 100, -1.0)),
    "compact / delete": (COMPACT, _delete(0, 100)),
    "update / compact": (_update(0, 100, -1.0), COMPACT),
    "delete / compact": (_delete(0, 100), COMPACT),
    "compact / compact": (COMPACT, COMPACT),
}


def after(values: Sequence[float], changes: Sequence[Change]) -> dict[int, float]:
    """The rows that changes in this order leave."""
    rows = dict(enumerate(values))
    for change in changes:
        for id in range(change["low"], change["high"]):
            if change["kind"] == "delete":
                rows.pop(id, None)
            elif id in rows and change["kind"] == "update":
                rows[id] = change["value"]
    return rows


def verdict(pair: tuple[Change, Change], found: dict[str, Any]) -> str:
    """`both`, `refused: ...`, or `WRONG: ...`, from what a worker found."""
    accepted = [change for change, said in zip(pair, found["outcomes"], strict=True) if said == "committed"]
    there = dict(zip(found["ids"], found["values"], strict=True))
    repeated = len(there) != len(found["ids"])
    right = any(after(found["before"], order) == there for order in permutations(accepted))
    if repeated or not right:
        return f"WRONG ({'rows twice' if repeated else 'no order explains it'})"
    refused = [said.split(":")[0] for said in found["outcomes"] if said != "committed"]
    return "both" if not refused else f"refused ({refused[0]})"


def run(job: Job) -> Results:
    results = Results()
    verdicts: dict[str, dict[str, str]] = {}
    with places() as where:
        for entrant in job.entrants():
            with crew(entrant) as workers:
                for variant in (*entrant.variants, *(["CAS"] if entrant.name == "crdtcat" else [])):
                    name = label(entrant, variant)
                    verdicts[name] = {}
                    for title, (first, second) in PAIRS.items():
                        progress(f"{name}: {title}")
                        place = where.fresh(LOCAL)
                        try:
                            found = workers.ask(
                                "pair",
                                place=place.to_json(),
                                variant=variant,
                                rows=ROWS,
                                parts=PARTS if COMPACT in (first, second) else 1,
                                first=first,
                                second=second,
                            )
                            verdicts[name][title] = verdict((first, second), found)
                        except EngineCannot:
                            verdicts[name][title] = "not offered"
                        except EngineFailed as error:
                            verdicts[name][title] = f"failed: {str(error).split(':')[0]}"
                        where.forget(place)
    rows = [[title, *(verdicts[name][title] for name in verdicts)] for title in PAIRS]
    results.add(
        f"Two changes of one snapshot, {ROWS:,} rows in one file (beside compaction: in {PARTS})",
        ["pair", *verdicts],
        rows,
        job.absent(),
    )
    if verdicts:
        results.add(
            "The same, counted",
            ["engine", "both committed", "one refused", "wrong", "not offered"],
            [
                [
                    name,
                    sum(one == "both" for one in found.values()),
                    sum(one.startswith("refused") for one in found.values()),
                    sum(one.startswith("WRONG") for one in found.values()),
                    sum(one == "not offered" or one.startswith("failed") for one in found.values()),
                ]
                for name, found in verdicts.items()
            ],
        )
    return results

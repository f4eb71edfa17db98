"""Run suites by name, or all: `python -m benchmarks [suite ...] [--full] [--engines raw,crdtcat,Delta]`."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks.crew import shared_crews
from benchmarks.engines import ENTRANTS
from benchmarks.job import Job
from benchmarks.places import one_server
from benchmarks.report import cores_busy, is_done, machine, save, seconds_before

MINUTES = {
    "contention": 90.0,
    "read-cost": 45.0,
    "compaction": 25.0,
    "conflicts": 0.5,
    "disjoint": 40.0,
    "storage": 60.0,
    "throughput": 5.0,
    "merge": 5.0,
    "replays": 40.0,
    "commits": 5.0,
    "heads": 0.5,
    "reads": 1.0,
    "spark": 8.0,
    "chunks": 1.0,
    "writes": 0.5,
    "trees": 0.5,
}
"""The suites in their order, with a guess at what each takes at full size on 2 cores."""
SUITES = tuple(MINUTES)
FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="suite", help=f"any of {', '.join(SUITES)}; all by default"
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--full",
        dest="size",
        action="store_const",
        const="full",
        help="the sizes that the aims are for; hours",
    )
    sizes.add_argument(
        "--tiny", dest="size", action="store_const", const="tiny", help="seconds, to see that it runs"
    )
    parser.add_argument("--engines", default=",".join(ENTRANTS), help="which take part; all by default")
    parser.add_argument(
        "--output", type=Path, default=FOLDER, help="where the pages go; docs/benchmarks by default"
    )
    parser.add_argument("--no-save", action="store_true", help="print only")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="leave out suites that have a page of this size, made by these sources and packages",
    )
    chosen = parser.parse_args()
    engines = tuple(chosen.engines.split(","))
    for names, known, what in ((chosen.suites, SUITES, "suite"), (engines, tuple(ENTRANTS), "engine")):
        if unknown := [name for name in names if name not in known]:
            parser.error(f"no {what} {unknown[0]!r}; there are {', '.join(known)}")
    job = Job(chosen.size or "short", engines)
    print(f"# crdtcat benchmarks\n\n{machine()}")
    names = chosen.suites or SUITES
    if chosen.resume:
        names = [name for name in names if not is_done(name, chosen.output, job)]
    print(f"\n{estimate(names, job.size, chosen.output)}", flush=True)
    failed = run(names, job, None if chosen.no_save else chosen.output)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def estimate(names: Sequence[str], size: str, folder: Path) -> str:
    """What lies ahead: what each suite took when its page was written at this size, else a guess."""
    minutes = {name: (seconds_before(name, folder, size) or MINUTES[name] * 60) / 60 for name in names}
    if size != "full" and not all(seconds_before(name, folder, size) for name in names):
        return f"{len(names)} suites, {size}."
    each = ", ".join(f"{name} {one:.1f}" for name, one in minutes.items())
    return f"About {sum(minutes.values()):.0f} minutes, {size}: {each}." if each else "All is done."


def run(names: Sequence[str], job: Job, folder: Path | None) -> list[str]:
    """One suite after the other, its page written when it is done; those that failed. Then how long each
    took. A suite that fails leaves its old page, and does not keep the others from running."""
    taken: dict[str, float] = {}
    failed = []
    with one_server(), shared_crews():
        for name in names:
            suite = importlib.import_module(f"benchmarks.suites.{name.replace('-', '_')}")
            busy, began = cores_busy(), time.monotonic()
            print(f"\n## {name}", flush=True)
            try:
                results = suite.run(job)
            except (Exception, SystemExit):  # noqa: BLE001 (the others have their turn)
                traceback.print_exc()
                failed.append(name)
                continue
            finally:
                taken[name] = time.monotonic() - began
                print(f"\n({taken[name]:.0f} s)", flush=True)
            if folder is not None:
                save(name, suite.PURPOSE, results, folder, job, seconds=taken[name], busy=busy)
    print(f"\n## Seconds\n\n{', '.join(f'{name} {seconds:.0f}' for name, seconds in taken.items())}")
    minutes, seconds = divmod(round(sum(taken.values())), 60)
    print(f"\nAll: {minutes} min {seconds} s, {job.size}", flush=True)
    return failed


if __name__ == "__main__":
    main()

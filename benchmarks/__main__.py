"""Run suites by name, or all: `python -m benchmarks [suite ...] [--full] [--engines raw,crdtcat,Delta]`."""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path

from benchmarks.engines import ENTRANTS
from benchmarks.job import Job
from benchmarks.report import machine, save

SUITES = (
    "contention",
    "read-cost",
    "compaction",
    "conflicts",
    "disjoint",
    "storage",
    "throughput",
    "merge",
    "replays",
    "commits",
    "heads",
    "reads",
    "spark",
    "chunks",
    "writes",
    "trees",
)
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
    chosen = parser.parse_args()
    engines = tuple(chosen.engines.split(","))
    for names, known, what in ((chosen.suites, SUITES, "suite"), (engines, tuple(ENTRANTS), "engine")):
        if unknown := [name for name in names if name not in known]:
            parser.error(f"no {what} {unknown[0]!r}; there are {', '.join(known)}")
    job = Job(chosen.size or "short", engines)
    print(f"# crdtcat benchmarks\n\n{machine()}")
    for name in chosen.suites or SUITES:
        suite = importlib.import_module(f"benchmarks.suites.{name.replace('-', '_')}")
        began = time.monotonic()
        print(f"\n## {name}", flush=True)
        results = suite.run(job)
        seconds = time.monotonic() - began
        print(f"\n({seconds:.0f} s)", flush=True)
        if not chosen.no_save:
            save(name, suite.PURPOSE, results, chosen.output, size=job.size, seconds=seconds)


if __name__ == "__main__":
    main()

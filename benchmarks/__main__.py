"""Run suites by name, or all: `python -m benchmarks [commits] [heads] [reads] [--full]`."""

from __future__ import annotations

import argparse
import time

from benchmarks import commits, heads, reads
from benchmarks.report import machine

SUITES = {"commits": commits.run, "heads": heads.run, "reads": reads.run}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="suite", help=f"any of {', '.join(SUITES)}; all by default"
    )
    parser.add_argument("--full", action="store_true", help="larger sizes")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.suites if name not in SUITES]
    if unknown:
        parser.error(f"no suite {unknown[0]!r}; there are {', '.join(SUITES)}")
    print(f"# crdtcat benchmarks\n\n{machine()}")
    for name in chosen.suites or SUITES:
        began = time.monotonic()
        print(f"\n## {name}", flush=True)
        SUITES[name](full=chosen.full)
        print(f"\n({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()

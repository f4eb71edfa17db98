"""`python -m proofs [part ...]`: run every proof and model, or some parts; exit 1 on gaps."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from proofs import coq_runner, mutants, smt_runner, tla_runner, traces_runner, vectors_runner
from proofs.report import MissingTool, Report

PARTS: dict[str, Callable[[Report], None]] = {
    "smt": smt_runner.run,
    "coq": coq_runner.run,
    "vectors": vectors_runner.run,
    "traces": traces_runner.run,
    "mutants": mutants.report_sample,
    "tla": tla_runner.run,
}


def main(arguments: list[str]) -> int:
    """Run the named parts, or all of them. Returns the exit status."""
    unknown = [argument for argument in arguments if argument not in PARTS]
    if unknown:
        sys.stderr.write(f"unknown part {unknown[0]!r}: choose from {', '.join(PARTS)}\n")
        return 2
    report = Report()
    started = time.monotonic()
    for part in arguments or PARTS:
        try:
            PARTS[part](report)
        except MissingTool as missing:
            report.gap(part, "tools", str(missing))
    seconds = time.monotonic() - started
    report.note(f"\n{report.passed} checks passed, {len(report.gaps)} gaps, {seconds:.0f} s")
    for gap in report.gaps:
        report.note(f"  gap: {gap}")
    return 1 if report.gaps else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

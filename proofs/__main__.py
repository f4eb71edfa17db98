"""`python -m proofs [part ...]`: run every proof and model, or some parts; exit 1 on gaps.

Parts run side by side, one more at a time than there are processors: most of the work is Coq's and TLC's, in
processes of their own. So are traces: they replace the clock of the process they are recorded in.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from subprocess import TimeoutExpired

from proofs import (
    coq_runner,
    mutants_runner,
    scope_runner,
    smt_runner,
    tla_runner,
    tools,
    traces_runner,
    vectors_runner,
)
from proofs.report import BAD, GOOD, MissingTool, Report

Job = Callable[[], None]
PARTS: dict[str, Callable[[Report], None]] = {
    "smt": smt_runner.run,
    "coq": coq_runner.run,
    "vectors": vectors_runner.run,
    "traces": traces_runner.run,
    "mutants": mutants_runner.report_sample,
    "scope": scope_runner.run,
}
TLA = "tla"
APART = "traces"
APART_SECONDS_MAX = 600
SUMMARY = re.compile(r"^(\d+) checks passed, (\d+) gaps, \d+ s$", re.MULTILINE)
LANES = (
    ("coq", "vectors"),
    ("mutants",),
    ("traces", "smt"),
    ("scope",),
)  # one after the other: vectors want the extraction


def jobs(parts: Iterable[str], report: Report) -> list[Job]:
    """What can run side by side, the longest first."""
    chosen = set(parts)
    lanes = [[part for part in lane if part in chosen] for lane in LANES]
    found: list[Job] = [partial(_lane, lane, report) for lane in lanes if lane]
    if TLA in chosen:
        try:
            largest, *rest = tla_runner.jobs(report)
        except MissingTool as missing:
            report.gap(TLA, "tools", str(missing))
        else:
            found = [largest, *found, *rest]
    return found


def _lane(parts: Iterable[str], report: Report) -> None:
    for part in parts:
        _try(part, _apart if part == APART else PARTS[part], report)


def _try(part: str, run: Callable[[Report], None], report: Report) -> None:
    try:
        run(report)
    except MissingTool as missing:
        report.gap(part, "tools", str(missing))
    except TimeoutExpired as slow:
        report.gap(part, str(slow.cmd[-1]), f"took longer than {slow.timeout:.0f} s")


def _apart(report: Report) -> None:
    arguments = [sys.executable, "-m", "proofs", APART]
    done = tools.execute(arguments, seconds=APART_SECONDS_MAX, folder=tools.HERE.parent)
    # Python ends with 1 on an exception, as a part with gaps does: only the summary, which is written last,
    # shows that nothing was lost. Other parts may report meanwhile, so what is relayed is counted here.
    passed = gaps = 0
    for line in done.stdout.splitlines():
        passed += line.startswith(GOOD)
        gaps += line.startswith(BAD)
        report.relay(line)
    summary = SUMMARY.search(done.stdout)
    whole = summary is not None and (passed, gaps) == (int(summary[1]), int(summary[2])) and passed > 0
    if not whole or done.returncode != (1 if gaps else 0):
        lost = f"ended with {done.returncode} after {passed} checks, others are lost"
        report.gap(APART, "process", f"{lost}: {done.stderr.strip()}")


def main(arguments: list[str]) -> int:
    """Run the named parts, or all of them. Returns the exit status."""
    known = [*PARTS, TLA]
    unknown = [argument for argument in arguments if argument not in known]
    if unknown:
        sys.stderr.write(f"unknown part {unknown[0]!r}: choose from {', '.join(known)}\n")
        return 2
    report = Report()
    started = time.monotonic()
    if arguments == [APART]:
        _try(APART, PARTS[APART], report)
    else:
        with ThreadPoolExecutor(1 + (os.cpu_count() or 1)) as pool:
            for done in [pool.submit(job) for job in jobs(arguments or known, report)]:
                done.result()
    seconds = time.monotonic() - started
    report.note(f"\n{report.passed} checks passed, {len(report.gaps)} gaps, {seconds:.0f} s")
    for gap in report.gaps:
        report.note(f"  gap: {gap}")
    return 1 if report.gaps else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

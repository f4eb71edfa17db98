"""Runs TLC on every configuration in `tla/`, and holds each to what its name promises.

`<Module>_<what>.cfg` must pass. `<Module>_<what>_bug.cfg` reintroduces a known mistake and must fail on the
one invariant it names, and `<Module>_<what>_probe.cfg` states that something cannot be reached and must fail
too: so no model passes by doing nothing, and no invariant is too weak to notice. A gap is any other outcome,
or a configuration that is not what it is said to be (`tla_configurations.py`).
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from functools import partial

from proofs import tlc, tools
from proofs.report import Report
from proofs.tla_configurations import Configuration, configurations, wrong

LARGE = (
    "Closing_two_closers",
    "Closing_one_closer",
    "Closing_lost_answers",
    "Claims_overlapping",
    "Decisions_two_transactions",
    "Claims_from_the_hint",
    "Log_three_versions",
    "Decisions_two_transactions_read",
    "Switching_two_switchers",
)
"""A third of the time of all, the longest first. Begun first, so that nothing waits for one of them at the
end; left out with CRDTCAT_PROOFS=bounded, as CI does: each has a smaller one of its model that passes."""
BOUNDED = os.environ.get("CRDTCAT_PROOFS") == "bounded"

VIOLATED = re.compile(r"Invariant (\w+) is violated")
STATES = re.compile(r"([\d,]+) distinct states found, 0 states left on queue")
DEPTH = re.compile(r"^State (\d+):", re.MULTILINE)


def jobs(report: Report) -> list[Callable[[], None]]:
    """One job for every configuration, the longest first. Gaps in the list itself are reported at once.

    Raises:
        MissingTool: no Java, or no TLC.
    """
    tools.command("java", "default-jre-headless")
    tools.tla_jar()
    everything = configurations()
    for name, what in wrong(everything):
        report.gap("tla", name, what)
    if BOUNDED:
        everything = [one for one in everything if one.name not in LARGE]
        report.note(f"left out of tla: {', '.join(LARGE)} (run by `make proofs`)")
    # Those that pass search everything there is; the others stop at the first state that is wrong.
    ordered = sorted(everything, key=lambda one: (one.must_fail, one.name not in LARGE))
    return [partial(check, one, report) for one in ordered]


def check(configuration: Configuration, report: Report) -> None:
    """Run one configuration and report what came out."""
    if not configuration.invariants or (configuration.must_fail and len(configuration.invariants) != 1):
        report.gap("tla", configuration.name, "must list invariants; exactly one if it must fail")
        return
    started = time.monotonic()
    try:
        output = tlc.search(tlc.TLA, configuration.module, configuration.name, deadlocks=False)
    except subprocess.TimeoutExpired:
        report.gap("tla", configuration.name, f"took longer than {tlc.MODEL_SECONDS_MAX} s")
        return
    seconds = time.monotonic() - started
    good, detail = judge(configuration, output)
    (report.good if good else report.gap)("tla", configuration.name, detail, seconds)


def judge(configuration: Configuration, output: str) -> tuple[bool, str]:
    """Whether TLC's output is what the configuration promises, and a line that says what it was."""
    violated = VIOLATED.search(output)
    finished = STATES.search(output) if "No error has been found" in output else None
    if configuration.must_fail:
        expected = configuration.invariants[0]
        if violated and violated.group(1) == expected:
            steps = max((int(number) for number in DEPTH.findall(output)), default=1) - 1
            kind = "reached" if configuration.name.endswith("_probe") else "fails as it must"
            return True, f"{kind}: {expected}, {steps} steps"
        if finished:
            return False, f"should break {expected}, but passes with {finished.group(1)} states"
    if violated:
        return False, f"{violated.group(1)} is violated:\n{output}"
    if finished and not configuration.must_fail:
        return True, f"{len(configuration.invariants)} invariants hold in {finished.group(1)} states"
    return False, f"TLC failed:\n{output}"

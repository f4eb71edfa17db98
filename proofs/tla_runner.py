"""Runs TLC on every configuration in `tla/`, and holds each to what its name promises.

`<Module>_<what>.cfg` must pass. `<Module>_<what>_bug.cfg` reintroduces a known mistake and must fail on the
one invariant it names, and `<Module>_<what>_probe.cfg` states that something cannot be reached and must fail
too: so no model passes by doing nothing, and no invariant is too weak to notice. A gap is any other outcome,
a model without a probe, an invariant that no mistake breaks, or a configuration that is not what
`configurations.json` says: one that vanished, or that was relieved of an invariant, is noticed.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from proofs import tlc, tools
from proofs.report import Report

KEPT: dict[str, list[str]] = json.loads((tlc.TLA / "configurations.json").read_text())
"""Every configuration and its invariants, written by hand: taking one away is a gap."""

LARGEST = ("Claims_overlapping", "Log_three_versions", "Claims_from_the_hint")
"""Begun first, so that nothing waits for one of them at the end."""

VIOLATED = re.compile(r"Invariant (\w+) is violated")
STATES = re.compile(r"([\d,]+) distinct states found, 0 states left on queue")
DEPTH = re.compile(r"^State (\d+):", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One file of `tla/`: which model, and what must come out.

    Attributes:
        name: the file's name without its ending.
        invariants: those it lists; exactly one where it must fail.
    """

    name: str
    invariants: tuple[str, ...]

    @property
    def module(self) -> str:
        """The model it configures."""
        return self.name.split("_", 1)[0]

    @property
    def must_fail(self) -> bool:
        """Whether this is a mistake or a probe."""
        return self.name.endswith(("_bug", "_probe"))


def configurations() -> list[Configuration]:
    """Every configuration, passing ones first within each model."""
    found = []
    for path in tlc.TLA.glob("*.cfg"):
        listed = re.search(r"INVARIANTS?\s+(.*)", path.read_text(), re.DOTALL)
        found.append(Configuration(path.stem, tuple(listed.group(1).split()) if listed else ()))
    return sorted(found, key=lambda one: (one.module, one.must_fail, one.name))


def jobs(report: Report) -> list[Callable[[], None]]:
    """One job for every configuration, the longest first. Gaps in the list itself are reported at once.

    Raises:
        MissingTool: no Java, or no TLC.
    """
    tools.command("java", "default-jre-headless")
    tools.tla_jar()
    everything = configurations()
    for name, what in strayed(everything):
        report.gap("tla", name, what)
    for path in sorted(tlc.TLA.glob("*.tla")):
        own = [one for one in everything if one.module == path.stem]
        if not any(one.name.endswith("_probe") for one in own) or all(one.must_fail for one in own):
            report.gap("tla", path.stem, "needs a configuration that passes and a probe")
        for invariant in unbroken(own):
            report.gap("tla", path.stem, f"has no mistake that breaks {invariant}")
    # Those that pass search everything there is; the others stop at the first state that is wrong.
    ordered = sorted(everything, key=lambda one: (one.must_fail, one.name not in LARGEST))
    return [partial(check, one, report) for one in ordered]


def strayed(found: Sequence[Configuration]) -> list[tuple[str, str]]:
    """(name, how) of every configuration that is not what the kept list says."""
    wrong = [(name, "is promised, but not there") for name in KEPT.keys() - {one.name for one in found}]
    for one in found:
        if one.name not in KEPT:
            wrong.append((one.name, "is not listed in configurations.json"))
        elif sorted(one.invariants) != sorted(KEPT[one.name]):
            wrong.append((one.name, f"has {', '.join(one.invariants)}, not {', '.join(KEPT[one.name])}"))
    return sorted(wrong)


def unbroken(configurations: Sequence[Configuration]) -> list[str]:
    """The invariants of a model's configurations that must pass which none of its mistakes is held to."""
    held = {name for one in configurations if not one.must_fail for name in one.invariants}
    broken = {name for one in configurations if one.name.endswith("_bug") for name in one.invariants}
    return sorted(held - broken)


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

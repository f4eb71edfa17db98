"""Asks z3 to prove every law and to refute every mistake of `smt/`. A gap is any other answer."""

from __future__ import annotations

import importlib
import time

from proofs import tools
from proofs.report import Report


def run(report: Report) -> None:
    """Decide everything. Raises `MissingTool`."""
    tools.need_z3()
    # Imported here, not above: these modules import z3, which may only just have been installed.
    prover = importlib.import_module("proofs.smt.prover")
    laws = importlib.import_module("proofs.smt.laws").LAWS
    mistakes = importlib.import_module("proofs.smt.mistakes").MISTAKES
    for claim in (*laws, *mistakes):
        should_hold = claim in laws
        started = time.monotonic()
        try:
            broken = prover.counterexample(claim())
        except TimeoutError as error:
            report.gap("smt", claim.__name__, str(error), time.monotonic() - started)
            continue
        seconds = time.monotonic() - started
        if should_hold == (broken is None):
            report.good("smt", claim.__name__, "proved" if should_hold else "refuted as it must be", seconds)
        else:
            detail = f"has a counterexample: {broken}" if broken else "was not refuted"
            report.gap("smt", claim.__name__, detail, seconds)

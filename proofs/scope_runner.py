"""Runs the exhaustive small scope in full: the library's own merge on every triple of all 972 states.

States over three dots, two writers and two registers. A gap is a law that is broken, or a test that did not
run.

The test is in tests/proofs/test_small_scope.py, where `make test` runs a smaller scope.
"""

from __future__ import annotations

import sys
import time

from proofs import tools
from proofs.report import Report

FILE = "tests/proofs/test_small_scope.py"
NAME = "test_every_triple_of_states_of_three_dots_two_writers_and_two_registers"
SECONDS_MAX = 600
TRIPLES = 972**3


def run(report: Report) -> None:
    """Run the test in a process of its own."""
    started = time.monotonic()
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{FILE}::{NAME}"]
    done = tools.execute(
        arguments, seconds=SECONDS_MAX, folder=tools.HERE.parent, environment={"CRDTCAT_SLOW": "full"}
    )
    good = done.returncode == 0 and "1 passed" in done.stdout
    detail = f"{TRIPLES:,} triples, no law broken" if good else done.stdout + done.stderr
    (report.good if good else report.gap)("scope", "every_triple", detail, time.monotonic() - started)

"""Runs the exhaustive small scope: the library's own merges on every triple of all states.

The lattices: 1,296 states over three dots, two writers and two registers, with ties. The state that tables
are made of: 80 logs of five versions by two writers, with their rows in several places, and the heads of 40.
A gap is a law that is broken, or a test that did not run.

The tests are in tests/proofs/test_small_scope.py, where `make test` runs smaller scopes. With
CRDTCAT_PROOFS=bounded, as CI does, those are all that is run.
"""

from __future__ import annotations

import os
import sys
import time

from proofs import tools
from proofs.report import Report

FILE = "tests/proofs/test_small_scope.py"
SCOPES = {
    "test_every_triple_of_states_of_three_dots_two_writers_and_two_registers": f"{1296**3:,} triples",
    "test_every_triple_of_logs_of_five_versions_and_their_places": f"{80**3:,} triples",
    "test_every_pair_of_logs_has_the_head_of_their_versions[4]": f"{40**2:,} heads of pairs",
}
SECONDS_MAX = 600
BOUNDED = os.environ.get("CRDTCAT_PROOFS") == "bounded"


def run(report: Report) -> None:
    """Run each test in a process of its own."""
    if BOUNDED:
        report.note("left out of scope: the larger states; smaller ones are tests (run by `make proofs`)")
        return
    for name, what in SCOPES.items():
        started = time.monotonic()
        arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{FILE}::{name}"]
        done = tools.execute(
            arguments, seconds=SECONDS_MAX, folder=tools.HERE.parent, environment={"CRDTCAT_SLOW": "full"}
        )
        good = done.returncode == 0 and "1 passed" in done.stdout
        detail = f"{what}, no law broken" if good else done.stdout + done.stderr
        short = name.removeprefix("test_every_").split("_of_")[1].split("_has_")[0]
        (report.good if good else report.gap)("scope", short, detail, time.monotonic() - started)

"""Mutation testing: one small mistake at a time in the modules that everything rests on; a test must notice.

`python -m proofs.mutants_runner [--sample N] [module ...]` (`make mutants`) tries every mutant of a module
against the tests named for it: those that run the changed lines, quick ones first, until one fails. What
survives these is tried against the rest of them. A survivor must be killed by a new test, or be explained in
`proofs/survivors.json`, which says why it changes nothing that anybody could notice. A survivor without an
explanation fails the run, and so does, in a full run, an explanation without a survivor.

A run that was ended goes on where it stopped (`mutants_kept.py`); `--afresh` forgets what was found before.
`--record` writes down, with the code, what a whole run of a module found (`mutants_verdicts.py`).
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from proofs import mutants_verdicts, tools
from proofs.mutants import ROOT, UNCHANGED, Mutant, explained, mutants
from proofs.mutants_kept import Kept
from proofs.mutants_trial import ON_IMPORT, Measured, trial
from proofs.report import Report

MEASURE_SECONDS_MAX = 600
SLOWER_MAX = 3  # times the measured time, before a mutant counts as noticed by its slowness
SECONDS_MIN = 10
SAMPLE = 6
SAMPLE_SEED = 6
SAMPLE_SECONDS_MAX = 600
SAMPLED_SECONDS_MAX = 300  # of one of them, of processor time
SAMPLED = ("crdtcat.lattice.lww", "crdtcat.lattice.gcounter", "crdtcat.clock.hlc", "crdtcat.protocol.claimer")
PRELOADED = ("blake3", "fsspec", "hypothesis", "msgpack", "numpy", "pyarrow", "pyarrow.compute", "pydantic")
KILLED, EXPLAINED, SURVIVES = "killed", "explained", "SURVIVES"

LATTICE = ("tests/proofs/test_small_scope.py", "tests/proofs/test_vectors.py", "tests/lattice")
CLOCK = ("tests/proofs/test_vectors.py", "tests/clock")
STEPS = ("tests/protocol/test_steps.py", "tests/proofs/test_traces.py", "tests/protocol/test_scheduler.py")
TESTS: dict[str, tuple[str, ...]] = {
    "crdtcat.lattice.base": LATTICE,
    "crdtcat.lattice.canonical": LATTICE,
    "crdtcat.lattice.gcounter": LATTICE,
    "crdtcat.lattice.lattice_map": LATTICE,
    "crdtcat.lattice.lww": LATTICE,
    "crdtcat.lattice.orset": LATTICE,
    "crdtcat.clock.hlc": CLOCK,
    "crdtcat.clock.vector": (*CLOCK, "tests/head/test_clocks.py"),
    "crdtcat.clock.version_id": CLOCK,
    "crdtcat.protocol.publish": STEPS,
    "crdtcat.protocol.names": ("tests/protocol/test_names.py",),
    "crdtcat.protocol.collector": (*STEPS, "tests/protocol/test_claims.py"),
    "crdtcat.protocol.reader": (*STEPS, "tests/cost/test_round_trips.py"),
    "crdtcat.protocol.claimer": ("tests/protocol/test_claims.py", "tests/protocol/test_catching_up.py"),
    "crdtcat.protocol.gathering": ("tests/protocol/test_gathering.py", "tests/protocol/test_claims.py"),
    "crdtcat.protocol.committer": ("tests/protocol/test_committer.py", "tests/protocol/test_claims.py"),
    "crdtcat.protocol.bundler": ("tests/protocol/test_bundler.py", "tests/protocol/test_scheduler.py"),
    "crdtcat.protocol.closer": ("tests/protocol/test_closer.py", "tests/expiry/test_transactions.py"),
    "crdtcat.log.join": ("tests/proofs/test_small_scope.py", "tests/log/test_convergence.py"),
    "crdtcat.head.insertions": (
        "tests/head/test_insertions.py",
        "tests/proofs/test_vectors.py",
        "tests/rows/test_write.py",
    ),
    "crdtcat.head.fold": (
        "tests/proofs/test_vectors.py",
        "tests/head/test_conflicts.py",
        "tests/head/test_fold.py",
        "tests/rows/test_write.py::test_the_same_rows_inserted_by_two_at_once_are_there_once",
        "tests/rows/test_compact.py::test_a_copy_of_a_copy_knows_whose_removal_it_left_out",
        "tests/cas/test_switch.py::test_a_delete_that_met_a_switch_and_lost_takes_nothing_away",
        "tests/keyed/test_model.py",
    ),
}
"""Per module the tests that must notice."""


class Module:
    """The tests of one module: which of them to run for a mutant, in which order."""

    def __init__(self, name: str) -> None:
        self._files = TESTS[name]
        self._kills: Counter[str] = Counter()
        found = trial(Mutant(name, "no mistake", UNCHANGED), self._files, None, MEASURE_SECONDS_MAX)
        if not found.passed:
            raise RuntimeError(f"{name}: its tests fail without any mistake: {found.failed}")
        self._imported = found.measured[ON_IMPORT].lines
        self._tests: dict[str, Measured] = {
            test: one for test, one in found.measured.items() if test != ON_IMPORT
        }
        self._seconds = sum(one.seconds for one in self._tests.values()) * SLOWER_MAX + SECONDS_MIN

    def killer(self, mutant: Mutant) -> str | None:
        """The test that noticed the mutant, or None: it survives. "" if it could not run, or hung."""
        chosen = self._order(mutant)
        # What a test keeps from another is not seen by lines: those that did not run them come after.
        for order in (chosen, [test for test in self._tests if test not in set(chosen)]):
            if not order:
                continue
            files = sorted({test.split("::")[0] for test in order})
            found = trial(mutant, files, order, self._seconds)
            if not found.passed:
                self._kills[found.failed] += 1
                return found.failed
        return None

    def _order(self, mutant: Mutant) -> list[str]:
        """The tests that run its lines: quick ones, and those that noticed others, first."""
        everywhere = not self._imported.isdisjoint(mutant.lines)
        chosen = [
            test for test, one in self._tests.items() if everywhere or not one.lines.isdisjoint(mutant.lines)
        ]
        return sorted(chosen, key=lambda test: (self._tests[test].seconds + 0.01) / (1 + self._kills[test]))


def run(
    modules: Sequence[str], sample: int | None, only: str = "", kept: Kept | None = None
) -> Iterator[tuple[Mutant, str | None]]:
    """Try mutants, one after the other: all of them, or some drawn from one seed. Yields who noticed.

    What is kept is not tried again, and what is tried is kept; without `kept`, everything is tried.
    """
    everything = [mutant for module in modules for mutant in mutants(module) if only in mutant.name]
    if sample is not None:
        draw = random.Random(SAMPLE_SEED)  # noqa: S311 - the same choice every time
        known = explained()
        fresh = [mutant for mutant in everything if mutant.name not in known]
        everything = draw.sample(fresh, min(sample, len(fresh)))
    # Import what is large and not ours before forking, so that each child need not.
    for name in PRELOADED:
        importlib.import_module(name)
    measured: dict[str, Module] = {}
    for mutant in everything:
        if sample is not None:  # too few for measuring to pay: whatever fails first
            found = trial(mutant, TESTS[mutant.module], None, SAMPLED_SECONDS_MAX)
            yield mutant, None if found.passed else found.failed
            continue
        tests = TESTS[mutant.module]
        known_verdict = None if kept is None else kept.find(mutant, tests)
        if known_verdict is not None:
            yield mutant, known_verdict["killer"]
            continue
        if mutant.module not in measured:
            measured[mutant.module] = Module(mutant.module)
        killer = measured[mutant.module].killer(mutant)
        if kept is not None:
            kept.keep(mutant, killer, tests)
        yield mutant, killer


def report_sample(report: Report) -> None:
    """The bounded part, which `make proofs` runs: a few mutants, the same ones every time.

    In a process of its own: trials fork, which a process with threads had better not do.
    """
    arguments = [sys.executable, "-m", "proofs.mutants_runner", "--sample", str(SAMPLE), *SAMPLED]
    done = tools.execute(arguments, seconds=SAMPLE_SECONDS_MAX, folder=ROOT)
    *lines, _ = done.stdout.splitlines() or [""]
    for line in lines:
        verdict, _, name = line.partition(" ")
        (report.good if verdict == KILLED else report.gap)("mutants", name.strip(), verdict)
    for what, why in mutants_verdicts.said_of_stale():
        report.note(f"left out: {what} ({why})")
    if len(lines) != SAMPLE:
        report.gap("mutants", "sample", f"{len(lines)} of {SAMPLE} tried: {done.stderr.strip()}")


def main(arguments: Sequence[str]) -> int:
    """Print one line per mutant and a summary. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m proofs.mutants_runner")
    parser.add_argument("modules", nargs="*", default=[], help=f"of {', '.join(TESTS)}")
    parser.add_argument("--sample", type=int, help="so many mutants, the same ones every time")
    parser.add_argument("--only", default="", help="those with this text in their names")
    parser.add_argument("--afresh", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--record", action="store_true", help="write what whole modules gave to mutants.json")
    options = parser.parse_args(arguments)
    if options.record and (options.only or options.sample is not None):
        parser.error("--record is for whole modules: without --only and --sample")
    modules = options.modules or list(TESTS)
    known, tried, survivors, unexplained = explained(), 0, set(), 0
    started = time.monotonic()
    kept = Kept(afresh=options.afresh) if options.sample is None else None
    killed_of: Counter[str] = Counter()
    for mutant, killer in run(modules, options.sample, options.only, kept):
        tried += 1
        killed_of[mutant.module] += killer is not None
        verdict = KILLED
        if killer is None:
            survivors.add(mutant.name)
            unexplained += mutant.name not in known
            verdict = EXPLAINED if mutant.name in known else SURVIVES
        sys.stdout.write(f"{verdict:<9} {mutant.name}\n")
        sys.stdout.flush()
    stale = [name for name in known if name.split(":")[0] in modules and name not in survivors]
    is_full = options.sample is None and not options.only
    if is_full:
        for name in stale:
            sys.stdout.write(f"{KILLED:<9} {name}, which is explained as if it survived\n")
    if options.record:
        for module in modules:
            mine = {name for name in survivors if name.split(":")[0] == module}
            if mine <= known.keys() and not any(name.split(":")[0] == module for name in stale):
                mutants_verdicts.record(module, TESTS[module], killed_of[module], sorted(mine))
    seconds = time.monotonic() - started
    killed = tried - len(survivors)
    sys.stdout.write(f"{killed} of {tried} mutants killed, {unexplained} unexplained, {seconds:.0f} s\n")
    return 1 if unexplained or (stale and is_full) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

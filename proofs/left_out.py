"""What `make test` leaves out of the proofs, and why: said at the end of every run of tests/proofs.

`make test` runs what needs only Python and Java: z3's laws, kept vectors, traces, the small scope, and some
configurations of every TLA+ model. Where Java or z3 is missing, what needs it is named here, too. `make
proofs` runs the rest, but for mutants, of which it tries a few, and for what is said to be for `make
test-all`. Tests that are skipped for their time are named in `SLOW`, which is checked against the tests.
"""

from __future__ import annotations

import shutil

from proofs import (
    coq_runner,
    model_program,
    mutants,
    mutants_runner,
    mutants_verdicts,
    tla_configurations,
    tools,
    traces_runner,
)

ALL = "`make test-all`"
PROOFS = "run by `make proofs`"
SCOPE = "tests/proofs/test_small_scope.py"
SLOW: dict[str, tuple[str, str]] = {
    f"{SCOPE}::test_every_triple_of_states_of_three_dots_two_writers_and_two_registers": (
        "exhaustive small scope: 1,296 states, 144 here",
        "half a minute; `make proofs`",
    ),
    f"{SCOPE}::test_every_triple_of_logs_of_five_versions_and_their_places": (
        "exhaustive small scope: 80 logs of five versions, 40 of four here",
        "seconds; `make proofs`",
    ),
    f"{SCOPE}::test_every_pair_of_logs_has_the_head_of_their_versions": (
        "exhaustive small scope: heads of all pairs of 40 logs, of 20 here",
        "seconds; `make proofs`",
    ),
    "tests/proofs/test_mutants.py::test_mutants_of_every_module_are_killed": (
        "mutants: a sample of 40",
        f"minutes; {ALL}",
    ),
    "tests/proofs/test_mutants.py::test_no_module_was_changed_without_its_mutants_being_run_again": (
        "mutants: that every module was run since it was changed",
        f"{mutants_verdicts.DURATION} for all; {ALL}",
    ),
    "tests/protocol/test_scheduler.py::test_the_protocol_holds_in_larger_scopes": (
        "every interleaving: the two larger scopes",
        f"a minute each; {ALL}",
    ),
    "tests/simulation/test_simulator.py::test_every_promise_holds_for_thousands_of_seeds": (
        "simulations: 3,000 seeds of 40 steps, 60 of 16 here",
        f"minutes; {ALL}",
    ),
    "tests/simulation/test_all_orders.py::test_every_order_to_the_last": (
        "all orders of two verbs and one compactor, a sample of larger ones here",
        f"minutes; {ALL}",
    ),
    "tests/simulation/test_all_orders.py::test_every_order_with_two_compactors_to_the_last": (
        "all orders of two verbs and two compactors, those without a compactor here",
        f"an hour of one core; {ALL}",
    ),
}
"""Tests that need `CRDTCAT_SLOW=full`: (what, why)."""
BOUNDED = ("examples and seeds of suites that `tests/bounds.py` bounds, a share of them here", ALL)


def left_out(*, full: bool, models_run: int) -> list[tuple[str, str]]:
    """(what, why) of every part that a run of the tests did not run.

    Args:
        full: whether slow suites ran in full.
        models_run: how many configurations of the TLA+ models ran.
    """
    theorems = len(coq_runner.proved_theorems())
    found = [(f"Coq: {theorems} theorems, names only", PROOFS)]
    if model_program.built() is None:
        found.append(
            ("differential runs against the extracted model", f"not built; {PROOFS}, which builds it")
        )
    if not tools.has_z3():
        found.append(("z3: all laws and mistakes", f"z3 is not installed; {PROOFS}, which installs it"))
    found += _traces()
    configurations = len(tla_configurations.configurations())
    if shutil.which("java") is None:
        found.append((f"TLA+: all {configurations} configurations", "no Java"))
    elif not tools.TLA_JAR.exists():
        found.append(
            (f"TLA+: all {configurations} configurations", "no tla2tools.jar; `make setup` fetches it")
        )
    elif models_run < configurations:
        found.append((f"TLA+: {configurations - models_run} of {configurations} configurations", PROOFS))
    if not full:
        found += SLOW.values()
        found.append(BOUNDED)
    count = sum(len(mutants.mutants(module)) for module in mutants_runner.TESTS)
    tried = "a sample of 40 ran" if full else "none ran"
    why = f"{mutants_verdicts.DURATION}; `make mutants`, a few in `make proofs`"
    found.append((f"mutants: {count}, of which {tried}", why))
    return found + mutants_verdicts.said_of_stale()


def _traces() -> list[tuple[str, str]]:
    """What the tests do not ask TLC about traces: they have checkers in Python for some models only."""
    models = traces_runner.models()
    steps = ", ".join(sorted(name for name, model in models.items() if model.check is not None))
    library = ", ".join(sorted(name for name, model in models.items() if model.check is None))
    found = [
        (f"traces of steps by TLC ({steps}), by checkers in Python here", PROOFS),
        (f"forged traces of the library ({library})", PROOFS),
        ("traces of the other seeds: 120 of 200 for steps, 30 of 40 or 60 for the library here", PROOFS),
    ]
    if shutil.which("java") is None or not tools.TLA_JAR.exists():
        found.append((f"traces of the library ({library})", f"no Java, or no tla2tools.jar; {PROOFS}"))
    return found

"""What `make test` leaves out of the proofs, and why: said at the end of every run of tests/proofs.

`make test` runs what needs only Python and Java: z3's laws, kept vectors, traces, the small scope, and some
configurations of every TLA+ model. `make proofs` runs everything.
"""

from __future__ import annotations

import shutil

from proofs import coq_runner, model_program, mutants, mutants_runner, tla_runner, tools


def left_out(*, full: bool, models_run: int) -> list[tuple[str, str]]:
    """(what, why) of every part that a run of the tests did not run.

    Args:
        full: whether slow suites ran in full.
        models_run: how many configurations of the TLA+ models ran.
    """
    theorems = len(coq_runner.proved_theorems())
    found = [(f"Coq: {theorems} theorems, names only", "needs Coq; `make proofs` installs it where it can")]
    if model_program.built() is None:
        found.append(("differential runs against the extracted model", "not built; needs Coq and OCaml"))
    configurations = len(tla_runner.configurations())
    if shutil.which("java") is None:
        found.append((f"TLA+: all {configurations} configurations", "no Java"))
    elif not tools.TLA_JAR.exists():
        found.append(
            (f"TLA+: all {configurations} configurations", "no tla2tools.jar; `make setup` fetches it")
        )
    elif models_run < configurations:
        found.append((f"TLA+: {configurations - models_run} of {configurations} configurations", "time"))
    if not full:
        found.append(("exhaustive small scope: 972 states, 108 here", "a quarter of a minute"))
        count = sum(len(mutants.mutants(module)) for module in mutants_runner.TESTS)
        found.append((f"mutants: all {count}", "half an hour; `make mutants`, a few in `make proofs`"))
    return found

"""Asking z3: a claim is proved when its negation has no model, refuted when z3 shows one."""

from __future__ import annotations

import importlib
from typing import Any

TIMEOUT_MS = 20_000

z3: Any = importlib.import_module("z3")
"""z3 ships no type information; everything of it is `Any`."""


def counterexample(claim: Any) -> str | None:
    """None if `claim` holds for all values of its free constants, else the values that break it.

    Raises:
        TimeoutError: z3 could not decide within `TIMEOUT_MS`.
    """
    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS)
    solver.add(z3.Not(claim))
    answer = solver.check()
    if answer == z3.unsat:
        return None
    if answer == z3.unknown:
        raise TimeoutError(f"z3 could not decide: {solver.reason_unknown()}")
    return str(solver.model())


def semilattice(join: Any, a: Any, b: Any, c: Any) -> Any:
    """The three laws for `join`, at three free constants."""
    return z3.And(
        join(a, join(b, c)) == join(join(a, b), c),
        join(a, b) == join(b, a),
        join(a, a) == a,
    )

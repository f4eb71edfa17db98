"""z3 proves the laws and refutes the mistakes. Left out, with the reason shown, where z3 is not installed."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("z3", reason="z3-solver is not installed; `make proofs` installs it and runs these")

from proofs.smt.laws import LAWS
from proofs.smt.mistakes import MISTAKES
from proofs.smt.prover import counterexample


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law_is_proved(law: Any) -> None:
    assert counterexample(law()) is None


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_mistake_is_refuted(mistake: Any) -> None:
    assert counterexample(mistake()) is not None

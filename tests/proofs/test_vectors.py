"""What the model answers, the library answers: kept vectors, and the extracted program where it is built."""

from __future__ import annotations

from typing import Any

import pytest

from proofs import model_program, replay, vectors

KEPT = vectors.kept()
PROGRAM = model_program.built()


@pytest.mark.parametrize("operation", vectors.OPERATIONS)
def test_the_library_answers_as_the_extracted_model_did(operation: str) -> None:
    own = [(arguments, answer) for name, arguments, answer in KEPT if name == operation]
    assert len(own) == vectors.COUNT
    for arguments, answer in own:
        assert replay.answer(operation, arguments) == answer, arguments


def test_the_questions_are_the_ones_that_their_seed_draws() -> None:
    assert [(name, arguments) for name, arguments, _ in KEPT] == vectors.questions(
        vectors.SEED, vectors.COUNT
    )


def test_heads_are_not_all_alike() -> None:
    """Void versions, rows that are gone, and properties that lost all occur."""
    heads = [(arguments, answer) for name, arguments, answer in KEPT if name == "head"]
    assert any(0 in standing for _, (standing, _, _) in heads)
    assert any(len(rows) < sum(bool(version[4]) for version in versions) for versions, (_, rows, _) in heads)
    assert any(properties for _, (_, _, properties) in heads)


@pytest.mark.skipif(
    PROGRAM is None, reason="the extracted model is not built; `make proofs` builds and runs it"
)
@pytest.mark.parametrize("seed", range(100, 103))
def test_the_library_answers_as_the_extracted_model_does(seed: int) -> None:
    assert PROGRAM is not None
    questions: list[tuple[str, list[Any]]] = vectors.questions(seed, 20)
    for (operation, arguments), expected in zip(
        questions, model_program.ask(PROGRAM, questions), strict=True
    ):
        assert replay.answer(operation, arguments) == expected, (operation, arguments)

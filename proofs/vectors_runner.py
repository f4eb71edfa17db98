"""Holds the Python code against the program extracted from the Coq model.

A gap is: a kept vector that a fresh extraction answers otherwise, a question that the library answers
otherwise than the program does, or an operation without a kept vector.
"""

from __future__ import annotations

import time
from pathlib import Path

from proofs import model_program, replay, vectors
from proofs.report import Report

SEEDS = range(1, 5)
COUNT = 100


def run(report: Report) -> None:
    """Build the program, compare the kept vectors, then ask both sides many new questions."""
    started = time.monotonic()
    try:
        program = model_program.build()
    except RuntimeError as error:
        report.gap("vectors", "extraction", str(error))
        return
    report.good("vectors", "extraction", "compiles", time.monotonic() - started)
    kept = vectors.kept()
    answers = model_program.ask(program, [(operation, arguments) for operation, arguments, _ in kept])
    for operation in vectors.OPERATIONS:
        own = [(one, now) for one, now in zip(kept, answers, strict=True) if one[0] == operation]
        stale = [one for one, now in own if one[2] != now]
        if stale or not own:
            report.gap("vectors", operation, f"is not kept as the model answers it: {stale[:1]}")
    for operation, questions in _asked().items():
        _compare(program, operation, questions, report)


def _asked() -> dict[str, list[vectors.Question]]:
    found: dict[str, list[vectors.Question]] = {operation: [] for operation in vectors.OPERATIONS}
    for seed in SEEDS:
        for question in vectors.questions(seed, COUNT):
            found[question[0]].append(question)
    return found


def _compare(program: Path, operation: str, questions: list[vectors.Question], report: Report) -> None:
    started = time.monotonic()
    for (_, arguments), expected in zip(questions, model_program.ask(program, questions), strict=True):
        found = replay.answer(operation, arguments)
        if found != expected:
            report.gap("vectors", operation, f"{arguments}: the model says {expected}, the library {found}")
            return
    seconds = time.monotonic() - started
    report.good("vectors", operation, f"{len(questions)} questions answered alike", seconds)

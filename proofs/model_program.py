"""The extracted model as a program: building it with OCaml, and asking it questions."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from proofs import tools
from proofs.report import MissingTool

COQ = tools.HERE / "coq"
MAIN = tools.HERE / "ocaml" / "main.ml"
PROGRAM = tools.TOOLS / "model" / "model"
EXTRACTED = ("model.ml", "model.mli")
COMPILE_SECONDS_MAX = 300
ANSWER_SECONDS_MAX = 120


def build() -> Path:
    """Extract unless that is done, compile, link. Raises `MissingTool`, or RuntimeError with the output."""
    compiler = tools.command("ocamlc", "ocaml")
    folder = PROGRAM.parent
    folder.mkdir(parents=True, exist_ok=True)
    if not _newer(folder / EXTRACTED[0], COQ.glob("*.v")):
        _extract(folder)
    shutil.copy(MAIN, folder / MAIN.name)
    # Extracted code has unused names by nature.
    _run([compiler, "-w", "-a", "model.mli", "model.ml", "main.ml", "-o", PROGRAM.name], folder)
    return PROGRAM


def keep(folder: Path) -> None:
    """Keep what a run of Coq in `folder` has extracted, so that `build` need not run it again."""
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    for name in EXTRACTED:
        shutil.copy(folder / name, PROGRAM.parent / name)


def built() -> Path | None:
    """The program if it has been built from these sources, else nothing."""
    return PROGRAM if _newer(PROGRAM, [MAIN, *COQ.glob("*.v")]) else None


def _newer(made: Path, sources: Iterable[Path]) -> bool:
    return made.exists() and made.stat().st_mtime >= max(source.stat().st_mtime for source in sources)


def ask(program: Path, questions: Sequence[tuple[str, list[Any]]]) -> list[Any]:
    """The model's answers, in order. Raises RuntimeError if it does not answer all of them."""
    lines = "".join(f"{operation} {json.dumps(arguments)}\n" for operation, arguments in questions)
    done = subprocess.run(  # noqa: S603 - the program built here, on our own questions
        [str(program)], input=lines, capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX, check=False
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(answers) != len(questions):
        raise RuntimeError(f"{len(answers)} answers to {len(questions)} questions: {done.stderr.strip()}")
    return answers


def _extract(folder: Path) -> None:
    coqc = tools.command("coqc", "coq")
    files = [line for line in (COQ / "_CoqProject").read_text().splitlines() if line.endswith(".v")]
    needed = _needed("Extract.v")
    for file in files:
        if file in needed:
            shutil.copy(COQ / file, folder / file)
            _run([coqc, "-Q", ".", "Crdtcat", file], folder)


def _needed(file: str) -> set[str]:
    """A Coq file and every file of ours that it imports, directly or not."""
    found = {file}
    for line in (COQ / file).read_text().splitlines():
        if line.startswith("From Crdtcat Require Import "):
            for name in line.removeprefix("From Crdtcat Require Import ").rstrip(".").split():
                found |= _needed(f"{name}.v")
    return found


def _run(arguments: list[str], folder: Path) -> None:
    try:
        done = tools.execute(arguments, folder=folder, seconds=COMPILE_SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        raise MissingTool(f"{arguments[0]} took longer than {COMPILE_SECONDS_MAX} s") from error
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {(done.stdout + done.stderr).strip()}")

"""Compiles the Coq files and checks that every theorem is proved without assumptions.

What counts as a gap: a file that does not compile, a theorem that the README's table names and that is not
there, any way of assuming instead of proving (`Admitted`, `Axiom`, ...), a theorem whose `Print Assumptions`
is not "Closed under the global context", a `Theorem` without `Qed`, or a theorem named in the Python code
that does not exist.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from proofs import model_program, tla_configurations, tools
from proofs.report import Report

COQ = tools.HERE / "coq"
README = tools.HERE / "README.md"
SOURCES = tools.HERE.parent / "src"
FILE_SECONDS_MAX = 300

ASSUMING = re.compile(r"\b(Admitted|admit|Axioms?|Parameters?|Conjecture|Abort)\b")
THEOREM = re.compile(r"\bTheorem\s+(\w+)\b(.*?)\b(Qed|Defined|Admitted|Abort)\.", re.DOTALL)
NAMED = re.compile(r"\bTheorems?:\s([^.]*)", re.IGNORECASE)


def without_comments(text: str) -> str:
    """Coq text with its (nested) comments blanked."""
    kept: list[str] = []
    depth = 0
    for piece in re.split(r"(\(\*|\*\))", text):
        if piece == "(*":
            depth += 1
        elif piece == "*)":
            depth -= 1
        elif depth == 0:
            kept.append(piece)
    return "".join(kept)


def theorems(text: str) -> dict[str, bool]:
    """Every `Theorem` of a file, and whether its proof ends with `Qed`."""
    return {name: end == "Qed" for name, _, end in THEOREM.findall(without_comments(text))}


def proved_theorems() -> dict[str, str]:
    """Every theorem that ends with `Qed`, and the file it is in. Needs no Coq."""
    return {
        name: path.name
        for path in sorted(COQ.glob("*.v"))
        for name, proved in theorems(path.read_text()).items()
        if proved
    }


def named_in(text: str) -> list[str]:
    """The theorems that a docstring names: what stands in backquotes in a sentence that begins so."""
    return [name for sentence in NAMED.findall(text) for name in re.findall(r"`(\w+)`", sentence)]


def names_in_python() -> dict[str, list[str]]:
    """Theorem names that docstrings of the library refer to, and the files that do."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        for name in named_in(path.read_text()):
            found.setdefault(name, []).append(path.relative_to(SOURCES).as_posix())
    return found


def claims() -> list[list[str]]:
    """The README's table: claim, theorem or model, Python, test."""
    lines = README.read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert [len(row) for row in rows] == [4] * len(rows)
    return rows[1:]


def promised() -> set[str]:
    """Every theorem that the README's table names. Other theorems may come and go; these may not go."""
    named = {name for row in claims() for name in re.findall(r"`(\w+)`", row[1])}
    return named - tla_configurations.KEPT.keys()


def run(report: Report) -> None:
    """Compile everything, check everything. Raises `MissingTool`."""
    coqc = tools.command("coqc", "coq")
    files = [line for line in (COQ / "_CoqProject").read_text().splitlines() if line.endswith(".v")]
    for path in sorted(COQ.glob("*.v")):
        if path.name not in files:
            report.gap("coq", path.name, "is not listed in _CoqProject")
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            if not _compile(coqc, Path(folder), file, report):
                return
        _check_assumptions(coqc, Path(folder), files, report)
        model_program.keep(Path(folder))
    everything = proved_theorems()
    for name in sorted(promised()):
        if name not in everything:
            report.gap("coq", name, "is promised but not proved")
    for name, places in names_in_python().items():
        if name not in everything:
            report.gap("coq", name, f"is named in {', '.join(places)} but not proved")


def _compile(coqc: str, folder: Path, file: str, report: Report) -> bool:
    shutil.copy(COQ / file, folder / file)
    text = without_comments((COQ / file).read_text())
    assuming = ASSUMING.search(text)
    if assuming:
        report.gap("coq", file, f"assumes instead of proving: {assuming.group()}")
    started = time.monotonic()
    done = _coqc(coqc, folder, file)
    seconds = time.monotonic() - started
    if done.returncode != 0:
        report.gap("coq", file, f"does not compile: {(done.stdout + done.stderr).strip()}", seconds)
        return False
    report.good("coq", file, f"compiles, {len(theorems(text))} theorems", seconds)
    return True


def _check_assumptions(coqc: str, folder: Path, files: list[str], report: Report) -> None:
    names = [(file, name) for file in files for name in theorems((COQ / file).read_text())]
    lines = [f"From Crdtcat Require Import {' '.join(file.removesuffix('.v') for file in files)}."]
    for file, name in names:
        qualified = f"Crdtcat.{file.removesuffix('.v')}.{name}"
        lines.append(f'Goal True. idtac "== {name}". Abort. Print Assumptions {qualified}.')
    (folder / "Assumptions.v").write_text("\n".join(lines) + "\n")
    done = _coqc(coqc, folder, "Assumptions.v")
    if done.returncode != 0:
        report.gap("coq", "Print Assumptions", (done.stdout + done.stderr).strip())
        return
    answers = dict(re.findall(r"== (\w+)\n(.*?)(?=\n== |\Z)", done.stdout.strip(), re.DOTALL))
    for file, name in names:
        answer = answers.get(name, "no answer").strip()
        if answer == "Closed under the global context":
            report.good("coq", name, f"proved in {file}, no assumptions")
        else:
            report.gap("coq", name, f"in {file} rests on: {' '.join(answer.split())}")


def _coqc(coqc: str, folder: Path, file: str) -> subprocess.CompletedProcess[str]:
    return tools.execute([coqc, "-Q", ".", "Crdtcat", file], folder=folder, seconds=FILE_SECONDS_MAX)

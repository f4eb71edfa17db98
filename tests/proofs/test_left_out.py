"""What a run of the tests says that it left out is what it left out."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proofs import coq_runner, model_program, mutants_verdicts, tla_configurations, tools
from proofs.left_out import PROOFS, SLOW, left_out
from proofs.traces_runner import models
from tests.proofs import test_traces

ROOT = Path(__file__).resolve().parents[2]


def test_everything_that_did_not_run_is_named_with_a_reason() -> None:
    said = dict(left_out(full=False, models_run=3))
    assert all(said.values())
    assert any(f"{len(coq_runner.proved_theorems())} theorems" in what for what in said)
    assert any(
        f"of {len(tla_configurations.configurations())}" in what or "TLA+: all" in what for what in said
    )
    assert any(what.startswith("mutants") for what in said)
    assert any("bounds.py" in what for what in said)
    assert any("by TLC (Claims, Log, Marks)" in what for what in said)


def test_what_a_missing_tool_leaves_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(tools, "has_z3", lambda: False)
    said = [what for what, _ in left_out(full=True, models_run=0)]
    assert any(what.startswith("z3") for what in said)
    assert any(what.startswith("traces of the library") for what in said)


def test_the_numbers_of_traces_are_those_of_the_runs() -> None:
    (said,) = (what for what, _ in left_out(full=False, models_run=0) if "other seeds" in what)
    steps = {model.seeds for model in models().values() if model.check is not None}
    library = {model.seeds for model in models().values() if model.check is None}
    assert (steps, library) == ({200}, {40, 60})
    assert f"{len(test_traces.SEEDS)} of 200 for steps, {len(test_traces.LIBRARY_SEEDS)} of 40 or 60" in said


def test_everybody_says_the_same_of_how_long_mutants_take() -> None:
    (line,) = (line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("mutants:"))
    assert mutants_verdicts.DURATION in line
    (why,) = (why for what, why in left_out(full=True, models_run=0) if what.startswith("mutants"))
    assert why.startswith(mutants_verdicts.DURATION)


def test_every_test_that_is_skipped_for_its_time_is_named() -> None:
    """Of the folders that the proofs are made of. One that is added, dropped or renamed is noticed."""
    skipped: set[str] = set()
    for folder in ("proofs", "protocol", "simulation"):
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.FunctionDef):
                    continue
                marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
                if "skipif" in marks and re.search(r"FULL|CRDTCAT_SLOW", marks):
                    skipped.add(f"{path.relative_to(ROOT).as_posix()}::{node.name}")
    assert skipped == SLOW.keys()
    assert set(SLOW.values()) <= set(left_out(full=False, models_run=0))


def test_what_ran_is_not_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"")
    monkeypatch.setattr(model_program, "built", lambda: tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: "java")
    monkeypatch.setattr(tools, "TLA_JAR", tmp_path / "there")
    monkeypatch.setattr(mutants_verdicts, "stale", lambda _: {})
    monkeypatch.setattr(tools, "has_z3", lambda: True)
    first, *traces, mutants = left_out(full=True, models_run=len(tla_configurations.configurations()))
    assert first[0].startswith("Coq")
    assert len(traces) == 3
    assert all("traces" in what and why == PROOFS for what, why in traces)
    assert "a sample" in mutants[0]
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert ("no Java") in dict(left_out(full=True, models_run=0)).values()


def test_a_run_ends_with_what_it_left_out() -> None:
    """Also where other processes run the tests, as they do in `make test`."""
    test = "tests/proofs/test_theorem_names.py::test_nothing_is_assumed"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", test],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "left out of the proofs" in done.stdout
    assert "mutants" in done.stdout

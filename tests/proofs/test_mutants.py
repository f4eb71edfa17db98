"""Mutation testing: the mutants are what they should be, and, where there is time, none survives."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from proofs import mutants, mutants_kept, mutants_runner, mutants_verdicts

FULL = os.environ.get("CRDTCAT_SLOW") == "full"


@pytest.mark.skipif(
    not FULL, reason="minutes; CRDTCAT_SLOW=full. `make proofs` runs a few, `make mutants` all"
)
def test_mutants_of_every_module_are_killed() -> None:
    assert [
        mutant.name for mutant, killer in mutants_runner.run(list(mutants_runner.TESTS), 40) if killer is None
    ] == []


def test_every_module_has_mutants_with_names_of_their_own() -> None:
    for module in mutants_runner.TESTS:
        found = mutants.mutants(module)
        assert found, module
        assert len({mutant.name for mutant in found}) == len(found)


def test_explanations_are_of_mutants_that_exist() -> None:
    names = {mutant.name for module in mutants_runner.TESTS for mutant in mutants.mutants(module)}
    assert mutants.explained().keys() <= names
    assert all(len(reason) > 20 for reason in mutants.explained().values())


def test_what_whole_runs_found_is_kept_and_adds_up() -> None:
    """Of modules that were not changed since: every mutant killed or explained, by names that are known."""
    known = mutants.explained().keys()
    stale = mutants_verdicts.stale().keys()
    entries = mutants_verdicts.read()
    assert entries.keys() <= mutants_runner.TESTS.keys()
    for module in entries.keys() - stale:
        entry = entries[module]
        assert entry["mutants"] == len(mutants.mutants(module)), module
        assert entry["killed"] + len(entry["explained"]) == entry["mutants"], module
        assert set(entry["explained"]) == {name for name in known if name.startswith(f"{module}:")}, module


@pytest.mark.skipif(not FULL, reason=f"{mutants_verdicts.DURATION} where all changed; CRDTCAT_SLOW=full")
def test_no_module_was_changed_without_its_mutants_being_run_again() -> None:
    assert mutants_verdicts.stale() == {}


def test_a_change_of_code_makes_a_run_stale_and_a_change_of_words_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, file = tmp_path / "source.py", tmp_path / "mutants.json"
    monkeypatch.setattr(mutants, "path_of", lambda name: source)
    monkeypatch.setattr(mutants_verdicts, "path_of", lambda name: source)
    monkeypatch.setattr(mutants_runner, "TESTS", {"module": ("test_a.py",)})
    source.write_text('"""Words."""\ndef f(a):\n    """Words."""\n    return a + 1  # why\n')

    def said() -> str:
        return "; ".join(f"{what}: {why}" for what, why in mutants_verdicts.said_of_stale(file))

    assert "module (not on record)" in said()
    mutants_verdicts.record("module", ("test_a.py",), 2, ["module:f: 1 -> 2"], file)
    assert said() == ""
    source.write_text('"""Other."""\ndef f(a):\n    return a + 1\n')
    assert said() == ""
    source.write_text("from typing import Any\ndef f(a: Any) -> Any:\n    return a + 1\n")  # types
    assert said() == ""
    source.write_text("from operator import add\ndef f(a):\n    return add(a, 1)\n")
    assert "module (changed since" in said()
    source.write_text("def f(a):\n    return a + 2\n")
    assert "module (changed since" in said()
    assert "`python -m proofs.mutants_runner --record module` runs one; commit proofs/mutants.json" in said()
    mutants_verdicts.record("module", ("test_a.py",), 2, [], file)
    assert said() == ""
    monkeypatch.setattr(mutants_runner, "TESTS", {"module": ("test_a.py", "test_b.py")})
    assert "changed since" in said()


def test_a_mutant_differs_from_the_module_in_one_place() -> None:
    (mutant,) = [
        one for one in mutants.mutants("crdtcat.clock.hlc") if "tick: last + 1 -> last - 1" in one.name
    ][:1]
    ours = ast.unparse(ast.parse(mutants.path_of(mutant.module).read_text())).splitlines()
    theirs = ast.unparse(mutants.mutated(mutant)).splitlines()
    different = [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b]
    assert len(different) == 1
    assert "last - 1" in different[0][1]


def test_a_verdict_is_kept_until_what_it_rests_on_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module, and the test that noticed; of a survivor, every test."""
    monkeypatch.setattr(mutants_kept, "ROOT", tmp_path)
    monkeypatch.setattr(mutants_kept, "path_of", lambda name: tmp_path / f"{name}.py")
    for name in ("module.py", "test_a.py", "test_b.py"):
        (tmp_path / name).write_text("")
    tests = ("test_a.py", "test_b.py")
    killed, survivor = (mutants.Mutant("module", name, 0) for name in ("killed", "survivor"))
    folder = tmp_path / "kept"
    kept = mutants_kept.Kept(folder)
    kept.keep(killed, "test_a.py::test_it", tests)
    kept.keep(survivor, None, tests)

    def found() -> list[str]:
        again = mutants_kept.Kept(folder)
        return [one.name for one in (killed, survivor) if again.find(one, tests) is not None]

    assert found() == ["killed", "survivor"]
    (tmp_path / "test_b.py").write_text("more")
    assert found() == ["killed"]
    kept.keep(survivor, None, tests)
    assert found() == ["killed", "survivor"]
    (tmp_path / "module.py").write_text("changed")
    assert found() == []
    assert mutants_kept.Kept(folder, afresh=True).find(killed, tests) is None
    (folder / "module.json").write_text("cut o")
    assert mutants_kept.Kept(folder).find(killed, tests) is None

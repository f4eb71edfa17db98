"""Mutation testing: the mutants are what they should be, and, where there is time, none survives."""

from __future__ import annotations

import ast
import os

import pytest

from proofs import mutants, mutants_runner

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


def test_a_mutant_differs_from_the_module_in_one_place() -> None:
    (mutant,) = [
        one for one in mutants.mutants("crdtcat.clock.hlc") if "tick: last + 1 -> last - 1" in one.name
    ][:1]
    ours = ast.unparse(ast.parse(mutants.path_of(mutant.module).read_text())).splitlines()
    theirs = ast.unparse(mutants.mutated(mutant)).splitlines()
    different = [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b]
    assert len(different) == 1
    assert "last - 1" in different[0][1]

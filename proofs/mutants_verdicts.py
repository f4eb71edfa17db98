"""What the last whole run of the mutants of each module found: `mutants.json`, kept with the code.

An entry says of which code it is (a hash of the module's syntax tree without docstrings, types and what is
imported for those alone, so that words and types may change), of which mutants and of which tests, by their
names. Where one of these changed, or a module was never run, the entry is *stale*: `make proofs` and every
run of tests/proofs say so, with what to do, and `make test-all` fails. A run of the module writes its entry,
and only if it left no survivor unexplained:

    python -m proofs.mutants_runner --record [module ...]

What a changed test no longer notices is not seen here: that is for `--afresh`, now and then.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from proofs.mutants import EXPLAINED, mutants, path_of

VERDICTS = EXPLAINED.with_name("mutants.json")
DURATION = "one to two hours"
"""How long all mutants take on a busy machine of two cores; the Makefile says the same."""


class Entry(TypedDict):
    """A whole run of one module: the hash of what it was a run of, and what it found."""

    run_of: str
    mutants: int
    killed: int
    explained: list[str]


def run_of(module: str, tests: Sequence[str]) -> str:
    """The hash of a module's code, of the names of its mutants and of its list of tests."""
    said = [code(path_of(module).read_text()), *(mutant.name for mutant in mutants(module)), *tests]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]


def code(source: str) -> str:
    """What a module does when it runs: no docstrings, no types, nothing that is imported for types alone."""
    tree = _Untyped().visit(ast.parse(source))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [name for name in node.names if (name.asname or name.name.split(".")[0]) in used]
    lines = ast.unparse(tree).splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.endswith("import "))


class _Untyped(ast.NodeTransformer):
    """Takes docstrings and types away. Fields of classes keep their names: those are what they are for."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
        return node


def read(path: Path = VERDICTS) -> dict[str, Entry]:
    """All entries, by module."""
    found: dict[str, Entry] = json.loads(path.read_text()) if path.exists() else {}
    return found


def record(
    module: str, tests: Sequence[str], killed: int, explained: Sequence[str], path: Path = VERDICTS
) -> None:
    """Write the entry of a module, all of whose mutants were tried, and none of which is unexplained."""
    everything = read(path)
    everything[module] = {
        "run_of": run_of(module, tests),
        "mutants": killed + len(explained),
        "killed": killed,
        "explained": sorted(explained),
    }
    path.write_text(json.dumps(dict(sorted(everything.items())), indent=1) + "\n")


def stale(path: Path = VERDICTS) -> dict[str, str]:
    """Modules of which no run is on record, or that changed since: which of the two."""
    from proofs.mutants_runner import TESTS  # noqa: PLC0415 - which imports this

    entries = read(path)
    found = {}
    for module, tests in TESTS.items():
        entry = entries.get(module)
        if entry is None:
            found[module] = "not on record"
        elif entry["run_of"] != run_of(module, tests):
            found[module] = "changed since they were run"
    return found


def said_of_stale(path: Path = VERDICTS) -> list[tuple[str, str]]:
    """(what, what to do), for people; nothing where none is stale."""
    found = stale(path)
    modules = ", ".join(f"{module.removeprefix('crdtcat.')} ({why})" for module, why in found.items())
    command = f"python -m proofs.mutants_runner --record {next(iter(found), '')}"
    what = f"{DURATION} for all modules; `{command}` runs one; commit proofs/{VERDICTS.name}"
    return [(f"whole runs of the mutants of {modules}", what)] if found else []

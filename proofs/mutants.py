"""Mutation testing: one small mistake at a time in the modules that everything rests on; a test must notice.

`python -m proofs.mutants [--sample N] [module ...]` (`make mutants`) changes one comparison, operator,
constant or call of a module, in memory, in a forked process, and runs the tests named for the module until
one fails. A mutant that no test notices is a survivor: it must be killed by a new test, or be explained in
`proofs/survivors.json`, which says why it changes nothing that anybody could notice. A survivor without an
explanation fails the run, and so does, in a full run, an explanation without a survivor.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from proofs.report import Report

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = Path(__file__).resolve().parent / "survivors.json"
MUTANT_SECONDS_MAX = 300
NOT_USED = 77  # exit status of a child in which nobody imported the mutated module
SAMPLE = 5
SAMPLE_SEED = 6
SAMPLED = ("crdtcat.lattice.lww", "crdtcat.lattice.gcounter", "crdtcat.clock.hlc")

LATTICE = ("tests/proofs/test_small_scope.py", "tests/proofs/test_vectors.py", "tests/lattice")
CLOCK = ("tests/proofs/test_vectors.py", "tests/clock")
STEPS = ("tests/protocol/test_steps.py", "tests/proofs/test_traces.py", "tests/protocol/test_scheduler.py")
TESTS: dict[str, tuple[str, ...]] = {
    "crdtcat.lattice.base": LATTICE,
    "crdtcat.lattice.canonical": LATTICE,
    "crdtcat.lattice.gcounter": LATTICE,
    "crdtcat.lattice.lattice_map": LATTICE,
    "crdtcat.lattice.lww": LATTICE,
    "crdtcat.lattice.orset": LATTICE,
    "crdtcat.clock.hlc": CLOCK,
    "crdtcat.clock.vector": (*CLOCK, "tests/head/test_clocks.py"),
    "crdtcat.clock.version_id": CLOCK,
    "crdtcat.protocol.publish": STEPS,
    "crdtcat.protocol.names": STEPS,
    "crdtcat.protocol.collector": STEPS,
    "crdtcat.protocol.reader": STEPS,
    "crdtcat.log.join": ("tests/proofs/test_small_scope.py", "tests/log/test_convergence.py"),
    "crdtcat.head.fold": (
        "tests/proofs/test_vectors.py",
        "tests/head/test_conflicts.py",
        "tests/head/test_fold.py",
    ),
}
"""Per module the tests that must notice, the quick ones first."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
SWAPPED_CALLS = {"max": "min", "min": "max", "all": "any", "any": "all"}
UNCHANGED = -1
UNSEEN = ("__repr__", "__str__")  # words for people


class Mutant(NamedTuple):
    """One change: in which module, what it is called, and the number of the place that is changed."""

    module: str
    name: str
    place: int


class _Places(ast.NodeVisitor):
    """Every place that can be changed, with the name of the function around it."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ast.AST]] = []
        self._inside: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in UNSEEN:
            return
        self._inside.append(node.name)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._inside.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._inside.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What is said when something is wrong is not looked at here."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Asserts narrow types."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Names and messages."""

    def generic_visit(self, node: ast.AST) -> None:
        if changed(node) is not None:
            self.found.append((".".join(self._inside), node))
        super().generic_visit(node)


def changed(node: ast.AST) -> ast.AST | None:
    """The node with its mistake, or nothing if it has none to make."""
    other = copy.deepcopy(node)
    if isinstance(other, ast.Compare) and type(other.ops[0]) in COMPARISONS:
        other.ops[0] = COMPARISONS[type(other.ops[0])]()
    elif isinstance(other, ast.BoolOp):
        other.op = ast.Or() if isinstance(other.op, ast.And) else ast.And()
    elif isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Not):
        return other.operand
    elif isinstance(other, ast.BinOp) and type(other.op) in OPERATORS:
        other.op = OPERATORS[type(other.op)]()
    elif isinstance(other, ast.Constant) and isinstance(other.value, bool | int):
        other.value = (not other.value) if isinstance(other.value, bool) else other.value + 1
    elif isinstance(other, ast.Call) and isinstance(other.func, ast.Name) and other.func.id in SWAPPED_CALLS:
        other.func.id = SWAPPED_CALLS[other.func.id]
    else:
        return None
    return other


def path_of(module: str) -> Path:
    """The source of a module."""
    return ROOT / "src" / (module.replace(".", "/") + ".py")


def places(tree: ast.Module) -> list[tuple[str, ast.AST]]:
    """Every place of a module that can be changed, in order."""
    visitor = _Places()
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            visitor.visit(statement)
    return visitor.found


def mutants(module: str) -> list[Mutant]:
    """Every mutant of a module. Names hold across edits elsewhere in the file."""
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for place, (inside, node) in enumerate(places(ast.parse(path_of(module).read_text()))):
        other = changed(node)
        assert other is not None
        name = f"{module}:{inside or 'module'}: {ast.unparse(node)} -> {ast.unparse(other)}"
        seen[name] = seen.get(name, 0) + 1
        found.append(Mutant(module, name if seen[name] == 1 else f"{name} #{seen[name]}", place))
    return found


def mutated(mutant: Mutant) -> ast.Module:
    """The module's code with the mistake in it."""
    tree = ast.parse(path_of(mutant.module).read_text())
    if mutant.place == UNCHANGED:
        return tree
    wanted = places(tree)[mutant.place][1]

    class _Change(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if node is wanted:
                other = changed(node)
                assert other is not None
                return ast.copy_location(other, node)
            return super().generic_visit(node)

    _Change().visit(tree)  # in place: the module itself is no place
    return ast.fix_missing_locations(tree)


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutated module to whoever imports it."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self.used = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - as the protocol has it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        return importlib.util.spec_from_file_location(fullname, path_of(fullname), loader=self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """The usual one."""

    def exec_module(self, module: ModuleType) -> None:
        self.used = True
        code = compile(mutated(self._mutant), str(path_of(self._mutant.module)), "exec")
        exec(code, module.__dict__)  # noqa: S102 - our own module, with one change


def survives(mutant: Mutant) -> bool:
    """Whether every test passes with the mistake in place. One that hangs is noticed too."""
    child = os.fork()
    if child == 0:
        os._exit(_run_tests(mutant))
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == NOT_USED:
        raise RuntimeError(f"{mutant.module}: its tests do not import it, or it was imported before")
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def _run_tests(mutant: Mutant) -> int:
    import pytest  # noqa: PLC0415 - in the child, after the fork

    signal.alarm(MUTANT_SECONDS_MAX)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] in ("crdtcat", "tests")]:
        del sys.modules[name]  # another part may have imported the module as it is
    loader = _Loader(mutant)
    sys.meta_path.insert(0, loader)
    sys.dont_write_bytecode = True
    try:
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly"]
        result = int(pytest.main([*options, *TESTS[mutant.module]]))
    except BaseException:  # noqa: BLE001 - a module that cannot be imported is noticed
        return 1
    return result if loader.used else NOT_USED


def _preload() -> None:
    """Import what is large and not ours before forking, so that each child need not."""
    for name in ("numpy", "pyarrow", "pyarrow.compute", "pyarrow.parquet", "fsspec"):
        importlib.import_module(name)


def explained() -> dict[str, str]:
    """Survivors that change nothing that can be noticed, and why."""
    found: dict[str, str] = json.loads(EXPLAINED.read_text())
    return found


def run(modules: Sequence[str], sample: int | None) -> Iterator[tuple[Mutant, bool]]:
    """Try mutants, one after the other: all of them, or some drawn from one seed."""
    everything = [mutant for module in modules for mutant in mutants(module)]
    if sample is not None:
        draw = random.Random(SAMPLE_SEED)  # noqa: S311 - the same choice every time
        known = explained()
        fresh = [mutant for mutant in everything if mutant.name not in known]
        everything = draw.sample(fresh, min(sample, len(fresh)))
    _preload()
    for module in {mutant.module for mutant in everything}:
        if not survives(Mutant(module, "no mistake", UNCHANGED)):
            raise RuntimeError(f"{module}: its tests fail without any mistake: {' '.join(TESTS[module])}")
    for mutant in everything:
        yield mutant, survives(mutant)


def report_sample(report: Report) -> None:
    """The bounded part, which `make proofs` runs: a few mutants, the same ones every time."""
    modules = [module for module in TESTS if module.startswith(SAMPLED)]
    for mutant, alive in run(modules, SAMPLE):
        (report.gap if alive else report.good)("mutants", mutant.name, "survives" if alive else "killed")


def main(arguments: Sequence[str]) -> int:
    """Print one line per survivor and a summary per run. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m proofs.mutants")
    parser.add_argument("modules", nargs="*", default=[], help=f"of {', '.join(TESTS)}")
    parser.add_argument("--sample", type=int, help="so many mutants, the same ones every time")
    options = parser.parse_args(arguments)
    modules = options.modules or list(TESTS)
    known, tried, survivors, unexplained = explained(), 0, set(), 0
    started = time.monotonic()
    for mutant, alive in run(modules, options.sample):
        tried += 1
        if alive:
            survivors.add(mutant.name)
            unexplained += mutant.name not in known
            note = f"explained: {known[mutant.name]}" if mutant.name in known else "SURVIVES"
            sys.stdout.write(f"{mutant.name}\n    {note}\n")
            sys.stdout.flush()
    stale = [name for name in known if name.split(":")[0] in modules and name not in survivors]
    if options.sample is None:
        for name in stale:
            sys.stdout.write(f"{name}\n    is explained, but does not survive\n")
    seconds = time.monotonic() - started
    killed = tried - len(survivors)
    sys.stdout.write(f"{killed} of {tried} mutants killed, {unexplained} unexplained, {seconds:.0f} s\n")
    return 1 if unexplained or (stale and options.sample is None) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

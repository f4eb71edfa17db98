"""Mutants: a module of the library with one small mistake in it.

A mistake is one comparison, operator, constant or call turned into its neighbour. What is said to people
(messages, `repr`) and what only narrows types (asserts) is left alone. Mutants have names that hold across
edits elsewhere in the file, so that the ones that change nothing can be explained by name
(`survivors.json`). `mutants_runner.py` tries them.
"""

from __future__ import annotations

import ast
import copy
import json
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = Path(__file__).resolve().parent / "survivors.json"

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
    """One change: in which module, what it is called, the number of the place that is changed, its lines."""

    module: str
    name: str
    place: int
    lines: range = range(0)


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
        assert isinstance(node, ast.expr)
        name = f"{module}:{inside or 'module'}: {ast.unparse(node)} -> {ast.unparse(other)}"
        seen[name] = seen.get(name, 0) + 1
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        found.append(Mutant(module, name if seen[name] == 1 else f"{name} #{seen[name]}", place, lines))
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


def explained() -> dict[str, str]:
    """Survivors that change nothing that can be noticed, and why."""
    found: dict[str, str] = json.loads(EXPLAINED.read_text())
    return found

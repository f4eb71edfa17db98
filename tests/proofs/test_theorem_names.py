"""Every theorem that the code names exists, in Coq, with a proof that ends in Qed. Needs no Coq."""

from __future__ import annotations

import ast
import dataclasses
import pkgutil
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from proofs import coq_runner, tla_configurations, tla_runner

ROOT = Path(__file__).resolve().parents[2]


@cache
def docstrings(word: str = "") -> list[tuple[str, str]]:
    """(where, text) of every docstring in the library, in files that have a word in them."""
    found = []
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for path in sorted((ROOT / "src" / "crdtcat").rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if word in source.lower() else ():
            if isinstance(node, documented) and (text := ast.get_docstring(node)):
                name = getattr(node, "name", "module")
                found.append((f"{path.relative_to(ROOT / 'src')}::{name}", text))
    return found


# Whoever collects tests reads these, every process that runs some: no more files than name a theorem.
REFERENCES = [(where, name) for where, text in docstrings("theorem") for name in coq_runner.named_in(text)]


@pytest.mark.parametrize(("where", "name"), REFERENCES, ids=[f"{where}-{name}" for where, name in REFERENCES])
def test_named_theorem_is_proved(where: str, name: str) -> None:
    assert name in coq_runner.proved_theorems(), f"{where} names `{name}`, which proofs/coq does not prove"


MERGES = re.compile(r"merge|merged|folded|join|join_all|joined|union|intersection|difference|canonical")
LATTICES = ("clock", "lattice", "log", "intervals", "scan/merge.py")
ALSO = {
    "crdtcat/chunks/entry_order.py::merged",
    "crdtcat/chunks/entry_order.py::order_of_all",
    "crdtcat/chunks/statistics.py::merge_statistics",
    "crdtcat/clock/hlc.py::receive",
    "crdtcat/clock/hlc.py::tick",
    "crdtcat/clock/version_id.py::VersionId",
    "crdtcat/conflicts/detect.py::overlaps",
    "crdtcat/head/compactions.py::compactions",
    "crdtcat/head/fold.py::fold",
    "crdtcat/head/head.py::commits",
    "crdtcat/head/head.py::history",
    "crdtcat/head/insertions.py::twins",
    "crdtcat/head/keyed.py::KeyedRows",
    "crdtcat/head/positions.py::Forest",
    "crdtcat/head/positions.py::in_row_order",
    "crdtcat/head/resolve.py::resolve_columns",
    "crdtcat/head/snapshot.py::Snapshot",
    "crdtcat/head/snapshot.py::members",
    "crdtcat/intervals/index.py::pairs",
    "crdtcat/intervals/runs.py::touched",
    "crdtcat/log/horizon.py::above",
    "crdtcat/log/serialize.py::decode_bundle",
    "crdtcat/maintenance/compact.py::compact",
    "crdtcat/maintenance/expire.py::expire",
    "crdtcat/maintenance/merge.py::merge",
    "crdtcat/maintenance/merge_strict.py::merge_strict",
    "crdtcat/protocol/bundler.py::Bundler",
    "crdtcat/protocol/claimer.py::Claimer",
    "crdtcat/protocol/collector.py::Collector",
    "crdtcat/protocol/committer.py::Committer",
    "crdtcat/protocol/reader.py::Reader",
    "crdtcat/scan/merge_read.py::folded",
    "crdtcat/scan/plan.py::Plan",
    "crdtcat/spark/upkeep.py::compact",
    "crdtcat/table/table.py::merge",
    "crdtcat/transaction/joining.py::joined",
}
UNPROVED = {"crdtcat/chunks/widen.py::widen"}
"""What merges, and has no theorem: the README says so of each."""
ABSTRACT = {"crdtcat/lattice/base.py::merge"}  # each lattice has its own theorem


def test_whatever_merges_names_its_theorem() -> None:
    """Every function of a lattice's name, and what else a theorem is about."""
    folders = tuple(f"crdtcat/{folder}" for folder in LATTICES)
    merging = {
        where
        for where, _ in docstrings()
        if where.startswith(folders) and MERGES.fullmatch(where.split("::")[1])
    }
    assert {"crdtcat/lattice/orset.py::merge", "crdtcat/log/state.py::joined"} <= merging
    naming = {where for where, _ in REFERENCES}
    assert (merging | ALSO) - naming == ABSTRACT


def test_what_merges_without_a_theorem_is_said_to() -> None:
    assert {where for where, _ in docstrings()} >= UNPROVED
    assert {where for where, _ in REFERENCES}.isdisjoint(UNPROVED)
    _, unproven = coq_runner.README.read_text().split("## What is not proven")
    names = {where.removeprefix("crdtcat/").replace("/", ".").replace(".py::", ".") for where in UNPROVED}
    assert {name for name in names if f"`{name}`" not in unproven} == set()


def test_promised_theorems_are_proved() -> None:
    assert coq_runner.promised() <= coq_runner.proved_theorems().keys()
    assert len(coq_runner.promised()) > 100


def test_nothing_is_assumed() -> None:
    for path in coq_runner.COQ.glob("*.v"):
        assert coq_runner.ASSUMING.search(coq_runner.without_comments(path.read_text())) is None, path.name


def test_every_configuration_is_what_the_kept_list_says() -> None:
    assert list(tla_configurations.wrong(tla_configurations.configurations())) == []


def test_a_configuration_that_vanished_or_lost_an_invariant_is_noticed() -> None:
    passing, probe, mistake, *rest = sorted(
        tla_configurations.configurations(), key=lambda one: ("_probe" in one.name) + 2 * ("_bug" in one.name)
    )
    assert len(passing.invariants) > 1
    relieved = dataclasses.replace(passing, invariants=passing.invariants[1:])
    new = tla_configurations.Configuration("Log_new", ("Inv",))
    wrong = dict(tla_configurations.strayed([relieved, new, mistake, *rest]))
    assert wrong.keys() == {passing.name, probe.name, "Log_new"}
    assert wrong[probe.name] == "is promised, but not there"
    assert tla_configurations.strayed([passing, probe, mistake, *rest]) == []


def test_a_configuration_that_searches_less_is_noticed() -> None:
    """Of one that passes; of a probe or a mistake, also one that is of no system that passes."""
    everything = {one.name: one for one in tla_configurations.configurations()}

    def told(name: str, **constants: str) -> list[str]:
        changed = dataclasses.replace(everything[name], constants={**everything[name].constants, **constants})
        wrong = tla_configurations.wrong([*(everything | {name: changed}).values()])
        return [what for what, _ in wrong if what in everything]

    lost = "Claims_lost_answers"
    assert lost in told(lost, Lost="FALSE")
    assert told("Claims_conflict_probe", Lost="FALSE") == ["Claims_conflict_probe"]
    assert told("Claims_no_grace_bug", NumberMax="2") == ["Claims_no_grace_bug"]
    assert told("Claims_no_grace_bug", Bug='"none"') == ["Claims_no_grace_bug"]
    assert told("Claims_conflict_probe", Bug='"no grace"') == ["Claims_conflict_probe"]
    assert told("Claims_conflict_probe") == []


def test_comments_and_unproved_theorems_do_not_count() -> None:
    text = (
        "(* Theorem a : True. (* x *) Qed. *) Theorem b : P. Admitted. Theorem c : True. Proof. exact I. Qed."
    )
    assert coq_runner.theorems(text) == {"b": False, "c": True}


def test_only_the_promised_outcome_counts() -> None:
    bug = tla_configurations.Configuration("Log_x_bug", ("Inv",))
    sound = tla_configurations.Configuration("Log_x", ("Inv",))
    passes = "No error has been found.\n9 distinct states found, 0 states left on queue."
    fails = "Error: Invariant Inv is violated.\nState 2: <"
    assert tla_runner.judge(bug, fails)[0]
    assert not tla_runner.judge(bug, "Error: Invariant Other is violated.")[0]
    assert not tla_runner.judge(bug, passes)[0]
    assert not tla_runner.judge(sound, fails)[0]
    assert not tla_runner.judge(sound, "java.lang.OutOfMemoryError")[0]
    assert tla_runner.judge(sound, passes)[0]


def test_readme_names_only_what_exists() -> None:
    known = coq_runner.proved_theorems().keys() | {one.name for one in tla_configurations.configurations()}
    named = {name for row in coq_runner.claims() for name in re.findall(r"`(\w+)`", row[1])}
    assert named <= known, f"README names {sorted(named - known)}"
    mistakes = {name for name in tla_configurations.KEPT if name.endswith("_bug")}
    assert mistakes <= named, f"no claim for {sorted(mistakes - named)}"


def test_readme_points_to_tests_and_symbols_that_exist() -> None:
    for claim, _, symbols, tests in coq_runner.claims():
        for test in re.findall(r"tests/[\w/]+\.py", tests):
            assert (ROOT / test).is_file(), test
        named = re.findall(r"`([\w.]+)`", symbols)
        assert named, claim
        for name in named:
            found = pkgutil.resolve_name(f"crdtcat.{name}")  # raises where there is no such thing
            assert not isinstance(found, ModuleType), f"{name} is a module: say what in it"


def documentation(symbol: Any) -> str:
    """The docstring of what the table names; of a class, also those of its members."""
    members = vars(symbol).values() if isinstance(symbol, type) else ()
    texts = [getattr(one, "__doc__", None) for one in (symbol, *members)]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def test_what_a_row_names_names_a_theorem_of_the_row() -> None:
    """Both ways: a name that is dropped from a docstring, or a symbol that a row gains, is noticed."""
    proved = coq_runner.proved_theorems()
    silent = [
        (symbol, claim)
        for claim, theorems, symbols, _ in coq_runner.claims()
        if (wanted := {name for name in re.findall(r"`(\w+)`", theorems) if name in proved})
        for symbol in re.findall(r"`([\w.]+)`", symbols)
        if wanted.isdisjoint(coq_runner.named_in(documentation(pkgutil.resolve_name(f"crdtcat.{symbol}"))))
    ]
    assert silent == []


def test_theorems_are_found_in_docstrings_however_many_there_are() -> None:
    text = "O(n). Theorem: `a_b`. Raises `Corrupt`. Theorems: `c`,\n    `d`; of rules: `e`.\n`f` is none"
    assert coq_runner.named_in(text) == ["a_b", "c", "d", "e"]


def test_every_promise_is_linked_to_its_row() -> None:
    rows = [claim for claim, *_ in coq_runner.claims()]
    promised = (ROOT / "docs" / "guarantees.md").read_text()
    for number in range(1, 11):
        assert any(claim.startswith(f"P{number}:") for claim in rows), number
        (paragraph,) = [part for part in promised.split("\n\n") if part.startswith(f"**P{number}:")]
        assert re.search(rf'rows?\s"P{number}"', paragraph), number

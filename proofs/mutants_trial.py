"""One trial: the tests of a module, run in a forked process in which the module has a mistake, or none.

A trial without a mistake measures: how long each test takes, and which lines of the module it runs. A trial
with one runs only the tests it is given, in the order it is given, and stops at the first that fails.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import pytest

from proofs.mutants import ROOT, UNCHANGED, Mutant, mutated, path_of

WALL_SECONDS_MAX = 1200  # of one trial; what hangs is noticed by it
NOT_USED = 77  # exit status of a child in which nobody imported the mutated module
ON_IMPORT = ""  # stands for no test: lines that run when the module, or a test file, is imported


class Measured(NamedTuple):
    """A test as the trial without a mistake saw it."""

    seconds: float
    lines: frozenset[int]


class Outcome(NamedTuple):
    """How a trial ended.

    Attributes:
        passed: every test passed.
        failed: the test that failed; "" if the process ended otherwise (it could not import, or hung).
        measured: per test (`ON_IMPORT`: outside of any), only of a trial without a mistake.
    """

    passed: bool
    failed: str
    measured: dict[str, Measured]


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


class _Chosen:
    """A pytest plugin: the tests given, in the order given; says which one failed."""

    def __init__(self, order: Sequence[str] | None) -> None:
        self._order = None if order is None else {test: at for at, test in enumerate(order)}
        self.failed = ""

    def pytest_configure(self) -> None:
        """The same examples every time, and none made small: the first failure is enough."""
        from hypothesis import Phase, settings  # noqa: PLC0415 - pytest loads its own plugins first

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", derandomize=True, phases=phases, deadline=None, database=None)
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._order is not None:
            order = self._order
            items[:] = sorted(
                (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
            )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


class _Measuring:
    """A pytest plugin: how long each test takes, and the lines of one file that it runs."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._lines: dict[str, set[int]] = {ON_IMPORT: set()}
        self._seconds: dict[str, float] = {ON_IMPORT: 0.0}
        self._now = self._lines[ON_IMPORT]

    def trace(self, frame: FrameType, _: str, __: Any) -> Any:
        return self._line if frame.f_code.co_filename == self._file else None

    def _line(self, frame: FrameType, _: str, __: Any) -> Any:
        self._now.add(frame.f_lineno)
        return self._line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._now = self._lines.setdefault(item.nodeid, set())
        started = time.process_time()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.process_time() - started
            self._now = self._lines[ON_IMPORT]

    def found(self) -> dict[str, tuple[float, list[int]]]:
        return {test: (self._seconds[test], sorted(lines)) for test, lines in self._lines.items()}


def trial(mutant: Mutant, files: Sequence[str], order: Sequence[str] | None, seconds: float) -> Outcome:
    """Run tests with the mistake in place.

    Args:
        mutant: the mistake, or none of a module, which measures.
        files: test files.
        order: the tests of these files to run, in this order; None for all.
        seconds: of processor time, after which it counts as noticed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        said = Path(scratch) / "said.json"
        child = os.fork()
        if child == 0:
            os._exit(_run(mutant, files, order, seconds, said))
        _, status = os.waitpid(child, 0)
        found: dict[str, Any] = json.loads(said.read_text()) if said.exists() else {}
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == NOT_USED:
        raise RuntimeError(f"{mutant.module}: its tests do not import it, or it was imported before")
    measured = {
        test: Measured(took, frozenset(lines)) for test, (took, lines) in found.get("tests", {}).items()
    }
    passed = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
    return Outcome(passed, found.get("failed", ""), measured)


def _run(
    mutant: Mutant, files: Sequence[str], order: Sequence[str] | None, seconds: float, said: Path
) -> int:
    signal.alarm(WALL_SECONDS_MAX)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    most = int(spent.ru_utime + spent.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.environ.pop("CI", None)
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] in ("crdtcat", "tests")]:
        del sys.modules[name]  # another part may have imported the module as it is
    loader = _Loader(mutant)
    sys.meta_path.insert(0, loader)
    chosen, measuring = _Chosen(order), _Measuring(path_of(mutant.module))
    plugins: list[object] = [chosen]
    if mutant.place == UNCHANGED:
        plugins.append(measuring)
        sys.settrace(measuring.trace)
    try:
        options = ["-q", "-x", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        result = int(pytest.main([*options, *files], plugins=plugins))
    except BaseException:  # noqa: BLE001 - a module that cannot be imported is noticed
        return 1
    finally:
        sys.settrace(None)
    said.write_text(json.dumps({"failed": chosen.failed, "tests": measuring.found()}))
    return result if loader.used else NOT_USED

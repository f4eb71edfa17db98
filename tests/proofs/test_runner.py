"""How parts of `make proofs` are put together."""

from __future__ import annotations

from subprocess import CompletedProcess
from typing import Any

import pytest

from proofs import __main__ as runner
from proofs import tools
from proofs.report import Report

OUTPUT = """ok   traces  Log                                      170 of 170 accepted  2.1 s
FAIL traces  forged                                   was accepted
something else

1 checks passed, 1 gaps, 3 s
  gap: traces forged: was accepted
"""


def test_outcomes_of_another_process_count_as_if_they_were_ours(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    for line in OUTPUT.splitlines():
        report.relay(line)
    assert (report.passed, report.gaps) == (1, ["traces forged was accepted"])
    assert capsys.readouterr().out.splitlines() == OUTPUT.splitlines()[:2]


def _traces(monkeypatch: pytest.MonkeyPatch, returncode: int, stdout: str) -> Report:
    def here(_: Report) -> None:
        pytest.fail("traces replace the clock: beside other parts they are for a process of their own")

    def ended(arguments: list[str], **_: Any) -> CompletedProcess[str]:
        assert arguments[1:] == ["-m", "proofs", "traces"]
        return CompletedProcess(arguments, returncode, stdout, "no more memory")

    monkeypatch.setitem(runner.PARTS, "traces", here)
    monkeypatch.setattr(tools, "execute", ended)
    report = Report()
    (lane,) = runner.jobs(["traces"], report)
    lane()
    return report


def test_beside_other_parts_traces_are_recorded_in_a_process_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = _traces(monkeypatch, 1, OUTPUT)
    assert (report.passed, report.gaps) == (1, ["traces forged was accepted"])


def test_a_process_that_says_nothing_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    report = _traces(monkeypatch, -9, "")
    assert report.gaps == ["traces process: ended with -9: no more memory"]

"""How parts of `make proofs` are put together."""

from __future__ import annotations

from subprocess import CompletedProcess
from typing import Any

import pytest

from proofs import __main__ as runner
from proofs import tools
from proofs.report import MissingTool, Report

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
    assert report.gaps == ["traces process: ended with -9 after 0 checks, others are lost: no more memory"]


def test_a_process_that_ends_before_its_summary_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception ends Python with 1, as gaps do: what was checked before it is not all there was."""
    first, *_ = OUTPUT.splitlines()
    report = _traces(monkeypatch, 1, first)
    lost = "traces process: ended with 1 after 1 checks, others are lost: no more memory"
    assert (report.passed, report.gaps) == (1, [lost])


@pytest.mark.parametrize(
    ("returncode", "stdout"),
    [
        (1, "ok   traces  Log  accepted\n\n1 checks passed, 0 gaps, 3 s\n"),  # failed, and nobody says why
        (0, "ok   traces  Log  accepted\n\n2 checks passed, 0 gaps, 3 s\n"),  # a line is missing
        (0, "\n0 checks passed, 0 gaps, 3 s\n"),  # nothing was looked at
    ],
)
def test_a_summary_that_does_not_fit_is_a_gap(
    monkeypatch: pytest.MonkeyPatch, returncode: int, stdout: str
) -> None:
    assert len(_traces(monkeypatch, returncode, stdout).gaps) == 1


def test_a_tool_that_is_missing_is_a_gap_of_the_process_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_: Report) -> None:
        raise MissingTool("no Java")

    monkeypatch.setitem(runner.PARTS, "traces", missing)
    assert runner.main(["traces"]) == 1
    summary = runner.SUMMARY.search(capsys.readouterr().out)
    assert summary is not None  # which is what the process that began it looks for
    assert summary.groups() == ("0", "1")

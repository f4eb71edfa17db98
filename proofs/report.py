"""One line per theorem, model and law: what the runner prints, and whether anything was missing."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field

GOOD, BAD = "ok  ", "FAIL"


class MissingTool(Exception):
    """A tool is not installed and could not be installed; the message says what to install."""


@dataclass(slots=True)
class Report:
    """Collects outcomes and prints each as it comes. Threads may share one.

    Attributes:
        passed: how many lines were good.
        gaps: what was not, one sentence each. Any gap fails the run.
    """

    passed: int = 0
    gaps: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def good(self, part: str, name: str, detail: str, seconds: float | None = None) -> None:
        """Print one line of success."""
        with self._lock:
            self.passed += 1
        self._line(GOOD, part, name, detail, seconds)

    def gap(self, part: str, name: str, detail: str, seconds: float | None = None) -> None:
        """Print one line of failure and remember it."""
        self.gaps.append(f"{part} {name}: {detail}")
        self._line(BAD, part, name, detail, seconds)

    def relay(self, line: str) -> None:
        """One line of another process's report, as it is; lines that are no outcome are left out."""
        if line.startswith(GOOD):
            with self._lock:
                self.passed += 1
        elif line.startswith(BAD):
            self.gaps.append(" ".join(line.removeprefix(BAD).split()))
        else:
            return
        self.note(line)

    def note(self, text: str) -> None:
        """Print a line that is neither."""
        with self._lock:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def _line(self, mark: str, part: str, name: str, detail: str, seconds: float | None) -> None:
        time = "" if seconds is None else f"  {seconds:.1f} s"
        self.note(f"{mark} {part:<7} {name:<40} {detail}{time}")

"""Ctrl-C exactly where one wants it: `KeyboardInterrupt` at the n-th line of our code that a call runs."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import crdtcat

SOURCE = str(Path(crdtcat.__file__).parent)


def _is_with(frame: FrameType) -> bool:
    """Entering and leaving a lock is one instruction, which no signal interrupts halfway; a trace would."""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")


class Lines:
    """Counts lines of our code run in this thread, and interrupts at one of them.

    Args:
        interrupt_at: the number of the line, from 1; none to count only.
    """

    def __init__(self, interrupt_at: int | None = None) -> None:
        self.seen, self.interrupt_at = 0, interrupt_at

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if event == "line" and not _is_with(frame):
            self.seen += 1
            if self.seen == self.interrupt_at:
                raise KeyboardInterrupt
        return self

    def run(self, act: Callable[[], Any]) -> bool:
        """Whether the call was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            act()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

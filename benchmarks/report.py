"""Tables, progress, and a description of the machine without names."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa


def progress(text: str) -> None:
    print(f"    ... {text}", file=sys.stderr, flush=True)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    cells = [[str(item) for item in header], *([_shown(item) for item in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [f"\n### {title}\n"]
    for number, row in enumerate(cells):
        lines.append(
            "| " + " | ".join(item.rjust(width) for item, width in zip(row, widths, strict=True)) + " |"
        )
        if not number:
            lines.append("|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|")
    if note:
        lines.append(f"\n{note}")
    text = "\n".join(lines)
    print(text, flush=True)
    return text


def _shown(item: Any) -> str:
    if isinstance(item, float):
        return f"{item:,.2f}" if abs(item) < 100 else f"{item:,.0f}"
    return f"{item:,}" if isinstance(item, int) else str(item)


def best(action: Callable[[], Any], times: int = 3) -> float:
    """The least of several timings, in seconds: what the work costs when nothing is in the way."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return min(taken)


def machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.system()}, {platform.machine()}, "
        f"Python {platform.python_version()}, pyarrow {pa.__version__}"
    )

"""What a suite hands back: tables and plots, written as Markdown, JSON and SVG. And progress, and the
machine."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.peers import ROOT, versions
from benchmarks.plots import Plot

if TYPE_CHECKING:
    from benchmarks.job import Job

_BEGAN = time.monotonic()
QUIET_CORES = 0.3
"""With fewer cores than this busy otherwise, a machine counts as idle."""


@dataclass(frozen=True)
class Table:
    """One table of results; cells are numbers, texts, or None where nothing could be measured."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""

    def markdown(self) -> str:
        cells = [[str(item) for item in self.header], *([_shown(item) for item in row] for row in self.rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.header))]
        lines = [f"### {self.title}", ""]
        for number, row in enumerate(cells):
            lines.append(
                "| " + " | ".join(item.rjust(width) for item, width in zip(row, widths, strict=True)) + " |"
            )
            if not number:
                lines.append("|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|")
        return "\n".join([*lines, "", self.note] if self.note else lines)


@dataclass
class Results:
    """All a suite found."""

    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)

    def add(self, title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> None:
        """Take a table, and show it at once."""
        assert len(set(header)) == len(header), f"JSON keeps one of two columns of one name: {header}"
        self.tables.append(Table(title, header, rows, note))
        print(f"\n{self.tables[-1].markdown()}", flush=True)

    def bars(
        self, figure: str, by: Sequence[str] = ("engine",), where: Mapping[str, Any] | None = None
    ) -> None:
        """Draw one column of the last table: a bar for each row that has what `where` says, named `by`."""
        table, where = self.tables[-1], where or {}
        rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
        kept = [row for row in rows if all(row[name] == value for name, value in where.items())]
        series = {
            ", ".join(str(row[name]) for name in by): [(1.0, float(row[figure]))]
            for row in kept
            if row[figure] is not None
        }
        what = ", ".join([table.title, *map(str, where.values())])
        self.plots.append(Plot(f"{len(self.plots) + 1}", what, "", figure, series))


def save(
    suite: str, purpose: str, results: Results, folder: Path, job: Job, *, seconds: float, busy: float
) -> None:
    """`<suite>.md`, `<suite>.json` and one SVG per plot. `busy` is what `cores_busy` said before."""
    folder.mkdir(parents=True, exist_ok=True)
    conditions = {
        "machine": machine(),
        "load": load(busy),
        "size": job.size,
        "engines": list(job.engines),
        "seconds": round(seconds),
        "packages": versions(),
        "sources": sources(),
    }
    data = {
        "suite": suite,
        **conditions,
        "tables": [
            {
                "title": table.title,
                "note": table.note,
                "rows": [dict(zip(table.header, row, strict=True)) for row in table.rows],
            }
            for table in results.tables
        ],
    }
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines = [
        f"# {suite}",
        "",
        purpose,
        "",
        f"Written by `python -m benchmarks {suite}`; [what it means](README.md#{suite}).",
        f"One run ({job.size}, {seconds:.0f} s): {machine()}. {load(busy)}",
        *([f"{packages}."] if packages else []),
    ]
    for plot in results.plots:
        name = f"{suite}-{plot.name}.svg"
        (folder / name).write_text(plot.svg(), encoding="utf-8")
        lines += ["", f"![{plot.title}]({name})"]
    for table in results.tables:
        lines += ["", table.markdown()]
    (folder / f"{suite}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Last, and whole or not at all: a run that goes on where another was ended takes its word for the rest.
    part = folder / f"{suite}.json.part"
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    part.replace(folder / f"{suite}.json")


def seconds_before(suite: str, folder: Path, size: str) -> float | None:
    """What the suite took when its page was written, if that was at this size."""
    said = _said(suite, folder)
    return float(said["seconds"]) if said.get("size") == size else None


def is_done(suite: str, folder: Path, job: Job) -> bool:
    """Whether there is a page of this size and these engines, and nothing it depends on has changed since."""
    said = _said(suite, folder)
    known = [said.get(key) for key in ("size", "engines", "packages", "sources")]
    return known == [job.size, list(job.engines), versions(), sources()]


def _said(suite: str, folder: Path) -> dict[str, Any]:
    path = folder / f"{suite}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


@cache
def sources() -> str:
    """A hash of the code that measures and of the code that is measured."""
    seen = hashlib.sha256()
    for part in ("benchmarks", "src"):
        for path in sorted((ROOT / part).rglob("*.py")):
            seen.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return seen.hexdigest()[:16]


def progress(text: str) -> None:
    """Say on standard error what begins now, and how long the run has taken so far."""
    print(f"    ... {time.monotonic() - _BEGAN:4.0f} s  {text}", file=sys.stderr, flush=True)


def _shown(item: Any) -> str:
    if item is None:
        return "-"
    if isinstance(item, float):
        if item and abs(item) < 0.1:
            return f"{item:.4f}"
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


def cores_busy(seconds: float = 0.4) -> float:
    """How many cores others keep busy; for this process, which only waits, nothing is counted."""
    before = _ticks()
    time.sleep(seconds)
    idle, total = (now - then for now, then in zip(_ticks(), before, strict=True))
    return (1 - idle / total) * (os.cpu_count() or 1) if total else 0.0


def _ticks() -> tuple[int, int]:
    """Ticks of all cores since the machine started: idle (or waiting for a disk), and in all."""
    fields = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def load(busy: float) -> str:
    """How busy the machine was with other things before: what makes absolute numbers mean little."""
    loaded = "a loaded machine, so only ratios within this run mean something."
    verdict = loaded if busy >= QUIET_CORES else "otherwise idle."
    return f"Before it began, other programs kept {busy:.1f} cores busy: {verdict}"

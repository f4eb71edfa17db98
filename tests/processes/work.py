"""What child processes do: commit, bundle and collect in loops, and report what was acknowledged.

Reports go to a file that is written line by line, unbuffered, before the next operation begins. So a killed
child has reported everything that was acknowledged, but perhaps the very last.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from crdtcat import Catalog

SCHEMA: Final = pa.schema([("child", pa.int64()), ("commit", pa.int64()), ("part", pa.int64())])
PARTS: Final = 5
"""Rows of a commit: all of them are there, or none."""
BEGIN_SECONDS_MAX: Final = 120.0  # for all children to have started: one that died would be waited for


def rows(child: int, commit: int) -> pa.Table:
    return pa.table(
        {"child": [child] * PARTS, "commit": [commit] * PARTS, "part": range(PARTS)}, schema=SCHEMA
    )


def append_for_ever(url: str, child: int, report: str, options: dict[str, Any]) -> None:
    """Commit until killed. Every other commit is too large to be inlined, if `options` say so."""
    table = Catalog(url, **options).table("t")
    descriptor = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    commit = 0
    while True:
        os.write(descriptor, f"try {commit}\n".encode())
        table.append(rows(child, commit))
        os.write(descriptor, f"done {commit}\n".encode())
        commit += 1


def maintain_for_ever(url: str, options: dict[str, Any]) -> None:
    """Bundle and collect until killed."""
    table = Catalog(url, **options).table("t")
    while True:
        table.checkpoint()
        table.collect()


def append_times(url: str, child: int, times: int, options: dict[str, Any], begin: Any) -> None:
    """Commit so often, from when all that wait at the barrier `begin` are there."""
    table = Catalog(url, **options).table("t")
    begin.wait(BEGIN_SECONDS_MAX)
    for commit in range(times):
        table.append(rows(child, commit))


def maintain_until(url: str, stop: Any, options: dict[str, Any]) -> None:
    """Bundle and collect until told to stop, and once more."""
    table = Catalog(url, **options).table("t")
    while True:
        last = stop.is_set()
        table.checkpoint()
        table.collect()
        if last:
            return


def kill(process: BaseProcess) -> None:
    """SIGKILL, then reap."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def kill_in_turn(
    start: Callable[[], BaseProcess], lifetime: Callable[[], float], *, kills: int, at_once: int
) -> None:
    """Keep so many processes at work, and kill each after some seconds, until so many were; then the rest."""
    running: list[tuple[float, BaseProcess]] = []
    for _ in range(kills):
        while len(running) < at_once:
            process = start()
            running.append((time.monotonic() + lifetime(), process))
        running.sort(key=lambda item: item[0])
        moment, process = running.pop(0)
        time.sleep(max(0.0, moment - time.monotonic()))
        assert process.exitcode is None, "a child failed by itself"
        kill(process)
    for _, process in running:
        kill(process)


def reported(report: Path) -> tuple[set[int], set[int]]:
    """Commits acknowledged, and commits begun."""
    lines = report.read_text().splitlines() if report.exists() else []
    done = {int(line.split()[1]) for line in lines if line.startswith("done ")}
    tried = {int(line.split()[1]) for line in lines if line.startswith("try ")}
    return done, tried


def commits_found(catalog: Catalog) -> dict[int, set[int]]:
    """The commits of each child that are there. Raises if one is there in part, or twice."""
    found = catalog.read("t").to_pylist()
    parts: dict[tuple[int, int], list[int]] = {}
    for row in found:
        parts.setdefault((row["child"], row["commit"]), []).append(row["part"])
    for commit, seen in parts.items():
        assert sorted(seen) == list(range(PARTS)), f"{commit} is there in part or twice: {seen}"
    by_child: dict[int, set[int]] = {}
    for child, number in parts:
        by_child.setdefault(child, set()).add(number)
    return by_child

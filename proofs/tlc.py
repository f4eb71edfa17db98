"""Running TLC, and running it quickly: more than a hundred times for about a second, most of it Java's start.

What Java has loaded and checked of TLC is kept (class data sharing), so that later runs begin sooner. Where
that cannot be kept, or does not fit the Java or the jar that is there, nothing but that time is lost.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from proofs import tools

TLA = tools.HERE / "tla"
HEAP = "2g"
MODEL_SECONDS_MAX = 300
SMALLEST = ("Segments", "Segments_collected_probe")
KEPT = tools.TOOLS / "tlc.jsa"
VIOLATED = re.compile(r"Invariant \w+ is violated")
ENDED = re.compile(r"distinct states found, 0 states left on queue")


def search(folder: Path, module: str, configuration: str, *, deadlocks: bool, goes_on: bool = False) -> str:
    """What TLC says of a model in `folder`. Raises `MissingTool`, `subprocess.TimeoutExpired`.

    `deadlocks`: whether a state without a successor is a fault. `goes_on`: whether the search goes on after
    an invariant is violated, and tells of every such state; after a deadlock it never does.
    """
    jar = tools.tla_jar()
    if not KEPT.exists() or KEPT.stat().st_mtime < jar.stat().st_mtime:
        _keep()
    shared = [f"-XX:SharedArchiveFile={KEPT}"] if KEPT.exists() else []
    more = ([] if deadlocks else ["-deadlock"]) + (["-continue"] if goes_on else [])
    return _run(folder, module, configuration, more, shared)


def _keep() -> None:
    """Others may do the same at the same time: whoever is last is kept."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / KEPT.name
        _run(TLA, *SMALLEST, ["-deadlock"], [f"-XX:ArchiveClassesAtExit={made}"])
        if made.exists():
            ours = KEPT.with_name(f"{KEPT.name}-{os.getpid()}")
            shutil.copy(made, ours)
            ours.replace(KEPT)


def _run(folder: Path, module: str, configuration: str, more: list[str], machine: list[str]) -> str:
    java, jar = tools.command("java", "default-jre-headless"), tools.tla_jar()
    with tempfile.TemporaryDirectory() as scratch:
        # The first compiler alone: these runs end before the second one would pay for itself.
        options = [
            f"-Xmx{HEAP}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Djava.io.tmpdir={scratch}",
        ]
        how = ["-nowarning", "-workers", "1", "-metadir", scratch, *more]
        files = ["-config", f"{configuration}.cfg", f"{module}.tla"]
        done = tools.execute(
            [java, *options, *machine, "-cp", str(jar), "tlc2.TLC", *how, *files],
            folder=folder,
            seconds=MODEL_SECONDS_MAX,
        )
    return done.stdout + done.stderr

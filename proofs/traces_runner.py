"""Has TLC accept traces of the real steps as behaviours of module Log, and refuse ones that are not.

A gap is a trace that TLC or the Python checker does not accept, or a forged one that either accepts.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from proofs import tla_runner, tools
from proofs.report import Report
from proofs.traces import Event, File, Recorder, check, equal_ranks

SEEDS = range(300)
SAMPLE = 40
CONFIGURATION = """CONSTANTS
    Plain = {1, 2, 3}
    Transactions = {}
    Bundlers = {b1}
    BundlesMax = 9
    RankMax = 9
    PageSize = 1
    ReadsMax = 1
    Repeats = FALSE
    Bug = "none"
SPECIFICATION TraceSpec
INVARIANTS
    AcknowledgedReadable
    AcknowledgedStored
"""


def recorded(seeds: Iterable[int]) -> list[list[Event]]:
    """Traces of the real steps, one per seed, without those that the model cannot order."""
    return [trace for trace in (Recorder(seed).run() for seed in seeds) if not equal_ranks(trace)]


def without_a_result(trace: Sequence[Event]) -> list[Event]:
    """A forgery: the reader returns less than it listed."""
    return [
        event._replace(holds=frozenset(sorted(event.holds)[1:])) if event.op == "get" else event
        for event in trace
    ]


def deleted_at_once(trace: Sequence[Event]) -> list[Event]:
    """A forgery: the first version goes as soon as it is there."""
    first = trace[0]
    return [first, Event("delete", first.holds, first.rank), *trace[1:]]


def page_skipped(trace: Sequence[Event]) -> list[Event]:
    """A forgery: the first page that lists a file is said to be empty."""
    at = next(number for number, event in enumerate(trace) if event.op == "page" and event.files)
    return [*trace[:at], trace[at]._replace(files=frozenset()), *trace[at + 1 :]]


FORGERIES: tuple[Callable[[Sequence[Event]], list[Event]], ...] = (
    without_a_result,
    deleted_at_once,
    page_skipped,
)


def accepted(trace: list[Event]) -> bool:
    """Whether the Python checker accepts a trace."""
    try:
        check(trace)
    except AssertionError:
        return False
    return True


def run(report: Report) -> None:
    """Record, check in Python, and check a sample with TLC."""
    started = time.monotonic()
    traces = recorded(SEEDS)
    refused = [number for number, trace in enumerate(traces) if not accepted(trace)]
    again = sum(any(event.op == "again" for event in trace) for trace in traces)
    seconds = time.monotonic() - started
    if refused or not again:
        report.gap("traces", "python", f"{len(refused)} of {len(traces)} refused, {again} listed again")
    else:
        report.good("traces", "python", f"{len(traces)} accepted, {again} of them listed again", seconds)
    # Those that listed again first: they are the longer ones.
    chosen = sorted(traces, key=lambda trace: -sum(event.op == "again" for event in trace))[:SAMPLE]
    started = time.monotonic()
    output = _tlc(chosen)
    good = "No error has been found" in output
    (report.good if good else report.gap)(
        "traces", "tlc", f"{len(chosen)} accepted" if good else output, time.monotonic() - started
    )
    for forge in FORGERIES:
        forged = forge(chosen[0])
        started = time.monotonic()
        good = "Deadlock reached" in _tlc([forged]) and not accepted(forged)
        detail = "refused as it must be" if good else "was accepted"
        (report.good if good else report.gap)("traces", forge.__name__, detail, time.monotonic() - started)


def _tlc(traces: Sequence[Sequence[Event]]) -> str:
    java, jar = tools.command("java", "default-jre-headless"), tools.tla_jar()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for source in (tla_runner.TLA / "Log.tla", tla_runner.TLA / "traces" / "LogTrace.tla"):
            shutil.copy(source, folder / source.name)
        body = ",\n".join(f"<<{', '.join(map(_event, trace))}>>" for trace in traces)
        (folder / "LogTraceData.tla").write_text(
            f"---- MODULE LogTraceData ----\nTraces == <<\n{body}\n>>\n====\n"
        )
        (folder / "LogTrace.cfg").write_text(CONFIGURATION)
        options = ["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={scratch}"]
        search = ["-nowarning", "-workers", "1", "-metadir", scratch]  # a deadlock is a refusal: no -deadlock
        done = tools.execute(
            [java, *options, "-cp", str(jar), "tlc2.TLC", *search, "-config", "LogTrace.cfg", "LogTrace.tla"],
            folder=folder,
            seconds=tla_runner.MODEL_SECONDS_MAX,
        )
    return done.stdout + done.stderr


def _event(event: Event) -> str:
    files = ", ".join(sorted(map(_file, event.files)))
    fields = {
        "op": f'"{event.op}"',
        "holds": _set(event.holds),
        "rank": str(event.rank),
        "files": f"{{{files}}}",
        "last": "TRUE" if event.last else "FALSE",
    }
    return f"[{', '.join(f'{name} |-> {value}' for name, value in fields.items())}]"


def _file(file: File) -> str:
    return f"[rank |-> {file.rank}, holds |-> {_set(file.holds)}]"


def _set(numbers: Iterable[int]) -> str:
    return f"{{{', '.join(map(str, sorted(numbers)))}}}"

"""Has TLC accept traces of the real steps as behaviours of Log and Claims, and refuse ones that are not.

A gap is a trace that TLC or the Python checker does not accept, or a forged one that either accepts.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from proofs import claim_rules, tla_runner, tools
from proofs.claim_rules import ClaimEvent
from proofs.claim_traces import ClaimRecorder
from proofs.report import Report
from proofs.traces import Event, File, Recorder, check, equal_ranks

SEEDS = range(300)
SAMPLE = 40
CLAIM_SEEDS = range(200)
CONFIGURATIONS = {
    "Log": """CONSTANTS
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
""",
    "Claims": """CONSTANTS
    Commits = {"c1", "c2", "c3", "c101", "c102"}
    Blind = {}
    Overlaps = {{"c1", "c2"}}
    Alike = {}
    NumberMax = 6
    ReadsMax = 99
    Lost = TRUE
    Bug = "none"
SPECIFICATION TraceSpec
INVARIANTS
    AcknowledgedReadable
    AcknowledgedStored
    OneWinnerPerNumber
    OneNumberPerCommit
    ConflictMeansNothing
    SnapshotStable
    NoGaps
    NothingHalfVisible
    Serial
""",
}


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


def created_though_taken(trace: Sequence[ClaimEvent]) -> list[ClaimEvent]:
    """A forgery: a creation that found its number taken is said to have made it."""
    return [event._replace(op="created") if event.op == "exists" else event for event in trace]


def collected_unbundled(trace: Sequence[ClaimEvent]) -> list[ClaimEvent]:
    """A forgery: the first claim goes before there is a bundle."""
    return [*trace[:6], ClaimEvent("collect", number=1), *trace[6:]]


def result_without_the_last(trace: Sequence[ClaimEvent]) -> list[ClaimEvent]:
    """A forgery: the reader misses the highest number."""
    return [
        event._replace(result=frozenset(sorted(event.result)[:-1])) if event.op == "result" else event
        for event in trace
    ]


CLAIM_FORGERIES: tuple[Callable[[Sequence[ClaimEvent]], list[ClaimEvent]], ...] = (
    created_though_taken,
    collected_unbundled,
    result_without_the_last,
)


def accepted(trace: list[Event]) -> bool:
    """Whether the Python checker accepts a trace of the log."""
    return _passes(check, trace)


def claims_accepted(trace: list[ClaimEvent]) -> bool:
    """Whether the Python checker accepts a trace of claims."""
    return _passes(claim_rules.check, trace)


def _passes(checker: Callable[[list[Any]], None], trace: list[Any]) -> bool:
    try:
        checker(trace)
    except AssertionError:
        return False
    return True


def interesting(trace: Sequence[ClaimEvent]) -> int:
    """How much happened: lost answers, numbers that were taken, deletions."""
    return sum(event.op in ("late", "exists", "collect") for event in trace)


def run(report: Report) -> None:
    """Record, check in Python, and check a sample with TLC."""
    started = time.monotonic()
    traces = recorded(SEEDS)
    refused = [number for number, trace in enumerate(traces) if not accepted(trace)]
    again = sum(any(event.op == "again" for event in trace) for trace in traces)
    seconds = time.monotonic() - started
    if refused or not again:
        report.gap("traces", "Log", f"{len(refused)} of {len(traces)} refused, {again} listed again")
    else:
        report.good("traces", "Log", f"{len(traces)} accepted, {again} of them listed again", seconds)
    # Those that listed again first: they are the longer ones.
    chosen = sorted(traces, key=lambda trace: -sum(event.op == "again" for event in trace))[:SAMPLE]
    _ask(report, "Log", [[_event(event) for event in trace] for trace in chosen])
    for forge in FORGERIES:
        forged = forge(chosen[0])
        _ask_forged(report, "Log", forge.__name__, [_event(one) for one in forged], accepted(forged))
    _run_claims(report)


def _run_claims(report: Report) -> None:
    started = time.monotonic()
    traces = [ClaimRecorder(seed).run() for seed in CLAIM_SEEDS]
    refused = sum(not claims_accepted(trace) for trace in traces)
    detail = f"{len(traces) - refused} of {len(traces)} accepted"
    (report.gap if refused else report.good)("traces", "Claims", detail, time.monotonic() - started)
    chosen = sorted(traces, key=interesting, reverse=True)[:SAMPLE]
    _ask(report, "Claims", [[_claim_event(event) for event in trace] for trace in chosen])
    for forge in CLAIM_FORGERIES:
        forged = forge(chosen[0])
        written = [_claim_event(one) for one in forged]
        _ask_forged(report, "Claims", forge.__name__, written, claims_accepted(forged))


def _ask(report: Report, module: str, traces: Sequence[Sequence[str]]) -> None:
    started = time.monotonic()
    output = _tlc(module, traces)
    good = "No error has been found" in output
    (report.good if good else report.gap)(
        "traces",
        f"{module} by TLC",
        f"{len(traces)} accepted" if good else output,
        time.monotonic() - started,
    )


def _ask_forged(report: Report, module: str, name: str, forged: Sequence[str], is_accepted: bool) -> None:
    started = time.monotonic()
    good = "Deadlock reached" in _tlc(module, [forged]) and not is_accepted
    detail = "refused as it must be" if good else "was accepted"
    (report.good if good else report.gap)("traces", name, detail, time.monotonic() - started)


def _tlc(module: str, traces: Sequence[Sequence[str]]) -> str:
    java, jar = tools.command("java", "default-jre-headless"), tools.tla_jar()
    trace = f"{module}Trace"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for source in (tla_runner.TLA / f"{module}.tla", tla_runner.TLA / "traces" / f"{trace}.tla"):
            shutil.copy(source, folder / source.name)
        body = ",\n".join(f"<<{', '.join(events)}>>" for events in traces)
        (folder / f"{trace}Data.tla").write_text(
            f"---- MODULE {trace}Data ----\nTraces == <<\n{body}\n>>\n====\n"
        )
        (folder / f"{trace}.cfg").write_text(CONFIGURATIONS[module])
        options = ["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={scratch}"]
        search = ["-nowarning", "-workers", "1", "-metadir", scratch]  # a deadlock is a refusal: no -deadlock
        done = tools.execute(
            [java, *options, "-cp", str(jar), "tlc2.TLC", *search, "-config", f"{trace}.cfg", f"{trace}.tla"],
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
    return _record(fields)


def _claim_event(event: ClaimEvent) -> str:
    pairs = ", ".join(f'<<{number}, "{who}">>' for number, who in sorted(event.result))
    fields = {
        "op": f'"{event.op}"',
        "who": f'"{event.who}"',
        "number": str(event.number),
        "result": f"{{{pairs}}}",
    }
    return _record(fields)


def _record(fields: dict[str, str]) -> str:
    return f"[{', '.join(f'{name} |-> {value}' for name, value in fields.items())}]"


def _file(file: File) -> str:
    return f"[rank |-> {file.rank}, holds |-> {_set(file.holds)}]"


def _set(numbers: Iterable[int]) -> str:
    return f"{{{', '.join(map(str, sorted(numbers)))}}}"

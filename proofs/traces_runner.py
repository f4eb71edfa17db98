"""Has TLC accept traces of the real steps as behaviours of the models, and refuse ones that are not.

A gap is a trace that TLC or the Python checker does not accept, or a forged one that either accepts. Where a
model has no Python checker, the traces are of the whole library, and TLC alone tells.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proofs import claim_rules, mark_traces, tlc, traces
from proofs.acts import Act
from proofs.claim_rules import ClaimEvent
from proofs.claim_traces import ClaimRecorder
from proofs.closing_traces import ClosingEvent, ClosingRecorder
from proofs.decision_traces import DecisionEvent, DecisionRecorder
from proofs.forgeries import FORGERIES
from proofs.garbage_traces import ReuseRecorder, SegmentRecorder
from proofs.horizon_traces import HorizonRecorder
from proofs.mark_traces import MarkRecorder
from proofs.report import Report
from proofs.switch_traces import SwitchRecorder
from proofs.traces import Event, File, Recorder, equal_ranks
from proofs.transaction_traces import TransactionEvent, TransactionRecorder

SEEDS = range(200)
SAMPLE = 40


def recorded(seeds: Iterable[int]) -> list[list[Event]]:
    """Traces of the log's real steps, one per seed, without those that the model cannot order."""
    return [trace for trace in (Recorder(seed).run() for seed in seeds) if not equal_ranks(trace)]


class Model(NamedTuple):
    """How traces of one model are made, checked and written.

    Attributes:
        record: one trace for each seed.
        check: raises AssertionError where a trace is no behaviour of the model; `None`: TLC alone tells.
        write: an event, for TLC.
        rare: the events that make a trace interesting.
        seeds: how many traces are recorded.
    """

    record: Callable[[Iterable[int]], list[list[Any]]]
    check: Callable[[list[Any]], None] | None
    write: Callable[[Any], str]
    rare: tuple[str, ...]
    seeds: int = len(SEEDS)

    def accepts(self, trace: list[Any]) -> bool:
        """Whether the Python checker accepts a trace."""
        if self.check is None:
            return True
        try:
            self.check(trace)
        except AssertionError:
            return False
        return True

    def interesting(self, found: Sequence[list[Any]], count: int) -> list[list[Any]]:
        """Those in which most happened."""
        return sorted(found, key=lambda trace: -sum(event.op in self.rare for event in trace))[:count]


def models() -> dict[str, Model]:
    """The models that have traces, by their modules' names."""
    return {
        "Log": Model(recorded, traces.check, _event, ("again",)),
        "Claims": Model(
            lambda seeds: [ClaimRecorder(seed).run() for seed in seeds],
            claim_rules.check,
            _claim_event,
            ("late", "exists", "collect"),
        ),
        "Marks": Model(
            lambda seeds: [MarkRecorder(seed).run() for seed in seeds],
            mark_traces.check,
            _act,
            ("transactions", "collect"),
        ),
        "Switching": Model(
            lambda seeds: [SwitchRecorder(seed).run() for seed in seeds],
            None,
            _act,
            ("again", "take", "contended"),
            seeds=60,
        ),
        "Horizon": Model(
            lambda seeds: [HorizonRecorder(seed).run() for seed in seeds],
            None,
            _act,
            ("look", "dead", "clear"),
            seeds=60,
        ),
        "Closing": Model(
            lambda seeds: [ClosingRecorder(seed).run() for seed in seeds],
            None,
            _closing_event,
            ("told", "taken", "forget"),
            seeds=40,
        ),
        "Segments": Model(
            lambda seeds: [SegmentRecorder(seed).run() for seed in seeds],
            None,
            _act,
            ("crash", "mark", "delete"),
            seeds=60,
        ),
        "Reuse": Model(
            lambda seeds: [ReuseRecorder(seed).run() for seed in seeds],
            None,
            _act,
            ("use", "give up", "delete"),
            seeds=60,
        ),
        "Decisions": Model(
            lambda seeds: [DecisionRecorder(seed).run() for seed in seeds],
            None,
            _transaction_event,
            ("abort", "failed", "collect"),
            seeds=60,
        ),
        "Transactions": Model(
            lambda seeds: [TransactionRecorder(seed).run() for seed in seeds],
            None,
            _transaction_event,
            ("collect", "decide"),
            seeds=60,
        ),
    }


def run(report: Report) -> None:
    """Record, check in Python, and check a sample with TLC."""
    for module, model in models().items():
        _run(report, module, model)


def _run(report: Report, module: str, model: Model) -> None:
    started = time.monotonic()
    found = model.record(range(model.seeds))
    refused = sum(not model.accepts(trace) for trace in found)
    rare = sum(any(event.op in model.rare for event in trace) for trace in found)
    told = (
        f"{len(found)} recorded"
        if model.check is None
        else f"{len(found) - refused} of {len(found)} accepted"
    )
    detail = f"{told}, {rare} of them with {' or '.join(model.rare)}"
    good = not refused and rare > 0
    (report.good if good else report.gap)("traces", module, detail, time.monotonic() - started)
    chosen = model.interesting(found, len(found) if model.check is None else SAMPLE)
    started = time.monotonic()
    output = by_tlc(module, model, chosen)
    good = "No error has been found" in output
    detail = f"{len(chosen)} accepted" if good else refusal(output, chosen)
    (report.good if good else report.gap)("traces", f"{module} by TLC", detail, time.monotonic() - started)
    started = time.monotonic()
    forged = [next(one for one in map(forge, chosen) if one not in chosen) for forge in FORGERIES[module]]
    *accepted, real = accepted_by_tlc(module, model, [*forged, chosen[0]])
    for forge, made, is_accepted in zip(FORGERIES[module], forged, accepted, strict=True):
        good = real and not is_accepted and (model.check is None or not model.accepts(made))
        detail = "refused as it must be" if good else "was accepted, or a real one was not"
        (report.good if good else report.gap)("traces", forge.__name__, detail, time.monotonic() - started)


def by_tlc(module: str, model: Model, chosen: Sequence[list[Any]]) -> str:
    """What TLC says about some traces."""
    with tempfile.TemporaryDirectory() as scratch:
        trace = _written(Path(scratch), module, model, chosen)
        return tlc.search(Path(scratch), trace, trace, deadlocks=True)  # a deadlock is a refusal


def accepted_by_tlc(module: str, model: Model, chosen: Sequence[list[Any]]) -> list[bool]:
    """Per trace whether the model goes all its way, or as far as an invariant is violated. Costs one TLC.

    A deadlock would tell of one trace, and end the search: here ends of traces violate an invariant, after
    which TLC goes on."""
    with tempfile.TemporaryDirectory() as scratch:
        trace = _written(Path(scratch), module, model, chosen)
        source, settings = ((Path(scratch) / f"{trace}.{ending}") for ending in ("tla", "cfg"))
        (place,) = re.findall(r"^VARIABLES which, (\w+)", source.read_text(), re.MULTILINE)
        ends = f"{trace}Ends"
        (Path(scratch) / f"{ends}.tla").write_text(
            f"---- MODULE {ends} ----\nEXTENDS {trace}\nRefused == {place} <= Len(Traces[which])\n====\n"
        )
        (Path(scratch) / f"{ends}.cfg").write_text(f"{settings.read_text()}\nINVARIANT Refused\n")
        output = tlc.search(Path(scratch), ends, ends, deadlocks=False, goes_on=True)
    if not tlc.ENDED.search(output):
        raise RuntimeError(f"TLC did not search everything:\n{output}")
    told = {int(re.findall(r"which = (\d+)", error)[-1]) for error in tlc.VIOLATED.split(output)[1:]}
    return [number in told for number in range(1, len(chosen) + 1)]


def _written(folder: Path, module: str, model: Model, chosen: Sequence[list[Any]]) -> str:
    """The name of the module that has these traces, in a folder with all that it takes."""
    traces = [[model.write(event) for event in trace] for trace in chosen]
    trace = f"{module}Trace"
    for source in (f"{module}.tla", f"traces/{trace}.tla", f"traces/{trace}.cfg"):
        shutil.copy(tlc.TLA / source, folder)
    body = ",\n".join(f"<<{', '.join(events)}>>" for events in traces)
    data = f"---- MODULE {trace}Data ----\nTraces == <<\n{body}\n>>\n====\n"
    (folder / f"{trace}Data.tla").write_text(data)
    return trace


def refusal(output: str, chosen: Sequence[list[Any]]) -> str:
    """Which trace TLC refused, up to the event that the model does not have; else all that it said."""
    which, place = re.findall(r"which = (\d+)", output), re.findall(r"place = (\d+)", output)
    if not which or not place:
        return output
    number, reached = int(which[-1]), int(place[-1])
    happened = "\n".join(f"  {at}: {event}" for at, event in enumerate(chosen[number - 1][:reached], start=1))
    return f"trace {number} of {len(chosen)} is refused at its last event here:\n{happened}"


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


def _act(act: Act) -> str:
    fields = {
        "op": f'"{act.op}"',
        "who": f'"{act.who}"',
        "number": str(act.number),
        "result": _names(act.result),
    }
    return _record(fields)


def _closing_event(event: ClosingEvent) -> str:
    fields = {
        "op": f'"{event.op}"',
        "who": str(event.who),
        "number": str(event.number),
        "some": _set(event.some),
    }
    return _record(fields)


def _transaction_event(event: TransactionEvent | DecisionEvent) -> str:
    found = ", ".join(
        _sequence(names) if isinstance(names, tuple) else _names(names) for names in event.found
    )
    fields = {
        "op": f'"{event.op}"',
        "name": f'"{event.name}"',
        "table": str(event.table),
        "found": f"<<{found}>>",
    }
    return _record(fields)


def _sequence(names: Iterable[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"<<{quoted}>>"


def _names(names: Iterable[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in sorted(names))
    return f"{{{quoted}}}"


def _record(fields: dict[str, str]) -> str:
    return f"[{', '.join(f'{name} |-> {value}' for name, value in fields.items())}]"


def _file(file: File) -> str:
    return f"[rank |-> {file.rank}, holds |-> {_set(file.holds)}]"


def _set(numbers: Iterable[int]) -> str:
    return f"{{{', '.join(map(str, sorted(numbers)))}}}"

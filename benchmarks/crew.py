"""The harness's side: worker processes of one engine, asked in JSON lines, ended when they overstay.

Workers are ended by their own process id, and all of them when the crew's block ends, however it ends.
Suites that run in one block of `shared_crews` share them: starting a process, importing an engine and making
it warm takes up to a second of processor time, which is no part of what is measured.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engines import Entrant
from benchmarks.peers import ROOT, interpreter

START_SECONDS_MAX = 120
OVERTIME_SECONDS = 60
"""How long a worker may take over its time, for a commit under way, before it is ended."""
KEPT_MAX = 16
"""How many workers of an engine wait for the next suite; more than that are hired when they are needed."""
KEPT_MEMORY = 6 << 30
"""None waits where less memory than this is available."""
DIED = "the worker died"


class EngineFailed(Exception):
    """A worker could not do what it was asked."""


class EngineCannot(EngineFailed):
    """The engine does not offer that; the text says why."""


@dataclass
class Answer:
    """What a worker said to one request; `cut` if it was ended before it had done."""

    events: list[dict[str, Any]] = field(default_factory=list)
    done: dict[str, Any] | None = None
    problem: str = ""
    cannot: bool = False
    cut: bool = False

    def result(self) -> dict[str, Any]:
        if self.done is None:
            raise (EngineCannot if self.cannot else EngineFailed)(self.problem)
        return self.done


class Worker:
    """One process and its channel."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.pid = 0
        self._rest = b""

    def send(self, task: str, arguments: dict[str, Any]) -> None:
        with suppress(OSError):  # it died: whoever waits for its answer is told
            self.channel.sendall(json.dumps({"task": task, **arguments}).encode() + b"\n")

    def received(self) -> Iterator[dict[str, Any]] | None:
        """Messages that have arrived; None when the channel is closed."""
        try:
            data = self.channel.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return (json.loads(line) for line in lines)

    def end(self) -> None:
        with suppress(OSError):
            self.channel.close()
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class Crew:
    """Workers of one engine. The first n are used for a point with n processes."""

    def __init__(self, entrant: Entrant, folder: Path, overtime: float = OVERTIME_SECONDS) -> None:
        self.entrant = entrant
        self.overtime = overtime
        self.workers: list[Worker] = []
        path = folder / "socket"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(256)
        self._listener.settimeout(START_SECONDS_MAX)
        quiet = {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "RUST_LOG": "off",
            "PYTHONWARNINGS": "ignore",
        }
        output = None if os.environ.get("BENCH_TRACE") else subprocess.DEVNULL
        python_path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        self._nursery = subprocess.Popen(
            [interpreter(entrant), "-m", "benchmarks.worker", entrant.module, str(path), *entrant.preload],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=ROOT,
            env={**os.environ, **quiet, "PYTHONPATH": python_path},
            text=True,
        )

    def hire(self, count: int) -> list[Worker]:
        """`count` workers, new ones where there are not enough. Raises `EngineFailed` where none starts."""
        assert self._nursery.stdin is not None
        while len(self.workers) < count:
            try:
                self._nursery.stdin.write("\n")
                self._nursery.stdin.flush()
                channel, _ = self._listener.accept()
            except OSError as error:
                raise EngineFailed(f"no worker for {self.entrant.name} started") from error
            worker = Worker(channel)
            messages = worker.received()
            worker.pid = next(messages)["hello"] if messages else 0
            self.workers.append(worker)
        return self.workers[:count]

    def ask(self, task: str, *, seconds: float = 600, **arguments: Any) -> dict[str, Any]:
        """One worker does one thing. Raises `EngineFailed` or `EngineCannot`."""
        return self.together(task, [arguments], seconds=seconds)[0].result()

    def fresh(self, task: str, *, seconds: float = 600, **arguments: Any) -> dict[str, Any]:
        """As `ask`, by a worker that has done nothing before and is ended afterwards."""
        kept, self.workers = self.workers, []
        try:
            return self.ask(task, seconds=seconds, **arguments)
        finally:
            for worker in self.workers:
                worker.end()
            self.workers = kept

    def together(self, task: str, each: Sequence[dict[str, Any]], *, seconds: float) -> list[Answer]:
        """One worker for each set of arguments, all at once."""
        return self.mixed([(task, arguments) for arguments in each], seconds=seconds)

    def mixed(self, each: Sequence[tuple[str, dict[str, Any]]], *, seconds: float) -> list[Answer]:
        """One worker for each task, all at once; those not done in `seconds` (and some overtime) are
        ended."""
        workers = self.hire(len(each))
        for worker, (task, arguments) in zip(workers, each, strict=True):
            worker.send(task, arguments)
        answers = _collect(workers, seconds + self.overtime)
        for worker, answer in zip(workers, answers, strict=True):
            if answer.done is None and not answer.problem:
                answer.problem, answer.cut = f"not done {self.overtime:g} s after its time", True
            if answer.cut or answer.problem == DIED:
                worker.end()
                self.workers.remove(worker)
        return answers

    def rest(self) -> None:
        """Between two suites: handles closed, and no more workers than may wait."""
        while len(self.workers) > KEPT_MAX:
            self.workers.pop().end()
        self.together("rest", [{}] * len(self.workers), seconds=10)

    def end(self) -> None:
        for worker in self.workers:
            worker.end()
        self._listener.close()
        self._nursery.kill()
        assert self._nursery.stdin is not None
        with suppress(OSError):
            self._nursery.stdin.close()
        self._nursery.wait()


def _collect(workers: Sequence[Worker], seconds: float) -> list[Answer]:
    answers = [Answer() for _ in workers]
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for worker, answer in zip(workers, answers, strict=True):
            selector.register(worker.channel, selectors.EVENT_READ, (worker, answer))
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                worker, answer = key.data
                if _take(worker, answer):
                    selector.unregister(worker.channel)
    return answers


def _take(worker: Worker, answer: Answer) -> bool:
    """Put what arrived into the answer; whether that was its end."""
    messages = worker.received()
    if messages is None:
        answer.problem = answer.problem or DIED
        return True
    for message in messages:
        if "event" in message:
            answer.events.append(message["event"])
        elif "done" in message:
            answer.done = message["done"]
        else:
            answer.cannot = "unsupported" in message
            answer.problem = message.get("unsupported") or message.get("failed", "no answer")
    return answer.done is not None or bool(answer.problem)


class _Crews:
    """Crews that wait for the next suite, by engine."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Crew, ExitStack]] = {}

    def take(self, entrant: Entrant) -> tuple[Crew, ExitStack]:
        return self._waiting.pop(entrant.name, None) or _new_crew(entrant)

    def put_back(self, crew: Crew, stack: ExitStack) -> None:
        if crew.entrant.name in self._waiting or _memory_available() < KEPT_MEMORY:
            stack.close()
            return
        self._waiting[crew.entrant.name] = crew, stack
        crew.rest()

    def end(self) -> None:
        for _, stack in self._waiting.values():
            stack.close()


def _new_crew(entrant: Entrant) -> tuple[Crew, ExitStack]:
    stack = ExitStack()
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtcat-crew-"))
    made = Crew(entrant, Path(folder))
    stack.callback(made.end)
    return made, stack


def _memory_available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


_shared: list[_Crews] = []


@contextmanager
def shared_crews() -> Iterator[None]:
    """Suites in this block take over each other's workers."""
    _shared.append(_Crews())
    try:
        yield
    finally:
        _shared.pop().end()


@contextmanager
def crew(entrant: Entrant, overtime: float = OVERTIME_SECONDS, *, new: bool = False) -> Iterator[Crew]:
    """A crew for as long as the block lasts; its workers may take `overtime` seconds over their time. With
    `new`, none of them has done anything before, and none is kept."""
    crews = _shared[-1] if _shared and not new else None
    made, stack = crews.take(entrant) if crews else _new_crew(entrant)
    made.overtime = overtime
    try:
        yield made
    except BaseException:
        stack.close()
        raise
    if crews:
        crews.put_back(made, stack)
    else:
        stack.close()

"""A process that runs one engine: `python -m benchmarks.worker <adapter> <socket> [module to preload ...]`.

It is started with the interpreter that has the engine. First it is a nursery: it imports what all workers
need and survives a fork (never an engine with threads of its own), and forks one worker for each line on
its standard input. A worker connects to the harness's socket and does what it is asked, one JSON line per
request:

    -> {"task": "appends", ...}                  a function of `benchmarks.tasks`, and its arguments
    <- {"event": {...}}                          any number, while it works
    <- {"done": {...}} | {"unsupported": "why"} | {"failed": "Type: message"}
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any

MESSAGE_LENGTH_MAX = 400
_PATH = re.compile(r"(?<![\w:/])/(?:[\w.~-]+/)+[\w.~-]*")
"""Results name no machine."""


def nursery(adapter: str, path: str, preload: list[str]) -> None:
    for module in preload:
        with suppress(ImportError):  # each worker will say what it misses
            importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        if os.fork() == 0:
            os.close(0)
            serve(adapter, path)
            os._exit(0)  # libraries' threads and atexit handlers must not keep a finished worker


def serve(adapter: str, path: str) -> None:
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(path)
    lines = channel.makefile("r")

    def tell(message: dict[str, Any]) -> None:
        channel.sendall(json.dumps(message).encode() + b"\n")

    tell({"hello": os.getpid()})
    try:
        from benchmarks.tasks import Bench  # noqa: PLC0415 (in the worker, not before the fork)

        bench = Bench(
            importlib.import_module(f"benchmarks.engines.{adapter}").ENGINE,
            lambda event: tell({"event": event}),
        )
    except Exception as error:  # noqa: BLE001 (the harness shows it)
        tell({"failed": shown(error)})
        return
    for line in lines:
        request = json.loads(line)
        task = request.pop("task")
        try:
            done = getattr(bench, task)(**request)
            tell({"done": done})
        except BaseException as error:  # noqa: BLE001 (a Rust panic is a BaseException)
            if type(error).__name__ == "Unsupported":
                tell({"unsupported": str(error)})
            else:
                if os.environ.get("BENCH_TRACE"):
                    traceback.print_exc()
                tell({"failed": shown(error)})


def shown(error: BaseException) -> str:
    text = _PATH.sub("<path>", " ".join(str(error).split()))
    return f"{type(error).__name__}: {text}"[:MESSAGE_LENGTH_MAX]


if __name__ == "__main__":
    nursery(sys.argv[1], sys.argv[2], sys.argv[3:])

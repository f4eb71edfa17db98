"""A Spark cluster on loopback: a master and two workers on two hosts, which is what speculation takes.

`local[N]` never speculates, and a second attempt of a task is only made on another host than the first;
127.0.0.2 and 127.0.0.3 are two. Three JVMs, each with little memory, ended with the block.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import ROOT

STARTED_SECONDS = 120
ENDED_SECONDS = 30
HOSTS = ("127.0.0.2", "127.0.0.3")


def environment(host: str) -> dict[str, str]:
    """What a process of the cluster needs, and nothing that a user's Spark has set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYTHONWARNINGS": "ignore",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": host,
        "SPARK_NO_DAEMONIZE": "1",
    }


@contextmanager
def cluster(path: Path) -> Iterator[str]:
    """A master and two workers of two cores each, working below `path`; the master's URL."""
    import pyspark  # noqa: PLC0415 (few need it)

    command = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    parts = [
        ("127.0.0.1", ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"])
    ]
    for host in HOSTS:
        work = ["--work-dir", str(path / host), "--webui-port", "0", "--cores", "2", "--memory", "600m"]
        parts.append((host, ["worker.Worker", "--host", host, *work, master]))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for host, (name, *options) in parts:
            made = subprocess.Popen(
                [command, f"org.apache.spark.deploy.{name}", *options],
                env={**environment(host), "SPARK_DAEMON_MEMORY": "128m"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            processes.append(made)
            if len(processes) == 1:
                _wait_for(port)
        yield master
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(ENDED_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + STARTED_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("no Spark master answers")
